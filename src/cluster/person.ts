/** `muster kubeconfig`: a fresh admin certificate for a person, for a working day. Its key is made here, handed out once and not kept. */
import { MusterError } from '../base/errors.ts';
import { urlHost } from '../base/ip.ts';
import type { EventSink } from '../events/event.ts';
import { PrivateKey } from '../pki/keys.ts';
import { trustBundle } from '../pki/keyset.ts';
import { kubeconfigText } from '../pki/kubeconfig.ts';
import type { Pki } from '../pki/pki.ts';
import type { Completions } from './completed.ts';
import { clusterNames } from './names.ts';

export interface PersonDeps {
  readonly completions: Pick<Completions, 'get'>;
  readonly pki: Pki;
  readonly events: EventSink;
}

/** A colon would make it one of Kubernetes' own names (`system:…`). */
const USER = /^[A-Za-z0-9][A-Za-z0-9._@+-]{0,63}$/;

/** The file's text: secret. Throws E_NOT_FOUND, E_USAGE for a name that is none, E_CLUSTER, E_PKI while the cluster has no keys. */
export async function personKubeconfig(
  { completions, pki, events }: PersonDeps,
  cluster: string,
  user: string,
): Promise<string> {
  if (!USER.test(user))
    throw new MusterError(
      'E_USAGE',
      `"${user}" is not a name for a user: letters, digits and "._@+-", at most 64`,
    );
  const completed = completions.get(cluster);
  if (completed === undefined)
    throw new MusterError('E_NOT_FOUND', `there is no Cluster "${cluster}" with spec.kubernetes`);
  const { full, faults } = completed;
  if (full === undefined)
    throw new MusterError('E_CLUSTER', `Cluster "${cluster}" cannot be completed`, {
      faults: faults.map(({ fault }) => fault),
    });
  const ca = (await pki.keysets(cluster)).get('ca')!;
  const key = await PrivateKey.generate(full.keys);
  const { certificate, serial, notAfter } = await pki.issue(cluster, {
    leaf: 'person',
    holder: { name: user, addresses: [] },
    cluster: clusterNames(full),
    publicKey: key.publicKey(),
  });
  events.record({
    kind: 'cluster.kubeconfig',
    subject: `Cluster/${cluster}`,
    fields: { user, serial, until: new Date(notAfter).toISOString() },
  });
  return kubeconfigText({
    cluster,
    server: `https://${urlHost(full.endpoint.host)}:${full.endpoint.port}`,
    caBundle: trustBundle(ca),
    user,
    credential: { kind: 'embedded', certificate, key },
  });
}
