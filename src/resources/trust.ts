/**
 * Tiers of trust: what a machine has to show before it gets a certificate of its own, and with it
 * the secrets of its cluster. docs/security.md says what each tier prevents. Pure.
 *
 * - `segment`: the ticket of its boot, redeemed from an address that is the machine's, by the
 *   hardware that took its lease.
 * - `approved`: the ticket and the address, and an operator confirmed the code that the machine's
 *   console shows.
 * - `tpm`: the ticket and the address, and the machine's TPM opened what was sealed to its
 *   endorsement key.
 */
import { TRUST_COSTS, TRUST_TIERS } from './fields.ts';
import type { Document, Kind } from './kinds.ts';

export type TrustTier = (typeof TRUST_TIERS)[number];

/** A tier and the document that asks for it. */
export interface Trust {
  readonly tier: TrustTier;
  /** `Machine/cp1`, `Cluster/blue` …, or `default` when no document says it. */
  readonly from: string;
}

/** The strictest of several tiers; of equals the first. `asked` has at least one element. */
function strictest(asked: readonly [Trust, ...Trust[]]): Trust {
  return asked.reduce((so, one) => (TRUST_TIERS.indexOf(one.tier) > TRUST_TIERS.indexOf(so.tier) ? one : so));
}

/** A document that may ask for a tier; undefined where the machine has none of its kind. */
type Asking = Document<Exclude<Kind, 'Image' | 'Webhook'>> | undefined;

/**
 * The strictest tier that any of these documents asks for, of equals the first; undefined when none
 * does.
 */
export function trustAsked(documents: readonly Asking[]): Trust | undefined {
  const [first, ...more] = documents.flatMap((document): Trust[] => {
    const tier = document?.spec.trust;
    return tier === undefined ? [] : [{ tier, from: `${document!.kind}/${document!.metadata.name}` }];
  });
  return first && strictest([first, ...more]);
}

/**
 * Why a Cluster is refused that names no tier although its machines get keys; undefined when it may
 * stay as it is.
 */
export const unsaidTrust = ({ spec }: NonNullable<Asking>): string | undefined =>
  !('kubernetes' in spec) || spec.kubernetes === undefined || spec.trust !== undefined
    ? undefined
    : `does not say what a machine has to show before it gets the keys of the cluster; write trust: ${TRUST_TIERS.join(', ')}. ${TRUST_TIERS.map((tier) => `"${tier}" ${TRUST_COSTS[tier]}.`).join(' ')}`;
