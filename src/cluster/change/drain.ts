/** Takes a node out of the cluster's API: cordons it, evicts its pods, deletes its object. */
import { fieldsOf, listOf, textOf } from '../../base/foreign-json.ts';
import { hasCondition, ifThere, type Kube, KubeRefusal } from '../kube.ts';

type Fields = ReturnType<typeof fieldsOf>;

interface Drained {
  /** Pods that are still on the node, `NAMESPACE/NAME`. */
  readonly left: readonly string[];
  /** The pods of `left` that a PodDisruptionBudget protects now. */
  readonly kept: readonly string[];
}

const DONE: Drained = { left: [], kept: [] };

const is = (error: unknown, status: number): boolean =>
  error instanceof KubeRefusal && error.status === status;

const nodePath = (node: string): string => `/api/v1/nodes/${encodeURIComponent(node)}`;

/**
 * One round: cordons the node and requests the eviction of every pod that is still there. A pod
 * counts as gone when the API no longer has it, or when it is terminating on a node that does not
 * answer, where no kubelet would confirm its end. Pods of DaemonSets and static pods are not
 * evicted.
 */
export async function drain(kube: Kube, node: string): Promise<Drained> {
  const found = await kube(nodePath(node)).catch(ifThere);
  if (found === undefined) return DONE;
  if (fieldsOf(fieldsOf(found.body).spec).unschedulable !== true)
    await kube(nodePath(node), {
      method: 'PATCH',
      body: { spec: { unschedulable: true } },
      contentType: 'application/merge-patch+json',
    });
  const answers = hasCondition(fieldsOf(found.body).status, 'Ready');
  const { body } = await kube(`/api/v1/pods?fieldSelector=spec.nodeName%3D${encodeURIComponent(node)}`);
  const pods = listOf(fieldsOf(body).items).map(fieldsOf).filter(isEvicted);
  const rounds = await Promise.all(
    pods.map(async (pod) => {
      const { namespace, name, deletionTimestamp } = fieldsOf(pod.metadata);
      const id = `${textOf(namespace)}/${textOf(name)}`;
      if (deletionTimestamp !== undefined) return answers ? { id, kept: false } : undefined;
      return { id, kept: await isKept(kube, textOf(namespace), textOf(name)) };
    }),
  );
  const left = rounds.filter((one) => one !== undefined);
  return { left: left.map(({ id }) => id), kept: left.filter(({ kept }) => kept).map(({ id }) => id) };
}

/** Requests an eviction. Resolves with whether a PodDisruptionBudget prevents it. */
async function isKept(kube: Kube, namespace: string, name: string): Promise<boolean> {
  try {
    await kube(`/api/v1/namespaces/${namespace}/pods/${name}/eviction`, {
      method: 'POST',
      body: { apiVersion: 'policy/v1', kind: 'Eviction', metadata: { namespace, name } },
    });
    return false;
  } catch (error) {
    if (is(error, 429)) return true;
    if (is(error, 404)) return false;
    throw error;
  }
}

/** Whether the pod has to be evicted, by the same rules as `kubectl drain`. */
function isEvicted(pod: Fields): boolean {
  const metadata = fieldsOf(pod.metadata);
  const phase = fieldsOf(pod.status).phase;
  const isMirror = fieldsOf(metadata.annotations)['kubernetes.io/config.mirror'] !== undefined;
  const ofDaemonSet = listOf(metadata.ownerReferences)
    .map(fieldsOf)
    .some(({ kind, controller }) => kind === 'DaemonSet' && controller === true);
  return !isMirror && !ofDaemonSet && phase !== 'Succeeded' && phase !== 'Failed';
}

/** Deletes the Node object; succeeds when there is no such object. */
export async function deleteNode(kube: Kube, node: string): Promise<void> {
  await kube(nodePath(node), { method: 'DELETE' }).catch(ifThere);
}
