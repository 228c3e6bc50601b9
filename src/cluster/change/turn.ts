/**
 * Decides which machine may restart its API server or its member of etcd when a change requires it:
 * one machine after the other, and the next machine only when the one before it runs the revisions
 * in its plan and answers. Pure; decides from the last reports of all machines. A process that does
 * not run, or has not answered for a while, may always be changed, so founding needs no turn and a
 * broken change can be repaired.
 */
import { duration, type Millis } from '../../base/duration.ts';
import { type Revisions, ROLLED, type Rolled, type Turn } from '../plan/restarts.ts';

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
}

/** The machine that asks for a plan. */
interface Asking {
  readonly name: string;
  readonly wanted: Revisions;
  readonly pods: Pods;
}

interface Moment {
  readonly now: Millis;
  /** When this server started to hear machines. */
  readonly startedAt: Millis;
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
const ABSENT_AFTER = duration('45s');
/**
 * For this long after its start a server gives no turns. By then it has heard every agent, and
 * restarts that the previous server allowed have begun.
 */
const ALL_HEARD = duration('60s');
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

/**
 * Decides whether the asking machine may now restart the programs that change for it. A machine
 * whose processes all run as `wanted` has nothing to restart, and its turn is `go`.
 *
 * @example
 * // cp1 has to restart its API server while cp2 is still restarting its own:
 * turnOf({ name: 'cp1', wanted: { 'kube-apiserver': 'b' }, pods }, [cp2], { now, startedAt });
 * // { do: 'wait', changes: ['kube-apiserver'],
 * //   text: 'cp2 is changed first: its kube-apiserver is not ready.' }
 */
export function turnOf({ name, wanted, pods }: Asking, peers: readonly Peer[], moment: Moment): Turn {
  const { now, startedAt, trustEnded } = moment;
  const changes = ROLLED.filter((pod) => worksOtherwise(pods[pod], wanted[pod], now));
  const wait = (text: string): Turn => ({ do: 'wait', changes, text });
  if (changes.length === 0) return { do: 'go', changes };
  if (now - startedAt < ALL_HEARD) return wait(JUST_STARTED);
  const down = rebooting(peers, now).find(({ has }) => carries(has));
  if (down) return wait(`${down.name} reboots first.`);
  if (trustEnded && changes.includes('etcd')) return { do: 'go', changes };
  const heard = heardOf(peers, now);
  const first = blocking(Object.keys(wanted), heard, now);
  if (first) return wait(`${first.name} is changed first: ${notYet(first)}.`);
  const few = tooFew(name, changes, peers, heard);
  return few === undefined ? { do: 'go', changes } : wait(few);
}

const JUST_STARTED = 'The server has just started, and waits a minute to hear what the other machines run.';

const heardOf = (peers: readonly Peer[], now: Millis): readonly Peer[] =>
  peers.filter(({ at }) => at !== undefined && now - at < ABSENT_AFTER);

/** The machines that were ordered to reboot and have not reported another boot. */
export const rebooting = (peers: readonly Peer[], now: Millis): readonly Peer[] =>
  peers.filter(({ rebootsAt }) => rebootsAt !== undefined && now - rebootsAt < REBOOTS_WITHIN);

/**
 * Why a machine may not go down now, as for a reboot; undefined when it may. Workers wait for the
 * machines that carry the cluster, and for workers that reboot, when `workersAtOnce` of them do.
 */
export function whyStays(
  { name, has }: Pick<Peer, 'name' | 'has'>,
  peers: readonly Peer[],
  { now, startedAt, workersAtOnce }: Moment & { readonly workersAtOnce: number },
): string | undefined {
  if (now - startedAt < ALL_HEARD) return JUST_STARTED;
  const away = rebooting(peers, now);
  const server = away.find((peer) => carries(peer.has));
  if (server) return `${server.name} reboots first.`;
  if (!carries(has) && away.length >= workersAtOnce)
    return `${names(away)} ${away.length === 1 ? 'reboots' : 'reboot'} first.`;
  const heard = heardOf(peers, now);
  const first = heard.filter((peer) => carries(peer.has)).find((peer) => isWaitedFor(peer, now));
  return first ? `${first.name} is changed first: ${notYet(first)}.` : tooFew(name, has, peers, heard);
}

/** Why too few of the given programs would be left without a machine; undefined when enough are. */
function tooFew(
  name: string,
  programs: readonly Rolled[],
  peers: readonly Peer[],
  heard: readonly Peer[],
): string | undefined {
  for (const pod of programs) {
    const others = peers.filter(({ has }) => has.includes(pod));
    const missing = others.filter((peer) => !heard.includes(peer) || peer.pods[pod]?.ready !== true);
    if (others.length - missing.length < needed(pod, others.length))
      return `Without ${names(missing)} and ${name} too few instances of ${pod} would be left.`;
  }
  return undefined;
}

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
  (peer.turned || peer.unsettledAt === undefined || now - peer.unsettledAt < STALLED_AFTER);

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
