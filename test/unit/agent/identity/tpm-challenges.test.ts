/** Challenges that TPMs open: single use, short, bounded, and bound to session and keys. */
import { expect, test } from 'vitest';
import { createTpmChallenges, proofOf } from '../../../../src/agent/identity/tpm-challenges.ts';
import { readShownTpm, type ShownTpm } from '../../../../src/agent/identity/tpm-shown.ts';
import { ManualClock } from '../../../../src/base/clock.ts';
import { duration } from '../../../../src/base/duration.ts';
import {
  activate,
  attestationArea,
  type SoftwareTpm,
  shownBy,
  softwareTpm,
} from '../../pki/tpm/software-tpm.ts';

const CHIP = softwareTpm();
const PIN = 'aa'.repeat(32);

const shown = (chip: SoftwareTpm = CHIP): ShownTpm => {
  const read = readShownTpm(shownBy(chip));
  if (!read.ok) throw new Error(read.text);
  return read.tpm;
};
const world = () => {
  const clock = new ManualClock();
  return { clock, challenges: createTpmChallenges(clock) };
};
const answer = (challenge: Buffer | undefined, of: { session: string; pin: string }, chip = CHIP): string =>
  proofOf(activate(chip, challenge!)!, of).toString('hex');

test('a TPM proves itself once with a challenge', () => {
  const { challenges } = world();
  const of = { session: 's', pin: PIN, tpm: shown() };
  const proof = answer(challenges.make(of), of);
  expect(challenges.proves(of, proof)).toBe(true);
  expect(challenges.proves(of, proof)).toBe(false);
});

test('a proof counts for no other session, agent key, attestation key or endorsement key', () => {
  const other: readonly Partial<{ session: string; pin: string; tpm: ShownTpm }>[] = [
    { session: 't' },
    { pin: 'bb'.repeat(32) },
    { tpm: shown({ ...CHIP, ak: attestationArea() }) },
    { tpm: shown({ ...softwareTpm(), ak: CHIP.ak }) },
  ];
  for (const change of other) {
    const { challenges } = world();
    const of = { session: 's', pin: PIN, tpm: shown() };
    const proof = answer(challenges.make(of), of);
    expect(challenges.proves({ ...of, ...change }, proof)).toBe(false);
  }
});

test('a wrong proof uses the challenge up, and a later challenge replaces an earlier one', () => {
  const { challenges } = world();
  const of = { session: 's', pin: PIN, tpm: shown() };
  const proof = answer(challenges.make(of), of);
  expect(challenges.proves(of, '00'.repeat(32))).toBe(false);
  expect(challenges.proves(of, proof)).toBe(false);
  const first = answer(challenges.make(of), of);
  const second = answer(challenges.make(of), of);
  expect(first).not.toBe(second);
  expect(challenges.proves(of, first)).toBe(false);
});

test.each(['', 'zz'.repeat(32), 'AA'.repeat(32), '00'])('"%s" is no proof', (proof) => {
  const { challenges } = world();
  const of = { session: 's', pin: PIN, tpm: shown() };
  challenges.make(of);
  expect(challenges.proves(of, proof)).toBe(false);
});

test('a challenge is forgotten after a minute', () => {
  const { challenges, clock } = world();
  const of = { session: 's', pin: PIN, tpm: shown() };
  const proof = answer(challenges.make(of), of);
  clock.advance(duration('61s'));
  expect(challenges.proves(of, proof)).toBe(false);
});

test('of five challenges of a session the first gives way, and those of other sessions stay', () => {
  const { challenges } = world();
  const elsewhere = { session: 't', pin: PIN, tpm: shown() };
  const kept = answer(challenges.make(elsewhere), elsewhere);
  const all = [1, 2, 3, 4, 5].map((n) => {
    const of = { session: 's', pin: `${n}`.repeat(64), tpm: shown() };
    return { of, proof: answer(challenges.make(of), of) };
  });
  expect(all.map(({ of, proof }) => challenges.proves(of, proof))).toEqual([false, true, true, true, true]);
  expect(challenges.proves(elsewhere, kept)).toBe(true);
});

test.each([
  ['nothing', '', 'no endorsement key'],
  ['an unknown word', 'tpm AAAA', 'not known'],
  ['a word of every object', 'constructor AAAA', 'not known'],
  ['a key twice', 'ek AAAA\nek AAAA', 'twice'],
  ['a key that is too long', `ek ${'A'.repeat(1400)}`, 'more than 1024 octets'],
  ['a text that is too long', 'A'.repeat(20481), 'more than 20480 characters'],
  ['an attestation key as endorsement key', shownBy({ ...CHIP, ek: CHIP.ak }), 'attributes or policy'],
  ['an endorsement key as attestation key', shownBy({ ...CHIP, ak: CHIP.ek }), 'leave its TPM'],
])('%s is refused as what a TPM shows', (_what, text, why) => {
  expect(readShownTpm(text)).toEqual({ ok: false, text: expect.stringContaining(why) });
});
