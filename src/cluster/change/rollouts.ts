/**
 * Gives machines their turns to restart programs (turn.ts), from what this server has heard, what
 * the others answer now (answers.ts), and the turns that are under way, which a restarted server
 * reads from the store (given-turns.ts).
 */
import { WATCHED_PROGRAMS } from '../../agent/wire/evidence.ts';
import type { AgentFacts } from '../../agent/wire/facts.ts';
import type { Clock } from '../../base/clock.ts';
import type { Millis } from '../../base/duration.ts';
import type { EventSink, NewEvent } from '../../events/event.ts';
import type { MemberAddress } from '../etcd/founding.ts';
import type { ClusterMachine, ResolvedCluster } from '../model/resolved-cluster.ts';
import { type Restarts, type Revisions, ROLLED, type Rolled, type Turn } from '../plan/restarts.ts';
import { type AnswersOf, type AskNow, openAnswered } from './answers.ts';
import type { GivenTurn, GivenTurns } from './given-turns.ts';
import type { WorkerLimits } from './groups.ts';
import {
  changesOf,
  type Heard,
  hasStillItsTurn,
  isSettled,
  mustAsk,
  type Peer,
  type Pods,
  REBOOTS_WITHIN,
  STALLED_AFTER,
  turnOf,
  whyStays,
} from './turn.ts';

interface Known extends Peer {
  readonly at: Millis;
  /** Whether it is settled, and its newest plan restarts nothing more. */
  readonly asPlanned: boolean;
  /** Which programs have to wait, since when, and whether operators were notified. */
  readonly waiting?: { readonly wanted: string; readonly since: Millis; readonly notified: boolean };
}

export interface Rollouts extends Restarts {
  /**
   * Whether every program of a machine that restarts in turns is ready and runs as its newest plan
   * wants it; undefined when it runs none, or was not heard since this server started.
   */
  settled(cluster: string, machine: string): boolean | undefined;
  /** Why a machine may not go down now; undefined when it may. */
  whyStays(
    resolved: ResolvedCluster,
    machine: ClusterMachine,
    limits: WorkerLimits,
  ): Promise<string | undefined>;
  /**
   * The programs of a machine that had its turn less than {@link STALLED_AFTER} ago and does not
   * run as planned yet. One that restarts takes those beside it along: an API server is not ready
   * while its member of etcd restarts.
   */
  turns(cluster: string, machine: string): readonly Rolled[];
  /** How long ago a machine was ordered to end the boot that it reported last, if it was. */
  rebootsFor(cluster: string, machine: string): Millis | undefined;
  /** The machines that count as down because they were ordered to reboot. */
  rebooting(cluster: string): readonly string[];
  /** The machines whose etcd may stop at any moment: these, and those that have their turn. */
  goingDown(cluster: string): readonly string[];
  /**
   * Lets a machine end this boot, if it may go down now; resolves with whether it may. From then on
   * it counts as down for all others until it reports another boot, or {@link REBOOTS_WITHIN} is
   * over.
   */
  reboots(
    resolved: ResolvedCluster,
    machine: ClusterMachine,
    bootId: string,
    limits: WorkerLimits,
  ): Promise<boolean>;
}

interface RolloutsDeps {
  readonly clock: Clock;
  readonly events: EventSink;
  /** Why a machine gets no turn; undefined: it may get one. */
  readonly waits: (cluster: string, machine: string) => string | undefined;
  /** Whether the CA that members of etcd trust until they restart has ended. */
  readonly trustEnded: (cluster: string) => boolean;
  /** The machines that an operator left out of the change that is under way. */
  readonly leftOut: (cluster: string) => readonly string[];
  /**
   * Members that etcd still counts, although the Cluster's document names their machines no more:
   * without them a quorum would be taken for one of fewer members.
   */
  readonly leaving: (cluster: string) => readonly MemberAddress[];
  /** Machines whose member of etcd is taken out or defragmented in this moment. */
  readonly losing: (cluster: string) => readonly string[];
  readonly askNow: AskNow;
  readonly givenTurns: GivenTurns;
}

/** Opens the rollouts of all clusters. */
export function openRollouts({
  clock,
  events,
  waits,
  trustEnded,
  leftOut,
  leaving,
  losing,
  askNow,
  givenTurns,
}: RolloutsDeps): Rollouts {
  const { known, rebooting } = underWay(givenTurns, clock);
  const answered = openAnswered(askNow);
  /** Machines whose last decision needs answers. */
  const asking = new Set<string>();
  /** Answers to a machine's own question, for the one decision that follows. */
  const justAnswered = new Map<string, AnswersOf>();

  const askedFor = async (resolved: ResolvedCluster, machine: ClusterMachine) =>
    mustAsk(carriedBy(machine), peersOf(resolved, machine)) ? answered.ask(whole(resolved)) : undefined;

  const keep = (resolved: ResolvedCluster, machine: ClusterMachine): Promise<void> => {
    const key = keyOf(resolved, machine);
    return givenTurns.put(resolved.name, machine.name, turnTo(known.get(key), rebooting.get(key)));
  };

  const staysNow = (
    resolved: ResolvedCluster,
    machine: ClusterMachine,
    limits: WorkerLimits,
    now: AnswersOf | undefined,
  ) =>
    whyStays({ name: machine.name, has: carriedBy(machine) }, peersOf(resolved, machine, now), {
      ...{ now: clock.monotonic(), limits },
    });

  const whole = (resolved: ResolvedCluster) => withLeavers(resolved, leaving(resolved.name));
  const peersOf = (resolved: ResolvedCluster, { name }: ClusterMachine, now?: AnswersOf): readonly Peer[] => {
    const lose = new Set(losing(resolved.name));
    const out = new Set(leftOut(resolved.name));
    const stay = new Set(resolved.machines);
    return whole(resolved)
      .machines.filter((other) => other.name !== name)
      .map((other) => {
        const key = keyOf(resolved, other);
        const ordered = rebooting.get(key);
        return {
          // A machine that leaves gets no plan: of it only what it answers now counts.
          ...((stay.has(other) && known.get(key)) || unheard(other)),
          ...(ordered && { rebootsAt: ordered.at }),
          losesEtcd: lose.has(other.name),
          leftOut: out.has(other.name),
          ...now?.(other.name),
        };
      });
  };

  return {
    ask(resolved, machine, facts, wanted) {
      const now = clock.monotonic();
      const key = keyOf(resolved, machine);
      const before = known.get(key);
      if (rebooting.get(key)?.bootId !== facts.bootId) rebooting.delete(key);
      const pods = podsOf(facts, before?.pods, now);
      const hasTurn =
        before?.turned === true && ROLLED.every((pod) => (before.given[pod] ?? wanted[pod]) === wanted[pod]);
      const moment = { now, hasTurn, trustEnded: trustEnded(resolved.name) };
      const answers = taken(justAnswered, key);
      const peers = changesOf({ wanted, pods }, now).length > 0 ? peersOf(resolved, machine, answers) : [];
      const free = turnOf({ name: machine.name, wanted, pods }, peers, moment);
      const why = free.changes.length > 0 ? waits(resolved.name, machine.name) : undefined;
      const turn: Turn = why === undefined ? free : { do: 'wait', changes: free.changes, text: why };
      const given = turn.do === 'go' ? wanted : without(wanted, turn.changes, before?.given ?? {});
      const has = rolledOn(machine, wanted);
      const settled = isSettled({ has, pods, given });
      const turned = !settled && (before?.turned === true || (turn.do === 'go' && turn.changes.length > 0));
      const waiting = waitingOf(before?.waiting, turn, wanted, now);
      const isNew = turn.changes.some((pod) => before?.given[pod] !== wanted[pod]);
      if (turn.do === 'go' && isNew) events.record(turnEvent(machine.name, turn));
      if (turn.do === 'wait' && waiting?.notified && !before?.waiting?.notified)
        events.record(stalledEvent(machine.name, turn.text));
      known.set(key, {
        name: machine.name,
        has,
        at: now,
        pods,
        given,
        turned,
        ...(!settled && { unsettledAt: before?.unsettledAt ?? now }),
        ...(waiting && { waiting, waits: true }),
        asPlanned: settled && turn.do === 'go',
      });
      if (turn.do === 'wait' && turn.asks) asking.add(key);
      return { turn, soon: turned || turn.do === 'wait' };
    },
    async follow(resolved, machine) {
      if (asking.delete(keyOf(resolved, machine))) {
        justAnswered.set(keyOf(resolved, machine), await answered.ask(whole(resolved)));
        return 'ask';
      }
      await keep(resolved, machine);
      return 'keep';
    },
    whyStays: async (resolved, machine, limits) =>
      staysNow(resolved, machine, limits, await askedFor(resolved, machine)),
    async reboots(resolved, machine, bootId, limits) {
      const answers = await askedFor(resolved, machine);
      // Nothing else may come between the decision and the note.
      if (staysNow(resolved, machine, limits, answers) !== undefined) return false;
      rebooting.set(keyOf(resolved, machine), { bootId, at: clock.monotonic() });
      await keep(resolved, machine);
      return true;
    },
    turns: (cluster, machine) => inTurn(known.get(`${cluster} ${machine}`), clock.monotonic()),
    rebootsFor: (cluster, machine) => since(rebooting.get(`${cluster} ${machine}`), clock.monotonic()),
    rebooting: (cluster) => orderedToReboot(rebooting, cluster, clock.monotonic()),
    goingDown: (cluster) => [
      ...orderedToReboot(rebooting, cluster, clock.monotonic()),
      ...restartingEtcd(known, cluster),
    ],
    settled: (cluster, machine) => known.get(`${cluster} ${machine}`)?.asPlanned,
  };
}

/** The programs of a machine that restarts some of them, for as long as that may take. */
const inTurn = (found: Known | undefined, now: Millis): readonly Rolled[] =>
  found?.turned && found.unsettledAt !== undefined && now - found.unsettledAt < STALLED_AFTER
    ? found.has
    : [];

const keyOf = (resolved: ResolvedCluster, { name }: ClusterMachine): string => `${resolved.name} ${name}`;

/** What outlives this server. */
const turnTo = (found: Known | undefined, ordered: Pick<GivenTurn, 'bootId'> | undefined): GivenTurn => ({
  ...(found?.turned && { given: found.given }),
  ...(ordered?.bootId !== undefined && { bootId: ordered.bootId }),
});

/** Whether a machine has its turn and has not shown yet that it restarted etcd. */
const mayRestartEtcd = (found: Known): boolean =>
  found.has.includes('etcd') &&
  hasStillItsTurn(found) &&
  (found.pods.etcd?.revision === undefined || found.pods.etcd.revision !== found.given.etcd);

const restartingEtcd = (known: ReadonlyMap<string, Known>, cluster: string): readonly string[] =>
  [...known].flatMap(([key, found]) =>
    key === `${cluster} ${found.name}` && mayRestartEtcd(found) ? [found.name] : [],
  );

/** A value that counts once. */
function taken<T>(from: Map<string, T>, key: string): T | undefined {
  const found = from.get(key);
  from.delete(key);
  return found;
}

const since = (ordered: { readonly at: Millis } | undefined, now: Millis): Millis | undefined =>
  ordered && ((now - ordered.at) as Millis);

const orderedToReboot = (
  rebooting: ReadonlyMap<string, { readonly at: Millis }>,
  cluster: string,
  now: Millis,
): readonly string[] =>
  [...rebooting].flatMap(([key, { at }]) => {
    const [of, machine = ''] = key.split(' ');
    return of === cluster && now - at < REBOOTS_WITHIN ? [machine] : [];
  });

/** A machine of which nothing was heard. */
const unheard = (machine: ClusterMachine): Peer => ({
  ...{ name: machine.name, has: carriedBy(machine), pods: {}, given: {}, turned: false },
});

const withLeavers = (resolved: ResolvedCluster, leaving: readonly MemberAddress[]): ResolvedCluster => {
  const gone = leaving.filter(({ name }) => resolved.machines.every((machine) => machine.name !== name));
  const leavers = gone.map(({ name, address }) => ({ name, roles: ['etcd'], addresses: [address] }) as const);
  return { ...resolved, machines: [...resolved.machines, ...leavers] };
};

const turnEvent = (machine: string, { changes }: Turn): NewEvent => ({
  kind: 'cluster.rollout',
  subject: machine,
  reason: {
    code: 'turn',
    text: `The rollout has reached this machine: it restarts ${changes.join(' and ')}.`,
  },
});

const stalledEvent = (machine: string, text: string): NewEvent => ({
  kind: 'cluster.rollout',
  subject: machine,
  reason: {
    code: 'stalled',
    text: `This machine has waited for its turn in the rollout for five minutes. ${text}`,
  },
});

/** What is known when a server starts: the turns and reboots that the one before allowed. */
function underWay(givenTurns: GivenTurns, clock: Clock) {
  /** `CLUSTER MACHINE` → its last report. */
  const known = new Map<string, Known>();
  /** `CLUSTER MACHINE` → the boot that it was ordered to end, and when. */
  const rebooting = new Map<string, { readonly bootId: string; readonly at: Millis }>();
  for (const before of givenTurns.before) {
    const key = `${before.cluster} ${before.machine}`;
    const { given, bootId } = before;
    // A clock that was ahead meanwhile makes it as long as if it had been ordered now.
    const passed = Math.max(0, clock.now() - before.at);
    if (bootId !== undefined) rebooting.set(key, { bootId, at: (clock.monotonic() - passed) as Millis });
    if (given !== undefined) known.set(key, turnedBefore(before.machine, given, clock.monotonic()));
  }
  return { known, rebooting };
}

/** A machine that had its turn when this server started; what it runs is not known yet. */
const turnedBefore = (name: string, given: Revisions, at: Millis): Known => ({
  ...{ name, at, given, pods: {}, turned: true, unsettledAt: at, asPlanned: false },
  has: ROLLED.filter((pod) => given[pod] !== undefined),
});

/** The programs without which the cluster stops. */
const carriedBy = ({ roles }: ClusterMachine): readonly Rolled[] => [
  ...(roles.includes('etcd') ? (['etcd'] as const) : []),
  ...(roles.includes('control-plane') ? (['kube-apiserver'] as const) : []),
];

/** The programs that the machine has to run. */
function rolledOn(machine: ClusterMachine, wanted: Revisions): readonly Rolled[] {
  const carried = carriedBy(machine);
  return ROLLED.filter((pod) => carried.includes(pod) || wanted[pod] !== undefined);
}

/** `wanted`, with the earlier revisions of the programs in `changes`. */
const without = (wanted: Revisions, changes: readonly Rolled[], before: Revisions): Revisions => ({
  ...wanted,
  ...Object.fromEntries(changes.map((pod) => [pod, before[pod]])),
});

function podsOf({ etcd, apiserver, evidence }: AgentFacts, before: Pods | undefined, now: Millis): Pods {
  const heard = (pod: Rolled, health: 'ready' | 'alive' | 'down', revision: string | undefined): Heard => {
    const old = before?.[pod];
    const ready = health === 'ready';
    // A process that is alive and not ready in its first report counts as lost now.
    const lostAt = old?.ready || (health === 'alive' && old === undefined) ? now : old?.lostAt;
    return {
      ready,
      ...(revision !== undefined && { revision }),
      ...(!ready && lostAt !== undefined && { lostAt }),
    };
  };
  return {
    etcd: heard('etcd', etcd.health === 'serving' ? 'ready' : etcd.health, etcd.revision),
    'kube-apiserver': heard('kube-apiserver', apiserver?.health ?? 'down', apiserver?.revision),
    ...Object.fromEntries(
      WATCHED_PROGRAMS.map((pod) => {
        const seen = evidence?.programs.get(pod);
        return [pod, heard(pod, seen?.health ?? 'down', seen?.revision)];
      }),
    ),
  };
}

function waitingOf(before: Known['waiting'], turn: Turn, wanted: Revisions, now: Millis): Known['waiting'] {
  if (turn.do === 'go') return undefined;
  const text = JSON.stringify(wanted);
  const since = before?.wanted === text ? before.since : now;
  return { wanted: text, since, notified: now - since >= STALLED_AFTER };
}
