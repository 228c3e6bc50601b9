/**
 * Probes the network between pods: a pod on each of several nodes asks the cluster's DNS for the
 * API's Service and connects to that Service. The result is the pod's termination message, so it
 * can be read from the API without fetching logs.
 */

import type { Clock } from '../../base/clock.ts';
import { duration } from '../../base/duration.ts';
import { messageOf } from '../../base/error-text.ts';
import { fieldsOf, listOf, textOf } from '../../base/foreign-json.ts';
import { type Kube, KubeRefusal } from '../kube.ts';
import type { ResolvedCluster } from '../model/resolved-cluster.ts';

const NAMESPACE = '/api/v1/namespaces/kube-system/pods';
const LABEL = ['app.kubernetes.io/name', 'muster-probe'] as const;
/**
 * Selects pods of earlier probes that ran out of time. Pods that succeeded are not selected,
 * because another probe may still read them.
 */
const LEFT_BEHIND = `${NAMESPACE}?${new URLSearchParams({ labelSelector: LABEL.join('='), fieldSelector: 'status.phase=Failed' })}`;
/** The most pods of one probe; in a larger cluster, nodes from all parts of the list are chosen. */
const AT_MOST = 16;
/** How long pods may take, including the pull of the image. */
const PATIENCE = duration('90s');
const LOOK_EVERY = duration('1s');

export interface Probed {
  readonly node: string;
  /** `ok` or an error; absent when the pod did not end. */
  readonly dns?: string;
  /** `ok` or an error; absent when the pod did not end. */
  readonly service?: string;
  /** Why the pod did not end. */
  readonly says?: string;
}

interface ProbeOf {
  readonly resolved: ResolvedCluster;
  readonly kube: Kube;
  readonly clock: Clock;
  readonly nodes: readonly string[];
  /** An image with a shell, nslookup and nc. */
  readonly image: string;
  /** Random lower-case letters and digits, used in the pods' names. */
  readonly id: string;
  readonly signal: AbortSignal;
}

/** The result of a check that succeeded. */
const OK = 'ok';

/**
 * The script of a probe pod. It matches the output of several kinds of nslookup: `Address:
 * 10.96.0.1`, `Address 1: 10.96.0.1 kubernetes…`. The line with the DNS server's address does not
 * match, because it has a port or another address. The check of the Service does not use `nc -z`,
 * which Debian's busybox lacks. It sends plain HTTP; an API server refuses that and closes the
 * connection.
 */
export function probeScript({ dnsDomain, serviceAddresses }: ResolvedCluster): string {
  const [api] = serviceAddresses.kubernetes;
  const [dns] = serviceAddresses.dns;
  const name = `kubernetes.default.svc.${dnsDomain}`;
  const pattern = `^Address.*[ \t]${api!.replaceAll('.', '[.]')}($|[ \t])`;
  return `exec 2>&1 >/dev/termination-log
said=$(nslookup ${name}. ${dns} 2>&1)
if echo "$said" | grep -Eq '${pattern}'; then echo dns=${OK}; else echo dns=$(echo "$said" | head -c 300); fi
said=$(printf 'GET / HTTP/1.0\\r\\n\\r\\n' | nc -w 5 ${api} 443 2>&1) && [ -n "$said" ] && said=${OK}
echo service=\${said:-no answer from ${api} port 443}
`;
}

/** The Pod object of the probe on `node`; `n` makes its name unique within the probe. */
export function probePod(of: Pick<ProbeOf, 'resolved' | 'image' | 'id'>, node: string, n: number): object {
  return {
    apiVersion: 'v1',
    kind: 'Pod',
    metadata: { name: `muster-probe-${of.id}-${n}`, labels: Object.fromEntries([LABEL]) },
    spec: {
      nodeName: node,
      restartPolicy: 'Never',
      activeDeadlineSeconds: PATIENCE / 1000,
      terminationGracePeriodSeconds: 0,
      automountServiceAccountToken: false,
      tolerations: [{ operator: 'Exists' }],
      containers: [
        {
          name: 'probe',
          image: of.image,
          command: ['/bin/sh', '-c', probeScript(of.resolved)],
          resources: { requests: { cpu: '10m', memory: '16Mi' } },
        },
      ],
    },
  };
}

/**
 * Makes the pods, waits for them, and deletes them together with leftovers of earlier probes. Never
 * rejects.
 */
export async function probe(of: ProbeOf): Promise<readonly Probed[]> {
  const { nodes } = of;
  const step = Math.max(1, nodes.length / AT_MOST);
  const chosen = nodes
    .filter((_, n) => Math.floor(n / step) !== Math.floor((n - 1) / step))
    .slice(0, AT_MOST);
  await of.kube(LEFT_BEHIND, { method: 'DELETE' }).catch(() => undefined);
  return Promise.all(
    chosen.map(async (node, n) => {
      const path = `${NAMESPACE}/muster-probe-${of.id}-${n}`;
      const found = await probeOne(of, { node, path, pod: probePod(of, node, n) });
      // A pod that cannot be deleted now ends at its deadline, and the next probe deletes it.
      await of.kube(path, { method: 'DELETE' }).catch(() => undefined);
      return found;
    }),
  );
}

/** Makes the pod. It may exist already when the answer to an earlier request was lost. */
async function make(kube: Kube, pod: object): Promise<void> {
  try {
    await kube(NAMESPACE, { method: 'POST', body: pod });
  } catch (error) {
    if (!(error instanceof KubeRefusal) || error.status !== 409) throw error;
  }
}

/**
 * Whether a retry is useless. It is not useless after a timeout, an overload or a fault of the API
 * server.
 */
const isFinal = (error: unknown): boolean =>
  error instanceof KubeRefusal && error.status < 500 && error.status !== 429;

async function probeOne(
  { kube, clock, signal }: ProbeOf,
  { node, path, pod }: { readonly node: string; readonly path: string; readonly pod: object },
): Promise<Probed> {
  const end = clock.monotonic() + PATIENCE;
  let made = false;
  for (let says = ''; ; ) {
    try {
      if (!made) await make(kube, pod);
      made = true;
      const status = fieldsOf(fieldsOf((await kube(path)).body).status);
      const found = ended(node, status);
      if (found) return found;
      says = waitsFor(status);
    } catch (error) {
      says = messageOf(error);
      if (isFinal(error)) return { node, says };
    }
    if (clock.monotonic() > end || signal.aborted) return { node, says };
    await new Promise<void>((next) => clock.after(LOOK_EVERY, next));
  }
}

function ended(node: string, status: ReturnType<typeof fieldsOf>): Probed | undefined {
  if (status.phase !== 'Succeeded' && status.phase !== 'Failed') return undefined;
  const container = fieldsOf(listOf(status.containerStatuses)[0]);
  const message = textOf(fieldsOf(fieldsOf(container.state).terminated).message);
  const word = (name: string): string | undefined => new RegExp(`^${name}=(.*)$`, 'm').exec(message)?.[1];
  const [dns, service] = [word('dns'), word('service')];
  if (dns === undefined || service === undefined)
    return { node, says: message || textOf(status.message) || 'its pod ended without a result' };
  return { node, dns, service };
}

function waitsFor(status: ReturnType<typeof fieldsOf>): string {
  const container = fieldsOf(listOf(status.containerStatuses)[0]);
  const { reason, message } = fieldsOf(fieldsOf(container.state).waiting);
  return `its pod did not end within ${PATIENCE / 1000} s: ${[reason, message].map(textOf).filter(Boolean).join(': ') || textOf(status.phase) || 'unknown'}`;
}

/** Whether the pod reached both DNS and the Service. */
export const isGood = ({ dns, service }: Probed): boolean => dns === OK && service === OK;
