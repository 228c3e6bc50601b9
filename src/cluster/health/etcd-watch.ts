/**
 * Watches the etcd of every founded cluster for what reads do not show: alarms, a database near its
 * quota, members that lag. It records what begins and ends, defragments members that hold much free
 * space, and carries out operators' orders to reclaim space.
 */
import type { Clock } from '../../base/clock.ts';
import { duration, type Millis } from '../../base/duration.ts';
import { messageOf } from '../../base/error-text.ts';
import { MusterError } from '../../base/errors.ts';
import type { Metrics } from '../../base/metrics.ts';
import { beforeChange } from '../../base/rehearsal.ts';
import type { EventSink, Reason } from '../../events/event.ts';
import type { Store } from '../../store/store.ts';
import {
  dueForDefragmentation,
  type EtcdCondition,
  type MemberCondition,
  TROUBLES,
  type Trouble,
  troublesIn,
  whyAlarmed,
} from '../etcd/condition.ts';
import { membersOf } from '../etcd/etcd-plan.ts';
import type { GoingDown } from '../etcd/executor.ts';
import type { MemberAddress } from '../etcd/founding.ts';
import {
  defragmentOne,
  type ReclaimStep,
  reclaimStep,
  whyDefragmentationWaits,
  whyNotReclaimed,
} from '../etcd/reclaim.ts';
import type { EtcdMaintenance } from '../etcd/views.ts';
import { type Rounds, type RoundsDeps, startRounds } from '../joining/rounds.ts';
import { noCluster, type ResolvedClusters } from '../resolve/resolved-clusters.ts';
import type { EtcdLooks } from './etcd-looks.ts';
import { createReclaimOrders, type ReclaimOrder } from './reclaim-orders.ts';

interface EtcdWatchDeps extends RoundsDeps {
  readonly clusters: Pick<ResolvedClusters, 'get'>;
  readonly gateway: (cluster: string) => EtcdMaintenance;
  readonly looks: Pick<EtcdLooks, 'look' | 'mute'>;
  readonly metrics: Pick<Metrics, 'set'>;
  readonly store: Pick<Store, 'list' | 'commit'>;
  readonly events: EventSink;
  readonly clock: Clock;
  /** Why members of etcd are left alone now: a change or a replacement; undefined: they are not. */
  readonly busy: (cluster: string) => string | undefined;
  readonly goingDown: GoingDown;
  /** Why the routine waits for a maintenance window. */
  readonly closed: (cluster: string) => string | undefined;
}

/** What an order to reclaim space did, and the condition of etcd now. */
export interface SpaceReport {
  readonly cluster: string;
  readonly condition: EtcdCondition;
  readonly troubles: readonly Trouble[];
  /** Why the order would be refused now. */
  readonly refused?: string;
  /** The last order since this server started. */
  readonly order?: ReclaimOrder;
}

export interface EtcdWatch {
  /** @throws {MusterError} E_NOT_FOUND for an unknown or incomplete cluster */
  space(cluster: string): Promise<SpaceReport>;
  /**
   * Begins to reclaim the space of etcd; `space` shows the progress.
   *
   * @throws {MusterError} E_NOT_FOUND as `space`, E_ETCD_SPACE with the reason when it cannot be
   *   done now
   */
  reclaim(cluster: string): Promise<void>;
  /** Goes on with the orders that were under way when the server before this one ended. */
  resume(): Promise<void>;
  close(): Promise<void>;
}

const EVERY = duration('15s');
/** A member has its turn in the routine at most once in this time, however fast it fills. */
const ROUTINE_REST = duration('6h');
/** The routine leaves this time between two members. */
const ROUTINE_GAP = duration('10m');
/** These are reported when two looks in a row found them, since an election causes them too. */
const PASSING: ReadonlySet<Trouble['code']> = new Set(['behind', 'no_leader']);

interface Kept {
  /** The troubles of the last look, and those that were recorded, by code and subject. */
  seen: ReadonlySet<string>;
  readonly recorded: Map<string, Trouble>;
  /** Member → when the routine defragmented it, monotonic. */
  readonly defragmented: Map<string, Millis>;
}

const keyOf = ({ code, subject }: Trouble): string => `${code} ${subject}`;

/**
 * Watches from now on, until it is closed.
 *
 * @throws {MusterError} nothing itself; {@link EtcdWatch} documents what its methods throw
 */
export function startEtcdWatch(deps: EtcdWatchDeps): EtcdWatch {
  const { gateway, metrics, events, clock } = deps;
  const { look } = deps.looks;
  const waitsFor = (cluster: string, members: readonly MemberAddress[]) =>
    whyDefragmentationWaits(members, deps.goingDown(cluster));
  /** What a defragmentation has to know of the others, and what they have to know of it. */
  const others = (cluster: string) => ({
    goingDown: () => deps.goingDown(cluster),
    mute: deps.looks.mute(cluster),
  });
  const stopping = new AbortController();

  const record = (cluster: string, reason: Reason): void =>
    events.record({ kind: 'cluster.etcd', subject: `Cluster/${cluster}`, reason });
  const orders = createReclaimOrders({
    ...{ store: deps.store, clock, gateway, others, record, signal: stopping.signal },
    ended: look,
  });

  const round = async (cluster: string, members: readonly MemberAddress[], kept: Kept): Promise<void> => {
    const condition = await look(cluster, members);
    const found = troublesIn(cluster, condition);
    measure(metrics, cluster, condition, found);
    for (const reason of news(kept, found, condition)) record(cluster, reason);
    orders.goOn({ cluster, members, quota: condition.quota });
    const why = deps.busy(cluster) ?? deps.closed(cluster) ?? waitsFor(cluster, members);
    const waits = orders.isUnderWay(cluster) || why !== undefined;
    const due = waits ? undefined : dueNow(cluster, condition, kept, clock.monotonic());
    if (due === undefined) return;
    kept.defragmented.set(due.name, clock.monotonic());
    const { signal } = stopping;
    const { quota } = condition;
    const of = { members, quota, etcd: gateway(cluster), clock, signal, ...others(cluster) };
    const note = (step: ReclaimStep): void => record(cluster, step);
    await defragmentOne({ ...of, note }, due.name).catch((error: unknown) =>
      note(reclaimStep('failed', { why: messageOf(error) })),
    );
  };

  const rounds: Rounds = startRounds<Kept>(
    deps,
    {
      every: EVERY,
      what: 'watch of etcd',
      begin: () => ({ seen: new Set(), recorded: new Map(), defragmented: new Map() }),
    },
    ({ resolved, state }) => round(resolved.name, membersOf(resolved), state),
  );

  const space = async (cluster: string): Promise<SpaceReport> => {
    const members = membersIn(deps, cluster);
    const condition = await look(cluster, members);
    const troubles = troublesIn(cluster, condition);
    const alarmed = whyAlarmed(cluster, condition) !== undefined;
    const refused =
      whyNotReclaimed(cluster, condition) ??
      waitsFor(cluster, members) ??
      (alarmed ? undefined : deps.busy(cluster));
    const order = orders.of(cluster);
    return { cluster, condition, troubles, ...(refused && { refused }), ...(order && { order }) };
  };
  return {
    space,
    async reclaim(cluster) {
      const { refused, condition } = await space(cluster);
      if (refused !== undefined) throw new MusterError('E_ETCD_SPACE', `${cluster}: ${refused}`);
      if (orders.isUnderWay(cluster))
        throw new MusterError('E_ETCD_SPACE', `${cluster}: the space of etcd is being reclaimed already`);
      beforeChange(`reclaim the space of etcd of ${cluster}`);
      await orders.begin({ cluster, members: membersIn(deps, cluster), quota: condition.quota });
    },
    resume: () => orders.resume(),
    async close() {
      stopping.abort();
      await rounds.close();
      await orders.close();
    },
  };
}

function membersIn({ clusters }: EtcdWatchDeps, cluster: string): readonly MemberAddress[] {
  const resolved = clusters.get(cluster)?.resolved;
  if (resolved === undefined) throw noCluster(cluster);
  return membersOf(resolved);
}

/** The member that the routine defragments at the monotonic time `now`. */
function dueNow(
  cluster: string,
  condition: EtcdCondition,
  { defragmented }: Kept,
  now: Millis,
): MemberCondition | undefined {
  const since = (at: Millis | undefined): number => (at === undefined ? Number.POSITIVE_INFINITY : now - at);
  if ([...defragmented.values()].some((at) => since(at) < ROUTINE_GAP)) return undefined;
  const rests = (member: string): boolean => since(defragmented.get(member)) < ROUTINE_REST;
  return dueForDefragmentation(cluster, condition, rests);
}

/**
 * What began and ended since the last look, which `kept` has afterwards. A member that does not
 * answer says nothing about its troubles, so none ends then.
 */
function news(kept: Kept, found: readonly Trouble[], { silent }: EtcdCondition): readonly Reason[] {
  const reasons: Reason[] = [];
  for (const one of found) {
    const key = keyOf(one);
    if (kept.recorded.has(key) || (PASSING.has(one.code) && !kept.seen.has(key))) continue;
    kept.recorded.set(key, one);
    reasons.push({ code: one.code, text: `${one.subject}: ${one.says}; ${one.fix}` });
  }
  kept.seen = new Set(found.map(keyOf));
  for (const [key, one] of kept.recorded)
    if (!kept.seen.has(key) && silent.length === 0) {
      kept.recorded.delete(key);
      reasons.push({ code: 'cleared', text: `${one.subject}: ended: ${one.says}` });
    }
  return reasons;
}

function measure(
  metrics: Pick<Metrics, 'set'>,
  cluster: string,
  { members, quota }: EtcdCondition,
  found: readonly Trouble[],
): void {
  for (const trouble of TROUBLES)
    metrics.set(
      'muster_cluster_etcd_troubles',
      { cluster, trouble },
      found.filter(({ code }) => code === trouble).length,
    );
  const largest = Math.max(0, ...members.map(({ octets }) => octets));
  metrics.set('muster_cluster_etcd_database_bytes', { cluster }, largest);
  metrics.set('muster_cluster_etcd_quota_bytes', { cluster }, quota);
}
