/** The tier of trust that counts for a machine; src/resources/trust.ts has the tiers. */
import { type Trust, trustAsked } from '../resources/trust.ts';

export type { Trust, TrustTier } from '../resources/trust.ts';

interface TrustQuestion {
  /** Machine, Profile and Clusters, and the Networks on which it boots or has addresses. */
  readonly documents: Parameters<typeof trustAsked>[0];
  /** It is a control plane or a member of etcd. */
  readonly holdsClusterKeys: boolean;
  /** Muster gives the machine its address on the network from which it boots. */
  readonly addressGiven: boolean;
}

/**
 * The tier that counts for a machine: the strictest that a document asks for. If none does:
 * `approved` for a machine that gets its cluster's keys and has its address from another server,
 * because nothing then shows that the asker is that machine; `segment` for all others.
 */
export function trustOf({ documents, holdsClusterKeys, addressGiven }: TrustQuestion): Trust {
  const tier = holdsClusterKeys && !addressGiven ? 'approved' : 'segment';
  return trustAsked(documents) ?? { tier, from: 'default' };
}
