/**
 * Observes a cluster's API servers from the boot host: their versions and health, and the nodes,
 * leases and requests for certificates in the API. Nothing is judged here, and a server that does
 * not answer does not stop the rest.
 */
import { expectedText } from '../../base/error-text.ts';
import { fieldsOf, listOf, textOf } from '../../base/foreign-json.ts';
import { readSigningRequest } from '../joining/request.ts';
import type { Kube } from '../kube.ts';
import { addressOf, type ClusterMachine, type ResolvedCluster, withRole } from '../model/resolved-cluster.ts';

export interface ApiServerSeen {
  readonly machine: string;
  /** `gitVersion`; absent when the API server does not answer. */
  readonly version?: string;
  readonly ready: boolean;
  /** Why the API server is not ready. */
  readonly says?: string;
}

export interface NodeSeen {
  readonly name: string;
  readonly ready: boolean;
  /** The message of the node's condition Ready. */
  readonly says: string;
  readonly version: string;
  readonly cordoned: boolean;
  /** The id of the change that made it unschedulable; absent: none did. */
  readonly cordonedBy?: string;
  /** Ms since the node's lease was renewed, by the API server's clock; absent without a lease. */
  readonly leaseAge?: number;
}

interface LeaseSeen {
  readonly name: string;
  readonly holder: string;
  /** Ms since the lease was renewed, by the API server's clock. */
  readonly age: number;
}

export interface RequestSeen {
  readonly name: string;
  readonly signer: string;
  /** The user that made the request. */
  readonly by: string;
  /** Ms since the request was made, by the API server's clock. */
  readonly age: number;
}

/** What one API server that is ready reports. */
export interface ApiSeen {
  readonly by: string;
  readonly nodes: readonly NodeSeen[];
  /** The leases of kube-controller-manager and kube-scheduler, if they exist. */
  readonly leaders: readonly LeaseSeen[];
  /** Requests for certificates that nobody has approved or denied. */
  readonly pending: readonly RequestSeen[];
}

export interface KubernetesSeen {
  readonly apiservers: readonly ApiServerSeen[];
  /**
   * Absent when no API server is ready; the text of an error when the API server failed while it
   * was read.
   */
  readonly api?: ApiSeen | string;
}

/** Marks a node that a change made unschedulable, as opposed to an operator. */
export const CORDONED = 'muster/cordoned-by';

const LEADERS = ['kube-controller-manager', 'kube-scheduler'] as const;

/**
 * Asks every control plane for its health, and one that is ready for everything else. Never
 * rejects.
 */
export async function observeKubernetes(
  resolved: ResolvedCluster,
  kubeOf: (machine: ClusterMachine) => Kube,
): Promise<KubernetesSeen> {
  const all = withRole(resolved, 'control-plane').map((machine) => ({ machine, kube: kubeOf(machine) }));
  const apiservers = await Promise.all(all.map(({ machine, kube }) => apiserver(machine, kube)));
  const n = apiservers.findIndex(({ ready }) => ready);
  if (n < 0) return { apiservers };
  const { machine, kube } = all[n]!;
  const api = await observeApi(machine.name, kube).catch(
    (error: unknown) => `${machine.name}: ${expectedText(error)}`,
  );
  return { apiservers, api };
}

async function apiserver(machine: ClusterMachine, kube: Kube): Promise<ApiServerSeen> {
  const name = machine.name;
  try {
    const version = textOf(fieldsOf((await kube('/version')).body).gitVersion);
    const says = await kube('/readyz').then(
      () => undefined,
      (error: unknown) => failedChecks(expectedText(error)),
    );
    return { machine: name, version, ready: says === undefined, ...(says === undefined ? {} : { says }) };
  } catch (error) {
    return { machine: name, ready: false, says: `${addressOf(machine)}: ${expectedText(error)}` };
  }
}

/** The failed checks in the text of `/readyz`, or the beginning of a text that lists no checks. */
function failedChecks(text: string): string {
  const failed = text.split('\n').filter((line) => line.startsWith('[-]'));
  return failed.length > 0 ? failed.map((line) => line.slice(3)).join(', ') : text.slice(0, 200);
}

async function observeApi(by: string, kube: Kube): Promise<ApiSeen> {
  const items = async (path: string) => {
    const { body, date } = await kube(path);
    return { items: listOf(fieldsOf(body).items).map(fieldsOf), date };
  };
  const [nodes, leases, leaders, requests] = await Promise.all([
    items('/api/v1/nodes'),
    items('/apis/coordination.k8s.io/v1/namespaces/kube-node-lease/leases'),
    items('/apis/coordination.k8s.io/v1/namespaces/kube-system/leases'),
    items('/apis/certificates.k8s.io/v1/certificatesigningrequests'),
  ]);
  const renewed = new Map(leases.items.map((lease) => [nameOf(lease), leaseOf(lease, leases.date)]));
  return {
    by,
    nodes: nodes.items.map((node) => nodeOf(node, renewed.get(nameOf(node))?.age)),
    leaders: leaders.items
      .filter((lease) => LEADERS.some((name) => name === nameOf(lease)))
      .map((lease) => leaseOf(lease, leaders.date)),
    pending: requests.items
      .map(readSigningRequest)
      .filter(({ state }) => state === 'pending')
      .map(({ name, signer, username, createdAt }) => ({
        ...{ name, signer, by: username, age: requests.date - createdAt },
      })),
  };
}

type Fields = ReturnType<typeof fieldsOf>;
const nameOf = (object: Fields): string => textOf(fieldsOf(object.metadata).name);

function nodeOf(node: Fields, leaseAge: number | undefined): NodeSeen {
  const status = fieldsOf(node.status);
  const cordonedBy = textOf(fieldsOf(fieldsOf(node.metadata).annotations)[CORDONED]);
  const ready = listOf(status.conditions)
    .map(fieldsOf)
    .find(({ type }) => type === 'Ready');
  return {
    name: nameOf(node),
    ready: ready?.status === 'True',
    says: textOf(ready?.message) || textOf(ready?.reason) || 'it has not reported that it is ready',
    version: textOf(fieldsOf(status.nodeInfo).kubeletVersion),
    cordoned: fieldsOf(node.spec).unschedulable === true,
    ...(cordonedBy !== '' && { cordonedBy }),
    ...(leaseAge === undefined ? {} : { leaseAge }),
  };
}

function leaseOf(lease: Fields, now: number): LeaseSeen {
  const spec = fieldsOf(lease.spec);
  return {
    name: nameOf(lease),
    // The holder is `cp1_UUID`, and every process has another UUID.
    holder: textOf(spec.holderIdentity).split('_')[0]!,
    age: now - Date.parse(textOf(spec.renewTime)),
  };
}
