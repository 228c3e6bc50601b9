import { describe, expect, it } from 'vitest';
import { ByteReader, ShortInput } from '../../src/base/bytes.ts';
import { ManualClock } from '../../src/base/clock.ts';
import { millis, parseDuration } from '../../src/base/duration.ts';
import { broadcastOf, cidr, contains, formatIpv4, ipv4, parseCidr, parseIpv4 } from '../../src/base/ipv4.ts';
import { parseMac } from '../../src/base/mac.ts';

describe('a MAC address', () => {
  it.each([
    '52:54:00:aa:00:01',
    '52-54-00-AA-00-01',
    '5254.00aa.0001',
    '525400aa0001',
    '525400-aa0001',
    '52:54:0:aa:0:1',
    ' 01-52-54-00-aa-00-01 ',
    '52 54 00 aa 00 01',
    '52.54.00.AA.00.01',
    '5254:00aa:0001',
    '5254-00aa-0001',
    '525400:aa0001',
  ])('a MAC address is read from %j', (text) => expect(parseMac(text)).toBe('52:54:00:aa:00:01'));
  it.each(['', '52:54:00:aa:00', '52:54:00:aa:00:01:02', '52:54-00:aa:00:0g', 'localhost'])(
    'a MAC address is not read from %j',
    (text) => expect(parseMac(text)).toBeUndefined(),
  );
});

describe('an IPv4 address', () => {
  it('an IPv4 address converts to a number and back, including the highest address', () => {
    for (const text of ['0.0.0.0', '10.77.0.1', '255.255.255.255']) expect(formatIpv4(ipv4(text))).toBe(text);
  });
  it.each(['10.0.0', '10.0.0.256', '010.0.0.1', '1.2.3.4.5', '1.2.3.x', ''])(
    'an IPv4 address is not read from %j',
    (text) => expect(parseIpv4(text)).toBeUndefined(),
  );
  it('a network contains its IPv4 addresses up to the broadcast address', () => {
    const net = cidr('192.168.128.0/17');
    expect(contains(net, ipv4('192.168.255.255'))).toBe(true);
    expect(contains(net, ipv4('192.168.127.255'))).toBe(false);
    expect(formatIpv4(broadcastOf(net))).toBe('192.168.255.255');
    expect(parseCidr('10.0.0.1/24')).toBeUndefined();
    expect(contains(cidr('0.0.0.0/0'), ipv4('8.8.8.8'))).toBe(true);
  });
});

it('a duration needs a unit', () => {
  expect(parseDuration('1h30m')).toBe(5_400_000);
  expect(parseDuration('250ms')).toBe(250);
  expect(parseDuration('90')).toBeUndefined();
});

it('a byte reader never returns a shorter field than was asked for', () => {
  const reader = new ByteReader(Uint8Array.of(1, 2, 3));
  expect(reader.uint16()).toBe(0x0102);
  expect(() => reader.uint16()).toThrow(ShortInput);
  expect(reader.uint8()).toBe(3);
});

it('a manual clock runs timers at their own times and in order, except cancelled ones', () => {
  const clock = new ManualClock(millis(0));
  const ran: [string, number][] = [];
  clock.after(millis(20), () => ran.push(['b', clock.now()]));
  clock.after(millis(10), () => ran.push(['a', clock.now()]));
  clock.after(millis(15), () => ran.push(['never', 0]))();
  clock.advance(millis(30));
  expect(ran).toEqual([
    ['a', 10],
    ['b', 20],
  ]);
  expect(clock.now()).toBe(30);
});
