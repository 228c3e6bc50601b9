/**
 * Tiers of trust: what a machine has to show before it gets a certificate of its own, and with it
 * the secrets of its cluster. docs/security.md says what each tier prevents.
 */

/**
 * From weakest to strictest.
 *
 * - `segment`: the ticket of its boot, redeemed from an address that is the machine's.
 * - `approved`: the same, and an operator confirmed the code that the machine's console shows.
 * - `tpm`: the same as segment, and the machine's TPM opened what was sealed to its endorsement
 *   key.
 */
export const TRUST_TIERS = ['segment', 'approved', 'tpm'] as const;
export type TrustTier = (typeof TRUST_TIERS)[number];

/** A tier and the document that asks for it. */
export interface Trust {
  readonly tier: TrustTier;
  /** `Machine/cp1`, `Cluster/blue` …, or `default` when no document says it. */
  readonly from: string;
}

/** The strictest of several tiers; of equals the first. `asked` has at least one element. */
export function strictest(asked: readonly [Trust, ...Trust[]]): Trust {
  return asked.reduce((so, one) => (TRUST_TIERS.indexOf(one.tier) > TRUST_TIERS.indexOf(so.tier) ? one : so));
}
