/** The history of machines: events under every name that they had, and verdicts. */
import type { Clock } from '../base/clock.ts';
import { type Timeline, timelineOf } from '../diagnosis/timeline.ts';
import type { EventLog, MusterEvent } from '../events/event.ts';
import type { Roster } from '../machines/roster.ts';
import { subjectsOf } from './subjects.ts';
import { withTimestamps } from './times.ts';

export interface HistoryDeps {
  readonly roster: Pick<Roster, 'get' | 'byMac'>;
  readonly events: Pick<EventLog, 'list'>;
  readonly clock: Pick<Clock, 'now'>;
}

/** All kept events of a machine, oldest first, under every name that it had. */
export function machineEvents(machine: string, deps: HistoryDeps): readonly MusterEvent[] {
  const found = [...subjectsOf(machine, deps.roster)].flatMap((subject) => deps.events.list({ subject }));
  return found.sort((a, b) => a.sequence - b.sequence);
}

/** Converts a verdict to what the API shows. */
export const verdictView = ({ evidence, ...verdict }: Timeline['verdicts'][number]) => ({
  ...verdict,
  evidence: evidence.map((one) => withTimestamps(one, 'at')),
});

/** What is wrong with the last boot of a machine. */
export const verdictsOf = (machine: string, deps: HistoryDeps) =>
  timelineOf({ machine, events: machineEvents(machine, deps), now: deps.clock.now() })!.verdicts.map(
    verdictView,
  );
