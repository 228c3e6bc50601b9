/**
 * Wires everything that works on clusters: the founding of etcd, the plans that agents get,
 * certificate requests, node settings, departures and health.
 */
import { randomBytes, randomUUID } from 'node:crypto';
import { withDiskChoice } from '../agent/serve/disk-plan.ts';
import { mustServe } from '../agent/serve/life-gate.ts';
import { withSecrets } from '../agent/serve/secret-plan.ts';
import type { AgentPlanner } from '../agent/wire/protocol.ts';
import { formatIpv4 } from '../base/ipv4.ts';
import type { ServeOptions } from '../cli/serve/options.ts';
import { createCopies, nameOfCopy } from '../cluster/backup/copies.files.ts';
import { createSnapshots, type Snapshots } from '../cluster/backup/snapshots.ts';
import { createDepartures } from '../cluster/change/departures.ts';
import { createMembership, whyMembersWait } from '../cluster/change/membership.ts';
import { createOutOfUse } from '../cluster/change/out-of-use.ts';
import { createQuarantinedMembers } from '../cluster/change/quarantined-member.ts';
import { foundingOrders } from '../cluster/etcd/commands.ts';
import { createEtcdPlanner } from '../cluster/etcd/etcd-plan.ts';
import { createFounder, type Founder } from '../cluster/etcd/founder.ts';
import type { MemberAddress } from '../cluster/etcd/founding.ts';
import type { Etcd } from '../cluster/etcd/gateway.socket.ts';
import { createEtcdLooks, type EtcdLooks } from '../cluster/health/etcd-looks.ts';
import { type EtcdWatch, startEtcdWatch } from '../cluster/health/etcd-watch.ts';
import { createHealth, type Health } from '../cluster/health/health.ts';
import { type HealthMetrics, measureHealth } from '../cluster/health/health-metrics.ts';
import { watchHealth } from '../cluster/health/health-watch.ts';
import { startApprover } from '../cluster/joining/approver.ts';
import { startNodeKeeper } from '../cluster/joining/node-keeper.ts';
import { startQuarantineKeeper } from '../cluster/joining/quarantine-keeper.ts';
import { startTokenKeeper } from '../cluster/joining/token-keeper.ts';
import {
  clusterEndpoint,
  type UserCredentialsDeps,
  userCredential,
  userEtcdClient,
  userKubeconfig,
} from '../cluster/joining/user-credentials.ts';
import type { createKubes } from '../cluster/kube.socket.ts';
import { openAppliedObjects } from '../cluster/objects/applied.ts';
import { withWebhookSecrets } from '../cluster/plan/apiserver.ts';
import { openPresentObjects } from '../cluster/plan/desired-objects.ts';
import { createPlanner } from '../cluster/plan/planner.ts';
import { windowsOf } from '../cluster/resolve/maintenance.ts';
import { followClusters, type ResolvedClusters } from '../cluster/resolve/resolved-clusters.ts';
import { factLabel } from '../machines/inventory-facts.ts';
import { isOut } from '../machines/life/rescue.ts';
import { serveRegistry } from '../pxe/http/registry.server.ts';
import { createSupplies } from '../pxe/supplies.ts';
import type { Life } from '../store/life.ts';
import type { Boot, CloseListener } from './boot.ts';
import { type ClusterChanges, openClusterChanges } from './changes.ts';
import type { Common } from './common.ts';
import type { State } from './state.ts';

export type Clusters = Awaited<ReturnType<typeof openClusters>>;

/**
 * Reads the records of founding and starts the rounds that work on clusters. Agents get answers
 * only after `listen` was called.
 */
export async function openClusters(
  options: ServeOptions,
  common: Common,
  state: State,
  boot: Boot,
  closing: AsyncDisposableStack,
) {
  const { clock, log, metrics, signal, outside } = common;
  const { catalog, memberships, roster, events, store, agents, pki, tokens } = state;
  const { releases, life, artifacts, addons, assets, given } = state;
  const networks = boot.networks.served;
  const gateway = gatewaysWhileServing(life, outside.createGateways({ pki, clock, signal }));
  const founder = createFounder({ store, clock, log, events, gateway });
  closing.defer(() => founder.close());
  await founder.resume();
  const clusters = followClusters(catalog, memberships);
  closing.defer(() => clusters.close());

  const foundingOf = (cluster: string) => founder.records().find((record) => record.cluster === cluster)?.id;
  const present = openPresentObjects(addons, foundingOf);
  const applied = openAppliedObjects({ store, log, clock });
  const looks = createEtcdLooks({ clusters, gateway });
  const snapshots = snapshotsOf(options, { clock, log }, state, founder, looks);
  closing.defer(() => snapshots.close());
  await snapshots.resume(founder.records().map(({ cluster }) => cluster));
  const kubes = kubesWhileServing(life, outside.createKubes({ pki, clock, signal }));
  const membersWait = (cluster: string) => whyMembersWait(changes.engine.running(cluster));
  const founding = foundingOrders(clusters, founder, () => clock.now(), membersWait);
  const supplies = createSupplies({ networks, roster, book: artifacts, agentPort: agents.port });
  const reads = (cluster: string, member: MemberAddress) => gateway(cluster).reads(member);
  // The health of clusters tells of their changes, and changes ask for it only when one is ordered.
  const look: Health['look'] = (...asked) => health.look(...asked);
  const about = { clusters, kubes, gateway, reads, founder, founding };
  const of = { ...about, supplies, snapshots, looks, boot: boot.service };
  const changes = await openClusterChanges(common, state, { ...of, health: { look } }, closing);
  founder.begin(changes.rollouts.goingDown);
  const watch = startWatch({ founder, clusters, gateway, looks }, common, state, closing, changes);
  await watch.resume();
  const { departures, outOfUse } = startDepartures({ ...about, membersWait }, common, state, closing);
  const planner = createPlanner({
    ...{ catalog, clusters, pki, events, clock },
    running: changes.engine.running,
    etcd: createEtcdPlanner(founder),
    departures: outOfUse.planned,
    tokens,
    newFilesystem: randomUUID,
    restarts: changes.rollouts,
    releases,
    supplies,
    allowed: changes.allowed,
    ...{ present, applied, given },
    orders: [snapshots.line, changes.reboot],
  });
  startKeepers({ founder, clusters, kubes }, common, state, closing);
  const members = { founder, departures, membersWait };
  const membership = createMembership({ catalog, clusters, ...members, releases, clock });
  const healthMetrics = startHealthMetrics({ founder, clusters }, common, state, closing);
  const health = createHealth({
    ...{ clusters, running: releases, kubes, pki },
    founding: founding.status,
    condition: looks.look,
    objects: { present, applied },
    roster,
    stopped: (machine) => agents.waits(machine) ?? boot.service.outlook(machine),
    certificateState: agents.certificateState,
    agents: (cluster) => changes.builds.show(cluster),
    change: changes.underWay,
    turns: changes.rollouts.turns,
    programs: healthMetrics.programs,
    allowed: changes.allowed,
    restored: changes.restored,
    clock,
    newId: () => randomBytes(4).toString('hex'),
  });
  const checked = watchHealth({ founder, clusters, health, clock, log });
  closing.defer(() => checked.close());
  const credentials = { clusters, pki, events, recorded: founder.recorded };

  /** Opens the agents' listener, which also serves the registry of container images. */
  const listen = async (opened: (close: CloseListener) => void): Promise<void> => {
    await agents.serve({
      host: '0.0.0.0',
      port: options.agentPort,
      planner: agentPlanner(changes.paced(planner.plan), state, boot, clusters),
      inline: planner.inline,
      snapshots: snapshots.agents,
      builds: changes.builds,
      laterKeys: changes.laterKeys,
      addresses: () => networks().map(({ serverAddress }) => formatIpv4(serverAddress)),
      ticketed: boot.service.ticketed,
      ...{ isAt: boot.service.isAt, keepsDataKey: boot.service.keepsDataKey },
      configuration: boot.service.configurationFiles,
      ...boot.agentPeers,
      planned: (machine, poll) => {
        changes.planned(machine, poll);
        healthMetrics.heard(machine, poll.facts);
      },
      leaving: (machine) => founder.departing(machine, undefined)?.cluster,
      others: (request, response) => serveRegistry(request, response, { book: artifacts, assets, metrics }),
    });
    opened(() => agents.close());
  };
  return {
    ...{ founding, snapshots, health, checked, membership, watch },
    engine: changes.engine,
    ...{ changes: changes.orders, imageOf: changes.imageOf, laterKeys: changes.laterKeys },
    ...{ builds: changes.builds, rollouts: changes.rollouts, powered: changes.powered },
    quarantinedMembers: createQuarantinedMembers({ founder, clusters, departures }),
    resolved: (cluster: string) => clusters.get(cluster)?.resolved,
    ...{ outOfUse, waiting: departures.waiting },
    credentials: credentialsOf(credentials),
    listen,
  };
}

/** The planner of clusters, with the lines of Secrets and of disks that are not chosen yet. */
function agentPlanner(
  planner: AgentPlanner,
  { given, secretUsers: users }: State,
  { service }: Boot,
  clusters: ResolvedClusters,
): AgentPlanner {
  const configuration = withWebhookSecrets((name) => service.render(name).merged, clusters);
  return withDiskChoice(withSecrets(planner, { given, users, configuration }), service);
}

/** What operators get to use clusters. */
const credentialsOf = (deps: UserCredentialsDeps) => ({
  kubeconfig: (cluster: string, user: string) => userKubeconfig(deps, cluster, user),
  etcdClient: (cluster: string, user: string) => userEtcdClient(deps, cluster, user),
  userCredential: (cluster: string, user: string) => userCredential(deps, cluster, user),
  endpoint: (cluster: string) => clusterEndpoint(deps, cluster),
});

/** The clients of etcd, which change nothing until a restored store is accepted. */
function gatewaysWhileServing(life: Life, gatewayOf: (cluster: string) => Etcd): (cluster: string) => Etcd {
  return (cluster) => {
    const gateway = gatewayOf(cluster);
    const serving = (): Etcd => {
      mustServe(life.state);
      return gateway;
    };
    return {
      view: async (...of) => serving().view(...of),
      storage: async (...of) => serving().storage(...of),
      lower: async (...of) => serving().lower(...of),
      reads: async (...of) => serving().reads(...of),
      remove: async (...of) => serving().remove(...of),
      addLearner: async (...of) => serving().addLearner(...of),
      promote: async (...of) => serving().promote(...of),
      condition: async (...of) => serving().condition(...of),
      compact: async (...of) => serving().compact(...of),
      defragment: async (...of) => serving().defragment(...of),
      disarm: async (...of) => serving().disarm(...of),
      write: async (...of) => serving().write(...of),
    };
  };
}

/** The clients of API servers, which answer only while this boot host serves. */
function kubesWhileServing(life: Life, kubes: ReturnType<typeof createKubes>): typeof kubes {
  return (...of) => {
    const kube = kubes(...of);
    return async (...request) => {
      mustServe(life.state);
      return kube(...request);
    };
  };
}

function snapshotsOf(
  { backupCommands }: Pick<ServeOptions, 'backupCommands'>,
  { clock, log }: Pick<Common, 'clock' | 'log'>,
  { snapshotFiles, catalog, pki, events }: State,
  { records }: Pick<Founder, 'records'>,
  looks: EtcdLooks,
): Snapshots {
  return createSnapshots({
    files: snapshotFiles,
    copies: createCopies(snapshotFiles, backupCommands),
    nameOfCopy,
    setting: (cluster) => catalog.get('Cluster', cluster)?.document.spec.backup,
    records,
    reads: looks.reads,
    alarm: (cluster) => looks.holds(cluster)?.message,
    encryption: async (cluster) => {
      const keys = await pki.encryption(cluster);
      return keys ? [...keys.trusted, ...keys.distrusted].map(({ id }) => id) : [];
    },
    clock,
    log,
    events,
  });
}

/** Watches the etcd of all clusters. */
function startWatch(
  of: Pick<Founded, 'founder' | 'clusters'> & {
    readonly gateway: (cluster: string) => Etcd;
    readonly looks: EtcdLooks;
  },
  { metrics, clock, log }: Common,
  { events, catalog, store }: State,
  closing: AsyncDisposableStack,
  { engine, rollouts }: Pick<ClusterChanges, 'engine' | 'rollouts'>,
): EtcdWatch {
  const watch = startEtcdWatch({
    ...{ ...of, metrics, events, store, clock, log },
    goingDown: rollouts.goingDown,
    busy: (cluster) => whyEtcdIsLeftAlone(of.founder, engine.running(cluster) !== undefined, cluster),
    closed: windowsOf({ catalog, clock }).closed,
  });
  closing.defer(() => watch.close());
  return watch;
}

/** Why the members of etcd are not defragmented now. */
function whyEtcdIsLeftAlone(
  { records }: Pick<Founder, 'records'>,
  changes: boolean,
  cluster: string,
): string | undefined {
  if (changes) return 'a change of the cluster is under way';
  const record = records().find((one) => one.cluster === cluster);
  if (!record?.founded || record.reset || record.restoring) return 'its etcd is not founded';
  const leave = Object.values(record.leaving ?? {}).some(({ stage }) => stage !== 'down');
  return record.replacing || leave ? 'its members change' : undefined;
}

/** Starts to measure the health of founded clusters. */
function startHealthMetrics(
  { founder, clusters }: Pick<Founded, 'founder' | 'clusters'>,
  { metrics, clock }: Common,
  { roster }: State,
  closing: AsyncDisposableStack,
): HealthMetrics {
  const health = measureHealth({
    clusters: () => founder.records().flatMap(({ cluster }) => clusters.get(cluster)?.resolved ?? []),
    roster,
    metrics,
    clock,
  });
  closing.defer(() => health.close());
  return health;
}

type Founded = Pick<Parameters<typeof startNodeKeeper>[0], 'founder' | 'clusters' | 'kubes'>;

/** Continues to drain the nodes of leaving machines, and takes machines out of use. */
function startDepartures(
  of: Pick<Parameters<typeof createOutOfUse>[0], 'kubes' | 'membersWait'> & {
    readonly founder: Founder;
    readonly clusters: ResolvedClusters;
  },
  { clock, log }: Common,
  { roster }: Pick<State, 'roster'>,
  closing: AsyncDisposableStack,
) {
  const { founder, clusters, kubes, membersWait } = of;
  const departures = createDepartures({ founder, clusters, kubes, clock, log });
  closing.defer(() => departures.close());
  for (const { cluster } of founder.records()) departures.go(cluster);
  const outOfUse = createOutOfUse({
    ...{ founder, clusters, departures, kubes, membersWait, clock, log },
    outSince(machine) {
      const { life } = roster.get(machine)?.status ?? {};
      return isOut(life) ? life.at : undefined;
    },
  });
  return { departures, outOfUse };
}

/** Starts the rounds that work on certificate requests, tokens and nodes of all clusters. */
function startKeepers(
  { founder, clusters, kubes }: Founded,
  { clock, log }: Common,
  { roster, tokens, events, store, agents }: State,
  closing: AsyncDisposableStack,
): void {
  const isQuarantined = (machine: string): boolean => roster.get(machine)?.status.quarantine !== undefined;
  const approver = startApprover({ isQuarantined, founder, clusters, kubes, tokens, events, clock, log });
  closing.defer(() => approver.close());
  const quarantineKeeper = startQuarantineKeeper({
    founder,
    clusters,
    kubes,
    clock,
    log,
    quarantined: (machine) => {
      const found = roster.get(machine)?.status.quarantine;
      return found && { deletePods: found.deletePods === true };
    },
  });
  closing.defer(() => quarantineKeeper.close());
  const tokenKeeper = startTokenKeeper({ founder, clusters, kubes, tokens, clock, log });
  closing.defer(() => tokenKeeper.close());
  const nodeKeeper = startNodeKeeper({
    founder,
    clusters,
    kubes,
    store,
    events,
    clock,
    log,
    factOf: (machine, fact) => {
      const known = agents.inventories.get(machine);
      return known && factLabel(fact, known.inventory);
    },
  });
  closing.defer(() => nodeKeeper.close());
}
