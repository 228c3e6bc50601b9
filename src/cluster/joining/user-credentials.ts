/**
 * Credentials for operators: `muster kubeconfig` and `muster cluster etcd-client` for 12 hours, and
 * for an hour those that kubectl fetches by itself. Keys are made here, handed out once and not
 * stored.
 */
import { duration, type Millis } from '../../base/duration.ts';
import { MusterError } from '../../base/errors.ts';
import { urlHost } from '../../base/ip.ts';
import type { EventSink } from '../../events/event.ts';
import type { LeafName } from '../../pki/hierarchy.ts';
import { PrivateKey } from '../../pki/keys.ts';
import { trustBundle } from '../../pki/keyset.ts';
import type { KeysetName } from '../../pki/keysets.ts';
import { kubeconfigText } from '../../pki/kubeconfig.ts';
import type { Pki } from '../../pki/pki.ts';
import { membersOf } from '../etcd/etcd-plan.ts';
import type { MemberAddress } from '../etcd/founding.ts';
import { etcdClientUrl } from '../model/ports.ts';
import type { ClusterAccess } from '../resolve/resolve.ts';
import { noCluster, type ResolvedClusters } from '../resolve/resolved-clusters.ts';

export interface UserCredentialsDeps {
  readonly clusters: Pick<ResolvedClusters, 'get'>;
  readonly pki: Pki;
  readonly events: EventSink;
  /** The members of etcd in the founding's record. */
  readonly recorded: (cluster: string) => readonly MemberAddress[];
}

/** Users' names have no colon, because names like `system:…` belong to Kubernetes. */
const USER = /^[A-Za-z0-9][A-Za-z0-9._@+-]{0,63}$/;

/**
 * Makes a kubeconfig for a user and resolves with its text, which is secret.
 *
 * @throws {MusterError} E_NOT_FOUND when there is no such cluster, E_USAGE when the user's name is
 * not valid, E_CLUSTER when the Cluster cannot be completed, E_NO_KEYS while it has no keys.
 */
export async function userKubeconfig(
  deps: UserCredentialsDeps,
  cluster: string,
  user: string,
): Promise<string> {
  const access = accessOf(deps, cluster);
  const made = await personal(deps, access, user, {
    leaf: 'person',
    authority: 'ca',
    event: 'cluster.kubeconfig',
  });
  return kubeconfigText({
    cluster,
    server: serverOf(access),
    caBundle: made.ca,
    user,
    credential: { kind: 'embedded', certificate: made.certificate, key: made.key },
  });
}

/** How to reach a cluster's API: nothing of it is secret. */
export interface ClusterEndpoint {
  readonly cluster: string;
  readonly server: string;
  /** The CAs of the API server, PEM. */
  readonly ca: string;
}

/**
 * Shows where a cluster's API is.
 *
 * @throws {MusterError} E_NOT_FOUND, E_CLUSTER, E_NO_KEYS, as {@link userKubeconfig}
 */
export async function clusterEndpoint(
  deps: Pick<UserCredentialsDeps, 'clusters' | 'pki'>,
  cluster: string,
): Promise<ClusterEndpoint> {
  const access = accessOf(deps, cluster);
  const keyset = (await deps.pki.keysets(access.name)).get('ca');
  if (keyset === undefined) throw new MusterError('E_NO_KEYS', `${access.name} has no keys yet`);
  return { cluster, server: serverOf(access), ca: trustBundle(keyset) };
}

const serverOf = ({ endpoint }: ClusterAccess): string =>
  `https://${urlHost(endpoint.host)}:${endpoint.port}`;

/** A certificate for a person, in PEM. The key is secret. */
export interface UserCredential {
  readonly user: string;
  readonly certificate: string;
  readonly key: string;
  readonly until: Millis;
}

/** What kubectl fetches by itself ends soon, because it can fetch the next one. */
const FETCHED_LASTS = duration('1h');

/** Makes a certificate for an hour. Throws like {@link userKubeconfig}. */
export async function userCredential(
  deps: UserCredentialsDeps,
  cluster: string,
  user: string,
): Promise<UserCredential> {
  const made = await personal(deps, accessOf(deps, cluster), user, {
    leaf: 'person',
    authority: 'ca',
    event: 'cluster.kubeconfig',
    lifetime: FETCHED_LASTS,
  });
  return { user, certificate: made.certificate, key: made.key.pem(), until: made.until };
}

/** What a client of etcd needs, in PEM. The key is secret. */
export interface EtcdClient {
  readonly cluster: string;
  readonly members: readonly { readonly name: string; readonly url: string }[];
  readonly ca: string;
  readonly certificate: string;
  readonly key: string;
}

/** Makes a client certificate for the user. Throws like {@link userKubeconfig}. */
export async function userEtcdClient(
  deps: UserCredentialsDeps,
  cluster: string,
  user: string,
): Promise<EtcdClient> {
  const access = accessOf(deps, cluster);
  const { ca, certificate, key } = await personal(deps, access, user, {
    leaf: 'etcd-person',
    authority: 'etcd-ca',
    event: 'cluster.etcd-client',
  });
  const documented = membersOf(access);
  // While the document is incomplete, members that are only in the record are included.
  const others = deps.clusters.get(cluster)?.resolved ? [] : deps.recorded(cluster);
  const all = [...documented, ...others.filter(({ name }) => !documented.some((one) => one.name === name))];
  const members = all.map(({ name, address }) => ({ name, url: etcdClientUrl(address) }));
  return { cluster, members, ca, certificate, key: key.pem() };
}

/**
 * The cluster's keys and endpoint. Credentials need nothing else, so operators get them even while
 * a Machine document is missing.
 */
function accessOf({ clusters }: Pick<UserCredentialsDeps, 'clusters'>, cluster: string): ClusterAccess {
  const found = clusters.get(cluster);
  if (found === undefined) throw noCluster(cluster);
  const { resolved, access, faults } = found;
  if (access === undefined)
    throw new MusterError('E_CLUSTER', `Cluster "${cluster}" cannot be completed`, {
      faults: faults.map(({ fault }) => fault),
    });
  return resolved ?? access;
}

interface Kind {
  readonly leaf: LeafName;
  readonly authority: KeysetName;
  readonly event: 'cluster.kubeconfig' | 'cluster.etcd-client';
  /** Absent: as the table of certificates says. */
  readonly lifetime?: Millis;
}

async function personal(
  { pki, events }: UserCredentialsDeps,
  access: ClusterAccess,
  user: string,
  kind: Kind,
) {
  if (!USER.test(user))
    throw new MusterError(
      'E_USAGE',
      `"${user}" is not a name for a user: use letters, digits and "._@+-", at most 64 characters`,
    );
  const keyset = (await pki.keysets(access.name)).get(kind.authority)!;
  const key = await PrivateKey.generate(access.keys);
  const { certificate, serial, notAfter } = await pki.issue(access.name, {
    leaf: kind.leaf,
    holder: { name: user, addresses: [] },
    // Client certificates contain no names of the cluster.
    cluster: { name: access.name, dnsDomain: '', serviceAddresses: [], endpointNames: { dns: [], ips: [] } },
    publicKey: key.publicKey(),
    lifetime: kind.lifetime,
  });
  events.record({
    kind: kind.event,
    subject: `Cluster/${access.name}`,
    fields: { user, serial, until: new Date(notAfter).toISOString() },
  });
  return { ca: trustBundle(keyset), certificate, key, until: notAfter };
}
