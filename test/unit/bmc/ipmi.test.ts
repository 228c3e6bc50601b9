/** Datagrams and sessions of IPMI 2.0, without a BMC: what we make, we read, and nothing else. */
import fc from 'fast-check';
import { describe, expect, test } from 'vitest';
import { BOOT_TARGETS } from '../../../src/bmc/bmc.ts';
import { bootIn, powerIn, setBoot } from '../../../src/bmc/ipmi/commands.ts';
import { decodeAnswer, decodeFrame, encodeFrame, encodeRequest } from '../../../src/bmc/ipmi/packet.ts';
import {
  openRequest,
  readOpenAnswer,
  readRakp2,
  readRakp4,
  SUITES,
  type Suite,
  sealingOf,
} from '../../../src/bmc/ipmi/session.ts';

const octets = (most: number) => fc.uint8Array({ maxLength: most }).map((value) => Buffer.from(value));
const suites = Object.keys(SUITES).map(Number) as Suite[];

describe.each(suites)('suite %i', (suite) => {
  const sealing = sealingOf(suite, Buffer.alloc(20, 7));

  test('what is sealed opens to the same octets, and to nothing once one of them changed', () => {
    fc.assert(
      fc.property(octets(200), fc.nat(), fc.nat({ max: 255 }), (payload, at, by) => {
        const frame = { type: 0, session: 5, sequence: 9, payload };
        const datagram = encodeFrame(frame, sealing);
        expect(decodeFrame(datagram, sealing)).toEqual({ ok: true, value: frame });
        const changed = Buffer.from(datagram);
        const place = 4 + (at % (datagram.length - 4));
        changed[place]! ^= by || 1;
        expect(decodeFrame(changed, sealing).ok).toBe(false);
      }),
    );
  });

  test('a session begins with no fewer algorithms than were asked for', () => {
    const answer = Buffer.alloc(36);
    answer.writeUInt32LE(77, 4);
    answer.writeUInt32LE(99, 8);
    const { authentication, integrity } = SUITES[suite];
    [answer[16], answer[24], answer[32]] = [authentication, integrity, 1];
    expect(readOpenAnswer(answer, { suite, ours: 77 })).toEqual({ ok: true, value: 99 });
    for (const place of [16, 24, 32])
      expect(readOpenAnswer(Buffer.from(answer).fill(0, place, place + 1), { suite, ours: 77 }).ok).toBe(
        false,
      );
    expect(openRequest({ suite, ours: 77 })).toHaveLength(32);
  });
});

test('no datagram, sealed or not, is more than a reason', () => {
  const sealing = sealingOf(17, Buffer.alloc(32, 7));
  const exchange = { suite: 3, user: 'a', password: 'b', ours: 1, random: Buffer.alloc(16) } as const;
  const part = { random: Buffer.alloc(16), guid: Buffer.alloc(16) };
  fc.assert(
    fc.property(octets(120), (datagram) => {
      expect(decodeFrame(datagram, sealing).ok).toBe(false);
      decodeFrame(datagram);
      decodeAnswer(datagram);
      bootIn(datagram);
      powerIn(datagram);
      readOpenAnswer(datagram, exchange);
      expect(readRakp2(datagram, exchange, 2).ok).toBe(false);
      expect(readRakp4(datagram, exchange, 2, part, Buffer.alloc(20)).ok).toBe(false);
    }),
    { numRuns: 2000 },
  );
});

test('a command is read back as its answer would be', () => {
  const request = encodeRequest(6, 0x3b, Buffer.from([4]), 63);
  expect(request.toString('hex')).toBe('2018c881fc3b0444');
  // Answers have the addresses exchanged, and a completion code before the data.
  const answer = Buffer.from('811c63' + '20fc3b00' + '04' + '00', 'hex');
  answer[answer.length - 1] = -answer.subarray(3, -1).reduce((sum, one) => sum + one, 0) & 0xff;
  expect(decodeAnswer(answer)).toMatchObject({
    ok: true,
    value: { netFn: 7, command: 0x3b, sequence: 63, completion: 0 },
  });
});

test.each(BOOT_TARGETS.filter((one) => one !== 'http'))('a boot once from %s is read back', (target) => {
  for (const uefi of [true, false]) {
    const { data } = setBoot(target, { uefi });
    expect(bootIn(Buffer.concat([Buffer.from([1]), data]))).toEqual({
      target,
      uefi: uefi && target !== 'none',
      persistent: false,
    });
  }
});
