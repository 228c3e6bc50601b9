/**
 * The founding of all clusters on this boot host: what members say comes in, decisions go out, and
 * every step is in the store before it has an effect. Killed anywhere, the next life of the server
 * goes on from the record.
 */
import { type Clock, pause } from '../../base/clock.ts';
import { type Millis, millis } from '../../base/duration.ts';
import { MusterError } from '../../base/errors.ts';
import { randomId } from '../../base/ids.ts';
import type { Log } from '../../base/log.ts';
import type { EventSink } from '../../events/event.ts';
import { KEYS } from '../../store/keys.ts';
import type { Store } from '../../store/store.ts';
import { addressOfMember, decide } from './decide.ts';
import {
  beginReplacing,
  bindLate,
  type Moment,
  type Ordered,
  openByAsking,
  openByPerson,
  witness,
  witnessView,
} from './evidence.ts';
import type {
  EtcdDecision,
  EtcdView,
  FoundingRecord,
  Known,
  Leaving,
  MemberAddress,
  MemberFacts,
  ServerLife,
} from './founding.ts';
import {
  type Departure,
  gone,
  nextStage,
  orderAdopt,
  orderCallOff,
  orderLeaving,
  orderReset,
  withStage,
} from './leaving.ts';
import { hasWork, nextWork, noted } from './next-step.ts';
import { decodeFounding, encodeFounding, toldMembers } from './record.ts';
import { orderRestore, witnessRestored } from './restoring.ts';
import { type FoundingStatus, statusOf } from './status.ts';

/** etcd of one cluster as the boot host reaches it, with its own client certificate. */
export interface EtcdGateway {
  /** Undefined when no member answers a linearizable read. */
  view(members: readonly MemberAddress[]): Promise<EtcdView | undefined>;
  /** These ask any of the members; they throw with etcd's words when it refuses. */
  remove(members: readonly MemberAddress[], id: string): Promise<void>;
  addLearner(members: readonly MemberAddress[], peerUrl: string): Promise<void>;
  promote(members: readonly MemberAddress[], id: string): Promise<void>;
}

export interface FounderDeps {
  readonly store: Store;
  readonly clock: Clock;
  readonly log: Log;
  readonly events: EventSink;
  readonly gateway: (cluster: string) => EtcdGateway;
}

export interface Founder {
  /** A member asks what its etcd may do. Whatever follows is stored when this resolves. */
  ask(cluster: string, members: readonly MemberAddress[], facts: MemberFacts): Promise<EtcdDecision>;
  /** A person typed the cluster's name. Throws E_FOUNDING with what stands against it. */
  order(cluster: string, members: readonly MemberAddress[]): Promise<FoundingRecord>;
  /**
   * Machines go; what is known of them is in the record until they are gone. Throws E_FOUNDING, as
   * all orders.
   */
  leave(
    cluster: string,
    members: readonly MemberAddress[],
    departures: readonly Departure[],
  ): Promise<FoundingRecord>;
  /** All machines of the cluster are cleared, and nothing is founded until a person orders it. */
  reset(cluster: string, members: readonly MemberAddress[]): Promise<FoundingRecord>;
  /** The replacement of a member, or a restore from its data, ends before it is done. */
  callOff(cluster: string, members: readonly MemberAddress[], member: string): Promise<FoundingRecord>;
  /** The disk that a member has now is its own. */
  adopt(cluster: string, members: readonly MemberAddress[], member: string): Promise<FoundingRecord>;
  /**
   * With its quorum lost for good, etcd goes on from this member's data; those of members that
   * `without` names are given up.
   */
  restore(
    cluster: string,
    members: readonly MemberAddress[],
    member: string,
    without: readonly string[],
  ): Promise<FoundingRecord>;
  /**
   * What this machine has to give up, by the records in memory. Constant time in the number of
   * machines.
   */
  departing(machine: string, cluster: string | undefined): FoundingRecord | undefined;
  /** What a leaving machine does in this stage is done. */
  passed(cluster: string, machine: string, stage: Leaving['stage']): Promise<void>;
  /** The machine has given up what it was to give up. */
  gone(cluster: string, machine: string): Promise<void>;
  /** The records of all clusters, as they are now. */
  records(): readonly FoundingRecord[];
  /** The members that the cluster's record in memory knows. */
  recorded(cluster: string): readonly MemberAddress[];
  status(cluster: string, members: readonly MemberAddress[]): Promise<FoundingStatus>;
  /** Takes up replacements that an earlier life of the server left. */
  resume(): Promise<void>;
  close(): Promise<void>;
}

/** While a member is being replaced, etcd is looked at this often. */
const REPLACING_EVERY = millis(500);
/** What etcd said is used for so long. */
const VIEW_KEPT = millis(1000);

/** A leader is elected within some three seconds. */
const LOOKS = 7;
const isAllowed = ({ ok }: Ordered): boolean => ok;
const isRefused = ({ ok }: Ordered): boolean => !ok;

/** Within this, members report the quorum themselves. */
const FOUNDING_TAKES = millis(30_000);

/** A letter first: words of a plan do not begin with `-`. */
const newId = (): string => `f${randomId()}`;

interface Seat {
  readonly asked: Map<string, MemberFacts>;
  readonly heard: Map<string, Millis>;
  opened: boolean;
  rolledBack?: string;
  view?: { readonly at: number; readonly view: EtcdView | undefined };
  viewing?: Promise<EtcdView | undefined>;
  members: readonly MemberAddress[];
  /** One change of a record at a time; the store's expectations are the second net. */
  turn: Promise<unknown>;
  replacing?: Promise<void>;
  waiting?: string;
  decisions: Map<string, EtcdDecision>;
}

export function createFounder(deps: FounderDeps): Founder {
  const { store, clock, log, events } = deps;
  const seats = new Map<string, Seat>();
  /** As they were last read or written; nobody else writes them while this process lives. */
  const latest = new Map<string, FoundingRecord>();
  const stopping = new AbortController();

  const seatOf = (cluster: string): Seat => {
    const known = seats.get(cluster);
    if (known) return known;
    const seat: Seat = {
      asked: new Map(),
      heard: new Map(),
      opened: false,
      members: [],
      turn: Promise.resolve(),
      decisions: new Map(),
    };
    seats.set(cluster, seat);
    return seat;
  };

  /** The record, the revision it was written at, and that of the store. */
  const read = async (cluster: string) => {
    const key = KEYS.founding.key(cluster);
    const { records, revision } = await store.list(key);
    const found = records.find((one) => one.key === key);
    const record = found && decodeFounding(key, found.value);
    if (record) latest.set(cluster, record);
    return { revision, expect: found?.revision ?? ('absent' as const), record };
  };
  type Read = Awaited<ReturnType<typeof read>>;

  /** Writes the record if nobody else did meanwhile. */
  const write = async (record: FoundingRecord, { expect }: Read, why: string): Promise<boolean> => {
    const key = KEYS.founding.key(record.cluster);
    const result = await store.commit([{ key, put: encodeFounding(record), expect }]);
    if (result.ok) {
      latest.set(record.cluster, record);
      log.info({ cluster: record.cluster, founding: record.id }, `founding: ${why}`);
      events.record({
        kind: 'cluster.founding',
        subject: `Cluster/${record.cluster}`,
        reason: { code: why.split(' ')[0]!, text: why },
        fields: { founding: record.id },
      });
    }
    return result.ok;
  };

  /** Every address that etcd may answer at. */
  const addresses = (seat: Seat, record: FoundingRecord): readonly MemberAddress[] => {
    const all = [...toldMembers(record), ...seat.members];
    for (const [name, { member }] of Object.entries(record.leaving ?? {}))
      if (member !== undefined) all.push({ name, address: member });
    if (record.replacing) all.push({ name: record.replacing.member, address: record.replacing.address });
    return all.filter(({ address }, n) => all.findIndex((one) => one.address === address) === n);
  };

  const viewOf = (seat: Seat, record: FoundingRecord): Promise<EtcdView | undefined> => {
    if (seat.view && clock.monotonic() - seat.view.at < VIEW_KEPT) return Promise.resolve(seat.view.view);
    seat.viewing ??= deps
      .gateway(record.cluster)
      .view(addresses(seat, record))
      .catch((error: unknown) => {
        log.debug({ err: error, cluster: record.cluster }, 'etcd does not answer');
        return undefined;
      })
      .then((view) => {
        seat.view = { at: clock.monotonic(), view };
        delete seat.viewing;
        return view;
      });
    return seat.viewing;
  };

  /** As it is now, whatever was seen a moment ago. */
  const viewNow = (seat: Seat, record: FoundingRecord): Promise<EtcdView | undefined> => {
    delete seat.view;
    return viewOf(seat, record);
  };

  const lifeOf = ({ asked, heard, opened, rolledBack }: Seat): ServerLife => ({
    asked,
    heard,
    now: clock.monotonic(),
    opened,
    ...(rolledBack === undefined ? {} : { rolledBack }),
  });

  const knownOf = (
    cluster: string,
    seat: Seat,
    record: FoundingRecord | undefined,
    view?: EtcdView,
  ): Known => ({
    cluster,
    members: seat.members,
    life: lifeOf(seat),
    ...(record && { record }),
    ...(view && { view }),
  });

  const inTurn = <T>(seat: Seat, work: () => Promise<T>): Promise<T> => {
    const next = seat.turn.then(work);
    seat.turn = next.catch(() => undefined);
    return next;
  };

  /**
   * Founding is left to those who were told of it for a while: whoever is told after its end has to
   * be added.
   */
  const asksEtcd = (record: FoundingRecord, { etcd }: MemberFacts): boolean => {
    if (record.founded) return etcd.wal !== 'present';
    return Object.keys(record.joined).length > 0 && clock.now() - record.openedAt > FOUNDING_TAKES;
  };

  /** One change that follows from what is known, or undefined when all is settled. */
  const change = (known: Known, facts: MemberFacts): { record: FoundingRecord; why: string } | undefined => {
    const now = clock.now();
    const opening = openByAsking(known, { now, id: newId() });
    if (opening) return { record: opening, why: 'opened by all members, asked and empty' };
    const restored = witnessRestored(known, facts, now);
    if (restored) return { record: restored, why: `founded: the data of ${facts.member} were restored` };
    const late = bindLate(known, facts);
    if (late) return { record: late, why: `bound late: ${facts.member} to ${facts.filesystem}` };
    const seen = witness(known, facts, now);
    if (seen) return { record: seen, why: `seen at ${facts.member}: ${facts.etcd.health}, with data` };
    const probed = witnessView(known, now);
    if (probed) return { record: probed, why: 'founded: the probe found a quorum' };
    return undefined;
  };

  const settle = async (cluster: string, seat: Seat, facts: MemberFacts): Promise<EtcdDecision> => {
    for (;;) {
      const now = await read(cluster);
      if ((facts.seenRevision ?? 0) > now.revision) seat.rolledBack = facts.member;
      // etcd itself is asked where the answer hangs on it.
      const view = now.record && asksEtcd(now.record, facts) ? await viewOf(seat, now.record) : undefined;
      const known = knownOf(cluster, seat, now.record, view);
      const changed = change(known, facts);
      if (changed) {
        const ok = await write(changed.record, now, changed.why);
        if (ok && now.record === undefined) seat.opened = true;
        continue;
      }
      const decision = decide(known, facts);
      if (decision.do !== 'replace') return decision;
      const begun = beginReplacing(known, facts, addressOfMember(known, facts.member).address);
      if (!begun) return decision;
      if (!(await write(begun, now, `replacing ${facts.member}: ${decision.why}`))) continue;
      work(cluster);
      return decision;
    }
  };

  /** Goes on with the replacement of a cluster until there is none; one such loop a cluster. */
  const work = (cluster: string): void => {
    const seat = seatOf(cluster);
    seat.replacing ??= replace(cluster, seat)
      .catch((error: unknown) => log.error({ err: error, cluster }, 'replacing a member'))
      .finally(() => {
        delete seat.replacing;
      });
  };

  const replace = async (cluster: string, seat: Seat): Promise<void> => {
    const gateway = deps.gateway(cluster);
    while (!stopping.signal.aborted) {
      const now = await read(cluster);
      if (!now.record || !hasWork(now.record)) return;
      const all = addresses(seat, now.record);
      const step = nextWork(now.record, await viewNow(seat, now.record));
      delete seat.waiting;
      try {
        if (step.do === 'note') {
          await inTurn(seat, () => write(step.record, now, noted(now.record!, step.record)));
          continue;
        }
        if (step.do === 'remove') await gateway.remove(all, step.id);
        if (step.do === 'add') await gateway.addLearner(all, step.peerUrl);
        if (step.do === 'promote') await gateway.promote(all, step.id);
        if (step.do === 'wait') seat.waiting = step.why;
        else continue;
      } catch (error) {
        // "unhealthy cluster" for seconds after a removal, "not in sync" until the learner has
        // caught up: asked again.
        seat.waiting = `${step.do}: ${(error as Error).message}`;
        log.debug({ err: error, cluster }, 'replacing a member: etcd refuses for now');
      }
      await pause(clock, REPLACING_EVERY, stopping.signal);
    }
  };

  /**
   * A person's order: what it makes of the record, stored. etcd is looked at now, not as it was
   * before the fault that the person is here for, and more than once where a change of its leader
   * would mislead: until what `settled` says of the order's result is so.
   */
  const ordered = (
    cluster: string,
    members: readonly MemberAddress[],
    order: (known: Known, moment: Moment) => Ordered,
    why: string,
    settled: (result: Ordered) => boolean = () => true,
  ): Promise<FoundingRecord> => {
    const seat = seatOf(cluster);
    seat.members = members;
    return inTurn(seat, async () => {
      for (let looks = 1; ; looks++) {
        const now = await read(cluster);
        const view = now.record?.founded ? await viewNow(seat, now.record) : undefined;
        const result = order(knownOf(cluster, seat, now.record, view), { now: clock.now(), id: newId() });
        if (!settled(result) && looks < LOOKS && !stopping.signal.aborted) {
          await pause(clock, REPLACING_EVERY, stopping.signal);
          continue;
        }
        if (!result.ok) throw new MusterError('E_FOUNDING', `${cluster}: ${result.text}`);
        if (!(await write(result.record, now, why)))
          throw new MusterError('E_CONFLICT', `the founding of ${cluster} was changed meanwhile`);
        work(cluster);
        return result.record;
      }
    });
  };

  /** What follows from what a machine did; nothing when the record has it already. */
  const follow = (
    cluster: string,
    next: (record: FoundingRecord) => FoundingRecord | undefined,
    why: string,
  ): Promise<void> =>
    inTurn(seatOf(cluster), async () => {
      const now = await read(cluster);
      const record = now.record && next(now.record);
      if (record && (await write(record, now, why))) work(cluster);
    });

  return {
    ask(cluster, members, facts) {
      const seat = seatOf(cluster);
      seat.members = members;
      return inTurn(seat, async () => {
        seat.asked.set(facts.member, facts);
        seat.heard.set(facts.member, clock.monotonic());
        const decision = await settle(cluster, seat, facts);
        seat.decisions.set(facts.member, decision);
        if (decision.do === 'replace' || decision.do === 'join') work(cluster);
        return decision;
      });
    },

    async order(cluster, members) {
      const record = await ordered(
        cluster,
        members,
        (known, moment) => openByPerson(known, moment),
        'opened by a person',
      );
      const seat = seatOf(cluster);
      seat.opened = true;
      delete seat.rolledBack;
      return record;
    },

    leave: (cluster, members, departures) =>
      ordered(
        cluster,
        members,
        (known, { now }) => orderLeaving(known, departures, now),
        `ordered out: ${departures.map(({ machine }) => machine).join(', ')}`,
        isAllowed,
      ),
    reset: (cluster, members) =>
      ordered(cluster, members, (known, { now }) => orderReset(known, now), 'reset by a person'),
    callOff: (cluster, members, member) =>
      ordered(
        cluster,
        members,
        (known) => orderCallOff(known, member),
        `called off: ${member} is waited for no longer`,
      ),
    adopt: (cluster, members, member) =>
      ordered(
        cluster,
        members,
        (known) => orderAdopt(known, member),
        `adopted: the present disk of ${member}`,
      ),
    restore: (cluster, members, member, without) =>
      ordered(
        cluster,
        members,
        (known, moment) => orderRestore(known, { member, without }, moment),
        `restore ordered from the data of ${member}${without.length > 0 ? `, without those of ${without.join(', ')}` : ''}`,
        // A quorum that is seen once is one.
        isRefused,
      ),

    departing(machine, cluster) {
      const own = cluster === undefined ? undefined : latest.get(cluster);
      if (own?.reset) return own;
      for (const record of latest.values()) if (record.leaving?.[machine]) return record;
      return undefined;
    },
    passed: (cluster, machine, stage) =>
      follow(
        cluster,
        (record) => {
          const leaving = record.leaving?.[machine];
          return leaving?.stage === stage ? withStage(record, machine, nextStage(leaving)) : undefined;
        },
        `${machine} leaves: ${stage} is done`,
      ),
    gone: (cluster, machine) => follow(cluster, (record) => gone(record, machine), `${machine} is gone`),
    records: () => [...latest.values()],
    recorded(cluster) {
      const record = latest.get(cluster);
      return record ? toldMembers(record) : [];
    },

    async status(cluster, members) {
      const seat = seatOf(cluster);
      const { record } = await read(cluster);
      // A person asks, often because something has just happened.
      const view = record && (await viewNow(seat, record));
      const known = { ...knownOf(cluster, seat, record, view), members };
      return statusOf(known, { decisions: seat.decisions, waiting: seat.waiting });
    },

    async resume() {
      const { records } = await store.list(KEYS.founding.prefix());
      for (const { key, value } of records) {
        const record = decodeFounding(key, value);
        latest.set(record.cluster, record);
        if (hasWork(record)) work(record.cluster);
      }
    },

    async close() {
      stopping.abort();
      await Promise.all([...seats.values()].map(({ replacing }) => replacing));
    },
  };
}
