/**
 * Access for a person, for a working day: `muster kubeconfig` and `muster cluster etcd-client`.
 * Keys are made here, handed out once and not kept.
 */

import { MusterError } from '../../base/errors.ts';
import { urlHost } from '../../base/ip.ts';
import type { EventSink } from '../../events/event.ts';
import type { KeysetName, LeafName } from '../../pki/hierarchy.ts';
import { PrivateKey } from '../../pki/keys.ts';
import { trustBundle } from '../../pki/keyset.ts';
import { kubeconfigText } from '../../pki/kubeconfig.ts';
import type { Pki } from '../../pki/pki.ts';
import { membersOf } from '../etcd/etcd-plan.ts';
import type { MemberAddress } from '../etcd/founding.ts';
import { etcdClientUrl } from '../spec/ports.ts';
import type { ClusterAccess } from '../spec/resolve.ts';
import type { ResolvedClusters } from '../spec/resolved-clusters.ts';

export interface UserCredentialsDeps {
  readonly clusters: Pick<ResolvedClusters, 'get'>;
  readonly pki: Pki;
  readonly events: EventSink;
  /** The members of etcd that the founding's record knows. */
  readonly recorded: (cluster: string) => readonly MemberAddress[];
}

/** A colon would make it one of Kubernetes' own names (`system:…`). */
const USER = /^[A-Za-z0-9][A-Za-z0-9._@+-]{0,63}$/;

/**
 * The file's text: secret. Throws E_NOT_FOUND, E_USAGE for a name that is none, E_CLUSTER,
 * E_NO_KEYS while the cluster has none.
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
    server: `https://${urlHost(access.endpoint.host)}:${access.endpoint.port}`,
    caBundle: made.ca,
    user,
    credential: { kind: 'embedded', certificate: made.certificate, key: made.key },
  });
}

/** What a client of etcd needs; PEM. The key is secret. */
export interface EtcdClient {
  readonly cluster: string;
  readonly members: readonly { readonly name: string; readonly url: string }[];
  readonly ca: string;
  readonly certificate: string;
  readonly key: string;
}

/** Throws as {@link userKubeconfig}. */
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
  // What a file lost while it runs is asked as well.
  const others = deps.clusters.get(cluster)?.resolved ? [] : deps.recorded(cluster);
  const all = [...documented, ...others.filter(({ name }) => !documented.some((one) => one.name === name))];
  const members = all.map(({ name, address }) => ({ name, url: etcdClientUrl(address) }));
  return { cluster, members, ca, certificate, key: key.pem() };
}

/**
 * Neither certificate needs more than keys and where to ask, so that a machine whose document is
 * missing locks nobody out.
 */
function accessOf({ clusters }: UserCredentialsDeps, cluster: string): ClusterAccess {
  const found = clusters.get(cluster);
  if (found === undefined)
    throw new MusterError('E_NOT_FOUND', `there is no Cluster "${cluster}" with spec.kubernetes`);
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
      `"${user}" is not a name for a user: letters, digits and "._@+-", at most 64`,
    );
  const keyset = (await pki.keysets(access.name)).get(kind.authority)!;
  const key = await PrivateKey.generate(access.keys);
  const { certificate, serial, notAfter } = await pki.issue(access.name, {
    leaf: kind.leaf,
    holder: { name: user, addresses: [] },
    // These are clients: nothing of the cluster is named in them.
    cluster: { name: access.name, dnsDomain: '', serviceAddresses: [], endpointNames: { dns: [], ips: [] } },
    publicKey: key.publicKey(),
  });
  events.record({
    kind: kind.event,
    subject: `Cluster/${access.name}`,
    fields: { user, serial, until: new Date(notAfter).toISOString() },
  });
  return { ca: trustBundle(keyset), certificate, key };
}
