/** Which hardware is behind an address, and what that shows of the machine that has it. */
import fc from 'fast-check';
import { describe, expect, it } from 'vitest';
import { type Ipv4, ipv4 } from '../../../src/base/ipv4.ts';
import type { Mac } from '../../../src/base/mac.ts';
import type { Member } from '../../../src/machines/roster.ts';
import { hardwareDoubt, onOtherHardware } from '../../../src/pxe/decide/own-addresses.ts';
import { type Neighbour, neighbourIn } from '../../../src/pxe/neighbours.ts';
import { anyText } from '../texts.ts';

const ARP = `IP address       HW type     Flags       HW address            Mask     Device
10.77.0.11       0x1         0x2         52:54:00:AA:00:11     *        eth1
10.77.0.12       0x1         0x0         00:00:00:00:00:00     *        eth1
10.77.0.13       0x1         0x6         52:54:00:aa:00:13     *        eth1
10.77.0.13       0x1         0x2         52:54:00:aa:00:99     *        eth2
`;
/** 10.77.0.0/24 on eth1; 10.77.0.128/25 and all others by 10.77.0.254; 10.99.0.0/16 on eth2. */
const ROUTES = `Iface	Destination	Gateway 	Flags	RefCnt	Use	Metric	Mask		MTU	Window	IRTT
eth1	00000000	FE004D0A	0003	0	0	0	00000000	0	0	0
eth1	00004D0A	00000000	0001	0	0	0	00FFFFFF	0	0	0
eth1	80004D0A	FE004D0A	0003	0	0	0	80FFFFFF	0	0	0
eth2	0000630A	00000000	0001	0	0	0	0000FFFF	0	0	0
`;
const TABLES = { arp: ARP, routes: ROUTES, own: [ipv4('10.77.0.1')] };
const M11 = '52:54:00:aa:00:11' as Mac;

describe('the kernel', () => {
  it.each<[string, Neighbour]>([
    ['10.77.0.11', [M11]],
    // Nobody answered.
    ['10.77.0.12', []],
    // On two segments.
    ['10.77.0.13', ['52:54:00:aa:00:13' as Mac, '52:54:00:aa:00:99' as Mac]],
    ['10.77.0.1', 'host'],
    ['127.0.0.9', 'host'],
    ['10.77.0.200', 'router'],
    ['192.0.2.1', 'router'],
    ['10.99.3.4', []],
    ['fd00:77::11', []],
    ['0.0.0.0', []],
  ])('knows the neighbour at %s', (address, neighbour) => {
    expect(neighbourIn(TABLES, address)).toEqual(neighbour);
  });

  it('has an entry of its neighbour table before any route', () => {
    const arp = `${ARP}10.77.0.200      0x1         0x2         52:54:00:aa:00:20     *        eth1\n`;
    expect(neighbourIn({ ...TABLES, arp }, '10.77.0.200')).toEqual(['52:54:00:aa:00:20']);
  });

  it('never makes a router of an address without a route, whatever the tables hold', () => {
    fc.assert(
      fc.property(anyText({ maxLength: 200 }), anyText({ maxLength: 200 }), (arp, routes) => {
        expect(() => neighbourIn({ arp, routes, own: [] }, '10.77.0.11')).not.toThrow();
      }),
      { numRuns: 1000, seed: 7 },
    );
    expect(neighbourIn({ arp: '', routes: '', own: [] as Ipv4[] }, '10.77.0.11')).toEqual([]);
  });
});

describe('the hardware that asks', () => {
  const member = { entry: { document: { spec: { macs: [M11, '52:54:00:aa:01:11'] } } } } as unknown as Member;
  const world = (neighbour: Neighbour, leased: boolean) => ({
    neighbour: () => neighbour,
    leasedAddresses: (mac: Mac) => (leased && mac === M11 ? ['10.77.0.11'] : []),
  });
  const doubt = (neighbour: Neighbour, { leases = true, leased = true } = {}) =>
    hardwareDoubt(world(neighbour, leased), member, { address: '10.77.0.11', leases });
  const OTHER = ['52:54:00:66:66:66' as Mac];

  it('is the machine’s if its document lists it and the machine holds a lease', () => {
    expect(doubt([M11])).toBeUndefined();
    expect(doubt(['52:54:00:aa:01:11' as Mac])).toBeUndefined();
    expect(doubt([M11], { leased: false })).toBe('no_lease');
    expect(doubt(OTHER)).toBe('other_hardware');
    expect(doubt([M11, ...OTHER])).toBe('other_hardware');
    expect(doubt([])).toBe('other_hardware');
  });

  it('cannot be seen behind a router: a lease counts there, and nothing where another server gives them', () => {
    expect(doubt('router')).toBeUndefined();
    expect(doubt('router', { leased: false })).toBe('no_lease');
    expect(doubt('router', { leases: false, leased: false })).toBe('other_hardware');
    expect(doubt([M11], { leases: false, leased: false })).toBeUndefined();
  });

  it('gets no key of a disk if it is known to be other hardware', () => {
    const found = (neighbour: Neighbour) => onOtherHardware(world(neighbour, false), member, '10.77.0.11');
    expect([[M11], 'router', 'host', OTHER, []].map((one) => found(one as Neighbour))).toEqual([
      ...[false, false, false],
      ...[true, true],
    ]);
  });
});
