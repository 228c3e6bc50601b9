/**
 * Whose turn it is when a change would start apiservers or members of etcd anew: one machine after
 * the other, the next only when the former runs what it was given and answers. A pure function of
 * what was last heard. What does not run, or has not answered for a while, may always be changed:
 * founding waits for nobody, and what a change broke can be mended.
 */
import { duration, type Millis } from '../../base/duration.ts';
import { type Revisions, ROLLED, type Rolled, type Turn } from '../plan/restarts.ts';

/** One of them as its machine last said. All times are monotonic. */
export interface Heard {
  readonly ready: boolean;
  /** What its process was started with; absent when none runs, or its machine cannot tell. */
  readonly revision?: string;
  /**
   * Since when it does not answer; absent while it does, and for one that was never seen to run.
   */
  readonly lostAt?: Millis;
}

export type Pods = Partial<Readonly<Record<Rolled, Heard>>>;

/** Another machine, as it was last heard. */
export interface Peer {
  readonly name: string;
  /** What it is to run. */
  readonly has: readonly Rolled[];
  /** Undefined: not since this server started. */
  readonly at?: Millis;
  readonly pods: Pods;
  /** What it was last given. */
  readonly given: Revisions;
  /** It was let go by a turn, and is not back. */
  readonly turned: boolean;
  /** Since when not all that it has answers as it was given; absent while it does. */
  readonly unsettledAt?: Millis;
}

export interface Asking {
  readonly name: string;
  readonly wanted: Revisions;
  readonly pods: Pods;
}

export interface Moment {
  readonly now: Millis;
  /** When this server began to listen. */
  readonly startedAt: Millis;
}

/** One that answered so recently has perhaps lost its leader for a moment. */
const MOMENT = duration('30s');
/** Agents speak every 15 s at the latest. */
const ABSENT_AFTER = duration('45s');
/**
 * By then a server has heard of every agent that is there, and what the one before it let go has
 * begun.
 */
const ALL_HEARD = duration('60s');
/**
 * So long a machine is waited for that is not as it should be for reasons of its own; and after so
 * long people are told.
 */
export const STALLED_AFTER = duration('5m');

export function turnOf({ name, wanted, pods }: Asking, peers: readonly Peer[], moment: Moment): Turn {
  const { now, startedAt } = moment;
  const changes = ROLLED.filter((pod) => worksOtherwise(pods[pod], wanted[pod], now));
  const wait = (text: string): Turn => ({ do: 'wait', changes, text });
  if (changes.length === 0) return { do: 'go', changes };
  if (now - startedAt < ALL_HEARD)
    return wait('The server has just started: it listens for a minute to what the others run.');
  const here = peers.filter(({ at }) => at !== undefined && now - at < ABSENT_AFTER);
  const first = here.find((peer) => isWaitedFor(peer, now));
  if (first) return wait(`${first.name} is changed first: ${notYet(first)}.`);
  for (const pod of changes) {
    const others = peers.filter(({ has }) => has.includes(pod));
    const missing = others.filter((peer) => !here.includes(peer) || peer.pods[pod]?.ready !== true);
    if (others.length - missing.length < needed(pod, others.length))
      return wait(`Without ${names(missing)} and ${name} too few ${pod} would be left.`);
  }
  return { do: 'go', changes };
}

const names = (peers: readonly Peer[]): string => peers.map(({ name }) => name).join(', ');

/** Whether it works, and was started with something else. */
function worksOtherwise(heard: Heard | undefined, wanted: string | undefined, now: Millis): boolean {
  if (heard?.revision === undefined || wanted === undefined || heard.revision === wanted) return false;
  return heard.ready || (heard.lostAt !== undefined && now - heard.lostAt < MOMENT);
}

/** All that the machine has answers, started with what it was given. */
export const isSettled = ({ has, pods, given }: Pick<Peer, 'has' | 'pods' | 'given'>): boolean =>
  has.every((pod) => pods[pod]?.ready === true && isAsGiven(pods[pod], given[pod]));

const isAsGiven = ({ revision }: Heard, given: string | undefined): boolean =>
  revision === undefined || given === undefined || revision === given;

/**
 * Without end for one that was changed and is not back: what stopped it would stop the next one
 * too.
 */
const isWaitedFor = (peer: Peer, now: Millis): boolean =>
  !isSettled(peer) &&
  (peer.turned || peer.unsettledAt === undefined || now - peer.unsettledAt < STALLED_AFTER);

function notYet(peer: Peer): string {
  const pod = peer.has.find((one) => !isSettled({ ...peer, has: [one] }))!;
  return peer.pods[pod]?.ready ? `its ${pod} was not started anew yet` : `its ${pod} is not ready`;
}

/**
 * Of so many others these have to work meanwhile: a quorum of etcd, one apiserver; in small
 * clusters all that there are.
 */
const needed = (pod: Rolled, others: number): number =>
  pod === 'etcd' ? Math.min(Math.floor((others + 1) / 2) + 1, others) : Math.min(1, others);
