/**
 * The boot host's own client certificates for clusters. They are made again whenever the server
 * starts; their private keys are never stored.
 */
import type { Clock } from '../base/clock.ts';
import { leafOf } from '../pki/hierarchy.ts';
import { PrivateKey } from '../pki/keys.ts';
import { trustBundle } from '../pki/keyset.ts';
import type { AuthorityName } from '../pki/keysets.ts';
import type { Keysets, Pki } from '../pki/pki.ts';
import type { IssuedCertificate } from '../pki/records.ts';
import { KEYS } from '../store/keys.ts';
import type { Credentials } from './https.socket.ts';

export interface BootHostDeps {
  readonly pki: Pick<Pki, 'keysets' | 'issue'>;
  readonly clock: Clock;
}

/** A certificate is used for at most this long. */
const USED_MS = 3_600_000;

/**
 * Returns a function that resolves with the boot host's credentials for a cluster. Credentials are
 * made when they are first needed.
 *
 * @throws {MusterError} E_NO_KEYS (the returned function) when the cluster has no keys yet.
 */
export function bootHostCredentials(
  { pki, clock }: BootHostDeps,
  leaf: 'muster-admin' | 'muster-etcd-client',
  trusted: AuthorityName,
): (cluster: string) => Promise<Credentials> {
  const held = new Map<
    string,
    { readonly until: number; readonly keys: string; readonly made: Promise<Credentials> }
  >();
  /**
   * Earlier certificates in the ledger of issued certificates. They are deleted after they have
   * expired; otherwise the ledger would grow by thousands of entries in a year.
   */
  const entries = new Map<string, readonly IssuedCertificate[]>();
  const issue = async (cluster: string, keysets: Keysets): Promise<Credentials> => {
    const key = await PrivateKey.generate();
    const earlier = Object.groupBy(entries.get(cluster) ?? [], ({ notAfter }) =>
      notAfter < clock.now() ? 'ended' : 'valid',
    );
    const issued = await pki.issue(cluster, {
      leaf,
      holder: { name: 'muster', addresses: [] },
      cluster: { name: cluster, dnsDomain: '', serviceAddresses: [], endpointNames: { dns: [], ips: [] } },
      publicKey: key.publicKey(),
      also: () =>
        (earlier.ended ?? []).map(({ serial }) => ({ key: KEYS.issued.key(cluster, serial), delete: true })),
    });
    entries.set(cluster, [...(earlier.valid ?? []), issued]);
    return { ca: trustBundle(keysets.get(trusted)!), cert: issued.certificate, key: key.pem() };
  };
  /** The generations that sign and are trusted: when they change, other credentials are made. */
  const generations = (keysets: Keysets): string =>
    [keysets.get(leafOf(leaf).parent)!.primary, ...keysets.get(trusted)!.trusted.map(({ id }) => id)].join();
  return async (cluster) => {
    const keysets = await pki.keysets(cluster);
    const keys = generations(keysets);
    const known = held.get(cluster);
    // What is there goes on while nothing may be issued.
    const lasts = known !== undefined && (known.until > clock.monotonic() || clock.doubt() !== undefined);
    if (lasts && known.keys === keys) return known.made;
    const until = clock.monotonic() + Math.min(leafOf(leaf).lifetime / 2, USED_MS);
    const made = issue(cluster, keysets);
    held.set(cluster, { until, keys, made });
    // After a failure the next call tries again.
    made.catch(() => held.delete(cluster));
    return made;
  };
}
