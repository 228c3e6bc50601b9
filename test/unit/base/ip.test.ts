/** Addresses and networks of both families. */
import fc from 'fast-check';
import { expect, test } from 'vitest';
import {
  formatIp,
  formatIpNetwork,
  type Ip,
  ip,
  ipNetwork,
  networkHolds,
  nthAddress,
  overlap,
  parseIp,
  parseIpNetwork,
  sizeOf,
  urlHost,
} from '../../../src/base/ip.ts';

const address: fc.Arbitrary<Ip> = fc.oneof(
  fc.bigInt({ min: 0n, max: 2n ** 32n - 1n }).map((value) => ({ family: 4 as const, value })),
  fc.bigInt({ min: 0n, max: 2n ** 128n - 1n }).map((value) => ({ family: 6 as const, value })),
);

test('an address is read back from its text, and its text is canonical', () => {
  fc.assert(
    fc.property(address, (one) => {
      expect(parseIp(formatIp(one))).toEqual(one);
      expect(formatIp(ip(formatIp(one)))).toBe(formatIp(one));
    }),
    { seed: 1 },
  );
});

test('addresses are read as the system’s own parser reads them', () => {
  fc.assert(
    fc.property(fc.oneof(fc.ipV4(), fc.ipV6()), (text) => {
      expect(parseIp(text)).toBeDefined();
    }),
    { seed: 2 },
  );
});

test.for([
  ['::', '::'],
  ['0:0:0:0:0:0:0:1', '::1'],
  ['2001:DB8:0:0:1:0:0:1', '2001:db8::1:0:0:1'],
  ['1:0:2:3:4:5:6:7', '1:0:2:3:4:5:6:7'],
  ['::ffff:10.0.0.1', '::ffff:a00:1'],
  ['10.0.0.1', '10.0.0.1'],
])('%s is written %s', ([text, canonical]) => {
  expect(formatIp(ip(text!))).toBe(canonical);
});

test.for([
  '',
  '1.2.3',
  '1.2.3.4.5',
  '01.2.3.4',
  '256.1.1.1',
  ':',
  ':::',
  '1::2::3',
  '1:2:3:4:5:6:7:8:9',
  '1:2:3:4:5:6:7',
  'g::',
  '1::10.0.0.1.1',
  '10.0.0.1::',
  'fe80::1%eth0',
  '1:2:3:4:5:6:7::8',
])('"%s" is not an address', (text) => {
  expect(parseIp(text)).toBeUndefined();
});

test.for([
  '10.0.0.1/24',
  '10.0.0.0',
  '10.0.0.0/33',
  '10.0.0.0/-1',
  'fd00::1/64',
  'fd00::/129',
  '10.0.0.0/8/8',
  '10.0.0.0/08',
])('"%s" is not a network', (text) => {
  expect(parseIpNetwork(text)).toBeUndefined();
});

test('a network contains its addresses and no others', () => {
  for (const text of ['10.96.0.0/16', 'fd00:10:96::/112', '0.0.0.0/0', '10.0.0.7/32']) {
    const network = ipNetwork(text);
    expect(formatIpNetwork(network)).toBe(text);
    expect(networkHolds(network, network.base)).toBe(true);
    const last = { ...network.base, value: network.base.value + sizeOf(network) - 1n };
    expect(networkHolds(network, last)).toBe(true);
    expect(networkHolds(network, { ...last, value: last.value + 1n })).toBe(false);
    expect(networkHolds(network, { ...last, family: last.family === 4 ? 6 : 4 })).toBe(false);
  }
  expect(formatIp(nthAddress(ipNetwork('fd00::/64'), 10))).toBe('fd00::a');
  expect(() => nthAddress(ipNetwork('10.0.0.0/30'), 4)).toThrow(RangeError);
});

test('networks overlap when one contains the other', () => {
  const overlaps = (a: string, b: string) => overlap(ipNetwork(a), ipNetwork(b));
  expect(overlaps('10.0.0.0/8', '10.96.0.0/16')).toBe(true);
  expect(overlaps('10.96.0.0/16', '10.0.0.0/8')).toBe(true);
  expect(overlaps('10.244.0.0/16', '10.96.0.0/16')).toBe(false);
  expect(overlaps('0.0.0.0/0', '::/0')).toBe(false);
});

test('an IPv6 address gets brackets in a URL', () => {
  expect(urlHost('fd00::1')).toBe('[fd00::1]');
  expect(urlHost('10.0.0.1')).toBe('10.0.0.1');
});
