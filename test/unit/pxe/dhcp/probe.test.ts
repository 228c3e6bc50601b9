import { describe, expect, it } from 'vitest';
import { millis } from '../../../../src/base/duration.ts';
import { inheritedSockets } from '../../../../src/base/inherited.ts';
import { formatIpv4, type Ipv4, ipv4 } from '../../../../src/base/ipv4.ts';
import type { Mac } from '../../../../src/base/mac.ts';
import { ASK, CONFIRM, judge, LOOK_AHEAD, parseArp } from '../../../../src/pxe/dhcp/probe.ts';
import { lease, mac, message, network, onWire, world } from './kit.ts';

const TABLE = `IP address       HW type     Flags       HW address            Mask     Device
10.77.0.2        0x1         0x2         52:54:00:AA:00:01     *        eth1
10.77.0.3        0x1         0x0         00:00:00:00:00:00     *        eth1
10.77.0.4        0x1         0x2         52:54:00:aa:00:04     *        eth2
10.77.0.5        0x20        0x2         52:54:00:aa:00:05     *        eth1
10.77.0.6        0x1         0x6         52:54:00:aa:00:06     *        eth1
nonsense
`;

describe('the ARP table', () => {
  it('shows who answered on an interface', () => {
    expect([...parseArp(TABLE, 'eth1')].map(([a, m]) => [formatIpv4(a), m])).toEqual([
      ['10.77.0.2', '52:54:00:aa:00:01'],
      ['10.77.0.6', '52:54:00:aa:00:06'],
    ]);
    expect(parseArp('', 'eth1').size).toBe(0);
  });
});

describe('an address that was probed', () => {
  const there = new Map<Ipv4, Mac>([[ipv4('10.77.0.100'), mac(1)]]);
  const asked = { address: ipv4('10.77.0.100'), due: ASK, suspect: false };

  it('is free when nobody answered in time', () => {
    expect(judge([asked], new Map(), millis(ASK - 1)).pending).toEqual([asked]);
    expect(judge([asked], new Map(), ASK)).toMatchObject({ free: [asked.address], taken: [], pending: [] });
  });

  it('is probed once more when the table has an answer, because that may be a machine that left', () => {
    const first = judge([asked], there, ASK);
    expect(first).toMatchObject({ free: [], taken: [], askAgain: [asked.address] });
    const later = millis(ASK + CONFIRM);
    expect(judge(first.pending, new Map(), later).free).toEqual([asked.address]);
    expect(judge(first.pending, there, later).taken).toEqual([{ address: asked.address, mac: mac(1) }]);
  });
});

describe('addresses that are probed in advance', () => {
  it('are a few, those that would be given out next, and are given out first', async () => {
    const w = await world();
    await lease(w);
    const book = w.leases.network('rack');
    const next = book.toProbe(LOOK_AHEAD, w.clock.now());
    expect(next.map(formatIpv4)).toEqual(Array.from({ length: LOOK_AHEAD }, (_, n) => `10.77.0.${101 + n}`));
    for (const address of next.slice(3)) book.probedFree(address, w.clock.now());
    expect(book.toProbe(LOOK_AHEAD, w.clock.now()).map(formatIpv4).slice(0, 3)).toEqual([
      '10.77.0.101',
      '10.77.0.102',
      '10.77.0.103',
    ]);
    expect(await lease(w, { mac: mac(2) })).toBe('10.77.0.104');
    // A result of five minutes ago is no longer used.
    w.clock.advance(millis(300_001));
    expect(await lease(w, { mac: mac(3) })).toBe('10.77.0.101');
  });

  it('that are found in use are set aside, except from the one that uses them', async () => {
    const w = await world({
      networks: [network({ pools: [{ start: ipv4('10.77.0.100'), end: ipv4('10.77.0.101') }] })],
    });
    await w.send(message('DISCOVER', { mac: mac(9) }));
    w.clock.advance(millis(61_000));
    expect(await w.leases.setAside('rack', ipv4('10.77.0.100'), mac(1), 'conflict')).toBe('stored');
    expect(await lease(w, { mac: mac(2) })).toBe('10.77.0.101');
    // Only its renewal gives an unknown client of a crowded pool a long lease.
    await w.send(message('REQUEST', { mac: mac(2), ciaddr: '10.77.0.101' }));
    expect((await w.send(message('DISCOVER', { mac: mac(3) }))).outcome).toBe('exhausted');
    expect(formatIpv4(onWire(await w.send(message('DISCOVER'))).yiaddr)).toBe('10.77.0.100');
    w.clock.advance(millis(600_001));
    expect(await lease(w, { mac: mac(3) })).toBe('10.77.0.100');
  });
});

describe('inherited sockets', () => {
  it('are numbered from 3 and have the names that they were given', () => {
    const env = { LISTEN_FDS: '2', LISTEN_FDNAMES: 'dhcp-eth1:http', LISTEN_PID: '7' };
    expect(inheritedSockets(env, 7)).toEqual([
      { fd: 3, name: 'dhcp-eth1' },
      { fd: 4, name: 'http' },
    ]);
  });
  it('are none when there are none, when they are for another process, or when the number is no number', () => {
    expect(inheritedSockets({})).toEqual([]);
    expect(inheritedSockets({ LISTEN_FDS: '2', LISTEN_PID: '8' }, 7)).toEqual([]);
    expect(inheritedSockets({ LISTEN_FDS: '-1' })).toEqual([]);
  });
  it('without a name are unknown', () => {
    expect(inheritedSockets({ LISTEN_FDS: '1' })).toEqual([{ fd: 3, name: 'unknown' }]);
  });
});
