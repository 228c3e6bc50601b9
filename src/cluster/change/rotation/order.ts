/** What is ordered of a rotation, and what its steps observe of the cluster as a whole. */
import { z } from 'zod';
import { names } from '../../../base/body.ts';
import type { Millis } from '../../../base/duration.ts';
import { ROTATED } from '../../../pki/keysets.ts';
import type { KeysetState, NamedGeneration } from '../../../pki/transitions.ts';
import { emergency, keysets, requestFor } from '../request.ts';

export const rotationRequest = requestFor('rotation', {
  keysets,
  leave: names('Things that are left behind.'),
  emergency,
});
export type RotationRequest = z.output<typeof rotationRequest>;

/** How much one API server refused in a time. */
export interface Counted {
  readonly for: Millis;
  /** Requests that it did not authenticate. */
  readonly refusals: number;
  /** Connections that ended in the TLS handshake. */
  readonly handshakes: number;
}

const keyset = z.strictObject({
  name: z.enum(ROTATED),
  /** The generation that signed when the rotation was ordered. */
  from: z.string(),
  /**
   * The generations that the keyset had then, without one that only waited for a rotation; the one
   * that is not among them is the new one.
   */
  known: z.array(z.string()),
  /** The new generation; absent until it is made. */
  to: z.string().optional(),
  /**
   * Whether the new CA is accepted by its bridge: it signs before anything trusts it, and every
   * program that reads its trust only at its start restarts once.
   */
  bridged: z.boolean(),
});
export type RotatedKeyset = z.output<typeof keyset>;

export const rotationOrder = z.strictObject({
  keysets: z.array(keyset).min(1),
  /**
   * The old keys are in the wrong hands: they end at once, and whoever still uses them is cut off.
   */
  emergency: z.literal(true).optional(),
  /** What depends on the old keys and is left behind: names as the search shows them. */
  leave: z.array(z.string()),
});
export type RotationOrder = z.output<typeof rotationOrder>;

/** Something in the cluster that still depends on an old generation. */
export interface Leftover {
  /** The name by which an operator leaves it behind, for example `configmap/web/trust`. */
  readonly name: string;
  readonly text: string;
}

/** What the boot host sees of a cluster during a rotation. */
export interface RotationSeen {
  readonly keysets: ReadonlyMap<string, KeysetState>;
  /** Key identifier of a CA → its generation. */
  readonly issuers: ReadonlyMap<string, NamedGeneration>;
  /** Machine → certificates that it still has from a generation other than the one that signs. */
  readonly behind: ReadonlyMap<string, readonly string[]>;
  /** Key ids of the service-account keys that end. */
  readonly oldTokens: readonly string[];
  /**
   * Machine → pods on it with a token of the old key, as `NAMESPACE/NAME`, or by UID where the API
   * does not know the pod; only machines that name all of them.
   */
  readonly oldTokenPods?: ReadonlyMap<string, readonly string[]>;
  /** SHA-256 of the encryption configuration that API servers get now. */
  readonly encryption?: string;
  /**
   * Namespaces whose kube-root-ca.crt is not the bundle that machines get now; undefined while the
   * API does not answer.
   */
  readonly rootCa?: readonly string[];
  /** How many Secrets in etcd do not name the key that encrypts now. */
  readonly secrets?: number;
  /** Whether extension-apiserver-authentication holds exactly the bundles that machines get now. */
  readonly published?: boolean;
  readonly leftovers?: readonly Leftover[];
  /** The rehearsal of distrust, from the search on. */
  readonly rehearsal?: {
    /** The control plane that rehearses; absent when all are left out. */
    readonly machine?: string;
    /** For how long its API server is watched, before and in the rehearsal. */
    readonly lasts: Millis;
    readonly before?: Counted;
    readonly now?: Counted;
    /** What failed. */
    readonly failed?: string;
  };
  /** Why the API could not be asked. */
  readonly failure?: string;
}
