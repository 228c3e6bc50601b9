/** The tier of trust that counts for a machine; src/resources/trust.ts has the tiers. */
import { type Trust, trustAsked, unsaidTrust } from '../resources/trust.ts';

export type { Trust, TrustTier } from '../resources/trust.ts';

/**
 * The tier that counts for a machine: the strictest that a document asks for. If none does:
 * `approved` for a machine of a Cluster that should name one and was accepted before it had to;
 * `segment` for a machine of no cluster.
 */
export function trustOf(documents: Parameters<typeof trustAsked>[0]): Trust {
  const unsaid = documents.some((one) => one !== undefined && unsaidTrust(one) !== undefined);
  return trustAsked(documents) ?? { tier: unsaid ? 'approved' : 'segment', from: 'default' };
}
