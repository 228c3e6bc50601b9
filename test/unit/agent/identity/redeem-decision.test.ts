/** What a machine gets that asks for a certificate, by what is known of it. */
import { describe, expect, it } from 'vitest';
import {
  decideRedeem,
  NO_TPM,
  type RedeemDecision,
  type RedeemFacts,
} from '../../../../src/agent/identity/redeem-decision.ts';

const FIRST: RedeemFacts = {
  asker: 'known',
  doubt: undefined,
  late: false,
  redeemed: 'no',
  holder: 'none',
  revoked: false,
  quarantined: false,
  alarmed: false,
  alarmedByTpm: false,
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
const NEW_TPM = { ...PROVEN, pinned: false };
const UNTRUSTED = { ...NEW_TPM, shown: 'untrusted' } as const;
const OTHER = { doubt: 'other_hardware' } as const;
const BY_TPM = { alarmed: true, alarmedByTpm: true };

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
    [
      'the key of a machine in quarantine',
      { quarantined: true, redeemed: 'same', holder: 'same' },
      'refuse quarantined',
    ],
    ['a key while there is an alarm', { alarmed: true, tier: 'approved' }, 'refuse alarmed'],
    ['a key from an unknown address, at tier segment', { asker: 'unknown' }, 'hold approval'],
    ['its own key from an unknown address', { asker: 'unknown', holder: 'same' }, 'issue'],
    ['a key of a machine without a lease, at tier segment', { doubt: 'no_lease' }, 'refuse no_lease'],
    ['a key from other hardware, at tier segment', { doubt: 'other_hardware' }, 'refuse other_hardware'],
    ['the same, while the machine runs', { ...OTHER, holder: 'other', alive: true }, 'refuse other_hardware'],
    ['the same, at tier approved', { ...OTHER, tier: 'approved' }, 'hold approval'],
    ['the same, with the key that it had before', { ...OTHER, holder: 'same' }, 'issue'],
    ['the same, with the TPM that is known', { ...OTHER, tpm: PROVEN }, 'issue'],
    ['the same, with a TPM of which nothing is known', { ...OTHER, tpm: NEW_TPM }, 'refuse other_hardware'],
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
      'a TPM of which nothing is known, at tier segment, before it opened a challenge',
      { tpm: { pinned: false, shown: 'unproven', vouches: false } },
      'hold tpm',
    ],
    ['the same, after it opened the challenge', { tpm: NEW_TPM }, 'issue'],
    ['the same, after the life of its ticket', { tpm: NEW_TPM, late: true }, 'refuse too_late'],
    ['the known TPM, after the life of its ticket', { tpm: PROVEN, late: true }, 'issue'],
    ['a TPM of which nothing is known, at tier tpm', { tier: 'tpm', tpm: NEW_TPM }, 'hold approval'],
    ['the same and the key that it had before', { tier: 'tpm', tpm: NEW_TPM, holder: 'same' }, 'issue'],
    ['a TPM of another vendor, at tier tpm', { tier: 'tpm', tpm: UNTRUSTED }, 'refuse tpm_untrusted'],
    ['a TPM of another vendor, at tier segment', { tpm: UNTRUSTED }, 'issue'],
    ['the known TPM while its agent runs', { holder: 'other', alive: true, tpm: PROVEN }, 'issue'],
    ['a new TPM while its agent runs', { holder: 'other', alive: true, tpm: NEW_TPM }, 'refuse alive'],
    ['the known TPM during an alarm that others lacked it', { ...BY_TPM, tpm: PROVEN }, 'issue'],
    [
      'another TPM during that alarm',
      { ...BY_TPM, tpm: { ...PROVEN, shown: 'other' } },
      'refuse tpm_changed',
    ],
    ['a new TPM during that alarm', { ...BY_TPM, tpm: NEW_TPM }, 'refuse alarmed'],
    ['the known TPM during another alarm', { alarmed: true, tpm: PROVEN }, 'refuse alarmed'],
    [
      'a new key of a TPM of which only a boot is known, at tier approved',
      { tier: 'approved', tpm: PROVEN },
      'hold approval',
    ],
  ])('with %s', (_, facts, decision) => {
    expect(given(facts)).toBe(decision);
  });
});
