/**
 * Founds the etcd of all clusters on this boot host: members' reports come in, decisions go out,
 * and every step is in the store before it has an effect. A server that is killed at any point
 * continues from the record when it starts again.
 */
import type { Clock } from '../../base/clock.ts';
import { millis } from '../../base/duration.ts';
import type { Log } from '../../base/log.ts';
import type { EventSink } from '../../events/event.ts';
import type { Store } from '../../store/store.ts';
import { answerMember } from './answer.ts';
import { ClusterState } from './cluster-state.ts';
import { Executor } from './executor.ts';
import type { EtcdDecision, FoundingRecord, Leaving, MemberAddress, MemberFacts } from './founding.ts';
import { type Departure, gone, nextStage, withStage } from './leaving.ts';
import { hasWork } from './next-step.ts';
import { OperatorOrders } from './operator-orders.ts';
import { recordedMembers } from './record.ts';
import { FoundingRecords } from './records.ts';
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
 * `members` are the members of etcd in the Cluster's document. The orders of operators throw
 * E_FOUNDING with the reason when the founding does not allow them, and E_CONFLICT when the record
 * was changed meanwhile.
 */
export interface Founder {
  /**
   * A member asks what its etcd may do. Resolves after all record changes that follow from its
   * facts are durable.
   */
  ask(cluster: string, members: readonly MemberAddress[], facts: MemberFacts): Promise<EtcdDecision>;
  /** An operator typed the cluster's name to open its founding with the members that have asked. */
  open(cluster: string, members: readonly MemberAddress[]): Promise<FoundingRecord>;
  /** Machines leave the cluster. They stay in the record until they are gone. */
  leave(
    cluster: string,
    members: readonly MemberAddress[],
    departures: readonly Departure[],
  ): Promise<FoundingRecord>;
  /**
   * All machines of the cluster are cleared; it is founded again only when an operator orders it.
   */
  reset(cluster: string, members: readonly MemberAddress[]): Promise<FoundingRecord>;
  /** Ends the replacement of a member, or a restore from its data, before it is done. */
  callOff(cluster: string, members: readonly MemberAddress[], member: string): Promise<FoundingRecord>;
  /** Declares the disk that the member has now its own. */
  adopt(cluster: string, members: readonly MemberAddress[], member: string): Promise<FoundingRecord>;
  /**
   * After its quorum is lost for good, etcd continues from this member's data; the data of the
   * members in `without` are abandoned.
   */
  restore(
    cluster: string,
    members: readonly MemberAddress[],
    member: string,
    without: readonly string[],
  ): Promise<FoundingRecord>;
  /**
   * The record by which this machine has to stop and give up what it runs, from memory: that of its
   * cluster when it was reset, or the one that lists it as leaving.
   */
  departing(machine: string, cluster: string | undefined): FoundingRecord | undefined;
  /** The machine has done what it does in this stage of leaving. */
  passed(cluster: string, machine: string, stage: Leaving['stage']): Promise<void>;
  /** The machine has given up everything that it had to. */
  gone(cluster: string, machine: string): Promise<void>;
  /** The records of all clusters, from memory. */
  records(): readonly FoundingRecord[];
  /** The members in the cluster's record, from memory. */
  recorded(cluster: string): readonly MemberAddress[];
  status(cluster: string, members: readonly MemberAddress[]): Promise<FoundingStatus>;
  /** Reads all records and continues replacements and removals that an earlier life began. */
  resume(): Promise<void>;
  /** Resolves when the executor has stopped. */
  close(): Promise<void>;
}

/** While a member is being replaced, etcd is looked at this often. */
const LOOK_INTERVAL = millis(500);

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

  /** Stores what follows from what a machine did; nothing when the record has it already. */
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
      // An operator asks, often because something has just happened.
      const view = record && (await state.views.fresh(state.addresses(record)));
      const known = { ...state.known(clock.monotonic(), record, view), members };
      return statusOf(known, state);
    },

    async resume() {
      for (const record of await records.readAll())
        if (hasWork(record)) executor.start(stateOf(record.cluster));
    },
    async close() {
      stopping.abort();
      await Promise.all([...states.values()].map(({ executing }) => executing));
    },
  };
}
