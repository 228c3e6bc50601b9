/**
 * Credentials of clusters for operators. The only private keys that leave the server are those of
 * the certificates that operators request, and all of them in the export that they request.
 */
import { z } from 'zod';
import { MusterError } from '../../base/errors.ts';
import type { ClusterEndpoint, EtcdClient, UserCredential } from '../../cluster/joining/user-credentials.ts';
import type { Principal } from '../access.ts';
import { raw as rawType, time } from '../contract/contract.ts';
import { text } from '../handler.ts';
import { operation, raw } from '../operation.ts';
import { timestamp } from '../times.ts';

interface CredentialDeps {
  /**
   * Makes a kubeconfig with a new certificate; it is secret.
   *
   * @throws {MusterError} E_NOT_FOUND, E_USAGE, E_CLUSTER, E_NO_KEYS, E_PKI
   */
  readonly kubeconfig: (cluster: string, user: string) => Promise<string>;
  /** Makes a certificate for an hour. Throws the same. */
  readonly userCredential: (cluster: string, user: string) => Promise<UserCredential>;
  /** Where a cluster's API is. Throws the same. */
  readonly endpoint: (cluster: string) => Promise<ClusterEndpoint>;
  /**
   * Makes a new client certificate for a cluster's etcd; it is secret.
   *
   * @throws {MusterError} the same as `kubeconfig`
   */
  readonly etcdClient: (cluster: string, user: string) => Promise<EtcdClient>;
}

const user = z.string().optional().meta({
  description:
    'The name of the user in the certificate. Operators who are logged in get certificates for themselves only; on the socket it is needed.',
});

/**
 * The user of a certificate. Operators who are logged in get it for themselves only, so that the
 * logs of a cluster name the person; on the socket the caller says whom it is for.
 *
 * @throws {MusterError} E_USAGE on the socket without `user`; E_FORBIDDEN for somebody else's name
 */
function userOf({
  query,
  principal,
}: {
  readonly query: { readonly user?: string };
  readonly principal?: Principal;
}): string {
  const asked = query.user || undefined;
  if (principal === undefined || principal.by === 'socket') {
    if (asked === undefined) throw new MusterError('E_USAGE', 'the query needs user: ?user=…');
    return asked;
  }
  if (asked !== undefined && asked !== principal.name)
    throw new MusterError(
      'E_FORBIDDEN',
      `you are ${principal.name}, and certificates for "${asked}" are not yours`,
    );
  return principal.name;
}

export const CREDENTIALS = [
  operation(
    'POST /v1/clusters/:name/kubeconfig',
    {
      access: 'administer',
      takes: 'proof',
      summary: 'Makes a kubeconfig with a new admin certificate for a working day; it is secret.',
      query: z.strictObject({ user }),
      answer: rawType('application/yaml', 'A kubeconfig.'),
    },
    async (asked, { kubeconfig }: Pick<CredentialDeps, 'kubeconfig'>) =>
      raw(text(await kubeconfig(asked.params.name, userOf(asked)), 'application/yaml')),
  ),
  operation(
    'POST /v1/clusters/:name/credential',
    {
      access: 'administer',
      takes: 'role',
      summary: 'Makes an admin certificate for an hour, as kubectl fetches it by itself; it is secret.',
      query: z.strictObject({ user }),
      answer: z.strictObject({
        user: z.string(),
        certificate: z.string(),
        key: z.string(),
        until: time,
      }),
    },
    async (asked, { userCredential }: Pick<CredentialDeps, 'userCredential'>) => {
      const { until, ...made } = await userCredential(asked.params.name, userOf(asked));
      return { ...made, until: timestamp(until) };
    },
  ),
  operation(
    'GET /v1/clusters/:name/endpoint',
    {
      access: 'view',
      summary: "Shows where a cluster's API is, and its CAs.",
      answer: z.strictObject({ cluster: z.string(), server: z.string(), ca: z.string() }),
    },
    ({ params }, { endpoint }: Pick<CredentialDeps, 'endpoint'>) => endpoint(params.name),
  ),
  operation(
    'POST /v1/clusters/:name/etcd-client',
    {
      access: 'administer',
      takes: 'proof',
      summary: "Makes a client certificate for a cluster's etcd for a working day; it is secret.",
      query: z.strictObject({ user }),
      answer: z.strictObject({
        cluster: z.string(),
        members: z.array(z.strictObject({ name: z.string(), url: z.string() })),
        ca: z.string(),
        certificate: z.string(),
        key: z.string(),
      }),
    },
    async (asked, { etcdClient }: Pick<CredentialDeps, 'etcdClient'>) =>
      etcdClient(asked.params.name, userOf(asked)),
  ),
] as const;
