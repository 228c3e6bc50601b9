/** Wires the changes of running clusters: the engine, its kinds, and the rolling restarts. */
import type { PlannedPoll } from '../agent/agent-api.ts';
import { type Changes, openChanges } from '../cluster/change/changes.ts';
import { anyKind } from '../cluster/change/kind.ts';
import { openRollouts } from '../cluster/change/rollouts.ts';
import { rotation } from '../cluster/change/rotation/rotation.ts';
import { createRotations } from '../cluster/change/rotation/rotations.ts';
import { createStoredValues } from '../cluster/change/rotation/stored-values.socket.ts';
import type { FoundingOrders } from '../cluster/etcd/commands.ts';
import type { Kube } from '../cluster/kube.ts';
import type { ResolvedClusters } from '../cluster/spec/resolved-clusters.ts';
import type { Common } from './common.ts';
import type { State } from './state.ts';

interface ChangesOf {
  readonly clusters: ResolvedClusters;
  readonly kubes: (cluster: string, address: string) => Kube;
  readonly founding: Pick<FoundingOrders, 'status'>;
}

/** Reads the changes of all clusters, and continues those that are under way. */
export async function openClusterChanges(
  { clock, log, metrics, signal }: Common,
  { store, events, pki, life }: State,
  { clusters, kubes, founding }: ChangesOf,
  closing: AsyncDisposableStack,
) {
  // The rollouts ask whether a change is paused, and the changes whether a machine runs as planned.
  const rollouts = openRollouts({ clock, events, paused: (name) => changes.running(name)?.paused === true });
  const storedValues = createStoredValues({ pki, clock, signal });
  const kind = anyKind(rotation({ pki, clusters, kubes, storedValues, clock }));
  const { settled } = rollouts;
  const changes: Changes = await openChanges({
    store,
    clock,
    log,
    events,
    metrics,
    serves: () => life.state === 'usual',
    clusters,
    kinds: [kind],
    settled,
  });
  closing.defer(() => changes.close());
  const planned: PlannedPoll = (machine, poll) => {
    const cluster = clusters.clusterOf(machine)?.resolved?.name;
    if (cluster !== undefined) changes.heard(cluster, machine, poll);
  };
  return {
    rollouts,
    running: changes.running,
    planned,
    rotations: createRotations({ changes, kind, pki, clusters, founding: founding.status, clock }),
  };
}
