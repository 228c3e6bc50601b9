/**
 * The condition of a machine: one word for what is so now, from its phase, its agent and what
 * operators ordered. Every list, page and command shows this word. Pure.
 */
import type { Reason } from '../events/event.ts';
import type { Heard } from './heartbeats.ts';
import type { OutState } from './life/life.ts';
import type { Phase } from './machine.ts';

/** How a condition is coloured where there is colour. Only `good` is green. */
export type ConditionTone = 'good' | 'busy' | 'bad' | 'warn' | 'new' | 'calm';

/** The words, the worst first. */
export const CONDITIONS = {
  refused: {
    tone: 'bad',
    about: 'Muster gives it nothing: it is in quarantine, or two systems hold its credentials.',
  },
  failing: { tone: 'bad', about: 'Its boot or its wipe failed, or a program of its cluster has ended.' },
  silent: {
    tone: 'bad',
    about: 'Its agent was not heard for 40 seconds, and did not say that the machine shuts down.',
  },
  held: { tone: 'warn', about: 'It waits for something that an operator can change.' },
  unknown: { tone: 'new', about: 'It asked for a boot, and no document describes it.' },
  off: {
    tone: 'calm',
    about:
      'Its agent said that the machine shuts down, or an operator switched it off and its BMC says so; nothing was heard since.',
  },
  out: { tone: 'calm', about: 'An operator took it out of use, or retired it: its boots are held.' },
  registered: { tone: 'calm', about: 'A document describes it, and it has not booted.' },
  booting: { tone: 'busy', about: 'It boots, and has not reported ready.' },
  booted: {
    tone: 'calm',
    about: 'It reported ready at its boot. It has no agent, so nothing was heard of it since.',
  },
  ready: { tone: 'good', about: 'It reported ready, and its agent was heard within 40 seconds.' },
} as const satisfies Readonly<Record<string, { readonly tone: ConditionTone; readonly about: string }>>;
export type ConditionWord = keyof typeof CONDITIONS;

export interface Condition {
  readonly word: ConditionWord;
  /** Why, for people; absent where the word says all. */
  readonly reason?: Reason;
  /** Since when nothing is heard of it, ms since 1970; absent where that is not known. */
  readonly silentSince?: number;
}

/** What else than its status decides about the condition of a machine. */
export interface ConditionFacts {
  /** Whether its agent is heard. */
  readonly heard: Heard;
  /** Why its key waits for an operator; undefined when it does not. */
  readonly waits: Reason | undefined;
}

/** The part of a status that decides, as the store and the API have it. */
export interface ConditionStatus {
  readonly phase: Phase;
  readonly reason?: Reason | undefined;
  readonly agent?:
    | { readonly hold?: Reason | undefined; readonly ended?: Readonly<Record<string, string>> | undefined }
    | undefined;
  readonly alarm?: Reason | undefined;
  readonly quarantine?: Reason | undefined;
  readonly life?: { readonly state: OutState; readonly text: string } | undefined;
}

const because = ({ code, text }: Reason): Reason => ({ code, text });

const OFF: Reason = { code: 'bmc-off', text: 'Its BMC says that it is off.' };
const OFF_UNASKED: Reason = {
  code: 'bmc-off-unasked',
  text: 'Its BMC says that it is off, and nobody ordered that here.',
};

/** The condition of a machine that has this status. */
export function conditionOf(status: ConditionStatus, { heard, waits }: ConditionFacts): Condition {
  const { phase, reason, agent, alarm, quarantine, life } = status;
  const refused = quarantine ?? alarm;
  if (refused) return { word: 'refused', reason: because(refused) };
  if (life?.state === 'wipe-failed')
    return { word: 'failing', reason: { code: life.state, text: life.text } };
  if (life) return { word: 'out', reason: { code: life.state, text: life.text } };
  if (phase === 'failed') return { word: 'failing', ...(reason && { reason: because(reason) }) };
  if (phase === 'held') return { word: 'held', ...(reason && { reason: because(reason) }) };
  const isUp = phase === 'ready' && agent !== undefined;
  if (isUp && heard.is === 'silent' && heard.off !== 'ordered')
    return {
      word: 'silent',
      ...(heard.off && { reason: OFF_UNASKED }),
      ...(heard.at !== undefined && { silentSince: heard.at }),
    };
  if (isUp && heard.is === 'left') return { word: 'off' };
  if (heard.off && phase !== 'discovered' && phase !== 'registered') return { word: 'off', reason: OFF };
  if (waits) return { word: 'held', reason: because(waits) };
  if (phase === 'discovered') return { word: 'unknown' };
  if (phase === 'registered') return { word: 'registered' };
  const [program, complaint] = Object.entries(agent?.ended ?? {})[0] ?? [];
  if (program !== undefined)
    return { word: 'failing', reason: { code: 'ended', text: `${program} has ended: ${complaint}` } };
  if (agent?.hold && heard.is === 'running') return { word: 'held', reason: because(agent.hold) };
  if (phase !== 'ready') return { word: 'booting' };
  return { word: agent === undefined ? 'booted' : 'ready' };
}
