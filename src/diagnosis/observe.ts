/** What rules look for in the events of a boot. Pure. */
import { duration, type Millis } from '../base/duration.ts';
import type { EventKind, MusterEvent } from '../events/event.ts';
import { textOf } from './describe.ts';

/** The events of one boot of a machine, oldest first, and the present time by their clock. */
export interface ObservedBoot {
  readonly machine: string;
  readonly events: readonly MusterEvent[];
  readonly now: Millis;
  /** Another boot followed, so nothing more will happen in this one. */
  readonly over: boolean;
}

/** An event that shows something, and the words for it. */
export interface Shown {
  readonly event: MusterEvent;
  readonly text: string;
}

export const NOTHING: readonly Shown[] = [];

/** Events as evidence, in the words of the timeline. */
export const shown = (events: readonly MusterEvent[]): readonly Shown[] =>
  events.map((event) => ({ event, text: textOf(event) }));

/** The events of a kind, and if `codes` are named, with one of these reasons. */
export function withReason(
  { events }: Pick<ObservedBoot, 'events'>,
  kinds: readonly EventKind[],
  codes?: readonly string[],
): readonly MusterEvent[] {
  return events.filter(
    ({ kind, reason }) =>
      kinds.includes(kind) && (codes === undefined || (reason !== undefined && codes.includes(reason.code))),
  );
}

/** The value of a text field; empty when it is absent. */
export const fieldOf = ({ fields }: MusterEvent, name: string): string => String(fields?.[name] ?? '');

/** The value of a number field; 0 when it is absent. */
export const numberOf = ({ fields }: MusterEvent, name: string): number =>
  typeof fields?.[name] === 'number' ? fields[name] : 0;

/** The software of boot clients, as their DHCP messages show it. */
export const BOOTING: readonly string[] = ['pxe', 'http', 'ipxe', 'ipxe-tftp'];

/** The last event that `of` accepts, if nothing that `ends` accepts came later. */
export function lastWithout(
  events: readonly MusterEvent[],
  of: (event: MusterEvent) => boolean,
  ends: (event: MusterEvent) => boolean,
): MusterEvent | undefined {
  const at = events.findLastIndex(of);
  return at < 0 || events.slice(at + 1).some(ends) ? undefined : events[at];
}

/** Whether so much time has passed since an event that the next one is overdue. */
export const isOverdue = (boot: ObservedBoot, event: MusterEvent, patience: Millis): boolean =>
  boot.over || boot.now - event.at >= patience;

/** A client that takes an offer asks within seconds; firmware repeats a DISCOVER after 4 to 32. */
export const CLIENT_PATIENCE = duration('30s');
