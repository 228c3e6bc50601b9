/**
 * Founds the etcd of all clusters on this boot host. It takes members' reports and returns
 * decisions, and every step is in the store before it has an effect. A server that is killed at any
 * point continues from the record when it starts again.
 */
import type { Clock } from '../../base/clock.ts';
import { millis } from '../../base/duration.ts';
import type { Log } from '../../base/log.ts';
import type { EventSink } from '../../events/event.ts';
import type { Store } from '../../store/store.ts';
import { answerMember } from './answer.ts';
import { ClusterState } from './cluster-state.ts';
import { Executor, type GoingDown } from './executor.ts';
import type { EtcdDecision, FoundingRecord, Leaving, MemberAddress, MemberFacts } from './founding.ts';
import { type Departure, gone, nextStage, released, withStage } from './leaving.ts';
import { hasWork } from './next-step.ts';
import { OperatorOrders } from './operator-orders.ts';
import { recordedMembers } from './record.ts';
import { FoundingRecords } from './records.ts';
import type { SnapshotOrder } from './restoring.ts';
import { type FoundingStatus, statusOf } from './status.ts';
import { type FoundingStep, foundingStep } from './steps.ts';
import { type EtcdGateway, EtcdViews } from './views.ts';

interface FounderDeps {
  readonly store: Store;
  readonly clock: Clock;
  readonly log: Log;
  readonly events: EventSink;
  readonly gateway: (cluster: string) => EtcdGateway;
}

/**
 * The interface of this room. `members` are the members of etcd in the Cluster's document. The
 * orders of operators throw E_FOUNDING with the reason when the founding does not allow them, and
 * E_CONFLICT when the record was changed meanwhile.
 */
export interface Founder {
  /**
   * Decides what the etcd of a member may do. Resolves after all record changes that follow from
   * its facts are durable.
   */
  ask(cluster: string, members: readonly MemberAddress[], facts: MemberFacts): Promise<EtcdDecision>;
  /**
   * Opens the founding with the members that have asked, because an operator typed the cluster's
   * name.
   */
  open(cluster: string, members: readonly MemberAddress[]): Promise<FoundingRecord>;
  /** Takes machines out of the cluster. They stay in the record until they have left. */
  leave(
    cluster: string,
    members: readonly MemberAddress[],
    departures: readonly Departure[],
  ): Promise<FoundingRecord>;
  /** Clears all machines of the cluster; it is founded again only when an operator orders it. */
  reset(cluster: string, members: readonly MemberAddress[]): Promise<FoundingRecord>;
  /** Cancels the replacement of a member, or a restore from its data, before it is done. */
  callOff(cluster: string, members: readonly MemberAddress[], member: string): Promise<FoundingRecord>;
  /** Declares that the disk which the member has now is its own. */
  adopt(cluster: string, members: readonly MemberAddress[], member: string): Promise<FoundingRecord>;
  /**
   * Restores etcd from this member's data after its quorum is lost for good. The data of the
   * members in `without` are abandoned.
   */
  restore(
    cluster: string,
    members: readonly MemberAddress[],
    member: string,
    without: readonly string[],
  ): Promise<FoundingRecord>;
  /** Restores a snapshot of etcd as a new founding, after the quorum is lost for good. */
  restoreSnapshot(
    cluster: string,
    members: readonly MemberAddress[],
    order: SnapshotOrder,
  ): Promise<FoundingRecord>;
  /**
   * The record because of which this machine has to stop and give up what it runs, from memory: its
   * cluster's record after a reset, or the record that lists the machine as leaving.
   */
  departing(machine: string, cluster: string | undefined): FoundingRecord | undefined;
  /** Records that the machine has done its part in this stage of leaving. */
  passed(cluster: string, machine: string, stage: Leaving['stage']): Promise<void>;
  /** Ends what a quarantine changed of etcd: {@link released}. */
  released(cluster: string, machine: string): Promise<void>;
  /** Records that the machine has given up everything of the cluster. */
  gone(cluster: string, machine: string): Promise<void>;
  /** The records of all clusters, from memory. */
  records(): readonly FoundingRecord[];
  /** The members in the cluster's record, from memory. */
  recorded(cluster: string): readonly MemberAddress[];
  status(cluster: string, members: readonly MemberAddress[]): Promise<FoundingStatus>;
  /** Reads all records. */
  resume(): Promise<void>;
  /**
   * Continues replacements and removals that began before this server started. Before this call
   * etcd is not changed, whatever is ordered.
   */
  begin(goingDown: GoingDown): void;
  /** Resolves when the executor has stopped. */
  close(): Promise<void>;
}

/** How often etcd is asked while a member is being replaced. */
const LOOK_INTERVAL = millis(500);

/** Makes the founder; it reads nothing before `resume` or the first call. */
export function createFounder({ store, clock, log, events, gateway }: FounderDeps): Founder {
  const stopping = new AbortController();
  const records = new FoundingRecords({ store, log, events });
  const shared = { records, clock, interval: LOOK_INTERVAL, signal: stopping.signal };
  const executor = new Executor({ ...shared, gateway, log });
  const orders = new OperatorOrders({ ...shared, executor });
  const states = new Map<string, ClusterState>();

  const stateOf = (cluster: string, members?: readonly MemberAddress[]): ClusterState => {
    let state = states.get(cluster);
    if (!state) {
      state = new ClusterState(cluster, new EtcdViews({ cluster, gateway, clock, log }));
      states.set(cluster, state);
    }
    if (members) state.members = members;
    return state;
  };

  /**
   * Stores the change that follows from what a machine did; stores nothing when the record has it
   * already.
   */
  const follow = (
    cluster: string,
    next: (record: FoundingRecord) => FoundingRecord | undefined,
    step: FoundingStep,
  ): Promise<void> => {
    const state = stateOf(cluster);
    return state.inTurn(async () => {
      const read = await records.read(cluster);
      const record = read.record && next(read.record);
      if (record && (await records.write(record, read, step))) executor.start(state);
    });
  };

  return {
    ask(cluster, members, facts) {
      const state = stateOf(cluster, members);
      return state.inTurn(async () => {
        state.hear(facts, clock.monotonic());
        const decision = await answerMember({ records, clock }, state, facts);
        state.decisions.set(facts.member, decision);
        if (decision.do === 'replace' || decision.do === 'join') executor.start(state);
        return decision;
      });
    },

    open: (cluster, members) => orders.open(stateOf(cluster, members)),
    leave: (cluster, members, departures) => orders.leave(stateOf(cluster, members), departures),
    reset: (cluster, members) => orders.reset(stateOf(cluster, members)),
    callOff: (cluster, members, member) => orders.callOff(stateOf(cluster, members), member),
    adopt: (cluster, members, member) => orders.adopt(stateOf(cluster, members), member),
    restore: (cluster, members, member, without) =>
      orders.restore(stateOf(cluster, members), { member, without }),

    restoreSnapshot: (cluster, members, order) => orders.restoreSnapshot(stateOf(cluster, members), order),

    departing(machine, cluster) {
      const own = cluster === undefined ? undefined : records.latest(cluster);
      if (own?.reset) return own;
      return records.all().find(({ leaving }) => leaving?.[machine]);
    },
    passed: (cluster, machine, stage) =>
      follow(
        cluster,
        (record) => {
          const leaving = record.leaving?.[machine];
          return leaving?.stage === stage ? withStage(record, machine, nextStage(leaving)) : undefined;
        },
        foundingStep('left_stage', { machine, stage }),
      ),
    released: (cluster, machine) =>
      follow(cluster, (record) => released(record, machine), foundingStep('released', { machine })),
    gone: (cluster, machine) =>
      follow(cluster, (record) => gone(record, machine), foundingStep('gone', { machine })),

    records: () => records.all(),
    recorded(cluster) {
      const record = records.latest(cluster);
      return record ? recordedMembers(record) : [];
    },
    async status(cluster, members) {
      const state = stateOf(cluster);
      const { record } = await records.read(cluster);
      // Operators often ask because something has just happened, so etcd is asked now.
      const view = record && (await state.views.fresh(state.addresses(record)));
      const known = { ...state.known(clock.monotonic(), record, view), members };
      return statusOf(known, state);
    },

    async resume() {
      await records.readAll();
    },
    begin(goingDown) {
      executor.begin(goingDown);
      for (const record of records.all()) if (hasWork(record)) executor.start(stateOf(record.cluster));
    },
    async close() {
      stopping.abort();
      await Promise.all([...states.values()].map(({ executing }) => executing));
    },
  };
}
