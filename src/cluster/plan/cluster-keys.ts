/** The keys of clusters as plans need them, which are not read from the store at each poll. */
import type { Clock } from '../../base/clock.ts';
import type { Millis } from '../../base/duration.ts';
import type { EncryptionKeyset } from '../../pki/encryption.ts';
import type { Keysets, Pki } from '../../pki/pki.ts';
import type { RenewalOrder } from '../../pki/renewals.ts';
import { MUSTER_SCOPE } from '../../store/keys.ts';
import type { ResolvedCluster } from '../model/resolved-cluster.ts';

/** The cluster's keysets together with Muster's own transport CA, and the encryption keys. */
export interface Keys {
  readonly keysets: Keysets;
  readonly encryption: EncryptionKeyset | undefined;
  readonly renewals: readonly RenewalOrder[];
}

export interface ClusterKeys {
  /**
   * The cluster's keysets together with Muster's own; undefined while there are none. They are made
   * when a member of etcd polls for the first time and is not held. A member with data that this
   * store does not know is held, so a boot host that lost its store makes no second set of keys for
   * a running cluster.
   *
   * @param mayFound Whether the keys are made if there are none.
   */
  of(resolved: ResolvedCluster, mayFound: boolean): Promise<Keys | undefined>;
}

/**
 * Keysets are read from the store again after this time, so that a rotation takes effect.
 * Milliseconds.
 */
const FRESH = 5_000 as Millis;

export function openClusterKeys({ pki, clock }: { readonly pki: Pki; readonly clock: Clock }): ClusterKeys {
  const kept = new Map<string, Keys & { readonly until: Millis }>();
  return {
    async of({ name, keys: algorithm }, mayFound) {
      const known = kept.get(name);
      if (known && known.until > clock.monotonic()) return known;
      const own = mayFound ? await pki.found(name, algorithm) : await founded(pki, name);
      if (own === undefined) return undefined;
      const keys: Keys = {
        keysets: new Map([...own, ...((await founded(pki, MUSTER_SCOPE)) ?? [])]),
        encryption: await pki.encryption(name),
        renewals: await pki.renewals(name),
      };
      kept.set(name, { ...keys, until: (clock.monotonic() + FRESH) as Millis });
      return keys;
    },
  };
}

async function founded(pki: Pki, scope: string): Promise<Keysets | undefined> {
  return (await pki.isFounded(scope)) ? pki.keysets(scope) : undefined;
}
