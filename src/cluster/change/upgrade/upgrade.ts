/**
 * The upgrade of Kubernetes as a kind of change: what the boot host does for each step, and what it
 * sees of the cluster as a whole.
 */

import type { Clock } from '../../../base/clock.ts';
import { duration, type Millis } from '../../../base/duration.ts';
import { fieldsOf } from '../../../base/foreign-json.ts';
import type { LiveCatalog } from '../../../resources/catalog.ts';
import type { Snapshots } from '../../backup/snapshots.ts';
import type { MemberAddress } from '../../etcd/founding.ts';
import type { EtcdDowngrade } from '../../etcd/views.ts';
import type { Health } from '../../health/health.ts';
import { firstReady, type Kube } from '../../kube.ts';
import { addressOf, type ResolvedCluster, withRole } from '../../model/resolved-cluster.ts';
import { runsKubelet } from '../../plan/checks.ts';
import { aheadImages, imagesList } from '../../plan/prefetch-unit.ts';
import type { SuppliesFor } from '../../plan/supplies.ts';
import type { Releases } from '../../resolve/release.ts';
import type { ResolvedClusters } from '../../resolve/resolved-clusters.ts';
import type { Windows } from '../../resolve/windows.ts';
import type { FindDown } from '../down.ts';
import type { Hooks } from '../hooks/hooks.ts';
import type { AtStep, ChangeWork } from '../kind.ts';
import { drainRound, type NodeSeen, takeBack, uncordon } from '../nodes.ts';
import type { ChangeRecord } from '../record.ts';
import {
  NOTHING_SEEN,
  type SnapshotSeen,
  type SoakSeen,
  type UpgradeOrder,
  type UpgradeSeen,
  upgradeOrder,
} from './order.ts';
import { returnDocument, returnsLate } from './prepare.ts';
import { drainsIn, formerEtcd, LOWER, plainVersion, releaseBack, UPGRADE, waitsForWindow } from './table.ts';

export interface UpgradeDeps {
  readonly clusters: Pick<ResolvedClusters, 'get' | 'at'>;
  readonly kubes: (cluster: string, address: string) => Kube;
  readonly releases: Releases;
  readonly supplies: SuppliesFor;
  readonly snapshots: Pick<Snapshots, 'order' | 'list' | 'verify'>;
  /** Why no machine may be changed now, by the maintenance windows of its cluster. */
  readonly closed: Windows['closedForUpgrades'];
  /** The workers that are down besides those that have their turn. */
  readonly down: FindDown;
  readonly clock: Pick<Clock, 'now' | 'monotonic' | 'doubt'>;
  readonly health: Pick<Health, 'look'>;
  readonly etcd: (cluster: string) => EtcdDowngrade;
  readonly catalog: Pick<LiveCatalog, 'get' | 'apply'>;
  /** Whether hooks of the cluster let a machine begin (hooks.ts). */
  readonly hooks: Pick<Hooks, 'gate'>;
  /** The upgrade of a cluster that is under way. */
  readonly record: (cluster: string) => ChangeRecord<UpgradeOrder> | undefined;
}

type At = AtStep<UpgradeOrder>;

export interface Upgrade extends ChangeWork<UpgradeOrder, UpgradeSeen> {
  /**
   * Whether a machine that has its turn may begin: its hooks let it, and its node is drained where
   * the step drains.
   */
  mayBegin(cluster: string, machine: string): boolean;
}

export function upgrade(deps: UpgradeDeps): Upgrade {
  const { releases } = deps;
  /** `CLUSTER MACHINE` → the step for which the node was drained. */
  const drained = new Map<string, string>();
  const looks: SoakLooks = new Map();
  const stepKey = (cluster: string): string => {
    const record = deps.record(cluster);
    return record === undefined ? '' : `${record.id} ${record.step}`;
  };

  const isDrained = (cluster: string, machine: string): boolean =>
    drained.get(`${cluster} ${machine}`) === stepKey(cluster);

  return {
    ...UPGRADE,
    name: 'upgrade',
    schema: upgradeOrder as unknown as ChangeWork<UpgradeOrder, UpgradeSeen>['schema'],
    mayBegin: (cluster, machine) =>
      drainsIn(deps.record(cluster)?.step ?? '')
        ? isDrained(cluster, machine)
        : mayBegin(deps, cluster, machine),
    begun: ({ nodes }, machine) => nodes[machine]?.drained === true,

    async act({ cluster, step, order }) {
      if (step === 'snapshot') return { ...order, snapshot: deps.snapshots.order(cluster).id };
      if (step === 'soak') return { ...order, soakFrom: order.soakFrom ?? deps.clock.now() };
      if (step === 'settle') await releases.settle(cluster, order.to);
      if (step === 'settle-back') await releases.settle(cluster, releaseBack(order));
      if (step === LOWER) await lowerEtcd(deps, cluster, formerEtcd(order));
      if (step === 'settle-back' && returnsLate(order)) await returnDocument(deps, cluster, order);
      return order;
    },

    async look(at) {
      const resolved = deps.clusters.get(at.cluster)?.resolved;
      if (resolved === undefined) return NOTHING_SEEN;
      if (at.step === 'snapshot') return { ...NOTHING_SEEN, snapshot: await snapshotRound(deps, at) };
      if (at.step === 'prefetch') return { ...NOTHING_SEEN, lists: listsOf(deps, at) };
      if (at.step === LOWER)
        return { ...NOTHING_SEEN, storage: await deps.etcd(at.cluster).storage(membersOf(deps, at.cluster)) };
      if (at.step === 'soak') return { ...NOTHING_SEEN, soak: await soakRound(deps, looks, at) };
      if (at.order.soak !== undefined && SERVES_AS.includes(at.step))
        return { ...NOTHING_SEEN, emulated: await emulatedNow(deps, at) };
      if (!drainsIn(at.step)) return NOTHING_SEEN;
      const nodes: Record<string, NodeSeen> = {};
      for (const machine of changing(deps, at)) {
        const kube = await firstReady(
          withRole(resolved, 'control-plane').map((one) => deps.kubes(at.cluster, addressOf(one))),
        );
        const seen = await nodeRound(deps, at, kube, machine, isDrained(at.cluster, machine));
        nodes[machine] = seen;
        if (seen.drained) drained.set(`${at.cluster} ${machine}`, stepKey(at.cluster));
      }
      return { ...NOTHING_SEEN, nodes };
    },

    closed: (at) => whyClosed(deps, at),

    async down({ cluster, step, order }, machines) {
      const record = deps.record(cluster);
      return order.groups && record && drainsIn(step) ? deps.down(record, machines) : new Map();
    },
  };
}

function whyClosed({ closed }: UpgradeDeps, { cluster, step, order }: At): string | undefined {
  const who = waitsForWindow(step);
  return who && closed(cluster, who, order.now);
}

/** The machines that may change now and have not shown their evidence. */
function changing({ record }: UpgradeDeps, { cluster }: At): readonly string[] {
  const known = record(cluster);
  if (known === undefined || known.paused) return [];
  return known.turns.filter((name) => known.evidence[name] === undefined && !known.without.includes(name));
}

/** Whether the hooks of the cluster let a machine begin that has its turn. */
function mayBegin({ clusters, hooks, record }: UpgradeDeps, cluster: string, name: string): boolean {
  const known = record(cluster);
  const machine = clusters.get(cluster)?.resolved?.machines.find((one) => one.name === name);
  return known !== undefined && machine !== undefined && hooks.gate(known, machine, 'before').is === 'open';
}

/**
 * Drains a node, or takes it back when its kubelet has the wanted version. A node that is not yet
 * drained when the maintenance window closes takes pods again.
 */
async function nodeRound(
  deps: UpgradeDeps,
  at: At,
  kube: Kube,
  machine: string,
  isDrained: boolean,
): Promise<NodeSeen> {
  const { releases, record } = deps;
  const { cluster, order, back } = at;
  const wanted = plainVersion((back ? order.from : order.to).versions.kubelet);
  const runs = releases.of(cluster)?.machines.get(machine)?.versions.kubelet;
  // Where only the runtime changes, kubelet's version does not tell whether it had its turn.
  const sameKubelet = order.from.versions.kubelet === order.to.versions.kubelet;
  if (runs === wanted && (!sameKubelet || isDrained)) return takeBack(kube, machine, { kubelet: wanted });
  const why = whyClosed(deps, at);
  const stays: NodeSeen = { drained: false, back: false };
  if (!isDrained && !mayBegin(deps, cluster, machine))
    return why === undefined ? stays : { ...stays, text: why, yields: true };
  // Also while no window is open: a restarted server does not know which nodes it had drained.
  const seen = await drainRound(kube, machine, record(cluster)?.id ?? 'upgrade');
  if (seen.drained || isDrained || why === undefined) return seen;
  await uncordon(kube, machine);
  return { ...stays, text: why, yields: true };
}

/**
 * Looks for a snapshot that is not older than the upgrade, and reads it back. Orders are only in
 * memory, so one that a restarted server has forgotten is given again.
 */
async function snapshotRound({ snapshots, record }: UpgradeDeps, { cluster }: At): Promise<SnapshotSeen> {
  const { items, ordered, failed } = await snapshots.list(cluster);
  const since = record(cluster)?.at ?? 0;
  const found = items.find(({ takenAt }) => takenAt >= since);
  if (found) {
    await snapshots.verify(found);
    return {
      state: 'taken',
      text: `snapshot ${found.id} of ${found.member}, revision ${found.revision}, was read back`,
    };
  }
  if (ordered)
    return { state: 'waiting', text: `snapshot ${ordered.id}: ${ordered.received} octets are here` };
  if (failed && failed.at >= since) return { state: 'failed', text: failed.text };
  snapshots.order(cluster);
  return { state: 'waiting', text: 'the snapshot is ordered' };
}

const membersOf = ({ clusters }: UpgradeDeps, cluster: string): readonly MemberAddress[] => {
  const resolved = clusters.get(cluster)?.resolved;
  return resolved
    ? withRole(resolved, 'etcd').map((one) => ({ name: one.name, address: addressOf(one) }))
    : [];
};

/** Members whose data are of the older version already have nothing to lower. */
async function lowerEtcd(deps: UpgradeDeps, cluster: string, minor: string): Promise<void> {
  const etcd = deps.etcd(cluster);
  const members = membersOf(deps, cluster);
  const storage = await etcd.storage(members);
  if (Object.values(storage).some((one) => one !== minor)) await etcd.lower(members, minor);
}

/** Steps that end when API servers say which version they emulate. */
const SERVES_AS: readonly string[] = ['apiservers', 'lift'];

/** Machine → the minor version that its API server emulates, of those that have their turn. */
async function emulatedNow(deps: UpgradeDeps, at: At): Promise<Readonly<Record<string, string>>> {
  const machines = deps.clusters.get(at.cluster)?.resolved?.machines ?? [];
  const found: Record<string, string> = {};
  for (const machine of machines.filter(({ name }) => changing(deps, at).includes(name))) {
    const { body } = await deps
      .kubes(
        at.cluster,
        addressOf(machine),
      )('/version')
      .catch(() => ({ body: undefined }));
    const { emulationMajor, emulationMinor } = fieldsOf(body);
    if (typeof emulationMajor === 'string' && typeof emulationMinor === 'string')
      found[machine.name] = `${emulationMajor}.${emulationMinor}`;
  }
  return found;
}

/** Cluster → when its health was looked at for a soak, and what was not well. */
type SoakLooks = Map<string, { readonly at: number; readonly unwell: string | undefined }>;

/** The health of a cluster that soaks is looked at so often. */
const SOAK_LOOKS: Millis = duration('1m');

/** While the clock is in doubt no time of a soak passes. */
async function soakRound(
  { clock, health }: UpgradeDeps,
  looks: SoakLooks,
  { cluster, order: { soak = 0, soakFrom } }: At,
): Promise<SoakSeen> {
  const left = clock.doubt() === undefined ? (soakFrom ?? clock.now()) + soak - clock.now() : soak;
  const known = looks.get(cluster);
  const fresh = known !== undefined && clock.monotonic() - known.at < SOAK_LOOKS;
  const unwell = fresh ? known.unwell : await unwellNow(health, cluster);
  if (!fresh) looks.set(cluster, { at: clock.monotonic(), unwell });
  return { leftMs: Math.max(0, left), ...(unwell !== undefined && { unwell }) };
}

async function unwellNow(health: UpgradeDeps['health'], cluster: string): Promise<string | undefined> {
  const { findings } = await health.look(cluster, { etcdOnly: false, begins: true });
  const bad = findings.find(({ ok, check }) => !ok && check !== 'change');
  return bad && `${bad.check} ${bad.subject}: ${bad.says}`;
}

/** Machine → the digest of the images that it has to fetch. */
function listsOf(
  { clusters, supplies }: UpgradeDeps,
  { cluster, order }: At,
): Readonly<Record<string, string>> {
  const to: ResolvedCluster | undefined = clusters.at(cluster, order.to);
  if (to === undefined) return {};
  return Object.fromEntries(
    to.machines.map((machine) => [
      machine.name,
      runsKubelet(machine) ? imagesList(aheadImages(to, machine, supplies(to, machine))) : '',
    ]),
  );
}
