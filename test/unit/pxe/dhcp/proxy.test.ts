import { describe, expect, it } from 'vitest';
import { BROADCAST, ipv4 } from '../../../../src/base/ipv4.ts';
import { createAddressOwners } from '../../../../src/pxe/address-owners.ts';
import { OPTION, printable } from '../../../../src/pxe/dhcp/options.ts';
import { BIOS, IPXE, lease, mac, message, network, onWire, UEFI, type World, world } from './kit.ts';

const beside = () => world({ networks: [network({ mode: 'proxy' })] });
const asked = { port: 4011 as const, source: { address: ipv4('10.77.0.52'), port: 4011 } };

describe('where another DHCP server gives the addresses', () => {
  it.each([
    ['BIOS', BIOS],
    ['UEFI', UEFI],
    ['iPXE', IPXE],
  ])('a boot client (%s) is offered its file and no address', async (_who, options) => {
    const w = await beside();
    const step = await w.send(message('DISCOVER', { options: options! }));
    const reply = onWire(step);
    expect(step.outcome).toBe('proxy_offered');
    expect(step.reply!.to).toEqual({ address: BROADCAST, port: 68 });
    expect(reply.yiaddr).toBe(0);
    expect(reply.siaddr).toBe(ipv4('10.77.0.1'));
    expect(printable(reply.options.get(OPTION.vendorClass)!)).toBe('PXEClient');
    for (const code of [51, 1, 3, 6, 58, 59]) expect(reply.options.has(code)).toBe(false);
    expect(w.leases.list()).toEqual([]);
  });

  it('an ordinary client is left to the other server', async () => {
    const w = await beside();
    expect(await w.send(message('DISCOVER'))).toMatchObject({ outcome: 'not_boot_client' });
    expect((await w.send(message('DISCOVER'))).reply).toBeUndefined();
  });

  it.each(['REQUEST', 'RELEASE', 'DECLINE', 'INFORM'] as const)(
    'a %s on port 67 is left to the other server',
    async (type) => {
      const step = await (await beside()).send(
        message(type, { options: UEFI!, address: '10.77.0.100', server: '10.77.0.1' }),
      );
      expect(step.outcome).toBe('proxy_leaves');
      expect(step.reply).toBeUndefined();
    },
  );

  it('HTTP firmware is offered its URL', async () => {
    const step = await (await beside()).send(
      message('DISCOVER', {
        options: [
          [60, 'HTTPClient:Arch:00016'],
          [93, [0, 16]],
        ],
      }),
    );
    expect(printable(onWire(step).options.get(OPTION.vendorClass)!)).toBe('HTTPClient');
  });
});

describe('port 4011', () => {
  it('names the file to a client that has its address from elsewhere, to where the request came from', async () => {
    const w = await beside();
    const step = await w.send(message('REQUEST', { ciaddr: '10.77.0.52', options: UEFI! }), asked);
    const reply = onWire(step);
    expect(step.outcome).toBe('boot_server_acked');
    expect(step.reply!.to).toEqual({ address: ipv4('10.77.0.52'), port: 4011 });
    expect([reply.yiaddr, reply.ciaddr, reply.file]).toEqual([0, ipv4('10.77.0.52'), 'ipxe.efi']);
    expect(w.asked.at(-1)!.step).toBe('boot-server');
  });

  it('answers the same on a network that it serves itself', async () => {
    const step = await (await world()).send(
      message('REQUEST', { ciaddr: '10.77.0.52', options: UEFI! }),
      asked,
    );
    expect(onWire(step).file).toBe('ipxe.efi');
  });

  it('port 4011 echoes the boot item', async () => {
    const options: [number, Buffer | string | number[]][] = [
      ...(BIOS as []),
      [43, [71, 4, 0x80, 1, 0, 0, 255]],
    ];
    const step = await (await beside()).send(message('REQUEST', { ciaddr: '10.77.0.52', options }), asked);
    expect(onWire(step).options.get(OPTION.vendorSpecific)).toEqual(
      Buffer.from('060108470480010000ff', 'hex'),
    );
  });

  it('makes the records of the boot session durable before it answers', async () => {
    const w = await world({
      networks: [network({ mode: 'proxy' })],
      known: { '52:54:00:00:00:01': { writes: [{ key: 'session/x', put: '{"v":1}', expect: 'absent' }] } },
    });
    const step = await w.send(message('REQUEST', { ciaddr: '10.77.0.52', options: UEFI! }), asked);
    expect(step.outcome).toBe('boot_server_acked');
    expect(await w.store.get('session/x')).toMatchObject({ value: '{"v":1}' });
    // The write loses the race twice, so there is no reply.
    const again = await w.send(message('REQUEST', { ciaddr: '10.77.0.52', options: UEFI! }), asked);
    expect(again).toMatchObject({ outcome: 'store_failed' });
    expect(again.reply).toBeUndefined();
  });

  it('is silent to ordinary clients and to those that get no file', async () => {
    const w = await world({ known: { '52:54:00:00:00:01': { file: null } } });
    expect((await w.send(message('REQUEST', { ciaddr: '10.77.0.52' }), asked)).outcome).toBe('no_file');
    expect((await w.send(message('REQUEST', { ciaddr: '10.77.0.52', options: UEFI! }), asked)).outcome).toBe(
      'no_file',
    );
    expect((await w.send(message('RELEASE', { ciaddr: '10.77.0.52', options: UEFI! }), asked)).outcome).toBe(
      'not_a_request',
    );
  });
});

describe('the client that has an address from another server', () => {
  const nobody = { byAddress: () => undefined, byMac: () => undefined };
  const subjectOf = (w: World, address: string) =>
    createAddressOwners({
      networks: () => w.networks,
      leases: w.leases,
      roster: nobody,
      clock: w.clock,
    }).subjectOf(address)?.subject;
  const taken = (address: string, n = 1) =>
    message('REQUEST', { mac: mac(n), address, server: '10.77.0.2', options: UEFI! });

  it('is known from the REQUEST that the client broadcasts', async () => {
    const w = await beside();
    expect(subjectOf(w, '10.77.0.52')).toBeUndefined();
    await w.send(taken('10.77.0.52'));
    expect(subjectOf(w, '10.77.0.52')).toBe(mac(1));
    expect(w.leases.list()).toEqual([]);
  });

  it('is known from a renewal, and from a request to port 4011', async () => {
    const w = await beside();
    await w.send(message('REQUEST', { ciaddr: '10.77.0.53' }));
    await w.send(message('REQUEST', { mac: mac(2), ciaddr: '10.77.0.52', options: UEFI! }), asked);
    expect(subjectOf(w, '10.77.0.53')).toBe(mac(1));
    expect(subjectOf(w, '10.77.0.52')).toBe(mac(2));
  });

  it('is the one that took it last', async () => {
    const w = await beside();
    await w.send(taken('10.77.0.52', 1));
    await w.send(taken('10.77.0.52', 2));
    expect(subjectOf(w, '10.77.0.52')).toBe(mac(2));
  });

  it('is known on a network with reservations only, and Muster’s offer to it ends', async () => {
    const w = await world({
      networks: [network({ mode: 'reservations' })],
      known: { [mac(1)]: { address: '10.77.0.10' } },
    });
    await w.send(message('DISCOVER'));
    expect(await w.send(taken('10.77.0.52'))).toMatchObject({ outcome: 'other_server' });
    expect(subjectOf(w, '10.77.0.52')).toBe(mac(1));
    expect(w.leases.list()).toEqual([]);
  });

  it('is not believed when another client holds the address as a lease, and is forgotten when Muster leases it', async () => {
    const w = await world();
    expect(await lease(w, { mac: mac(1) })).toBe('10.77.0.100');
    await w.send(taken('10.77.0.100', 2));
    expect(subjectOf(w, '10.77.0.100')).toBe(mac(1));
    await w.send(taken('10.77.0.101', 2));
    expect(subjectOf(w, '10.77.0.101')).toBe(mac(2));
    expect(await lease(w, { mac: mac(3) })).toBe('10.77.0.101');
    expect(subjectOf(w, '10.77.0.101')).toBe(mac(3));
  });

  it('is not believed for addresses outside the network', async () => {
    const w = await beside();
    await w.send(taken('192.0.2.1'));
    expect(subjectOf(w, '192.0.2.1')).toBeUndefined();
    expect(w.leases.network('rack').elsewhere(ipv4('192.0.2.1'))).toBeUndefined();
  });

  it('is remembered for 20,000 addresses; the oldest is forgotten first', async () => {
    const w = await beside();
    const leases = w.leases.network('rack');
    for (let n = 0; n < 20_001; n++) leases.tookElsewhere(mac(n & 0xffff), (ipv4('10.0.0.0') + n) as never);
    expect(leases.elsewhere(ipv4('10.0.0.0'))).toBeUndefined();
    expect(leases.elsewhere(ipv4('10.0.0.1'))).toBe(mac(1));
  });
});

it('a network that is off gets no answer on any port', async () => {
  const w = await world({ networks: [network({ mode: 'off' })] });
  expect((await w.send(message('DISCOVER', { options: UEFI! }))).outcome).toBe('network_off');
  expect((await w.send(message('REQUEST', { options: UEFI!, ciaddr: '10.77.0.52' }), asked)).outcome).toBe(
    'network_off',
  );
});
