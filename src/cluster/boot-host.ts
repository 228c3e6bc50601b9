/**
 * The boot host as a client of a cluster: certificates that it makes for itself, anew in every life
 * of the server, and never stores with their keys.
 */
import type { Clock } from '../base/clock.ts';
import { type AuthorityName, leafOf } from '../pki/hierarchy.ts';
import { PrivateKey } from '../pki/keys.ts';
import { trustBundle } from '../pki/keyset.ts';
import type { Pki } from '../pki/pki.ts';
import type { IssuedCertificate } from '../pki/records.ts';
import { KEYS } from '../store/keys.ts';
import type { Credentials } from './https.socket.ts';

export interface BootHostDeps {
  readonly pki: Pick<Pki, 'keysets' | 'issue'>;
  readonly clock: Clock;
}

/** So long a certificate is used at most: a rotation of its CA is noticed by then. */
const USED_MS = 3_600_000;

/**
 * What the boot host shows to a cluster, made when it is first wanted. The returned function throws
 * E_NO_KEYS for a cluster that has none.
 */
export function bootHostCredentials(
  { pki, clock }: BootHostDeps,
  leaf: 'muster-admin' | 'muster-etcd-client',
  trusted: AuthorityName,
): (cluster: string) => Promise<Credentials> {
  const held = new Map<string, { readonly until: number; readonly made: Promise<Credentials> }>();
  /**
   * What is in the ledger of earlier ones: taken out when they have ended, or a year of looking at
   * a cluster would leave thousands.
   */
  const entries = new Map<string, readonly IssuedCertificate[]>();
  const issue = async (cluster: string): Promise<Credentials> => {
    const keysets = await pki.keysets(cluster);
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
  return (cluster) => {
    const known = held.get(cluster);
    if (known && known.until > clock.now()) return known.made;
    const until = clock.now() + Math.min(leafOf(leaf).lifetime / 2, USED_MS);
    const made = issue(cluster);
    held.set(cluster, { until, made });
    // What failed is tried again when it is wanted again.
    made.catch(() => held.delete(cluster));
    return made;
  };
}
