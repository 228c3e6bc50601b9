/**
 * Who may ask an API server for its health. Balancers, keepalived and agents ask /readyz, and
 * kubelet's probes ask /livez and /readyz. Where anonymous requests are refused they ask with a
 * client certificate; kubelet's probes cannot, so they look at the port alone.
 */
import { LEAVES } from '../../pki/hierarchy.ts';
import { API_PORT } from '../model/ports.ts';
import type { ResolvedCluster } from '../model/resolved-cluster.ts';

/** The paths that are asked. */
const HEALTH_PATHS = ['/livez', '/readyz'] as const;

/** Go's strconv.ParseBool, for values that are false. */
const FALSE = /^(0|f|F|false|FALSE|False)$/;

type Answering = Pick<ResolvedCluster, 'flags' | 'apiServer'>;

/** Whether API servers answer {@link HEALTH_PATHS} to requests without a credential. */
export function answersAnonymous({ flags, apiServer }: Answering): boolean {
  const anonymous = apiServer?.authentication?.anonymous;
  if (anonymous !== undefined) {
    const paths = anonymous.conditions?.map(({ path }) => path);
    return anonymous.enabled && (paths === undefined || HEALTH_PATHS.every((one) => paths.includes(one)));
  }
  const given = [flags['kube-apiserver']['anonymous-auth'] ?? 'true'].flat().at(-1)!;
  return !FALSE.test(given);
}

/** The certificate and key with which a machine asks, in one file that only root can read. */
export const HEALTH_CLIENT = LEAVES.health.delivery;

/** The file with which a machine asks; undefined where it needs none. */
export const healthClient = (resolved: Answering): string | undefined =>
  answersAnonymous(resolved) ? undefined : HEALTH_CLIENT.path;

/** curl's options for a question with that file. */
export const curlOptions = (resolved: Answering): string => {
  const file = healthClient(resolved);
  return file === undefined ? '' : ` --cert ${file} --key ${file}`;
};

/** What a probe of kubelet asks an API server at `host`. */
export const apiserverQuestion = (
  resolved: Answering,
  host: string,
  path: (typeof HEALTH_PATHS)[number],
  port: string | number = API_PORT,
) =>
  answersAnonymous(resolved)
    ? { httpGet: { host, path, port, scheme: 'HTTPS' as const } }
    : { tcpSocket: { host, port } };
