/**
 * Decides which machine may restart its API server or its member of etcd when a change requires it:
 * one machine after the other, and the next machine only when the one before it runs the revisions
 * in its plan and answers. A process that does not run, or has not answered for a while, may always
 * be changed, so founding needs no turn and a broken change can be repaired.
 *
 * Pure; decides from the last reports of all machines, and from what the API servers and members of
 * etcd answered in this moment (answers.ts), because a report may be 45 s old. Before a machine
 * goes down
 *
 * - a majority of etcd's members, without it, has to answer now, so that the quorum survives it;
 * - every other API server has to answer now, not only one. Where one of three has lost its power a
 *   second ago, a second one that restarts would leave a single one for all clients. An API server
 *   that has not answered for {@link STALLED_AFTER}, or whose machine an operator left out, is not
 *   waited for, since no change would ever end otherwise; one has to be left in any case.
 *
 * A boot host that reaches nobody gives no turn, and says who does not answer.
 */
import { duration, type Millis } from '../../base/duration.ts';
import { type Revisions, ROLLED, type Rolled, type Turn } from '../plan/restarts.ts';
import { ASKED, type Asked } from './answers.ts';
import { type WorkerLimits, whyGroupIsFull } from './groups.ts';

/** The last report about one process. All times are monotonic. */
export interface Heard {
  readonly ready: boolean;
  /**
   * The revision with which the process was started; absent when it does not run or its machine
   * cannot tell.
   */
  readonly revision?: string;
  /**
   * Since when the process does not answer; absent while it answers, and when it was never seen
   * running.
   */
  readonly lostAt?: Millis;
}

export type Pods = Partial<Readonly<Record<Rolled, Heard>>>;

/** The last report of another machine. */
export interface Peer {
  readonly name: string;
  /** The programs that it has to run. */
  readonly has: readonly Rolled[];
  /** When it was heard; undefined when it was not heard since this server started. */
  readonly at?: Millis;
  readonly pods: Pods;
  /** The revisions in the last plan that it got. */
  readonly given: Revisions;
  /** Whether it had its turn and does not yet run the revisions in its plan. */
  readonly turned: boolean;
  /** Its last decision was to wait. */
  readonly waits?: boolean;
  /**
   * Since when it does not run all programs of its plan, ready and in the right revision; absent
   * while it does.
   */
  readonly unsettledAt?: Millis;
  /**
   * When it was last ordered to reboot; absent when it was not, and as soon as it has reported
   * another boot. A change that leaves the machine out does not bring it back sooner.
   */
  readonly rebootsAt?: Millis;
  /** The programs that answered when the boot host asked; absent: nobody was asked. */
  readonly answers?: readonly Asked[] | undefined;
  /** Since when its API server does not answer the boot host; absent while it does. */
  readonly silentAt?: Millis;
  /** Its member of etcd is taken away in this moment, so that its answer no longer counts. */
  readonly losesEtcd?: boolean;
  /** An operator left it out of the change that is under way. */
  readonly leftOut?: boolean;
}

/** The machine that asks for a plan. */
interface Asking {
  readonly name: string;
  readonly wanted: Revisions;
  readonly pods: Pods;
}

interface Moment {
  readonly now: Millis;
  /** The machine has this turn already, so that it is not decided again. */
  readonly hasTurn?: boolean;
  /**
   * The CA that members of etcd trust until they restart has ended. They accept each other no more,
   * so a member that waited for another one would wait without end.
   */
  readonly trustEnded?: boolean;
}

/**
 * A process that stopped answering less than this long ago still counts as running, because etcd
 * may be electing a leader.
 */
const STILL_RUNNING = duration('30s');
/** A machine that was not heard for this long is absent; agents poll at least every 15 s. */
export const ABSENT_AFTER = duration('45s');
/** The part of the workers that may change at the same time; at least one. */
const WORKERS_AT_ONCE = 0.1;
/**
 * How long an unhealthy machine that this rollout did not touch blocks the next turn. Operators are
 * notified after the same time.
 */
export const STALLED_AFTER = duration('5m');

/**
 * For how long a machine that was ordered to reboot counts as down while it shows no other boot.
 * Servers with much memory and many disks take this long until their system runs. After that it is
 * one that does not answer, and is missing where a quorum is counted.
 */
export const REBOOTS_WITHIN = duration('15m');

/** The programs that the asking machine has to restart; without any, its peers do not matter. */
export const changesOf = ({ wanted, pods }: Omit<Asking, 'name'>, now: Millis): readonly Rolled[] =>
  ROLLED.filter((pod) => worksOtherwise(pods[pod], wanted[pod], now));

/**
 * Decides whether the asking machine may now restart the programs that change for it. A machine
 * whose processes all run as `wanted` has nothing to restart, and its turn is `go`.
 *
 * @example
 * // cp1 has to restart its API server while cp2 is still restarting its own:
 * turnOf({ name: 'cp1', wanted: { 'kube-apiserver': 'b' }, pods }, [cp2], { now });
 * // { do: 'wait', changes: ['kube-apiserver'],
 * //   text: 'cp2 is changed first: its kube-apiserver is not ready.' }
 */
export function turnOf({ name, wanted, pods }: Asking, peers: readonly Peer[], moment: Moment): Turn {
  const { now, trustEnded, hasTurn } = moment;
  const changes = changesOf({ wanted, pods }, now);
  const wait = (text: string) => ({ do: 'wait', changes, text }) as const;
  if (changes.length === 0) return { do: 'go', changes };
  const down = rebooting(peers, now).find(({ has }) => carries(has));
  if (down) return wait(`${down.name} reboots first.`);
  if (trustEnded && changes.includes('etcd')) return { do: 'go', changes };
  const heard = heardOf(peers, now);
  const first = blocking(Object.keys(wanted), heard, now);
  if (first) return wait(`${first.name} is changed first: ${notYet(first)}.`);
  // Its own restart may keep the others from answering for a moment.
  if (hasTurn) return { do: 'go', changes };
  if (mustAsk(changes, peers)) return { ...wait(ASKS), asks: true };
  const few = tooFew(name, changes, peers, now);
  return few === undefined ? { do: 'go', changes } : wait(few);
}

const ASKS = 'The boot host asks the other machines whether they serve.';

/** Whether the others have to be asked, and were not. */
export const mustAsk = (programs: readonly Rolled[], peers: readonly Peer[]): boolean =>
  peers.some(
    ({ has, answers }) =>
      answers === undefined && ASKED.some((one) => has.includes(one) && programs.includes(one)),
  );

const heardOf = (peers: readonly Peer[], now: Millis): readonly Peer[] =>
  peers.filter(({ at }) => at !== undefined && now - at < ABSENT_AFTER);

/** The machines that were ordered to reboot and have not reported another boot. */
export const rebooting = (peers: readonly Peer[], now: Millis): readonly Peer[] =>
  peers.filter(({ rebootsAt }) => rebootsAt !== undefined && now - rebootsAt < REBOOTS_WITHIN);

/**
 * Why a machine may not go down now, as for a reboot; undefined when it may. Workers wait for the
 * machines that carry the cluster, and for other workers: when as many of the cluster reboot as the
 * limits allow, or as many of a group of theirs reboot or are absent.
 */
export function whyStays(
  { name, has }: Pick<Peer, 'name' | 'has'>,
  peers: readonly Peer[],
  { now, limits }: Moment & { readonly limits: WorkerLimits },
): string | undefined {
  const away = rebooting(peers, now);
  const server = away.find((peer) => carries(peer.has));
  if (server) return `${server.name} reboots first.`;
  if (!carries(has) && away.length >= limits.maxUnavailable)
    return `${names(away)} ${away.length === 1 ? 'reboots' : 'reboot'} first.`;
  const heard = heardOf(peers, now);
  if (!carries(has)) {
    const down = peers.filter((peer) => !carries(peer.has) && (away.includes(peer) || !heard.includes(peer)));
    const full = whyGroupIsFull(
      name,
      limits.groups,
      down.map((peer) => peer.name),
    );
    if (full !== undefined) return `In its group ${full}.`;
  }
  const first = heard.filter((peer) => carries(peer.has)).find((peer) => isWaitedFor(peer, now));
  return first ? `${first.name} is changed first: ${notYet(first)}.` : tooFew(name, has, peers, now);
}

/** Why too few of the given programs would be left without a machine; undefined when enough are. */
function tooFew(
  name: string,
  programs: readonly Rolled[],
  peers: readonly Peer[],
  now: Millis,
): string | undefined {
  for (const pod of programs) {
    const others = peers.filter(({ has }) => has.includes(pod));
    const missing = others.filter((peer) => !serves(peer, pod, now));
    const asked = ASKED.find((one) => one === pod);
    const silent = missing.filter(({ answers }) => asked && answers?.includes(asked) === false);
    const because = silent.length === 0 ? '' : ` ${whoIsSilent(silent, pod)}`;
    if (others.length - missing.length < needed(pod, others.length))
      return `Without ${names(missing)} and ${name} too few instances of ${pod} would be left.${because}`;
    const expected = pod === 'kube-apiserver' ? silent.filter((peer) => isExpected(peer, now)) : [];
    if (expected.length > 0)
      return `${whoIsSilent(expected, pod)} It is waited for up to five minutes: power it on, or leave it out.`;
  }
  return undefined;
}

const whoIsSilent = (silent: readonly Peer[], pod: Rolled): string =>
  `The boot host has asked now, and the ${pod} of ${names(silent)} does not answer.`;

/**
 * Whether a program of another machine serves. Nothing was heard of a machine since this server
 * started: then its answer alone counts, because the turns that the server before gave are known.
 */
function serves({ at, pods, answers, losesEtcd }: Peer, pod: Rolled, now: Millis): boolean {
  if (pod === 'etcd' && losesEtcd) return false;
  const asked = ASKED.find((one) => one === pod);
  if (asked !== undefined && answers?.includes(asked) !== true) return false;
  if (at === undefined) return asked !== undefined;
  return now - at < ABSENT_AFTER && pods[pod]?.ready === true;
}

/** Whether an API server that does not answer may be back soon. */
const isExpected = ({ silentAt, leftOut }: Peer, now: Millis): boolean =>
  leftOut !== true && (silentAt === undefined || now - silentAt < STALLED_AFTER);

/** Whether a machine that runs these programs carries the cluster: etcd or an API server. */
const carries = (has: readonly string[]): boolean => has.includes('etcd') || has.includes('kube-apiserver');

/**
 * The machine that the asking one has to wait for. Machines that carry the cluster wait for each
 * other, never for workers. Workers wait for those, and for each other when as many of them as may
 * change at the same time are not back.
 */
function blocking(runs: readonly string[], heard: readonly Peer[], now: Millis): Peer | undefined {
  const carriers = heard.filter(({ has }) => carries(has));
  const first = carriers.find((peer) => isWaitedFor(peer, now));
  if (first || carries(runs)) return first;
  const workers = heard.filter(({ has }) => !carries(has));
  const away = workers.filter((peer) => isWaitedFor(peer, now));
  return away.length < Math.max(1, Math.floor((workers.length + 1) * WORKERS_AT_ONCE)) ? undefined : away[0];
}

const names = (peers: readonly Peer[]): string => peers.map(({ name }) => name).join(', ');

/** Whether the process works, but was started with a revision other than the wanted one. */
function worksOtherwise(heard: Heard | undefined, wanted: string | undefined, now: Millis): boolean {
  if (heard?.revision === undefined || wanted === undefined || heard.revision === wanted) return false;
  return heard.ready || (heard.lostAt !== undefined && now - heard.lostAt < STILL_RUNNING);
}

/**
 * Whether everything that the machine has to run is ready and was started with the revision in its
 * plan.
 */
export const isSettled = ({ has, pods, given }: Pick<Peer, 'has' | 'pods' | 'given'>): boolean =>
  has.every((pod) => pods[pod]?.ready === true && isAsGiven(pods[pod], given[pod]));

const isAsGiven = ({ revision }: Heard, given: string | undefined): boolean =>
  revision === undefined || given === undefined || revision === given;

/**
 * Whether others have to wait for this machine. A machine that was changed and is not back blocks
 * without limit, because what stopped it would stop the next machine too.
 */
const isWaitedFor = (peer: Peer, now: Millis): boolean =>
  !isSettled(peer) &&
  (hasStillItsTurn(peer) || peer.unsettledAt === undefined || now - peer.unsettledAt < STALLED_AFTER);

/**
 * A machine had its turn for a plan that has changed since: it waits for another turn, and works.
 * Two such machines would wait for each other without end.
 */
export const hasStillItsTurn = ({ turned, waits, has, pods }: Peer): boolean =>
  turned && !(waits === true && has.every((pod) => pods[pod]?.ready === true));

function notYet(peer: Peer): string {
  const pod = peer.has.find((one) => !isSettled({ ...peer, has: [one] }))!;
  return peer.pods[pod]?.ready ? `its ${pod} was not restarted yet` : `its ${pod} is not ready`;
}

/**
 * How many of the other machines must work during a restart: a quorum for etcd, one machine for the
 * API server and the programs beside it; in small clusters all of them. kubelet and haproxy serve
 * their own machine alone.
 */
function needed(pod: Rolled, others: number): number {
  if (pod === 'kubelet' || pod === 'haproxy') return 0;
  return pod === 'etcd' ? Math.min(Math.floor((others + 1) / 2) + 1, others) : Math.min(1, others);
}
