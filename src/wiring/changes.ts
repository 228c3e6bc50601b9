/** Wires the changes of running clusters: the engine, its kinds, and the rolling restarts. */
import { randomUUID } from 'node:crypto';
import { AGENT_BUNDLE } from '../agent/scripts/bundle.ts';
import type { PlannedPoll } from '../agent/serve/agent-api.ts';
import type { AgentPlanner } from '../agent/wire/protocol.ts';
import type { Clock } from '../base/clock.ts';
import type { Snapshots } from '../cluster/backup/snapshots.ts';
import { type ClusterAgents, createBuilds } from '../cluster/change/agents/builds.ts';
import { agentUpgrade } from '../cluster/change/agents/kind.ts';
import { createAskNow } from '../cluster/change/answers.ts';
import { createChangeOrders } from '../cluster/change/change-orders.ts';
import { type Changes, openChanges } from '../cluster/change/changes.ts';
import { createFindDown } from '../cluster/change/down.ts';
import { openGivenTurns } from '../cluster/change/given-turns.ts';
import { type HealDeps, healing } from '../cluster/change/heal/heal.ts';
import { HEAL } from '../cluster/change/heal/order.ts';
import { watchLost } from '../cluster/change/heal/watch.ts';
import { type Hooks, openHooks } from '../cluster/change/hooks/hooks.ts';
import { type AnyKind, anyKind } from '../cluster/change/kind.ts';
import { openLaterKeys } from '../cluster/change/later-keys.ts';
import { ownRotation } from '../cluster/change/own/own-rotation.ts';
import { withOwnPace } from '../cluster/change/own/pace.ts';
import { ownOrders } from '../cluster/change/own/prepare.ts';
import type { ChangeRecord } from '../cluster/change/record.ts';
import { startRestored } from '../cluster/change/restored.ts';
import { createImageOf, type ImageOf } from '../cluster/change/roll/images.ts';
import type { RollOrder } from '../cluster/change/roll/order.ts';
import { rollOrders } from '../cluster/change/roll/prepare.ts';
import { roll } from '../cluster/change/roll/roll.ts';
import { openRollouts } from '../cluster/change/rollouts.ts';
import { startRotationsByAge } from '../cluster/change/rotation/by-age.ts';
import { rotationOrders } from '../cluster/change/rotation/prepare.ts';
import { rotation } from '../cluster/change/rotation/rotation.ts';
import { underWayOf } from '../cluster/change/under-way.ts';
import { followDocuments } from '../cluster/change/upgrade/follow.ts';
import type { UpgradeOrder } from '../cluster/change/upgrade/order.ts';
import { upgradeOrders } from '../cluster/change/upgrade/prepare.ts';
import { upgrade } from '../cluster/change/upgrade/upgrade.ts';
import { allowedVersions } from '../cluster/change/upgrade/versions.ts';
import type { FoundingOrders } from '../cluster/etcd/commands.ts';
import type { Founder } from '../cluster/etcd/founder.ts';
import type { MemberAddress } from '../cluster/etcd/founding.ts';
import { leavingMembers } from '../cluster/etcd/leaving.ts';
import type { EtcdDowngrade } from '../cluster/etcd/views.ts';
import type { EtcdLooks } from '../cluster/health/etcd-looks.ts';
import type { Health } from '../cluster/health/health.ts';
import type { Kube } from '../cluster/kube.ts';
import type { ResolvedCluster } from '../cluster/model/resolved-cluster.ts';
import type { SuppliesFor } from '../cluster/plan/supplies.ts';
import type { Required } from '../cluster/resolve/artifacts.ts';
import { windowsOf } from '../cluster/resolve/maintenance.ts';
import type { Running } from '../cluster/resolve/release.ts';
import type { ResolvedClusters } from '../cluster/resolve/resolved-clusters.ts';
import type { Windows } from '../cluster/resolve/windows.ts';
import type { AgentStatus } from '../machines/machine.ts';
import { MUSTER_SCOPE } from '../store/keys.ts';
import type { Boot } from './boot.ts';
import type { Common } from './common.ts';
import { healedMachines } from './healing.ts';
import { healPower, type Power, rollPower } from './power.ts';
import type { State } from './state.ts';

interface ChangesOf {
  readonly supplies: SuppliesFor;
  readonly snapshots: Snapshots;
  readonly clusters: ResolvedClusters;
  readonly kubes: (cluster: string, address: string) => Kube;
  readonly gateway: (cluster: string) => EtcdDowngrade;
  /** Whether a member of etcd answers a linearizable read. */
  readonly reads: (cluster: string, member: MemberAddress) => Promise<boolean>;
  readonly founder: Pick<Founder, 'records'>;
  readonly founding: Pick<FoundingOrders, 'status'>;
  readonly looks: Pick<EtcdLooks, 'holds' | 'mute'>;
  readonly health: Pick<Health, 'look'>;
  /** What machines would boot. */
  readonly boot: Pick<Boot['service'], 'outlook' | 'wantedImage'>;
}

export type ClusterChanges = Awaited<ReturnType<typeof openClusterChanges>>;

/** Reads the changes of all clusters, and continues those that are under way. */
export async function openClusterChanges(
  { clock, log, metrics, signal, outside }: Common,
  state: State,
  { clusters, kubes, gateway, reads, founder, founding, looks, health, supplies, snapshots, boot }: ChangesOf,
  closing: AsyncDisposableStack,
) {
  const { store, events, pki, life, releases, catalog, artifacts, roster, agents, given } = state;
  // The rollouts ask what a change does, and the changes whether a machine runs as planned.
  const rollouts = openRollouts({
    ...{ clock, events },
    askNow: createAskNow({ clock, kubes, reads }),
    givenTurns: await openGivenTurns({ store, log, clock }),
    leftOut: (cluster) => (changes.running(cluster) && changes.record(cluster)?.without) ?? [],
    leaving: (cluster) => leavingMembers(founder.records(), cluster),
    losing: losingOf(founder, looks),
    waits: (cluster) =>
      changes.running(cluster)?.paused ? 'The change of the cluster is paused.' : undefined,
    trustEnded: (cluster) => underWay(cluster, 'rotation') !== undefined && rotating.trustEnded(cluster),
  });
  const storedValues = outside.createStoredValues({ pki, clock, signal });
  const rotating = rotation({ pki, clusters, kubes, storedValues, clock });
  const underWay = <Order>(cluster: string, of: string): ChangeRecord<Order> | undefined => {
    const found = changes.record(cluster);
    return found?.kind === of && !found.ended ? (found as ChangeRecord<Order>) : undefined;
  };
  const record = (cluster: string) => underWay<UpgradeOrder>(cluster, 'upgrade');
  const hooks = await openHooks({
    ...{ store, clock, log, events, catalog, signal },
    secret: (name, key) => given.value(name, key),
    post: outside.post,
    newId: randomUUID,
  });
  const windows = windowsOf({ catalog, clock });
  const down = createFindDown({ clusters, kubes, rebooting: rollouts.rebooting, clock });
  const agent = (machine: string) => roster.get(machine)?.status.agent;
  const power = rollPower(roster);
  const rolling = roll({
    ...{ clock, power, clusters, kubes, rollouts, down, hooks },
    ...{ closed: windows.closed, wants: boot.wantedImage },
    bootId: (machine) => agent(machine)?.bootId,
    record: (cluster) => underWay<RollOrder>(cluster, 'roll'),
  });
  const imageOf = createImageOf({
    ...{ running: releases, wants: boot.wantedImage },
    imageName: (root) =>
      catalog.list('Image').find(({ document }) => document.spec.root?.sha256 === root)?.document.metadata
        .name,
  });
  const closed = windows.closedForUpgrades;
  const upgrading = upgrade({
    ...{ clusters, kubes, releases, supplies, snapshots, record, closed, down },
    ...{ hooks, clock, health, catalog, etcd: gateway },
  });
  const { settled } = rollouts;
  const agentsNow = () => believedAgents(agents, roster);
  const ownMachines = () => agentsNow().map(({ machine }) => machine);
  const { trustChanged, ticketKeys } = agents;
  const own = ownRotation({ pki, trustChanged, ticketKeys, agents: agentsNow });
  const builds = createBuilds({
    ...{ roster, clusters, bundle: AGENT_BUNDLE, unsigned: outside.releaseFault },
    get changes() {
      return changes;
    },
  });
  const bmcs = healPower();
  const healed = { ...healedMachines(state, bmcs, { clock }), kubes, founding: founding.status };
  const heals = { ...healed, clusters, by: (cluster: string) => underWay(cluster, HEAL)?.by };
  const kinds = kindsOf(
    { rotating, own, upgrading, rolling, builds, heals },
    { catalog, clusters, kubes, health, pki, ticketKeys, founding, agent, imageOf, boot, windows, clock },
    { running: releases, has: hasIn(artifacts) },
    hooks,
  );
  const clusterOf = (machine: string) => clusters.clusterOf(machine)?.resolved?.name;
  const laterKeys = await openLaterKeys({ store, pki, clusterOf, events, clock, log, life });
  const restored = await startRestored({
    ...{ founder, clusters, pki, kubes, store, events, clock, log },
    mayAct: (cluster) => life.state === 'usual' && laterKeys.holds(cluster) === undefined,
  });
  closing.defer(() => restored.close());
  const serves = (): boolean => life.state === 'usual';
  const holds = (cluster: string) =>
    laterKeys.holds(cluster) ?? restored.holds(cluster) ?? looks.holds(cluster);
  const changes: Changes = await openChanges({
    ...{ store, clock, log, events, metrics, serves, clusters, holds, ownMachines, settled },
    kinds: [...kinds, ...outside.kinds],
  });
  closing.defer(() => changes.close());
  changes.start();
  const orders = createChangeOrders(changes);
  const byAge = startRotationsByAge({
    ...{ founder, clusters, pki, orders, clock, log, serves },
    closed: windows.closed,
  });
  closing.defer(() => byAge.close());
  const planned: PlannedPoll = (machine, poll) => {
    const cluster = clusterOf(machine);
    if (cluster !== undefined) changes.heard(cluster, machine, poll);
    changes.heard(MUSTER_SCOPE, machine, poll);
  };
  const followed = { catalog, clusters, running: releases, orders, events, log, underWay: record };
  closing.defer(followDocuments(followed));
  return {
    rollouts,
    builds,
    engine: changes,
    underWay: (of: ResolvedCluster) => underWayOf(changes, of, clock.now()),
    planned,
    /** Which versions a machine may have now. */
    allowed: allowedVersions({
      ...{ clusters, running: releases, upgrade: record },
      mayBegin: upgrading.mayBegin,
    }),
    ...{ orders, imageOf, laterKeys },
    /** Gets the BMCs, which open later, and looks for lost machines from then on. */
    powered(opened: Power) {
      for (const one of [power, bmcs]) one.begin(opened);
      const founded = foundedOf(founder, clusters);
      return watchLost({ ...healed, ...{ orders, events, clock, log, serves, holds, clusters: founded } });
    },
    paced: (plans: AgentPlanner) => withOwnPace(plans, { running: changes.running, machines: ownMachines }),
    restored: (cluster: string) => restored.holds(cluster)?.message,
    reboot: rolling.line,
  };
}

/** The clusters that are founded, with their machines. */
const foundedOf =
  (founder: ChangesOf['founder'], clusters: ChangesOf['clusters']) => (): readonly ResolvedCluster[] =>
    founder
      .records()
      .flatMap(({ cluster, founded, reset }) =>
        founded && !reset ? (clusters.get(cluster)?.resolved ?? []) : [],
      );

/** The machines whose member of etcd is taken out or defragmented in this moment. */
const losingOf = (founder: ChangesOf['founder'], looks: ChangesOf['looks']) => (cluster: string) => [
  ...looks.mute(cluster),
  ...leavingMembers(founder.records(), cluster).flatMap(({ name, due }) => (due ? [name] : [])),
];

/** All kinds of change: how each is carried out, and how it is ordered. */
function kindsOf(
  work: {
    readonly rotating: ReturnType<typeof rotation>;
    readonly own: ReturnType<typeof ownRotation>;
    readonly upgrading: ReturnType<typeof upgrade>;
    readonly rolling: ReturnType<typeof roll>;
    readonly builds: ClusterAgents;
    readonly heals: HealDeps;
  },
  of: Pick<ChangesOf, 'clusters' | 'kubes' | 'health' | 'founding' | 'boot'> &
    Pick<State, 'catalog' | 'pki'> &
    Pick<State['agents'], 'ticketKeys'> & {
      readonly agent: (machine: string) => AgentStatus | undefined;
      readonly imageOf: ImageOf;
      readonly windows: Windows;
      readonly clock: Clock;
    },
  { running, has }: { readonly running: Running; readonly has: (one: Required) => boolean },
  hooks: Hooks,
): readonly AnyKind[] {
  const { boot, windows, founding } = of;
  const ordered = { ...of, running, has, founding: founding.status };
  return [
    anyKind({ ...work.rotating, ...rotationOrders(ordered) }),
    anyKind({ ...work.own, ...ownOrders(of) }),
    anyKind(agentUpgrade(work.builds)),
    anyKind(healing(work.heals)),
    anyKind(
      { ...work.upgrading, ...upgradeOrders({ ...ordered, closed: windows.closedForUpgrades }) },
      hooks,
    ),
    anyKind(
      {
        ...work.rolling,
        ...rollOrders({
          ...{ ...ordered, closed: windows.closed },
          ...{ stopped: boot.outlook, wants: boot.wantedImage },
        }),
      },
      hooks,
    ),
  ];
}

/** The agents that have a certificate, of machines that are believed. */
const believedAgents = (agents: State['agents'], roster: State['roster']) =>
  agents.identities
    .list()
    .filter(
      ({ machine, revoked }) =>
        revoked === undefined &&
        agents.hasAgent(machine) &&
        roster.get(machine)?.status.quarantine === undefined &&
        roster.get(machine)?.status.life === undefined,
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
