/** Wires the changes of running clusters: the engine, its kinds, and the rolling restarts. */
import { randomUUID } from 'node:crypto';
import { AGENT_BUNDLE } from '../agent/scripts/bundle.ts';
import type { PlannedPoll } from '../agent/serve/agent-api.ts';
import type { AgentPlanner } from '../agent/wire/protocol.ts';
import { postAndRead } from '../base/post.socket.ts';
import type { Snapshots } from '../cluster/backup/snapshots.ts';
import { openBuilds } from '../cluster/change/agents/builds.ts';
import { createAskNow } from '../cluster/change/answers.ts';
import { type Changes, openChanges } from '../cluster/change/changes.ts';
import { createFindDown } from '../cluster/change/down.ts';
import { openGivenTurns } from '../cluster/change/given-turns.ts';
import { openHooks } from '../cluster/change/hooks/hooks.ts';
import { anyKind } from '../cluster/change/kind.ts';
import { openLaterKeys } from '../cluster/change/later-keys.ts';
import { ownRotation } from '../cluster/change/own/own-rotation.ts';
import { createOwnRotations, withOwn } from '../cluster/change/own/own-rotations.ts';
import { withOwnPace } from '../cluster/change/own/pace.ts';
import type { ChangeRecord } from '../cluster/change/record.ts';
import { startRestored } from '../cluster/change/restored.ts';
import type { RollOrder } from '../cluster/change/roll/order.ts';
import { openRollouts } from '../cluster/change/rollouts.ts';
import { startRotationsByAge } from '../cluster/change/rotation/by-age.ts';
import { rotation } from '../cluster/change/rotation/rotation.ts';
import { createRotations } from '../cluster/change/rotation/rotations.ts';
import { createStoredValues } from '../cluster/change/rotation/stored-values.socket.ts';
import { underWayOf } from '../cluster/change/under-way.ts';
import { followDocuments } from '../cluster/change/upgrade/follow.ts';
import type { UpgradeOrder } from '../cluster/change/upgrade/order.ts';
import { upgrade } from '../cluster/change/upgrade/upgrade.ts';
import { createUpgrades, type Upgrades } from '../cluster/change/upgrade/upgrades.ts';
import { allowedVersions } from '../cluster/change/upgrade/versions.ts';
import type { FoundingOrders } from '../cluster/etcd/commands.ts';
import type { Founder } from '../cluster/etcd/founder.ts';
import type { MemberAddress } from '../cluster/etcd/founding.ts';
import { leavingMembers } from '../cluster/etcd/leaving.ts';
import type { EtcdWatch } from '../cluster/health/etcd-watch.ts';
import type { Health } from '../cluster/health/health.ts';
import type { Kube } from '../cluster/kube.ts';
import type { ResolvedCluster } from '../cluster/model/resolved-cluster.ts';
import type { SuppliesFor } from '../cluster/plan/supplies.ts';
import type { Required } from '../cluster/resolve/artifacts.ts';
import { windowsOf } from '../cluster/resolve/maintenance.ts';
import type { ResolvedClusters } from '../cluster/resolve/resolved-clusters.ts';
import { MUSTER_SCOPE } from '../store/keys.ts';
import type { Boot } from './boot.ts';
import type { Common } from './common.ts';
import { openRolling } from './rolls.ts';
import type { State } from './state.ts';

interface ChangesOf {
  readonly supplies: SuppliesFor;
  readonly snapshots: Snapshots;
  readonly clusters: ResolvedClusters;
  readonly kubes: (cluster: string, address: string) => Kube;
  /** Whether a member of etcd answers a linearizable read. */
  readonly reads: (cluster: string, member: MemberAddress) => Promise<boolean>;
  readonly founder: Pick<Founder, 'records'>;
  readonly founding: Pick<FoundingOrders, 'status'>;
  readonly watch: Pick<EtcdWatch, 'holds' | 'mute'>;
  /** What machines would boot. */
  readonly boot: Pick<Boot['service'], 'outlook' | 'wantedImage'>;
}

/** Reads the changes of all clusters, and continues those that are under way. */
export async function openClusterChanges(
  { clock, log, metrics, signal }: Common,
  { store, events, pki, life, releases, catalog, artifacts, roster, agents, given }: State,
  { clusters, kubes, reads, founder, founding, watch, supplies, snapshots, boot }: ChangesOf,
  closing: AsyncDisposableStack,
) {
  // The rollouts ask what a change does, and the changes whether a machine runs as planned.
  const rollouts = openRollouts({
    ...{ clock, events },
    askNow: createAskNow({ clock, kubes, reads }),
    givenTurns: await openGivenTurns({ store, log, clock }),
    leftOut: (cluster) => (changes.running(cluster) && changes.record(cluster)?.without) ?? [],
    leaving: (cluster) => leavingMembers(founder.records(), cluster),
    losing: losingOf(founder, watch),
    waits: (cluster) =>
      changes.running(cluster)?.paused ? 'The change of the cluster is paused.' : undefined,
    trustEnded: (cluster) => underWay(cluster, 'rotation') !== undefined && rotating.trustEnded(cluster),
  });
  const storedValues = createStoredValues({ pki, clock, signal });
  const rotating = rotation({ pki, clusters, kubes, storedValues, clock });
  const kind = anyKind(rotating);
  const underWay = <Order>(cluster: string, of: string): ChangeRecord<Order> | undefined => {
    const found = changes.record(cluster);
    return found?.kind === of && !found.ended ? (found as ChangeRecord<Order>) : undefined;
  };
  const record = (cluster: string) => underWay<UpgradeOrder>(cluster, 'upgrade');
  const hooks = await openHooks({
    ...{ store, clock, log, events, catalog, signal },
    secret: (name, key) => given.value(name, key),
    post: postAndRead,
    newId: randomUUID,
  });
  const windows = windowsOf({ catalog, clock });
  const down = createFindDown({ clusters, kubes, rebooting: rollouts.rebooting, clock });
  const { rolling, ...rollsOf } = openRolling(
    {
      ...{ windows, clusters, kubes, founding, boot, rollouts, down, hooks },
      record: (cluster) => underWay<RollOrder>(cluster, 'roll'),
    },
    { roster, catalog, releases },
  );
  const closed = windows.closedForUpgrades;
  const upgrading = upgrade({ clusters, kubes, releases, supplies, snapshots, record, closed, down, hooks });
  const upgradeKind = anyKind(upgrading, hooks);
  const { settled } = rollouts;
  const agentsNow = () => believedAgents(agents, roster);
  const ownMachines = () => agentsNow().map(({ machine }) => machine);
  const { trustChanged, ticketKeys } = agents;
  const ownKind = anyKind(ownRotation({ pki, trustChanged, ticketKeys, agents: agentsNow }));
  const clusterOf = (machine: string) => clusters.clusterOf(machine)?.resolved?.name;
  const laterKeys = await openLaterKeys({ store, pki, clusterOf, events, clock, log, life });
  const restored = await startRestored({
    ...{ founder, clusters, pki, kubes, store, events, clock, log },
    mayAct: (cluster) => life.state === 'usual' && laterKeys.holds(cluster) === undefined,
  });
  closing.defer(() => restored.close());
  const changes: Changes = await openChanges({
    store,
    clock,
    log,
    events,
    metrics,
    serves: () => life.state === 'usual',
    clusters,
    holds: (cluster) => laterKeys.holds(cluster) ?? restored.holds(cluster) ?? watch.holds(cluster),
    ownMachines,
    kinds: [kind, upgradeKind, rollsOf.kind, ownKind],
    settled,
  });
  closing.defer(() => changes.close());
  changes.start();
  const own = createOwnRotations({ changes, kind: ownKind, pki, ticketKeys, machines: ownMachines });
  const rotations = createRotations({ changes, kind, pki, clusters, founding: founding.status, clock });
  const byAge = startRotationsByAge({
    ...{ founder, clusters, pki, changes, rotations, clock, log },
    serves: () => life.state === 'usual',
    closed: windows.closed,
  });
  closing.defer(() => byAge.close());
  const planned: PlannedPoll = (machine, poll) => {
    const cluster = clusterOf(machine);
    if (cluster !== undefined) changes.heard(cluster, machine, poll);
    changes.heard(MUSTER_SCOPE, machine, poll);
  };
  const builds = await openBuilds({ store, events, log, roster, clusters, bundle: AGENT_BUNDLE });
  return {
    rollouts,
    builds,
    running: changes.running,
    underWay: (of: ResolvedCluster) => underWayOf(changes, of, clock.now()),
    planned,
    /** Which versions a machine may have now. */
    allowed: allowedVersions({
      clusters,
      running: releases,
      upgrade: record,
      mayBegin: upgrading.mayBegin,
    }),
    /** Makes the orders of upgrades, and follows the documents. */
    upgrades(health: Health): Upgrades {
      const orders = {
        ...{ changes, kind: upgradeKind, catalog, clusters, running: releases, kubes, health },
        ...{ has: hasIn(artifacts), closed },
      };
      const upgrades = createUpgrades(orders);
      closing.defer(
        followDocuments({
          ...{ catalog, clusters, running: releases, upgrades, events, log },
          underWay: record,
        }),
      );
      return upgrades;
    },
    rotations: withOwn(rotations, own),
    paced: (planner: AgentPlanner) =>
      withOwnPace(planner, { running: changes.running, machines: ownMachines }),
    laterKeys,
    restored: (cluster: string) => restored.holds(cluster)?.message,
    reboot: rolling.line,
    rolls: (health: Health) => rollsOf.rolls(changes, health),
  };
}

/** The machines whose member of etcd is taken out or defragmented in this moment. */
const losingOf = (founder: ChangesOf['founder'], watch: ChangesOf['watch']) => (cluster: string) => [
  ...watch.mute(cluster),
  ...leavingMembers(founder.records(), cluster).flatMap(({ name, due }) => (due ? [name] : [])),
];

/** The agents that have a certificate, of machines that are believed. */
const believedAgents = (agents: State['agents'], roster: State['roster']) =>
  agents.identities
    .list()
    .filter(
      ({ machine, revoked }) =>
        revoked === undefined &&
        agents.hasAgent(machine) &&
        roster.get(machine)?.status.quarantine === undefined,
    );

/** Whether the boot host has an artifact; what machines bring themselves it need not have. */
const hasIn =
  (artifacts: State['artifacts']) =>
  (one: Required): boolean =>
    one.kind === 'binary'
      ? artifacts.binary(one.name, one.version, one.arch) !== undefined
      : one.kind === 'image'
        ? artifacts.image(one.reference) !== undefined
        : true;
