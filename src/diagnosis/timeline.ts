/**
 * The timeline of a boot: from the events of a machine to entries with times, gaps and stages, and
 * the diagnosis of what went wrong. Pure.
 */
import type { Millis } from '../base/duration.ts';
import type { EventKind, MusterEvent } from '../events/event.ts';
import { type Boot, type BootOutcome, bootsOf, findBoot, spanOf } from './boots.ts';
import { durationOf, textOf, waitedFor } from './describe.ts';
import { STAGES, type Stage, stageOf } from './stages.ts';
import { diagnose, type Verdict } from './verdicts.ts';

export interface BootSummary {
  readonly id: string;
  readonly from: Boot['from'];
  /** When it began, and its last event. */
  readonly at: Millis;
  readonly until: Millis;
  readonly outcome: BootOutcome;
}

export interface TimelineEntry {
  readonly sequence: number;
  readonly at: Millis;
  readonly kind: EventKind;
  readonly stage: Stage;
  /** Milliseconds since the boot began. */
  readonly sinceStart: number;
  /** Milliseconds in which nothing was heard, until this happened or its transfer began. */
  readonly gap: number;
  /** What the machine did in the gap, as far as that is known. */
  readonly waitedFor?: string;
  /** Milliseconds that a transfer took; it ended at `at`. */
  readonly duration?: number;
  readonly bytesPerSecond?: number;
  /** What happened, for people. */
  readonly text: string;
  /** The code of the decision or refusal. */
  readonly code?: string;
  /** The machine said so; nobody else saw it. */
  readonly claim?: true;
  readonly fields?: MusterEvent['fields'];
}

export interface StageSpan {
  readonly stage: Stage;
  readonly text: string;
  readonly from: Millis;
  readonly to: Millis;
  /** Milliseconds of the stage in which nothing was heard. */
  readonly silent: number;
}

export interface Timeline {
  readonly machine: string;
  /** Newest first. */
  readonly boots: readonly BootSummary[];
  /** The boot that is shown; absent when no boot of the machine is known. */
  readonly boot?: BootSummary;
  readonly stages: readonly StageSpan[];
  /** Oldest first. */
  readonly entries: readonly TimelineEntry[];
  /** What is wrong, the most certain first; empty when nothing is. */
  readonly verdicts: readonly Verdict[];
}

/**
 * Makes the timeline of a boot.
 *
 * @param of.events all events of the machine, oldest first
 * @param of.boot see {@link findBoot}
 * @param of.now the present time, by the clock that events have; decides what is overdue
 * @returns a timeline without a boot when no boot of the machine is known; undefined when `boot`
 *   names one that is not
 *
 * @example
 * const timeline = timelineOf({ machine: 'node-1', events, now: clock.now() });
 * // timeline?.stages: [{ stage: 'firmware', … }, { stage: 'loader', … }, …]
 */
export function timelineOf(of: {
  readonly machine: string;
  readonly events: readonly MusterEvent[];
  readonly boot?: string | undefined;
  readonly now: Millis;
}): Timeline | undefined {
  const { machine, events, now } = of;
  const all = bootsOf(events);
  const boot = findBoot(all, of.boot);
  if (boot === undefined && of.boot !== undefined) return undefined;
  const boots = all.map(summaryOf).reverse();
  const verdicts = diagnose({
    machine,
    events: boot?.events ?? events,
    now,
    over: boot !== undefined && boot !== all.at(-1),
  });
  if (boot === undefined) return { machine, boots, stages: [], entries: [], verdicts };
  const entries = entriesOf(boot.events);
  return { machine, boots, boot: summaryOf(boot), stages: stagesOf(entries), entries, verdicts };
}

function summaryOf(boot: Boot): BootSummary {
  const { id, from, outcome } = boot;
  const span = spanOf(boot);
  return { id, from, at: span.from, until: span.to, outcome };
}

const CLAIMS: ReadonlySet<EventKind> = new Set([
  'agent.step',
  'agent.held',
  'agent.ended',
  'machine.inventory',
]);

/** What only the machine says, as opposed to what the boot host saw or did. */
const isClaim = ({ kind }: MusterEvent): boolean => kind.startsWith('report.') || CLAIMS.has(kind);

function entriesOf(events: readonly MusterEvent[]): readonly TimelineEntry[] {
  const start = events[0]!.at;
  let stage: Stage = 'firmware';
  /** Until when the machine was last heard. */
  let heard: number = start;
  let before: MusterEvent | undefined;
  return events.map((event) => {
    stage = stageOf(event, stage);
    const duration = durationOf(event);
    const gap = Math.max(0, event.at - (duration ?? 0) - heard);
    heard = Math.max(heard, event.at);
    const waited = before && gap > 0 ? waitedFor(before, event) : undefined;
    before = event;
    const octets = event.fields?.octets;
    const speed = duration && typeof octets === 'number' ? Math.round((octets * 1000) / duration) : undefined;
    return {
      sequence: event.sequence,
      at: event.at,
      kind: event.kind,
      stage,
      sinceStart: event.at - start,
      gap,
      ...(waited !== undefined && { waitedFor: waited }),
      ...(duration !== undefined && { duration }),
      ...(speed !== undefined && { bytesPerSecond: speed }),
      text: textOf(event),
      ...(event.reason && { code: event.reason.code }),
      ...(isClaim(event) && { claim: true as const }),
      ...(event.fields && { fields: event.fields }),
    };
  });
}

/** A stage lasts from the end of the one before it to its own last entry. */
function stagesOf(entries: readonly TimelineEntry[]): readonly StageSpan[] {
  const spans: StageSpan[] = [];
  let end = entries[0]?.at ?? (0 as Millis);
  for (const { stage, at, gap } of entries) {
    const last = spans.at(-1);
    if (last?.stage === stage) spans[spans.length - 1] = { ...last, to: at, silent: last.silent + gap };
    else spans.push({ stage, text: STAGES[stage], from: end, to: at, silent: gap });
    end = at;
  }
  return spans;
}
