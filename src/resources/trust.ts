/**
 * Tiers of trust: what a machine has to show before it gets a certificate of its own, and with it
 * the secrets of its cluster. docs/security.md says what each tier prevents. Pure.
 *
 * - `segment`: the ticket of its boot, redeemed from an address that is the machine's.
 * - `approved`: the same, and an operator confirmed the code that the machine's console shows.
 * - `tpm`: the same as segment, and the machine's TPM opened what was sealed to its endorsement
 *   key.
 */
import { TRUST_TIERS } from './fields.ts';
import type { ClusterSpec, Document, Kind } from './kinds.ts';

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
 * Whether the Cluster makes this machine a control plane or a member of etcd: it gets the keys of
 * the whole cluster.
 */
export const holdsClusterKeys = ({ kubernetes }: ClusterSpec, machine: string): boolean =>
  kubernetes !== undefined &&
  (kubernetes.controlPlanes.includes(machine) || (kubernetes.etcd?.machines ?? []).includes(machine));
