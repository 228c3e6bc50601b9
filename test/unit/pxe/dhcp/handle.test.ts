import { describe, expect, it } from 'vitest';
import { millis } from '../../../../src/base/duration.ts';
import { BROADCAST, cidr, formatIpv4, type Ipv4, ipv4 } from '../../../../src/base/ipv4.ts';
import { OPTION } from '../../../../src/pxe/dhcp/options.ts';
import {
  BIOS,
  capture,
  IPXE,
  ip,
  type Known,
  lease,
  mac,
  message,
  network,
  onWire,
  UEFI,
  type World,
  world,
} from './kit.ts';

const SERVER = '10.77.0.1';
const from = (text: string) => ({ source: { address: ipv4(text), port: 68 } });
const outcome = async (w: World, bytes: Uint8Array, over = {}) => (await w.send(bytes, over)).outcome;
const state = (w: World, address: string) =>
  w.leases.list().find((l) => formatIpv4(l.address) === address)?.state;

describe('a client that looks for an address (RFC 2131 §4.3.1, §4.3.2)', () => {
  it('is offered one, asks for it and gets it, durable before the ACK', async () => {
    const w = await world();
    const offer = await w.send(message('DISCOVER'));
    expect(offer).toMatchObject({ outcome: 'offered', reply: { to: { address: BROADCAST, port: 68 } } });
    expect(await w.store.list('lease/')).toMatchObject({ records: [] });
    expect(state(w, '10.77.0.100')).toBe('offered');
    const step = w.pipeline.receive({
      bytes: message('REQUEST', { address: '10.77.0.100', server: SERVER }),
      interface: 'eth1',
      port: 67,
      source: { address: 0 as Ipv4, port: 68 },
    });
    expect(step).toBeInstanceOf(Promise);
    expect((await step).outcome).toBe('acked');
    const [record] = (await w.store.list('lease/')).records;
    expect(record).toMatchObject({ key: 'lease/rack/10.77.0.100' });
    expect(JSON.parse(record!.value)).toMatchObject({ v: 1, mac: mac(1), state: 'bound' });
    expect(w.events.map((e) => [e.kind, e.reason!.code])).toEqual([
      ['dhcp.offer', 'offered'],
      ['dhcp.ack', 'acked'],
    ]);
  });

  it('a client is answered by broadcast even when it asks for unicast, and by unicast when it has an address', async () => {
    const w = await world();
    await lease(w);
    expect((await w.send(message('DISCOVER', { flags: 0 }))).reply!.to).toEqual({
      address: BROADCAST,
      port: 68,
    });
    const renewed = await w.send(message('REQUEST', { ciaddr: '10.77.0.100' }), from('10.77.0.100'));
    expect(renewed.reply!.to).toEqual({ address: ipv4('10.77.0.100'), port: 68 });
  });

  it('that asks twice is offered the same address, and nobody else gets it meanwhile', async () => {
    const w = await world();
    const first = onWire(await w.send(message('DISCOVER'))).yiaddr;
    expect(onWire(await w.send(message('DISCOVER', { mac: mac(2) }))).yiaddr).not.toBe(first);
    expect(onWire(await w.send(message('DISCOVER', { xid: 9 }))).yiaddr).toBe(first);
  });

  it('gets the address that it asks for, if that is free', async () => {
    const w = await world();
    expect(formatIpv4(onWire(await w.send(message('DISCOVER', { address: '10.77.0.150' }))).yiaddr)).toBe(
      '10.77.0.150',
    );
    const other = message('DISCOVER', { mac: mac(2), address: '10.77.0.150' });
    expect(formatIpv4(onWire(await w.send(other)).yiaddr)).toBe('10.77.0.100');
    // An address outside the pools is never given, even if it is asked for.
    const outside = message('DISCOVER', { mac: mac(3), address: '10.77.0.5' });
    expect(formatIpv4(onWire(await w.send(outside)).yiaddr)).toBe('10.77.0.101');
  });

  it('finds the address that it had, released or expired, before a free one', async () => {
    const w = await world();
    for (const n of [1, 2]) await lease(w, { mac: mac(n) });
    await w.send(message('RELEASE', { mac: mac(2), ciaddr: '10.77.0.101' }), from('10.77.0.101'));
    w.clock.advance(millis(3 * 3_600_000));
    expect(await lease(w, { mac: mac(2) })).toBe('10.77.0.101');
    expect(await lease(w, { mac: mac(1) })).toBe('10.77.0.100');
  });

  it('that chooses another server gives its offer back', async () => {
    const w = await world();
    await w.send(message('DISCOVER'));
    const step = await w.send(message('REQUEST', { address: '10.77.0.100', server: '10.77.0.9' }));
    expect(step).toMatchObject({ outcome: 'other_server' });
    expect(step.reply).toBeUndefined();
    expect(w.leases.list()).toEqual([]);
  });

  it('is confirmed after a restart that forgot the offer, if the address is still free', async () => {
    const w = await world();
    expect(await outcome(w, message('REQUEST', { address: '10.77.0.120', server: SERVER }))).toBe('acked');
    expect(
      await outcome(w, message('REQUEST', { mac: mac(2), address: '10.77.0.120', server: SERVER })),
    ).toBe('nak_not_yours');
  });

  it('loses its offer after a minute', async () => {
    const w = await world({
      networks: [network({ pools: [{ start: ipv4('10.77.0.100'), end: ipv4('10.77.0.100') }] })],
    });
    expect(await outcome(w, message('DISCOVER'))).toBe('offered');
    expect(await outcome(w, message('DISCOVER', { mac: mac(2) }))).toBe('exhausted');
    w.clock.advance(millis(60_001));
    expect(await outcome(w, message('DISCOVER', { mac: mac(2) }))).toBe('offered');
    expect(await outcome(w, message('REQUEST', { address: '10.77.0.100', server: SERVER }))).toBe(
      'nak_not_yours',
    );
  });

  it('answers the same whatever secs says', async () => {
    const w = await world();
    for (const secs of [0, 4, 65535]) expect(await outcome(w, message('DISCOVER', { secs }))).toBe('offered');
  });

  it('a stray ciaddr changes nothing', async () => {
    const w = await world();
    const offer = await w.send(message('DISCOVER', { ciaddr: '192.168.3.4' }));
    expect(offer.reply!.to.address).toBe(BROADCAST);
    const request = message('REQUEST', { ciaddr: '10.77.0.100', address: '10.77.0.100', server: SERVER });
    const ack = await w.send(request);
    expect(ack).toMatchObject({
      outcome: 'acked',
      reply: { to: { address: BROADCAST }, packet: { ciaddr: 0 } },
    });
  });
});

describe('a client that had an address (RFC 2131 §4.3.2)', () => {
  it('gets it again when it restarts (INIT-REBOOT)', async () => {
    const w = await world();
    await lease(w);
    expect(await outcome(w, message('REQUEST', { address: '10.77.0.100' }))).toBe('acked');
  });

  it.each([
    ['of another network', '192.168.0.5', 'nak_wrong_network'],
    ['of somebody else', '10.77.0.101', 'nak_not_yours'],
    ['of nobody', '10.77.0.150', 'nak_unknown'],
  ])('is refused one %s', async (_whose, address, expected) => {
    const w = await world();
    for (const n of [1, 2]) await lease(w, { mac: mac(n) });
    const step = await w.send(message('REQUEST', { address, flags: 0 }));
    expect(step).toMatchObject({ outcome: expected, reply: { to: { address: BROADCAST, port: 68 } } });
    expect(onWire(step)).toMatchObject({ yiaddr: 0, ciaddr: 0 });
  });

  it('that is unknown is left alone where Muster is not authoritative, a known one is refused', async () => {
    const w = await world({ networks: [network({ authoritative: false })] });
    expect(await outcome(w, message('REQUEST', { address: '10.77.0.150' }))).toBe('silent_unknown');
    expect(await outcome(w, message('REQUEST', { address: '192.168.0.5' }))).toBe('silent_unknown');
    await lease(w);
    expect(await outcome(w, message('REQUEST', { address: '192.168.0.5' }))).toBe('nak_wrong_network');
  });

  it('renews it by unicast and by broadcast, with a new time', async () => {
    const w = await world();
    await lease(w);
    w.clock.advance(millis(1_800_000));
    const step = await w.send(message('REQUEST', { ciaddr: '10.77.0.100' }), from('10.77.0.100'));
    expect(step.outcome).toBe('renewed');
    expect(onWire(step)).toMatchObject({ ciaddr: ipv4('10.77.0.100'), yiaddr: ipv4('10.77.0.100') });
    expect(w.leases.list()[0]!.expires).toBe(w.clock.now() + 3_600_000);
    expect(await outcome(w, message('REQUEST', { ciaddr: '10.77.0.100' }))).toBe('renewed');
  });

  it('renews even when its time has run out, unless somebody else has it now', async () => {
    const w = await world({
      networks: [network({ pools: [{ start: ipv4('10.77.0.100'), end: ipv4('10.77.0.100') }] })],
    });
    await lease(w);
    w.clock.advance(millis(4_000_000));
    expect(await outcome(w, message('REQUEST', { ciaddr: '10.77.0.100' }))).toBe('renewed');
    w.clock.advance(millis(4_000_000));
    expect(await lease(w, { mac: mac(2) })).toBe('10.77.0.100');
    expect(await outcome(w, message('REQUEST', { ciaddr: '10.77.0.100' }))).toBe('nak_not_yours');
  });

  it('gives it back, and it goes out again only when nothing else is free', async () => {
    const w = await world({
      networks: [network({ pools: [{ start: ipv4('10.77.0.100'), end: ipv4('10.77.0.101') }] })],
    });
    await lease(w);
    const given = await w.send(
      message('RELEASE', { ciaddr: '10.77.0.100', server: SERVER }),
      from('10.77.0.100'),
    );
    expect(given).toMatchObject({ outcome: 'released' });
    expect(given.reply).toBeUndefined();
    expect(state(w, '10.77.0.100')).toBe('released');
    expect(await lease(w, { mac: mac(2) })).toBe('10.77.0.101');
    expect(await lease(w, { mac: mac(3) })).toBe('10.77.0.100');
  });

  it('cannot give back or decline what it does not hold', async () => {
    const w = await world();
    await lease(w);
    expect(await outcome(w, message('RELEASE', { mac: mac(2), ciaddr: '10.77.0.100' }))).toBe('not_ours');
    expect(await outcome(w, message('RELEASE', { ciaddr: '10.77.0.101' }))).toBe('not_ours');
    expect(
      await outcome(w, message('DECLINE', { mac: mac(2), address: '10.77.0.100', server: SERVER })),
    ).toBe('not_ours');
    expect(await outcome(w, message('RELEASE', { ciaddr: '10.77.0.100', server: '10.77.0.9' }))).toBe(
      'other_server',
    );
    expect(state(w, '10.77.0.100')).toBe('bound');
  });

  it('that finds it in use declines: the address is set aside for ten minutes and another one offered', async () => {
    const w = await world();
    await lease(w);
    const declines = message('DECLINE', { address: '10.77.0.100', server: SERVER });
    expect(await outcome(w, declines)).toBe('decline_probed');
    await w.probed('10.77.0.100', mac(99));
    expect(w.events.at(-1)).toMatchObject({ kind: 'dhcp.decline', reason: { code: 'declined' } });
    expect(await lease(w)).toBe('10.77.0.101');
    expect(state(w, '10.77.0.100')).toBe('declined');
    expect(await outcome(w, message('DISCOVER', { mac: mac(2), address: '10.77.0.100' }))).toBe('offered');
    expect(state(w, '10.77.0.102')).toBe('offered');
    w.clock.advance(millis(600_001));
    expect(await lease(w, { mac: mac(3), address: '10.77.0.100' })).toBe('10.77.0.100');
  });

  it('that declines three addresses within a minute gets none for a minute, in any state; others are served', async () => {
    const w = await world();
    for (const address of ['10.77.0.100', '10.77.0.101', '10.77.0.102']) {
      expect(await lease(w)).toBe(address);
      expect(await outcome(w, message('DECLINE', { address, server: SERVER }))).toBe('decline_probed');
      await w.probed(address, mac(99));
      w.clock.advance(millis(10_000));
    }
    expect(await outcome(w, message('DISCOVER', {}))).toBe('declines_all');
    expect(await outcome(w, message('DISCOVER', { address: '10.77.0.110' }))).toBe('declines_all');
    const asks = { address: '10.77.0.110', server: SERVER };
    expect(await outcome(w, message('REQUEST', asks))).toBe('declines_all');
    expect(state(w, '10.77.0.110')).toBeUndefined();
    expect(await lease(w, { mac: mac(2) })).toBe('10.77.0.103');
    w.clock.advance(millis(30_000));
    expect(await lease(w)).toBe('10.77.0.104');
  });

  it('that configured its own address gets options and no lease (INFORM)', async () => {
    const w = await world();
    const step = await w.send(message('INFORM', { ciaddr: '10.77.0.9' }), from('10.77.0.9'));
    expect(step).toMatchObject({
      outcome: 'informed',
      reply: { to: { address: ipv4('10.77.0.9'), port: 68 } },
    });
    const reply = onWire(step);
    expect(reply.yiaddr).toBe(0);
    expect([51, 58, 59].some((code) => reply.options.has(code))).toBe(false);
    expect(reply.options.get(OPTION.dns)).toBeDefined();
    expect(w.leases.list()).toEqual([]);
    expect(await outcome(w, message('INFORM', { ciaddr: '10.99.0.9' }))).toBe('not_ours');
  });
});

describe('a machine that boots', () => {
  it('ROM, iPXE and system keep one address although their client identifiers differ', async () => {
    const w = await world();
    const seen = new Set<string>();
    for (const options of [
      UEFI!,
      [...IPXE!, [61, [1, 0x52, 0x54, 0, 0, 0, 1]]] as typeof IPXE,
      [[61, [0xff, 1, 2, 3, 4]]] as typeof IPXE,
    ]) {
      seen.add(await lease(w, { xid: seen.size, options: options! }));
      w.clock.advance(millis(20_000));
    }
    expect([...seen]).toEqual(['10.77.0.100']);
    expect((await w.store.list('lease/')).records).toHaveLength(1);
  });

  it('gets a short lease, and its system a long one', async () => {
    const w = await world();
    const time = async (options: typeof UEFI) =>
      onWire(await w.send(message('DISCOVER', { options: options! })))
        .options.get(51)!
        .readUInt32BE(0);
    expect(await time(UEFI)).toBe(120);
    expect(await time(IPXE)).toBe(120);
    expect(await time([])).toBe(3600);
    expect(await time([[51, [0, 0, 2, 0x58]]])).toBe(600);
    expect(await time([[51, [0, 0, 0, 1]]])).toBe(60);
    expect(await time([[51, [0xff, 0xff, 0xff, 0xff]]])).toBe(3600);
  });

  it('does not shorten the lease that its system relies on', async () => {
    const w = await world();
    await lease(w);
    const until = w.leases.list()[0]!.expires;
    w.clock.advance(millis(10_000));
    expect(await lease(w, { options: BIOS! })).toBe('10.77.0.100');
    expect(w.leases.list()[0]!.expires).toBe(until);
  });

  it('asks about every packet: offer in memory, acknowledgement durable with the records of its session', async () => {
    const w = await world({ known: { [mac(1)]: { writes: [{ key: 'session/s', put: '{"v":1}' }] } } });
    await lease(w, { options: UEFI! });
    expect(w.asked.map(({ step }) => step)).toEqual(['offer', 'ack']);
    expect(await w.store.get('session/s')).toBeDefined();
  });

  it('a client whose REQUEST has lost its vendor class is still the one that was offered a boot file', async () => {
    const w = await world();
    await w.send(message('DISCOVER', { options: BIOS!, xid: 5 }));
    const ack = await w.send(message('REQUEST', { xid: 5, address: '10.77.0.100', server: SERVER }));
    expect(onWire(ack).file).toBe('undionly.kpxe');
    // A REQUEST with another xid is classified by its own options.
    const later = await w.send(message('REQUEST', { xid: 6, address: '10.77.0.100' }));
    expect(onWire(later).file).toBe('');
  });
});

describe('a reserved address', () => {
  const known = { [mac(1)]: { name: 'node-1', address: '10.77.0.20' } };

  it('goes to its machine, also outside the pools, with its name', async () => {
    const w = await world({ known });
    expect(await lease(w, { address: '10.77.0.150' })).toBe('10.77.0.20');
    expect(w.leases.list()[0]!.lease).toMatchObject({ machine: 'node-1', hostname: 'node-1' });
  });

  it('inside a pool goes to nobody else', async () => {
    const pools = [{ start: ipv4('10.77.0.100'), end: ipv4('10.77.0.101') }];
    const w = await world({
      networks: [network({ pools })],
      known: { [mac(1)]: { address: '10.77.0.100' } },
    });
    expect(await lease(w, { mac: mac(2), address: '10.77.0.100' })).toBe('10.77.0.101');
    expect(await outcome(w, message('DISCOVER', { mac: mac(3) }))).toBe('exhausted');
    expect(
      await outcome(w, message('REQUEST', { mac: mac(3), address: '10.77.0.100', server: SERVER })),
    ).toBe('nak_reserved');
    expect(await lease(w)).toBe('10.77.0.100');
  });

  it('that another client still holds is replaced by a pool address until it is free', async () => {
    const w = await world({ known: { [mac(1)]: { address: '10.77.0.120' } } });
    const squatter = { key: 'lease/rack/10.77.0.120', put: '' };
    await w.leases.write({
      kind: 'write',
      network: 'rack',
      address: ipv4('10.77.0.120'),
      lease: {
        v: 1,
        mac: mac(2),
        state: 'bound',
        since: w.clock.now(),
        expires: millis(w.clock.now() + 600_000),
      },
      writes: [],
    });
    expect(squatter.key).toBe((await w.store.list('lease/')).records[0]!.key);
    expect(await lease(w)).toBe('10.77.0.100');
    w.clock.advance(millis(600_001));
    expect(await lease(w)).toBe('10.77.0.120');
    expect((await w.store.list('lease/')).records.map((r) => r.key)).toEqual(['lease/rack/10.77.0.120']);
  });

  it('claimed by two machines is held by one of them at a time', async () => {
    const w = await world({
      known: { [mac(1)]: { address: '10.77.0.20' }, [mac(2)]: { address: '10.77.0.20' } },
    });
    expect(await lease(w)).toBe('10.77.0.20');
    expect(await lease(w, { mac: mac(2) })).toBe('10.77.0.100');
  });

  it('is all that there is on a network of reservations', async () => {
    const w = await world({ networks: [network({ mode: 'reservations' })], known });
    expect(await lease(w)).toBe('10.77.0.20');
    expect(await outcome(w, message('DISCOVER', { mac: mac(2) }))).toBe('no_pool');
    // Another server may own this client's lease: no refusal.
    expect(await outcome(w, message('REQUEST', { mac: mac(2), address: '10.77.0.150' }))).toBe('no_pool');
  });

  it('that is new moves a machine when it starts, not while it runs', async () => {
    const w = await world();
    await lease(w);
    const moved = await world({ store: w.store, clock: w.clock, known });
    expect(await outcome(moved, message('REQUEST', { ciaddr: '10.77.0.100' }))).toBe('renewed');
    expect(await outcome(moved, message('REQUEST', { address: '10.77.0.100' }))).toBe('nak_not_yours');
    expect(await lease(moved)).toBe('10.77.0.20');
    expect(moved.leases.list().map((l) => formatIpv4(l.address))).toEqual(['10.77.0.20']);
  });

  it.each(['server', 'reservations'] as const)(
    'that is new takes the old one, outside of all pools, from no machine that runs (mode %s)',
    async (mode) => {
      const networks = [network({ mode })];
      const w = await world({ networks, known: { [mac(1)]: { name: 'a', address: '10.77.0.30' } } });
      expect(await lease(w)).toBe('10.77.0.30');
      const again = (others: Readonly<Record<string, Known>> = {}) =>
        world({
          ...{ networks, store: w.store, clock: w.clock },
          known: { [mac(1)]: { name: 'a', address: '10.77.0.20' }, ...others },
        });
      const renewal = message('REQUEST', { ciaddr: '10.77.0.30' });
      const moved = await again();
      expect(await outcome(moved, renewal)).toBe('renewed');
      expect(await outcome(moved, message('REQUEST', { mac: mac(2), ciaddr: '10.77.0.30' }))).toBe(
        mode === 'server' ? 'nak_not_yours' : 'no_pool',
      );
      const taken = await again({ [mac(2)]: { name: 'b', address: '10.77.0.30' } });
      expect(await outcome(taken, renewal)).toBe('nak_reserved');
      expect(await outcome(moved, message('REQUEST', { address: '10.77.0.30' }))).toBe('nak_not_yours');
      expect(await lease(moved)).toBe('10.77.0.20');
      expect(moved.leases.list().map((l) => formatIpv4(l.address))).toEqual(['10.77.0.20']);
    },
  );
});

describe('a relay', () => {
  const far = network({
    name: 'far',
    subnet: cidr('10.99.0.0/24'),
    serverAddress: ipv4(SERVER),
    pools: [{ start: ipv4('10.99.0.100'), end: ipv4('10.99.0.199') }],
    relays: [ipv4('192.168.7.1')],
  });
  const { interface: _, ...remote } = far;
  const both = () => world({ networks: [network(), remote] });

  it('with an address inside a network speaks for it, and is answered on port 67', async () => {
    const step = await (await both()).send(message('DISCOVER', { giaddr: '10.99.0.1' }));
    expect(formatIpv4(onWire(step).yiaddr)).toBe('10.99.0.100');
    expect(step.reply!.to).toEqual({ address: ipv4('10.99.0.1'), port: 67 });
    expect(onWire(step).giaddr).toBe(ipv4('10.99.0.1'));
  });

  it('that a network names speaks for it, a strange one for none', async () => {
    const w = await both();
    expect(formatIpv4(onWire(await w.send(message('DISCOVER', { giaddr: '192.168.7.1' }))).yiaddr)).toBe(
      '10.99.0.100',
    );
    expect(await outcome(w, message('DISCOVER', { giaddr: '192.168.7.2' }))).toBe('relay_refused');
  });

  it('chooses the subnet by link selection (RFC 3527), if it may speak for it', async () => {
    const w = await both();
    const selecting = (giaddr: string) =>
      message('DISCOVER', { giaddr, options: [[82, Buffer.concat([Buffer.of(5, 4), ip('10.99.0.0')])]] });
    expect(formatIpv4(onWire(await w.send(selecting('192.168.7.1'))).yiaddr)).toBe('10.99.0.100');
    expect(await outcome(w, selecting('10.77.0.3'))).toBe('relay_refused');
  });

  it('chooses the server identifier (RFC 5107), for renewals that bypass it too', async () => {
    const w = await both();
    const agent: [number, Buffer] = [82, Buffer.concat([Buffer.of(11, 4), ip('10.99.0.1')])];
    const relayed = { giaddr: '10.99.0.1', options: [agent] };
    expect(await lease(w, relayed)).toBe('10.99.0.100');
    expect(w.leases.list()[0]!.lease!.agent).toBe('0b040a630001');
    const renewed = await w.send(message('REQUEST', { ciaddr: '10.99.0.100' }), from('10.99.0.100'));
    expect(renewed).toMatchObject({ outcome: 'renewed', reply: { to: { address: ipv4('10.99.0.100') } } });
    expect(onWire(renewed).options.get(54)).toEqual(ip('10.99.0.1'));
    // The lease still has it after a renewal, which lacks option 82.
    expect(w.leases.list()[0]!.lease!.agent).toBe('0b040a630001');
  });

  it('with an identifier of zeros demands none: clients get Muster’s own', async () => {
    const zeros: [number, Buffer] = [82, Buffer.from([11, 4, 0, 0, 0, 0])];
    const w = await both();
    const plain = await w.send(message('DISCOVER', { giaddr: '10.99.0.1' }));
    const zero = await w.send(message('DISCOVER', { giaddr: '10.99.0.1', options: [zeros] }));
    expect(onWire(zero).options.get(54)).toEqual(onWire(plain).options.get(54));
    expect(onWire(zero).options.get(54)).not.toEqual(ip('0.0.0.0'));
  });

  it('gets refusals with the broadcast bit set', async () => {
    const step = await (await both()).send(message('REQUEST', { giaddr: '10.99.0.1', address: '10.5.0.1' }));
    expect(onWire(step).flags).toBe(0x8000);
    expect(step.reply!.to.address).toBe(ipv4('10.99.0.1'));
  });
});

describe('every packet ends in one outcome', () => {
  it.each([
    ['an empty one', Buffer.alloc(0), 'malformed'],
    ['a reply', Buffer.concat([Buffer.of(2), capture('u-boot-discover').subarray(1)]), 'not_a_request'],
    ['a BOOTP request', message('DISCOVER').fill(0, 240, 243), 'bootp'],
    ['an OFFER by mistake', message('OFFER'), 'not_a_request'],
    ['an unknown type', message('DISCOVER', { options: [[53, [13]]] }), 'not_a_request'],
    [
      'InfiniBand',
      Buffer.concat([Buffer.of(1, 32, 0), message('DISCOVER').subarray(3)]),
      'hardware_unsupported',
    ],
    ['a REQUEST for nothing', message('REQUEST'), 'not_ours'],
  ])('%s', async (_what, bytes, expected) => {
    const step = await (await world()).send(bytes);
    expect(step.outcome).toBe(expected);
    expect(step.reply).toBeUndefined();
  });

  it('also where no network is', async () => {
    expect(await outcome(await world(), message('DISCOVER'), { interface: 'eth7' })).toBe('no_network');
  });

  it('a replayed capture finds its network by its addresses', async () => {
    const w = await world({
      networks: [network({ interface: 'eth9', name: 'a', subnet: cidr('10.1.0.0/24') }), network()],
    });
    const bytes = message('REQUEST', { ciaddr: '10.77.0.100' });
    const step = await w.pipeline.receive({
      bytes,
      port: 67,
      source: { address: ipv4('10.77.0.100'), port: 68 },
    });
    expect(step.network!.name).toBe('rack');
  });
});
