/** What a machine gets that asks for a certificate, by what is known of it. */
import { describe, expect, it } from 'vitest';
import {
  decideRedeem,
  NO_TPM,
  type RedeemDecision,
  type RedeemFacts,
} from '../../../src/agent/redeem-decision.ts';

const FIRST: RedeemFacts = {
  asker: 'known',
  late: false,
  redeemed: 'no',
  holder: 'none',
  revoked: false,
  alarmed: false,
  alive: false,
  tier: 'segment',
  tpm: NO_TPM,
};
const given = (more: Partial<RedeemFacts>): string => text(decideRedeem({ ...FIRST, ...more }));

function text(decision: RedeemDecision): string {
  if (decision.do === 'refuse') return `refuse ${decision.code}`;
  return decision.do === 'hold' ? `hold ${decision.hold}` : decision.do;
}

const PROVEN = { pinned: true, shown: 'proven', vouches: false } as const;

describe('a machine that asks for a certificate', () => {
  it.each<[string, Partial<RedeemFacts>, string]>([
    ['its first key, at tier segment', {}, 'issue'],
    ['its first key, at tier approved', { tier: 'approved' }, 'hold approval'],
    ['its first key, long after its document was served, at tier segment', { late: true }, 'refuse too_late'],
    ['the same, at tier approved', { late: true, tier: 'approved' }, 'hold approval'],
    ['the key that it had before, at tier approved', { holder: 'same', tier: 'approved' }, 'issue'],
    ['another key than before, at tier approved', { holder: 'other', tier: 'approved' }, 'hold approval'],
    ['another key than before, at tier segment', { holder: 'other' }, 'issue'],
    ['another key than before while its agent runs', { holder: 'other', alive: true }, 'refuse alive'],
    ['the same at tier approved', { holder: 'other', alive: true, tier: 'approved' }, 'refuse alive'],
    ['the key that redeemed the ticket', { redeemed: 'same', holder: 'same', late: true }, 'repeat'],
    ['a second key for one ticket', { redeemed: 'other', holder: 'other' }, 'refuse other_key'],
    [
      'a key whose certificate was revoked',
      { redeemed: 'same', holder: 'same', revoked: true },
      'refuse revoked',
    ],
    ['a key while there is an alarm', { alarmed: true, tier: 'approved' }, 'refuse alarmed'],
    ['a key from an unknown address, at tier segment', { asker: 'unknown' }, 'hold approval'],
    ['its own key from an unknown address', { asker: 'unknown', holder: 'same' }, 'issue'],
    ['a key without a TPM, at tier tpm', { tier: 'tpm' }, 'refuse tpm_missing'],
    [
      'a key with a TPM that has opened nothing yet',
      { tier: 'tpm', tpm: { pinned: false, shown: 'unproven', vouches: false } },
      'hold tpm',
    ],
    ['a key whose TPM opened the challenge', { tier: 'tpm', tpm: PROVEN }, 'issue'],
    ['the same, from an unknown address', { tier: 'tpm', tpm: PROVEN, asker: 'unknown' }, 'hold approval'],
    [
      'a key without the TPM that is known, at tier segment',
      { tpm: { ...NO_TPM, pinned: true } },
      'refuse tpm_missing',
    ],
    [
      'another TPM than the known one',
      { tpm: { pinned: true, shown: 'other', vouches: false } },
      'refuse tpm_changed',
    ],
    ['the known TPM, before it opened the challenge', { tpm: { ...PROVEN, shown: 'unproven' } }, 'hold tpm'],
    [
      'a new key of a TPM that vouches, at tier approved',
      { tier: 'approved', tpm: { ...PROVEN, vouches: true } },
      'issue',
    ],
    [
      'a new key of a TPM of which only a boot is known, at tier approved',
      { tier: 'approved', tpm: PROVEN },
      'hold approval',
    ],
  ])('with %s', (_, facts, decision) => {
    expect(given(facts)).toBe(decision);
  });
});
