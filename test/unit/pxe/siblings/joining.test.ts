/** Codes of invitations: their form, how often and how long they count. */
import fc from 'fast-check';
import { expect, test } from 'vitest';
import { ManualClock } from '../../../../src/base/clock.ts';
import { millis } from '../../../../src/base/duration.ts';
import { readCode, writeCode } from '../../../../src/pxe/siblings/code.ts';
import { INVITED_FOR, Invitations } from '../../../../src/pxe/siblings/invitations.ts';

const hex = (octets: number) =>
  fc.uint8Array({ minLength: octets, maxLength: octets }).map((one) => Buffer.from(one).toString('hex'));
const code = fc.record({
  addresses: fc.array(
    fc.ipV4().filter((one) => one.split('.').every((part) => /^[0-9]+$/.test(part))),
    { maxLength: 8 },
  ),
  port: fc.integer({ min: 1, max: 65_535 }),
  fingerprint: hex(32),
  secret: hex(16),
});

test('a code is read as it was written, and with a slip it is none', () => {
  fc.assert(
    fc.property(code, fc.nat(), fc.integer({ min: 1, max: 63 }), (one, place, by) => {
      const text = writeCode(one);
      expect(readCode(`${text}\n`)).toEqual(one);
      const octets = Buffer.from(text, 'base64url');
      octets[place % octets.length]! ^= by;
      expect(() => readCode(octets.toString('base64url'))).toThrow('no code of `muster host invite`');
      expect(() => readCode(text.slice(0, place % text.length))).toThrow();
    }),
  );
});

test('an invitation counts once, for 15 minutes, for the host that it names', () => {
  const clock = new ManualClock();
  const invitations = new Invitations(clock);
  expect(invitations.some).toBe(false);
  const secret = invitations.invite('host2', true);
  expect(invitations.some).toBe(true);
  expect(invitations.redeem(secret)).toEqual({ host: 'host2', sharesCertificate: true });
  expect(invitations.redeem(secret)).toEqual({ recorded: true });

  const late = invitations.invite('host2', false);
  // The wall clock does not matter.
  clock.step(-86_400_000);
  clock.advance(millis(INVITED_FOR - 1));
  expect(invitations.some).toBe(true);
  clock.advance(millis(1));
  expect(invitations.some).toBe(false);
  expect(invitations.redeem(late).host).toBeUndefined();

  const first = invitations.invite('host2', false);
  const second = invitations.invite('host2', false);
  expect(invitations.redeem(first).host).toBeUndefined();
  expect(invitations.has('host2')).toBe(true);
  invitations.callOff('host2');
  expect(invitations.has('host2')).toBe(false);
  expect(invitations.redeem(second).host).toBeUndefined();
});

test('guesses are recorded a few times, and do not keep back the right code', () => {
  const invitations = new Invitations(new ManualClock());
  const secret = invitations.invite('host2', false);
  const guesses = Array.from({ length: 1000 }, (_, n) =>
    invitations.redeem(n.toString(16).padStart(32, '0')),
  );
  expect(guesses.filter((one) => one.host === undefined && one.recorded).length).toBe(5);
  expect(invitations.redeem(secret).host).toBe('host2');
});
