/**
 * Decides what a machine gets that asks for a certificate: the first rule of a table that applies.
 * Pure. Session, ticket and address were judged before ({@link
 * import('../../machines/tickets.ts').judgeTicket}).
 */
import type { HardwareDoubt, TicketRefusal } from '../../machines/tickets.ts';
import type { TrustTier } from '../../machines/trust.ts';

/** What is known of the key, the machine and the asker when the decision is made. */
export interface RedeemFacts {
  /** See `Asker` in tickets.ts. */
  readonly asker: 'known' | 'unknown';
  /** Why its address is no sign that the asker is the machine. */
  readonly doubt: HardwareDoubt | undefined;
  /**
   * The asker is known, and the documents of the session were first served longer ago than a ticket
   * is valid.
   */
  readonly late: boolean;
  /**
   * What this session's ticket was redeemed for: nothing yet, this key, whose certificate still
   * counts, or another key.
   */
  readonly redeemed: 'no' | 'same' | 'other';
  /** The machine has no certificate, one for this key, or one for another key. */
  readonly holder: 'none' | 'same' | 'other';
  /** This key's certificate was revoked. */
  readonly revoked: boolean;
  /** The machine is in quarantine. */
  readonly quarantined: boolean;
  readonly alarmed: boolean;
  /** That alarm says only that somebody asked without the TPM that is known. */
  readonly alarmedByTpm: boolean;
  /** The machine's agent was heard moments ago. */
  readonly alive: boolean;
  readonly tier: TrustTier;
  readonly tpm: TpmFacts;
}

/** What a request shows of its machine's TPM. */
export interface TpmFacts {
  /** A TPM is known for the machine: from its document, or from an earlier certificate. */
  readonly pinned: boolean;
  /**
   * `none`: the request carries none. `other`: not the one that is known. `untrusted`: none is
   * known, and no vendor whose TPMs count certified it. `unproven`: it has still to open a
   * challenge. `proven`: it opened the challenge that was made for this key.
   */
  readonly shown: 'none' | 'other' | 'untrusted' | 'unproven' | 'proven';
  /**
   * The known TPM is from the machine's document, or was recorded when an operator had approved: a
   * new key needs no approval then.
   */
  readonly vouches: boolean;
  /** SHA-256 of the endorsement key that was shown (SPKI, hexadecimal). */
  readonly ek?: string;
}

/** For requests of machines without a TPM. */
export const NO_TPM: TpmFacts = { pinned: false, shown: 'none', vouches: false };

export type RedeemDecision =
  /** The certificate that this key has already. */
  | { readonly do: 'repeat' }
  | { readonly do: 'issue' }
  /** Until an operator confirms the code on the console. */
  | { readonly do: 'hold'; readonly hold: 'approval' }
  /** Until the TPM opened a challenge. */
  | { readonly do: 'hold'; readonly hold: 'tpm' }
  | { readonly do: 'refuse'; readonly code: TicketRefusal };

interface Rule {
  readonly rule: string;
  readonly when: (facts: RedeemFacts) => boolean;
  readonly decision: RedeemDecision;
}

const refuse = (code: TicketRefusal): RedeemDecision => ({ do: 'refuse', code });

/** The key needs no approval: the machine had it before, or a TPM vouches for it. */
const approved = ({ holder, tpm }: RedeemFacts): boolean =>
  holder === 'same' || (tpm.vouches && tpm.shown === 'proven');

/** The request is from the TPM that is known for the machine. */
const withKnownTpm = ({ tpm }: RedeemFacts): boolean => tpm.pinned && tpm.shown === 'proven';

/** At tier segment a new key without the known TPM rests on the hardware that asks. */
const restsOnHardware = (facts: RedeemFacts): boolean =>
  facts.tier === 'segment' && facts.holder !== 'same' && !withKnownTpm(facts);

const RULES: readonly Rule[] = [
  {
    rule: 'a machine in quarantine gets nothing',
    when: ({ quarantined }) => quarantined,
    decision: refuse('quarantined'),
  },
  {
    rule: 'a key whose certificate was revoked gets no other one',
    when: ({ revoked }) => revoked,
    decision: refuse('revoked'),
  },
  {
    rule: 'the same key gets the same answer',
    when: ({ redeemed }) => redeemed === 'same',
    decision: { do: 'repeat' },
  },
  {
    rule: 'a second key gets nothing in the same boot',
    when: ({ redeemed }) => redeemed === 'other',
    decision: refuse('other_key'),
  },
  {
    rule: 'a machine whose TPM is known has to show it',
    when: ({ tpm, tier }) => (tpm.pinned || tier === 'tpm') && tpm.shown === 'none',
    decision: refuse('tpm_missing'),
  },
  {
    rule: 'another TPM than the known one is refused',
    when: ({ tpm }) => tpm.shown === 'other',
    decision: refuse('tpm_changed'),
  },
  {
    rule: 'a TPM that has to count is of a vendor whose TPMs count',
    when: ({ tpm, tier }) => tier === 'tpm' && tpm.shown === 'untrusted',
    decision: refuse('tpm_untrusted'),
  },
  {
    rule: 'a TPM opens a challenge first, at every tier',
    when: ({ tpm }) => tpm.shown === 'unproven',
    decision: { do: 'hold', hold: 'tpm' },
  },
  {
    rule: 'at tier segment the machine has taken a lease',
    when: (facts) => restsOnHardware(facts) && facts.doubt === 'no_lease',
    decision: refuse('no_lease'),
  },
  {
    rule: 'at tier segment a new key comes from the hardware that the document lists',
    when: (facts) => restsOnHardware(facts) && facts.doubt === 'other_hardware',
    decision: refuse('other_hardware'),
  },
  {
    rule: 'while there is an alarm nobody gets a certificate, except with the TPM that others lacked',
    when: (facts) => facts.alarmed && !(facts.alarmedByTpm && withKnownTpm(facts)),
    decision: refuse('alarmed'),
  },
  {
    rule: 'another key gets nothing while the machine runs, except of its own TPM',
    when: (facts) => facts.holder === 'other' && facts.alive && !withKnownTpm(facts),
    decision: refuse('alive'),
  },
  {
    rule: 'an asker of whom nothing is known waits for an operator, whatever the tier',
    when: (facts) => facts.asker === 'unknown' && !approved(facts),
    decision: { do: 'hold', hold: 'approval' },
  },
  {
    rule: 'a new key of tier approved waits for an operator',
    when: (facts) => facts.tier === 'approved' && !approved(facts),
    decision: { do: 'hold', hold: 'approval' },
  },
  {
    rule: 'a TPM of tier tpm of which nothing is known waits for an operator',
    when: ({ tier, tpm, holder }) => tier === 'tpm' && !tpm.pinned && holder !== 'same',
    decision: { do: 'hold', hold: 'approval' },
  },
  {
    rule: 'without other proof a ticket is valid for minutes',
    when: (facts) => facts.tier === 'segment' && !withKnownTpm(facts) && facts.late,
    decision: refuse('too_late'),
  },
];

/** Decides; `issue` when no rule applies. */
export function decideRedeem(facts: RedeemFacts): RedeemDecision {
  return RULES.find(({ when }) => when(facts))?.decision ?? { do: 'issue' };
}
