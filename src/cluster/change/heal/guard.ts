/**
 * Whether a machine of a cluster is lost, and whether a spare may take its place now. Pure.
 *
 * Silence proves little, and a machine that is replaced while it runs is two machines with one
 * name. So everything else that would show that it runs has to be silent too, its cluster must be
 * able to do without it, and its power must be known.
 */

import type { Millis } from '../../../base/duration.ts';
import type { PowerState } from '../../../bmc/bmc.ts';
import type { Order } from '../../../bmc/order.ts';

/** What is known of a machine that is silent. */
export interface LostFacts {
  /** For how long nothing was heard, since the last order about its power ended. */
  readonly silentFor: Millis;
  readonly after: Millis;
  /** Machines that should be heard: how many are silent, and of how many. */
  readonly cluster: Counted;
  readonly host: Counted;
  /** Why the cluster must not change now. */
  readonly changing: string | undefined;
  /** An order about its power has not ended. */
  readonly isOrdered: boolean;
  /** Whether etcd keeps its quorum without it; undefined: etcd does not say. */
  readonly quorum: boolean | undefined;
  /** Whether its member of etcd answers; undefined: it has none. */
  readonly memberAnswers: boolean | undefined;
  /** What the API says of its Node; `none`: it has none by its role. */
  readonly node: 'ready' | 'not-ready' | 'none' | 'unknown';
  /** Whether anything answers at its addresses. */
  readonly answers: boolean;
  /** Replaced machines that nobody has looked at yet, and how many there may be. */
  readonly replaced: { readonly count: number; readonly max: number };
  /** The machine that would take its place. */
  readonly spare: string | undefined;
  /** What its BMC said last; undefined: documents name none. */
  readonly power: PowerState | undefined;
  /**
   * What became of restarting it since it is silent: `failed` when its BMC did not carry it out.
   */
  readonly restarted: 'no' | 'yes' | 'failed';
}

interface Counted {
  readonly silent: number;
  readonly of: number;
}

export const LOST_CODES = {
  'many-silent': 'so many machines are silent that what they share is what failed',
  ordered: 'an order about its power is under way',
  changing: 'its cluster is being changed',
  'quorum-unknown': 'no member of etcd says whether the others have a quorum',
  'no-quorum': 'the other members of etcd have no quorum',
  'member-answers': 'its member of etcd answers',
  'node-unknown': 'no API server says how its Node is',
  'node-ready': 'its Node is ready',
  answers: 'it answers on the network',
  max: 'as many machines were replaced as `spares.max` allows, until somebody has looked at them',
  'no-spare': 'there is no spare that fits',
  restarts: 'it is switched off and on again first',
  'by-hand': 'no BMC can prove that it is off, so a person has to switch it off',
  replaced: 'a spare takes its place',
} as const;
export type LostCode = keyof typeof LOST_CODES;

/** What is done about a silent machine. */
export type LostMove =
  /** It has not been silent for long enough. */
  | { readonly do: 'wait' }
  | { readonly do: 'refuse'; readonly code: LostCode }
  | { readonly do: 'restart'; readonly code: 'restarts' }
  /** Everything is ready but the proof that it is off. */
  | { readonly do: 'ask'; readonly code: 'by-hand'; readonly spare: string }
  | { readonly do: 'replace'; readonly code: 'replaced'; readonly spare: string };

/** At most this part of what should be heard may be silent. One machine always may. */
const SHARE = 0.25;

/** Whether so many are silent that a switch, or the boot host's own network, is what was lost. */
export const areMany = ({ silent, of }: Counted): boolean => silent > Math.max(1, Math.floor(of * SHARE));

/** What is done about a silent machine now. */
export function moveOf(facts: LostFacts): LostMove {
  if (facts.silentFor < facts.after) return { do: 'wait' };
  const why = whyNot(facts);
  if (why !== undefined) return { do: 'refuse', code: why };
  const { spare, power, restarted } = facts;
  if (spare === undefined) return { do: 'refuse', code: 'no-spare' };
  if (power === 'off') return { do: 'replace', code: 'replaced', spare };
  // "unknown" is no reason for anything.
  if (power === undefined || power === 'unknown' || restarted === 'failed')
    return { do: 'ask', code: 'by-hand', spare };
  return restarted === 'no'
    ? { do: 'restart', code: 'restarts' }
    : { do: 'replace', code: 'replaced', spare };
}

/** Why it is not replaced, whatever its power and the spares are. */
function whyNot(facts: LostFacts): LostCode | undefined {
  if (areMany(facts.cluster) || areMany(facts.host)) return 'many-silent';
  if (facts.isOrdered) return 'ordered';
  if (facts.changing !== undefined) return 'changing';
  const why = whyKept(facts);
  if (why !== undefined) return why;
  return facts.replaced.count >= facts.replaced.max ? 'max' : undefined;
}

/** Why a machine keeps its place, whoever wants to replace it: it may run, or is needed. */
export function whyKept({
  quorum,
  memberAnswers,
  node,
  answers,
}: Pick<LostFacts, 'quorum' | 'memberAnswers' | 'node' | 'answers'>): LostCode | undefined {
  if (quorum === undefined) return 'quorum-unknown';
  if (!quorum) return 'no-quorum';
  if (memberAnswers) return 'member-answers';
  if (node === 'unknown') return 'node-unknown';
  if (node === 'ready') return 'node-ready';
  return answers ? 'answers' : undefined;
}

/** What became of restarting a machine since `since`, ms since 1970. */
export function restartedSince(last: Order | undefined, since: number): LostFacts['restarted'] {
  if (last?.end === undefined || last.at < since || !['cycle', 'reset', 'on'].includes(last.want))
    return 'no';
  return last.begun === undefined ? 'failed' : 'yes';
}
