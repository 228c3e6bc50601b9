/**
 * Keeps machines in quarantine out of their cluster's API: their Nodes are cordoned, an admission
 * policy refuses what their kubelets write, and their pods are deleted where the operator confirmed
 * it, so that the Node authorizer grants a stolen kubelet certificate nothing. It stores nothing:
 * what was done is read from the API, and a release undoes it.
 */
import { duration } from '../../base/duration.ts';
import { fieldsOf, listOf, textOf } from '../../base/foreign-json.ts';
import { firstReady, ifThere, type Kube } from '../kube.ts';
import { addressOf, withRole } from '../model/resolved-cluster.ts';
import { QUARANTINE_POLICY, quarantineBinding, quarantinePolicy } from '../objects/quarantine.ts';
import { type Look, type Rounds, type RoundsDeps, startRounds } from './rounds.ts';

/** What the keeper has to know of a machine in quarantine. */
export interface Quarantined {
  /** Whether its pods are deleted. */
  readonly deletePods: boolean;
}

interface QuarantineKeeperDeps extends RoundsDeps {
  readonly kubes: (cluster: string, address: string) => Kube;
  /** Undefined for a machine that is not in quarantine. */
  readonly quarantined: (machine: string) => Quarantined | undefined;
}

const EVERY = duration('5s');

/** Marks a Node that was cordoned for its quarantine, so that only that is undone. */
export const QUARANTINE_ANNOTATION = 'muster.dev/quarantined';

/** What is kept of a cluster between two rounds. */
interface Kept {
  /** The machines of the last policy that was written; undefined: it is not known. */
  policy?: string;
}

const ADMISSION = '/apis/admissionregistration.k8s.io/v1';
const MERGE = 'application/merge-patch+json';

/** Works from now on, until it is closed. */
export const startQuarantineKeeper = (deps: QuarantineKeeperDeps): Rounds =>
  startRounds<Kept>(deps, { every: EVERY, what: 'machines in quarantine', begin: () => ({}) }, (place) =>
    oneRound(deps, place),
  );

/** Does what is due in one cluster. Rejects when no control plane answers. */
async function oneRound(deps: QuarantineKeeperDeps, { resolved, state }: Look<Kept>): Promise<void> {
  const nodes = resolved.machines.filter(({ roles }) => roles.some((role) => role !== 'etcd'));
  const held = nodes.flatMap(({ name }) => {
    const found = deps.quarantined(name);
    return found ? [{ name, ...found }] : [];
  });
  const policy = held.map(({ name }) => name).join(' ');
  if (held.length === 0 && state.policy === '') return;
  // A machine in quarantine is not asked: somebody else may answer in its place.
  const own = withRole(resolved, 'control-plane').filter(({ name }) => !deps.quarantined(name));
  const kube = await firstReady(own.map((one) => deps.kubes(resolved.name, addressOf(one))));
  if (state.policy !== policy) await writePolicy(kube, policy === '' ? [] : policy.split(' '));
  for (const { name, deletePods } of held) {
    await cordon(kube, name);
    if (deletePods) await deletePodsOf(kube, name);
  }
  if (state.policy !== policy) await uncordonReleased(kube, new Set(held.map(({ name }) => name)));
  state.policy = policy;
}

/** Writes policy and binding for these machines; without any, deletes both. */
async function writePolicy(kube: Kube, machines: readonly string[]): Promise<void> {
  const paths = {
    policy: `${ADMISSION}/validatingadmissionpolicies/${QUARANTINE_POLICY}`,
    binding: `${ADMISSION}/validatingadmissionpolicybindings/${QUARANTINE_POLICY}`,
  };
  if (machines.length === 0) {
    await kube(paths.binding, { method: 'DELETE' }).catch(ifThere);
    await kube(paths.policy, { method: 'DELETE' }).catch(ifThere);
    return;
  }
  const query = '?fieldManager=muster&force=true';
  const contentType = 'application/apply-patch+yaml';
  const policy = quarantinePolicy(machines);
  const written = await kube(paths.policy + query, { method: 'PATCH', body: policy, contentType }).catch(
    ifThere,
  );
  // Kubernetes before 1.30 has no such policies; everything else is done there all the same.
  if (written === undefined) return;
  await kube(paths.binding + query, { method: 'PATCH', body: quarantineBinding(), contentType });
}

const nodePath = (name: string): string => `/api/v1/nodes/${encodeURIComponent(name)}`;

async function cordon(kube: Kube, name: string): Promise<void> {
  const found = await kube(nodePath(name)).catch(ifThere);
  if (found === undefined || fieldsOf(fieldsOf(found.body).spec).unschedulable === true) return;
  const body = {
    metadata: { annotations: { [QUARANTINE_ANNOTATION]: 'true' } },
    spec: { unschedulable: true },
  };
  await kube(nodePath(name), { method: 'PATCH', body, contentType: MERGE });
}

/**
 * Deletes all pods of a node at once: no kubelet that may say so confirms their end. Mirror pods of
 * static pods are deleted too, because each grants its node what it refers to.
 */
async function deletePodsOf(kube: Kube, name: string): Promise<void> {
  const { body } = await kube(`/api/v1/pods?fieldSelector=spec.nodeName%3D${encodeURIComponent(name)}`);
  for (const pod of listOf(fieldsOf(body).items)) {
    const metadata = fieldsOf(fieldsOf(pod).metadata);
    const [namespace, own] = [textOf(metadata.namespace), textOf(metadata.name)].map(encodeURIComponent);
    const at = `/api/v1/namespaces/${namespace}/pods/${own}`;
    await kube(`${at}?gracePeriodSeconds=0`, { method: 'DELETE' }).catch(ifThere);
  }
}

/** Makes Nodes schedulable again that were cordoned for a quarantine which is over. */
async function uncordonReleased(kube: Kube, held: ReadonlySet<string>): Promise<void> {
  const { body } = await kube('/api/v1/nodes');
  for (const node of listOf(fieldsOf(body).items)) {
    const metadata = fieldsOf(fieldsOf(node).metadata);
    const name = textOf(metadata.name);
    if (held.has(name) || fieldsOf(metadata.annotations)[QUARANTINE_ANNOTATION] === undefined) continue;
    const undone = {
      metadata: { annotations: { [QUARANTINE_ANNOTATION]: null } },
      spec: { unschedulable: null },
    };
    await kube(nodePath(name), { method: 'PATCH', body: undone, contentType: MERGE });
  }
}
