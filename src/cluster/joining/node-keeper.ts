/**
 * The node keeper: writes the labels and taints of a Cluster to nodes that have registered,
 * including labels that a kubelet may not set itself. They are written once, and again when the
 * Cluster changes them. Changes by `kubectl label` and `kubectl taint` in between are kept.
 */
import { z } from 'zod';
import { duration } from '../../base/duration.ts';
import { parsed } from '../../base/foreign-json.ts';
import type { EventSink } from '../../events/event.ts';
import type { NodeFact } from '../../resources/node-facts.ts';
import { KEYS } from '../../store/keys.ts';
import type { Store } from '../../store/store.ts';
import type { NodeSettings } from '../components/nodes.ts';
import { firstReady, type Kube, KubeRefusal } from '../kube.ts';
import {
  addressOf,
  type ClusterMachine,
  CONTROL_PLANE_TAINT,
  NO_BALANCERS,
  type ResolvedCluster,
  withRole,
} from '../model/resolved-cluster.ts';
import { nodeChange, sameSettings } from './node-settings.ts';
import { type Look, type Rounds, type RoundsDeps, startRounds } from './rounds.ts';

interface NodeKeeperDeps extends RoundsDeps {
  readonly kubes: (cluster: string, address: string) => Kube;
  readonly store: Store;
  readonly events: EventSink;
  /** The value of a label that is a fact of a machine; undefined while it is not known. */
  readonly factOf: (machine: string, fact: NodeFact) => string | undefined;
}

/**
 * The interval between two rounds, so that operators see a changed document on the nodes within a
 * minute.
 */
const EVERY = duration('20s');

/**
 * The record `nodes/CLUSTER/MACHINE` in the store: the labels and taints that the node last got.
 */
const record = z.strictObject({
  v: z.literal(1),
  /** The id of etcd's founding; after another founding all nodes are new. */
  founding: z.string(),
  labels: z.record(z.string(), z.string()),
  taints: z.array(z.strictObject({ key: z.string(), value: z.string().optional(), effect: z.string() })),
  /** Whether the node was that of a control plane that is a worker too. */
  schedulable: z.boolean().optional(),
});

type Settings = Pick<ClusterMachine, 'labels' | 'taints' | 'schedulable'>;

/**
 * What a control plane's node has besides the settings of the document, where it is or was a worker
 * too: the taint and the label that other control planes have.
 */
const withRoleSettings = ({ labels, taints = [] }: Settings): NodeSettings => ({
  labels: { ...labels, [NO_BALANCERS]: '' },
  taints: [...taints, CONTROL_PLANE_TAINT],
});

const isDue = (machine: ClusterMachine, before: Settings): boolean =>
  !sameSettings(machine, before) || (machine.schedulable ?? false) !== (before.schedulable ?? false);

/** What is kept of a cluster between two rounds. */
interface Kept {
  /** Machines for which an event about a refusal of the API was already recorded. */
  readonly noted: Set<string>;
  /** The specification and the founding for which all nodes are done. */
  settled?: { readonly resolved: ResolvedCluster; readonly founding: string };
}

type Place = Look<Kept>;

/** Writes labels and taints from now on, until it is closed. */
export const startNodeKeeper = (deps: NodeKeeperDeps): Rounds =>
  startRounds<Kept>(
    deps,
    { every: EVERY, what: 'labels and taints of nodes', begin: () => ({ noted: new Set() }) },
    (place) => oneRound(deps, place),
  );

/** Writes what the nodes of a cluster lack. Rejects when no control plane answers. */
async function oneRound(deps: NodeKeeperDeps, place: Place): Promise<void> {
  const { resolved, founding, state, signal } = place;
  if (state.settled?.resolved === resolved && state.settled.founding === founding) return;
  const given = await givenBefore(deps, place);
  const machines = resolved.machines.map((machine) => withFacts(deps, machine));
  const due = machines.filter(
    (machine) =>
      machine.roles.some((role) => role !== 'etcd') && isDue(machine, given.get(machine.name) ?? {}),
  );
  if (due.length === 0) {
    // Facts can change without the document.
    if (machines.every(({ factLabels }) => factLabels === undefined)) state.settled = { resolved, founding };
    return;
  }
  const controlPlanes = withRole(resolved, 'control-plane');
  const kube = await firstReady(controlPlanes.map((one) => deps.kubes(resolved.name, addressOf(one))));
  for (const machine of due) {
    if (signal.aborted) return;
    await settle(deps, place, kube, machine, given.get(machine.name) ?? {});
  }
}

/** The machine with the labels whose values are its facts. */
function withFacts({ factOf }: NodeKeeperDeps, machine: ClusterMachine): ClusterMachine {
  const { name, labels, factLabels } = machine;
  if (factLabels === undefined) return machine;
  const known = Object.entries(factLabels).flatMap(([key, fact]) => {
    const value = factOf(name, fact);
    return value === undefined ? [] : [[key, value] as const];
  });
  return { ...machine, labels: { ...Object.fromEntries(known), ...labels } };
}

/**
 * Machine → the settings that its node got before. Deletes records of machines that left the
 * cluster and of earlier foundings.
 */
async function givenBefore(
  { store, log }: NodeKeeperDeps,
  { resolved, founding }: Place,
): Promise<ReadonlyMap<string, Settings>> {
  const given = new Map<string, Settings>();
  const machines = new Set(resolved.machines.map(({ name }) => name));
  for (const { key, value } of (await store.list(KEYS.node.prefix(resolved.name))).records) {
    const [, name] = KEYS.node.parse(key)!;
    const read = record.safeParse(parsed(value));
    if (!read.success) log.warn({ key }, 'a stored record cannot be read and is skipped');
    else if (machines.has(name) && read.data.founding === founding) given.set(name, read.data as Settings);
    else await store.commit([{ key, delete: true }]);
  }
  return given;
}

/**
 * Writes the labels and taints that a node lacks. A node that has not registered, or that was
 * changed concurrently, is tried again in the next round.
 */
async function settle(
  { store, events }: NodeKeeperDeps,
  { resolved, founding, state: { noted } }: Place,
  kube: Kube,
  machine: ClusterMachine,
  before: Settings,
): Promise<void> {
  const { name, labels = {}, taints = [], schedulable } = machine;
  const say = (code: 'document' | 'refused', text: string): void =>
    events.record({
      kind: 'cluster.node-settings',
      subject: name,
      reason: { code, text },
      fields: { cluster: resolved.name },
    });
  try {
    const node = await readNode(kube, machine);
    if (node === undefined) return;
    const says = await written(kube, node, machine, before);
    noted.delete(name);
    const value: z.output<typeof record> = { v: 1, founding, labels, taints: [...taints], schedulable };
    await store.commit([{ key: KEYS.node.key(resolved.name, name), put: JSON.stringify(value) }]);
    if (says.length > 0) say('document', says.join(', '));
  } catch (error) {
    if (!(error instanceof KubeRefusal)) throw error;
    if (error.status === 404 || error.status === 409 || noted.has(name)) return;
    noted.add(name);
    say('refused', `the API refuses its labels and taints: ${error.message}`);
  }
}

const nodePath = ({ name }: ClusterMachine): string => `/api/v1/nodes/${encodeURIComponent(name)}`;

/** The machine's Node; undefined until a control plane has written Muster's permissions. */
async function readNode(kube: Kube, machine: ClusterMachine): Promise<unknown> {
  try {
    return (await kube(nodePath(machine))).body;
  } catch (error) {
    if (error instanceof KubeRefusal && error.status === 403) return undefined;
    throw error;
  }
}

/** Writes the change that a node needs; resolves with its description. */
async function written(
  kube: Kube,
  node: unknown,
  machine: ClusterMachine,
  before: Settings,
): Promise<readonly string[]> {
  const path = nodePath(machine);
  const differs = (machine.schedulable ?? false) !== (before.schedulable ?? false);
  const change = nodeChange(
    node,
    differs && machine.schedulable ? withRoleSettings(before) : before,
    differs && before.schedulable ? withRoleSettings(machine) : machine,
  );
  if (change)
    await kube(path, { method: 'PATCH', body: change.patch, contentType: 'application/merge-patch+json' });
  return change?.says ?? [];
}
