/**
 * Labels and taints of nodes that have registered, and labels that no kubelet may give: what a Cluster says of them is written once, and again
 * when it says something else. In between they are everybody's: what `kubectl label` and `kubectl taint` change stays.
 */
import { z } from 'zod';
import { type Clock, pause } from '../../base/clock.ts';
import { duration } from '../../base/duration.ts';
import { parsed } from '../../base/foreign-json.ts';
import type { Log } from '../../base/log.ts';
import type { EventSink } from '../../events/event.ts';
import type { Store } from '../../store/store.ts';
import type { Completions } from '../completed.ts';
import type { Founder } from '../founding/founder.ts';
import { addressOf, type ClusterMachine, type FullCluster, withRole } from '../full.ts';
import { firstReady, type Kube, KubeRefusal } from '../health/kube.ts';
import type { NodeSettings } from '../nodes.ts';
import { nodeChange, sameSettings } from './node-settings.ts';

export interface NodeKeeperDeps {
  readonly founder: Pick<Founder, 'records'>;
  readonly completions: Pick<Completions, 'get'>;
  readonly kubes: (cluster: string, address: string) => Kube;
  readonly store: Store;
  readonly events: EventSink;
  readonly clock: Clock;
  readonly log: Log;
}

export interface NodeKeeper {
  close(): Promise<void>;
}

/** Who changed a document looks after a minute. */
const EVERY = duration('20s');

/** `nodes/CLUSTER/MACHINE` in the store: what its node was given last. */
const record = z.strictObject({
  v: z.literal(1),
  /** The id of etcd's founding: nodes of another one are other nodes. */
  founding: z.string(),
  labels: z.record(z.string(), z.string()),
  taints: z.array(z.strictObject({ key: z.string(), value: z.string().optional(), effect: z.string() })),
});

const PREFIX = 'nodes/';

/** Watches from now on, until it is closed. */
export function startNodeKeeper(deps: NodeKeeperDeps): NodeKeeper {
  const { founder, completions, clock, log } = deps;
  const stopping = new AbortController();
  const running = new Map<string, Promise<void>>();
  /** Machines of which it was said already that they refuse. */
  const told = new Set<string>();

  const look = (cluster: string, founding: string): void => {
    const full = completions.get(cluster)?.full;
    if (full === undefined || running.has(cluster)) return;
    const round = oneRound(deps, { full, founding, told }, stopping.signal)
      .catch((error: unknown) => log.debug({ err: error, cluster }, 'labels and taints of nodes'))
      .finally(() => running.delete(cluster));
    running.set(cluster, round);
  };

  const loop = async (): Promise<void> => {
    while (!stopping.signal.aborted) {
      for (const { cluster, id, founded, reset } of founder.records())
        if (founded && !reset) look(cluster, id);
      await pause(clock, EVERY, stopping.signal);
    }
  };
  const looping = loop();

  return {
    async close() {
      stopping.abort();
      await looping;
      await Promise.all(running.values());
    },
  };
}

interface Place {
  readonly full: FullCluster;
  readonly founding: string;
  readonly told: Set<string>;
}

/** Rejects when no control plane answers. */
async function oneRound(deps: NodeKeeperDeps, place: Place, signal: AbortSignal): Promise<void> {
  const { full } = place;
  const given = await givenBefore(deps, place);
  const due = full.machines.filter(
    (machine) =>
      machine.roles.some((role) => role !== 'etcd') && !sameSettings(machine, given.get(machine.name) ?? {}),
  );
  if (due.length === 0) return;
  const controlPlanes = withRole(full, 'control-plane');
  const kube = await firstReady(controlPlanes.map((one) => deps.kubes(full.name, addressOf(one))));
  for (const machine of due) {
    if (signal.aborted) return;
    await settle(deps, place, kube, machine, given.get(machine.name) ?? {});
  }
}

/** By machine; records of machines that left the cluster, and of an earlier founding, are taken out. */
async function givenBefore(
  { store, log }: NodeKeeperDeps,
  { full, founding }: Place,
): Promise<ReadonlyMap<string, NodeSettings>> {
  const prefix = `${PREFIX}${full.name}/`;
  const given = new Map<string, NodeSettings>();
  const machines = new Set(full.machines.map(({ name }) => name));
  for (const { key, value } of (await store.list(prefix)).records) {
    const name = key.slice(prefix.length);
    const read = record.safeParse(parsed(value));
    if (!read.success) log.warn({ key }, 'a stored record cannot be read and is passed over');
    else if (machines.has(name) && read.data.founding === founding)
      given.set(name, read.data as NodeSettings);
    else await store.commit([{ key, delete: true }]);
  }
  return given;
}

/** Writes what a node lacks; one that has not registered, or that somebody else writes to, has its turn in the next round. */
async function settle(
  { store, events }: NodeKeeperDeps,
  { full, founding, told }: Place,
  kube: Kube,
  machine: ClusterMachine,
  before: NodeSettings,
): Promise<void> {
  const known = `${full.name}/${machine.name}`;
  const say = (code: 'document' | 'refused', text: string): void =>
    events.record({
      kind: 'cluster.node-settings',
      subject: machine.name,
      reason: { code, text },
      fields: { cluster: full.name },
    });
  try {
    const says = await written(kube, machine, before);
    told.delete(known);
    const { labels = {}, taints = [] } = machine;
    const value: z.output<typeof record> = { v: 1, founding, labels, taints: [...taints] };
    await store.commit([{ key: `${PREFIX}${known}`, put: JSON.stringify(value) }]);
    if (says.length > 0) say('document', says.join(', '));
  } catch (error) {
    if (!(error instanceof KubeRefusal)) throw error;
    if (error.status === 404 || error.status === 409 || told.has(known)) return;
    told.add(known);
    say('refused', `the API refuses its labels and taints: ${error.message}`);
  }
}

/** What was changed. */
async function written(
  kube: Kube,
  machine: ClusterMachine,
  before: NodeSettings,
): Promise<readonly string[]> {
  const path = `/api/v1/nodes/${encodeURIComponent(machine.name)}`;
  const change = nodeChange((await kube(path)).body, before, machine);
  if (change)
    await kube(path, { method: 'PATCH', body: change.patch, contentType: 'application/merge-patch+json' });
  return change?.says ?? [];
}
