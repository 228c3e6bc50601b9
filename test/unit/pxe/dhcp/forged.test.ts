/** What a client cannot prove: messages in the name of others, and clients that are invented. */
import { describe, expect, it } from 'vitest';
import { duration, millis } from '../../../../src/base/duration.ts';
import { formatIpv4, ipv4 } from '../../../../src/base/ipv4.ts';
import { IPXE, lease, mac, message, network, onWire, type World, world } from './kit.ts';

const SERVER = '10.77.0.1';
const from = (text: string) => ({ source: { address: ipv4(text), port: 68 } });
const relay = (text: string) => ({ interface: 'eth9', source: { address: ipv4(text), port: 67 } });
const state = (w: World, address: string) =>
  w.leases.list().find((l) => formatIpv4(l.address) === address)?.state;
const pool = (end: string) => network({ pools: [{ start: ipv4('10.77.0.100'), end: ipv4(end) }] });
const blind = (w: World, n: number, over = {}) =>
  w.send(message('REQUEST', { mac: mac(n), address: `10.77.0.${100 + (n % 100)}`, server: SERVER, ...over }));
const bound = (w: World) => w.leases.list().filter((view) => view.state === 'bound').length;
const seconds = (step: Awaited<ReturnType<World['send']>>) => onWire(step).options.get(51)!.readUInt32BE();

describe('a RELEASE', () => {
  const release = message('RELEASE', { ciaddr: '10.77.0.100', server: SERVER });

  it('from another address than the one that it gives back changes nothing', async () => {
    const w = await world();
    await lease(w);
    expect((await w.send(release, from('198.51.100.2'))).outcome).toBe('source_refused');
    for (const source of ['0.0.0.0', '10.77.0.66'])
      expect((await w.send(release, from(source))).outcome).toBe('release_foreign');
    expect(state(w, '10.77.0.100')).toBe('bound');
    expect(w.events.at(-1)).toMatchObject({
      kind: 'dhcp.release',
      reason: { code: 'release_foreign' },
      fields: { detail: '10.77.0.66' },
    });
    expect((await w.send(release, from('10.77.0.100'))).outcome).toBe('released');
  });

  it('through the relay of the network counts', async () => {
    const w = await world({ networks: [network({ relays: [ipv4('192.0.2.9')] })] });
    const behind = { giaddr: '192.0.2.9' };
    expect(await lease(w, behind, relay('192.0.2.9'))).toBe('10.77.0.100');
    const given = message('RELEASE', { ...behind, ciaddr: '10.77.0.100', server: SERVER });
    expect((await w.send(given, relay('192.0.2.9'))).outcome).toBe('released');
  });

  it('through a relay that the document does not name changes nothing', async () => {
    const w = await world();
    const behind = { giaddr: '10.77.0.250' };
    expect(await lease(w, behind, relay('10.77.0.250'))).toBe('10.77.0.100');
    const given = message('RELEASE', { ...behind, ciaddr: '10.77.0.100', server: SERVER });
    expect((await w.send(given, relay('10.77.0.250'))).outcome).toBe('release_foreign');
    expect(state(w, '10.77.0.100')).toBe('bound');
  });

  it('does not let another client name the address at once: its client renews it and keeps it', async () => {
    const w = await world();
    await lease(w);
    await w.send(release, from('10.77.0.100'));
    expect(await lease(w, { mac: mac(2), address: '10.77.0.100' })).toBe('10.77.0.101');
    expect((await blind(w, 300, { mac: mac(3), address: '10.77.0.100' })).outcome).toBe('nak_not_yours');
    const renewal = message('REQUEST', { ciaddr: '10.77.0.100' });
    expect((await w.send(renewal, from('10.77.0.100'))).outcome).toBe('renewed');
  });
});

describe('a DECLINE', () => {
  const declines = message('DECLINE', { address: '10.77.0.100', server: SERVER });

  it('changes nothing while its client itself answers on the address', async () => {
    const w = await world();
    await lease(w);
    expect((await w.send(declines, from('10.77.0.66'))).outcome).toBe('decline_probed');
    await w.probed('10.77.0.100', mac(1));
    expect(w.events.at(-1)).toMatchObject({ kind: 'dhcp.decline', reason: { code: 'decline_unproven' } });
    const renewal = message('REQUEST', { ciaddr: '10.77.0.100' });
    expect((await w.send(renewal, from('10.77.0.100'))).outcome).toBe('renewed');
    expect(formatIpv4(onWire(await w.send(message('DISCOVER'))).yiaddr)).toBe('10.77.0.100');
  });

  it('leaves the lease when nobody answers, but the client is offered another address if it looks for one', async () => {
    const w = await world();
    await lease(w);
    await w.send(declines);
    await w.probed('10.77.0.100');
    expect(state(w, '10.77.0.100')).toBe('bound');
    const renewal = message('REQUEST', { ciaddr: '10.77.0.100' });
    expect((await w.send(renewal, from('10.77.0.100'))).outcome).toBe('renewed');
    expect(await lease(w)).toBe('10.77.0.101');
    w.clock.advance(duration('1h'));
    expect(await lease(w, { mac: mac(2) })).toBe('10.77.0.102');
  });

  it('of a reserved address that nobody uses leaves it to its machine', async () => {
    const w = await world({ known: { [mac(1)]: { name: 'cp1', address: '10.77.0.11' } } });
    await w.send(message('DISCOVER'));
    const sent = message('DECLINE', { address: '10.77.0.11', server: SERVER });
    expect((await w.send(sent)).outcome).toBe('decline_probed');
    await w.probed('10.77.0.11');
    expect(await lease(w)).toBe('10.77.0.11');
  });

  it('of a reserved address that another machine uses lets its machine have another one', async () => {
    const w = await world({ known: { [mac(1)]: { name: 'cp1', address: '10.77.0.11' } } });
    await lease(w);
    await w.send(message('DECLINE', { address: '10.77.0.11', server: SERVER }));
    await w.probed('10.77.0.11', mac(99));
    expect(state(w, '10.77.0.11')).toBe('declined');
    expect(await lease(w)).toBe('10.77.0.100');
  });

  it('does not take the address from the machine that answers, if that got it meanwhile', async () => {
    const w = await world();
    await w.send(message('DISCOVER'));
    await w.send(declines);
    w.clock.advance(duration('2m'));
    expect(await lease(w, { mac: mac(2), address: '10.77.0.100' })).toBe('10.77.0.100');
    await w.probed('10.77.0.100', mac(2));
    expect(state(w, '10.77.0.100')).toBe('bound');
  });

  it('is probed for a bounded number of addresses at a time', async () => {
    const w = await world();
    for (let n = 0; n < 90; n++) {
      const address = formatIpv4(onWire(await w.send(message('DISCOVER', { mac: mac(n) }))).yiaddr);
      await w.send(message('DECLINE', { mac: mac(n), address, server: SERVER }));
    }
    expect(w.leases.network('rack').doubts.addresses()).toHaveLength(64);
    expect(w.leases.list().filter((view) => view.state === 'declined')).toEqual([]);
  });

  it('through a relay counts if the document names the relay, not for reserved addresses, and not often', async () => {
    const w = await world({
      networks: [network({ relays: [ipv4('192.0.2.9')] })],
      known: { [mac(500)]: { name: 'cp1', address: '10.77.0.11' } },
    });
    const sent = async (n: number, giaddr: string) => {
      const fields = { mac: mac(n), giaddr };
      const address = await lease(w, fields, relay(giaddr));
      return (await w.send(message('DECLINE', { ...fields, address, server: SERVER }), relay(giaddr)))
        .outcome;
    };
    expect(await sent(1, '10.77.0.2')).toBe('decline_unproven');
    expect(w.events.at(-1)!.fields).toMatchObject({ detail: expect.stringContaining('dhcp.relays') });
    expect(await sent(500, '192.0.2.9')).toBe('decline_unproven');
    for (let n = 10; n < 15; n++) expect(await sent(n, '192.0.2.9')).toBe('declined');
    expect(await sent(15, '192.0.2.9')).toBe('decline_unproven');
    w.clock.advance(duration('2m'));
    expect(await sent(16, '192.0.2.9')).toBe('declined');
  });
});

describe('REQUESTs without an offer', () => {
  it('do not move a client that holds an address, and do once its lease is over', async () => {
    const w = await world();
    await lease(w);
    const forged = message('REQUEST', { address: '10.77.0.150', server: SERVER });
    expect((await w.send(forged)).outcome).toBe('nak_not_yours');
    const renewal = message('REQUEST', { ciaddr: '10.77.0.100' });
    expect((await w.send(renewal, from('10.77.0.100'))).outcome).toBe('renewed');
    w.clock.advance(duration('2d'));
    expect((await w.send(forged)).outcome).toBe('acked');
  });

  it('do not empty a pool, and their leases are short', async () => {
    const w = await world();
    const first = await blind(w, 0);
    expect(first.outcome).toBe('acked');
    expect(seconds(first)).toBe(120);
    for (let n = 1; n < 100; n++) await blind(w, n);
    expect(bound(w)).toBe(16);
    expect(w.events.at(-1)).toMatchObject({ kind: 'dhcp.nak', reason: { code: 'nak_no_offer' } });
    expect(await lease(w, { mac: mac(999) })).toMatch(/^10\.77\.0\./);
  });

  it('take at most a quarter of a small pool at once, and a place a minute later', async () => {
    const w = await world({ networks: [pool('10.77.0.111')] });
    for (let n = 0; n < 12; n++) await blind(w, n);
    expect(bound(w)).toBe(3);
    w.clock.advance(duration('1m'));
    for (let n = 0; n < 12; n++) await blind(w, n + 100);
    expect(bound(w)).toBe(4);
  });

  it('through invented relays have one limit together; a relay that the document names has its own', async () => {
    const w = await world({ networks: [network({ relays: [ipv4('192.0.2.9')] })] });
    for (let n = 0; n < 40; n++) {
      const giaddr = `10.77.0.${200 + n}`;
      const asks = { mac: mac(n), address: `10.77.0.${100 + n}`, server: SERVER, giaddr };
      await w.send(message('REQUEST', asks), relay(giaddr));
    }
    expect(bound(w)).toBe(16);
    const asks = { mac: mac(99), address: '10.77.0.190', server: SERVER, giaddr: '192.0.2.9' };
    expect((await w.send(message('REQUEST', asks), relay('192.0.2.9'))).outcome).toBe('acked');
  });

  it('after a restart get the lease that they were offered before, and its full time at the renewal', async () => {
    const before = await world();
    const offer = onWire(await before.send(message('DISCOVER')));
    const after = await world({ store: before.store, clock: before.clock });
    const address = formatIpv4(offer.yiaddr);
    expect((await after.send(message('REQUEST', { address, server: SERVER }))).outcome).toBe('acked');
    expect(seconds(await after.send(message('REQUEST', { ciaddr: address }), from(address)))).toBe(3600);
  });
});

describe('clients that are invented', () => {
  const known = Object.fromEntries(
    Array.from({ length: 10 }, (_, n) => [mac(900 + n), { name: `w${n}`, documented: true as const }]),
  );

  it('do not get the last addresses, which documented machines without a reservation get', async () => {
    const w = await world({ known });
    let got = 0;
    for (let n = 0; n < 120; n++) if ((await lease(w, { mac: mac(n) })).startsWith('10.')) got++;
    expect(got).toBe(90);
    for (let n = 0; n < 10; n++) expect(await lease(w, { mac: mac(900 + n) })).toMatch(/^10\.77\.0\.19/);
    expect(await lease(w, { mac: mac(998) })).toBe('exhausted');
  });

  it('do not get them by naming them either, and get them when no documented machine lacks an address', async () => {
    const w = await world({ known });
    expect(await lease(w, { address: '10.77.0.199' })).toBe('10.77.0.100');
    expect((await blind(w, 99)).outcome).toBe('nak_not_yours');
    const free = await world();
    expect(await lease(free, { address: '10.77.0.199' })).toBe('10.77.0.199');
  });

  it('leave documented machines at most a quarter of the pool', async () => {
    const many = Object.fromEntries(
      Array.from({ length: 500 }, (_, n) => [mac(900 + n), { documented: true as const }]),
    );
    const w = await world({ known: many });
    let got = 0;
    for (let n = 0; n < 120; n++) if ((await lease(w, { mac: mac(n) })).startsWith('10.')) got++;
    expect(got).toBe(75);
  });

  it('get no boot session while the pools are exhausted, whatever address they name, and documented machines do', async () => {
    const w = await world({ known });
    for (let n = 0; n < 90; n++) await lease(w, { mac: mac(n) });
    const before = w.asked.length;
    for (let n = 0; n < 50; n++)
      for (const address of [undefined, '10.77.0.100', '10.77.0.199', '192.0.2.1'])
        expect(await lease(w, { mac: mac(100 + n), ...(address && { address }) })).toBe('exhausted');
    expect(w.asked.length).toBe(before);
    expect(await lease(w, { mac: mac(900) })).toMatch(/^10\.77\.0\./);
    // A client that has a lease asks on.
    expect(await lease(w, { mac: mac(5) })).toMatch(/^10\.77\.0\./);
    expect(w.asked.length).toBeGreaterThan(before);
  });

  it('get short leases while more than half of the pool is used, and those who renew get long ones', async () => {
    const w = await world();
    for (let n = 0; n < 100; n++) await lease(w, { mac: mac(n) });
    expect(await lease(w, { mac: mac(500) })).toBe('exhausted');
    const renewal = message('REQUEST', { mac: mac(99), ciaddr: '10.77.0.199' });
    expect(seconds(await w.send(renewal, from('10.77.0.199')))).toBe(3600);
    w.clock.advance(millis(120_001));
    w.leases.network('rack').expire(w.clock.now());
    expect(bound(w)).toBe(51);
    expect(await lease(w, { mac: mac(500) })).toMatch(/^10\.77\.0\./);
  });

  it('beside a thousand real ones at once: every real one gets its address', async () => {
    const w = await world({
      networks: [
        network({
          subnet: { base: ipv4('10.77.0.0'), prefix: 20 },
          pools: [{ start: ipv4('10.77.1.1'), end: ipv4('10.77.6.250') }],
        }),
      ],
    });
    const given = new Set<string>();
    for (let n = 0; n < 1000; n++) given.add(await lease(w, { mac: mac(n), options: IPXE! }));
    expect(given.size).toBe(1000);
    expect([...given].every((address) => address.startsWith('10.77.'))).toBe(true);
  });
});

describe('options that a reply repeats', () => {
  it('are at most 255 octets: a message with a longer one gets no reply and a reason', async () => {
    const w = await world();
    for (const code of [61, 82]) {
      const step = await w.send(message('DISCOVER', { options: [[code, Buffer.alloc(256, 1)]] }));
      expect(step).toMatchObject({ outcome: 'option_too_long', detail: `option ${code} has 256 octets` });
      expect(step.reply).toBeUndefined();
    }
    const longest: (readonly [number, Buffer])[] = [[61, Buffer.alloc(255, 1)]];
    expect(await lease(w, { options: longest })).toBe('10.77.0.100');
    expect(w.leases.list()[0]!.lease!.clientId).toHaveLength(510);
  });

  it('a vendor class in many pieces is kept up to 255 octets', async () => {
    const w = await world();
    const step = await w.send(message('DISCOVER', { options: [[60, Buffer.alloc(1000, 65)]] }));
    expect(step.outcome).toBe('offered');
    expect(w.asked.at(-1)!.client.vendorClass).toHaveLength(255);
  });
});

it('no count of addresses in use is lost, whatever clients do', async () => {
  const w = await world({ networks: [pool('10.77.0.109')] });
  const book = w.leases.network('rack');
  for (let round = 0; round < 20; round++) {
    for (let n = 0; n < 10; n++) await lease(w, { mac: mac(round * 10 + n) });
    expect(book.crowded).toBe(true);
    w.clock.advance(duration('2h'));
    book.expire(w.clock.now());
    expect(book.crowded).toBe(false);
    await w.send(message('DISCOVER', { mac: mac(round) }));
    w.clock.advance(millis(61_000));
    book.expire(w.clock.now());
    expect(book.crowded).toBe(false);
  }
});
