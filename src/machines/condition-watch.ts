/**
 * Looks regularly which condition each machine has, counts them, and records what no other event
 * tells: silence comes without any message.
 */
import type { Clock } from '../base/clock.ts';
import { type Millis, seconds, toMillis } from '../base/duration.ts';
import type { Metrics } from '../base/metrics.ts';
import type { EventSink, Reason } from '../events/event.ts';
import { CONDITIONS, type ConditionWord, conditionOf } from './condition.ts';
import type { Roster } from './roster.ts';

interface ConditionWatchDeps {
  readonly roster: Pick<Roster, 'list' | 'heartbeats'>;
  /** Why a machine's agent waits for an operator; undefined when it does not. */
  readonly waits: (machine: string) => Reason | undefined;
  readonly events: EventSink;
  readonly metrics: Pick<Metrics, 'set'>;
  readonly clock: Pick<Clock, 'after'>;
}

/** Changes from and to these come without any other event. */
const UNTOLD: ReadonlySet<ConditionWord> = new Set(['silent', 'off', 'failing']);
const EVERY: Millis = toMillis(seconds(10));
const WORDS = Object.keys(CONDITIONS) as ConditionWord[];

/** Starts the watch. Returns what ends it. What it finds at its start is no change. */
export function watchConditions({ roster, waits, events, metrics, clock }: ConditionWatchDeps): () => void {
  const before = new Map<string, ConditionWord>();
  const look = (): void => {
    const counts = new Map(WORDS.map((word) => [word, 0]));
    const gone = new Set(before.keys());
    for (const { name, status } of roster.list()) {
      const facts = { heard: roster.heartbeats.heard(name), waits: waits(name) };
      const { word, reason } = conditionOf(status, facts);
      counts.set(word, counts.get(word)! + 1);
      gone.delete(name);
      const from = before.get(name);
      if (from === word) continue;
      before.set(name, word);
      if (from === undefined || !(UNTOLD.has(from) || UNTOLD.has(word))) continue;
      const why = reason ?? { code: word, text: CONDITIONS[word].about };
      events.record({ kind: 'machine.condition', subject: name, reason: why, fields: { from, to: word } });
    }
    for (const name of gone) before.delete(name);
    for (const [condition, count] of counts) metrics.set('muster_machine_conditions', { condition }, count);
    cancel = clock.after(EVERY, look);
  };
  let cancel: () => void = () => {};
  look();
  return () => cancel();
}
