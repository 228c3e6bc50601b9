/** The handler for the timeline of a machine's boot, with its diagnosis. */
import { MusterError } from '../base/errors.ts';
import { parseMac } from '../base/mac.ts';
import { type Timeline, timelineOf } from '../diagnosis/timeline.ts';
import type { MusterEvent } from '../events/event.ts';
import type { ApiDeps } from './deps.ts';
import { subjectsOf } from './events.ts';
import { type Handler, json } from './handler.ts';
import { withTimestamps } from './times.ts';

/** All kept events of a machine, oldest first, under every name that it had. */
function machineEvents(machine: string, deps: ApiDeps): readonly MusterEvent[] {
  const found = [...subjectsOf(machine, deps.roster)].flatMap((subject) => deps.events.list({ subject }));
  return found.sort((a, b) => a.sequence - b.sequence);
}

/** A timeline as the API shows it. */
export type TimelineView = ReturnType<typeof timelineView>;

/** Converts a timeline to what the API shows. */
export function timelineView({ boot, boots, stages, entries, verdicts, ...rest }: Timeline) {
  return {
    kind: 'Timeline' as const,
    ...rest,
    ...(boot && { boot: withTimestamps(boot, 'at', 'until') }),
    boots: boots.map((one) => withTimestamps(one, 'at', 'until')),
    stages: stages.map((one) => withTimestamps(one, 'from', 'to')),
    entries: entries.map((one) => withTimestamps(one, 'at')),
    verdicts: verdicts.map(verdictView),
  };
}

/** Converts a verdict to what the API shows. */
const verdictView = ({ evidence, ...verdict }: Timeline['verdicts'][number]) => ({
  ...verdict,
  evidence: evidence.map((one) => withTimestamps(one, 'at')),
});

/**
 * Shows what happened in a boot of a machine, how long it took, what was waited for, and what is
 * wrong. Query: `boot`, an id or how many boots back (`0`, `-1`, …).
 */
export const showTimeline: Handler<ApiDeps> = ({ params, query }, deps) => {
  const named = params.name ?? '';
  const mac = parseMac(named);
  const member = deps.roster.get(named) ?? (mac && deps.roster.byMac(mac));
  const machine = member?.name ?? mac ?? named;
  const events = machineEvents(machine, deps);
  if (member === undefined && events.length === 0)
    throw new MusterError(
      'E_NOT_FOUND',
      `there is no machine "${named}", and no event names one; \`muster get machines\` lists all`,
    );
  const boot = query.get('boot') ?? undefined;
  const timeline = timelineOf({ machine, events, boot, now: deps.clock.now() });
  if (timeline === undefined)
    throw new MusterError(
      'E_NOT_FOUND',
      `no boot "${boot}" of ${machine} is known; without ?boot= the answer lists those that are`,
    );
  return json(timelineView(timeline));
};

/** What is wrong with the last boot of a machine. */
export const verdictsOf = (machine: string, deps: ApiDeps) =>
  timelineOf({ machine, events: machineEvents(machine, deps), now: deps.clock.now() })!.verdicts.map(
    verdictView,
  );
