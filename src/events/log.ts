/**
 * The event log in memory: one ring buffer for each subject and one for all events. The cost of an
 * event is constant.
 */
import { AgedMap } from '../base/aged.ts';
import type { Clock } from '../base/clock.ts';
import { publicName } from '../base/ids.ts';
import type { Log } from '../base/log.ts';
import type { Metrics } from '../base/metrics.ts';
import type { Acting } from './actor.ts';
import type { EventListener, EventLog, MusterEvent, NewEvent } from './event.ts';
import { PACKET_WINDOW, type PacketLimit } from './packet-limit.ts';
import { HeldTexts, type TextHandle } from './texts.ts';

interface EventLogOptions {
  readonly clock: Clock;
  readonly log: Log;
  readonly metrics: Metrics;
  /** In whose name the code runs that records an event; absent: that is not known. */
  readonly acting?: Acting;
  /** Leaves out what packets cause beyond its limits; absent: all is kept. */
  readonly limit?: PacketLimit;
  /** Maximum number of events of one subject. */
  readonly perSubject: number;
  /** For how many subjects events are kept; the one that was quiet for longest is dropped first. */
  readonly subjects: number;
  /** Maximum number of events in the list of all subjects; default 10,000. */
  readonly recent?: number;
  /**
   * Maximum number of events of all subjects together; default 100,000, about 50 MB. Subjects
   * without recent events lose their older events first.
   */
  readonly total?: number;
}

/** An event log into which earlier events can be restored, once, before anything is recorded. */
export interface MemoryEventLog extends EventLog {
  /**
   * Adds events of earlier processes, oldest first. New events get sequence numbers after the last
   * one.
   */
  restore(events: readonly MusterEvent[]): void;
}

/**
 * Creates an empty log. `record` never throws; an exception of a listener is logged, and the
 * listener stays. A flood of new subjects (invented MACs) does not take more memory: subjects
 * without recent events lose theirs.
 */
export function createEventLog(options: EventLogOptions): MemoryEventLog {
  return new RingEventLog(options);
}

/**
 * An event with the public name of its boot session in place of the id, which permits reports: many
 * people read events.
 */
function withPublicName(event: NewEvent): NewEvent {
  const { session, fields } = event;
  if (session === undefined) return event;
  const name = publicName(session);
  const hides = (value: unknown): value is string => typeof value === 'string' && value.includes(session);
  if (fields === undefined || !Object.values(fields).some(hides)) return { ...event, session: name };
  const shown = Object.entries(fields).map(([key, value]) => [
    key,
    hides(value) ? value.replaceAll(session, name) : value,
  ]);
  return { ...event, session: name, fields: Object.fromEntries(shown) };
}

class RingEventLog implements MemoryEventLog {
  readonly #options: EventLogOptions;
  readonly #texts = new HeldTexts();
  readonly #recent: Ring;
  /** Ordered by their last events. */
  readonly #subjects = new AgedMap<string, Ring>();
  readonly #listeners = new Set<EventListener>();
  #sequence = 0;
  #cancelSummary: (() => void) | undefined;
  /** Number of events in the rings of subjects. */
  #held = 0;

  constructor(options: EventLogOptions) {
    this.#options = options;
    this.#recent = new Ring(options.recent ?? 10_000, this.#texts);
  }

  record(event: NewEvent): void {
    const { clock, metrics, acting, limit } = this.#options;
    const at = clock.now();
    metrics.add('muster_events_total', { kind: event.kind });
    if (limit !== undefined && !limit.take(event.kind, event.subject, at)) {
      this.#summariseLater(limit);
      return;
    }
    const actor = acting?.current();
    const recorded: MusterEvent = {
      sequence: ++this.#sequence,
      at,
      ...withPublicName(event),
      ...(actor && { actor }),
    };
    const text = JSON.stringify(recorded);
    this.#keep(recorded, text);
    for (const listener of this.#listeners) this.#call(listener, recorded, text);
  }

  #summariseLater(limit: PacketLimit): void {
    this.#cancelSummary ??= this.#options.clock.after(PACKET_WINDOW, () => this.#summarise(limit));
  }

  /** Says what the limits left out, and looks again later if a window is not over. */
  #summarise(limit: PacketLimit): void {
    this.#cancelSummary = undefined;
    const now = this.#options.clock.now();
    for (const { kind, count, since } of limit.ended(now))
      this.record({
        kind: 'event.limited',
        subject: kind,
        reason: { code: 'too_many', text: `${count} further events of this kind were left out.` },
        fields: { count, since: new Date(since).toISOString() },
      });
    if (limit.pending) this.#summariseLater(limit);
  }

  #call(listener: EventListener, event: MusterEvent, text: string): void {
    try {
      listener(event, text);
    } catch (error) {
      this.#options.log.error(
        { code: 'E_INTERNAL', kind: event.kind, cause: String(error) },
        'a listener of events failed',
      );
    }
  }

  #keep(event: MusterEvent, text: string): void {
    const { perSubject, subjects, total = 100_000 } = this.#options;
    const kept = this.#texts.put(text, event.sequence);
    this.#recent.push(kept);
    const subject = this.#subjects.get(event.subject) ?? new Ring(perSubject, this.#texts);
    this.#subjects.set(event.subject, subject);
    this.#held -= subject.length;
    subject.push(kept);
    this.#texts.drop(kept);
    this.#held += subject.length;
    if (this.#subjects.size > subjects) this.#forgetQuietest();
    while (this.#held > total && this.#subjects.size > 1) {
      const quietest = this.#subjects.oldest()!.value;
      this.#held -= quietest.halve();
      if (quietest.length === 0) this.#forgetQuietest();
    }
  }

  #forgetQuietest(): void {
    const { key, value } = this.#subjects.oldest()!;
    this.#held -= value.length;
    value.clear();
    this.#subjects.delete(key);
  }

  restore(events: readonly MusterEvent[]): void {
    for (const event of events) {
      if (event.sequence <= this.#sequence) continue;
      this.#sequence = event.sequence;
      this.#keep(event, JSON.stringify(event));
    }
  }

  list(filter: {
    readonly subject?: string;
    readonly after?: number;
    readonly limit?: number;
  }): readonly MusterEvent[] {
    const { subject, after, limit = Number.POSITIVE_INFINITY } = filter;
    const ring: Ring | undefined = subject === undefined ? this.#recent : this.#subjects.get(subject);
    return ring?.list(after, limit) ?? [];
  }

  subscribe(listener: EventListener): () => void {
    // Wrapped, so that a function that is subscribed twice is called twice, and each subscription
    // ends separately.
    const own: EventListener = (event, text) => listener(event, text);
    this.#listeners.add(own);
    return () => void this.#listeners.delete(own);
  }
}

/** Ring buffer of the last `size` events, oldest first. Memory is allocated as it fills. */
class Ring {
  readonly #size: number;
  readonly #texts: HeldTexts;
  #items: TextHandle[] = [];
  /** Position of the oldest event once the ring is full. */
  #start = 0;

  constructor(size: number, texts: HeldTexts) {
    this.#size = size;
    this.#texts = texts;
  }

  get length(): number {
    return this.#items.length;
  }

  /** Drops the older half (at least one event). Returns how many were dropped. */
  halve(): number {
    const dropped = this.length - (this.length >> 1);
    const items = Array.from(this.#items, (_, index) => this.#at(index));
    for (const item of items.splice(0, dropped)) this.#texts.drop(item);
    this.#items = items;
    this.#start = 0;
    return dropped;
  }

  clear(): void {
    for (const item of this.#items.splice(0)) this.#texts.drop(item);
    this.#start = 0;
  }

  push(item: TextHandle): void {
    if (this.#size === 0) return;
    this.#texts.hold(item);
    if (this.#items.length < this.#size) {
      this.#items.push(item);
    } else {
      this.#texts.drop(this.#items[this.#start]!);
      this.#items[this.#start] = item;
      this.#start = (this.#start + 1) % this.#size;
    }
  }

  #at(index: number): TextHandle {
    return this.#items[(this.#start + index) % this.#items.length]!;
  }

  /**
   * With `after`, returns the first `limit` events after that sequence number; otherwise the last
   * `limit` events.
   */
  list(after: number | undefined, limit: number): MusterEvent[] {
    const length = this.#items.length;
    const count = Math.max(0, Math.min(limit, length));
    const from = after === undefined ? length - count : this.#firstAfter(after);
    const found: MusterEvent[] = [];
    for (let i = from; i < length && found.length < count; i++)
      found.push(JSON.parse(this.#texts.text(this.#at(i))) as MusterEvent);
    return found;
  }

  /** Position of the first event after a sequence number, by binary search. */
  #firstAfter(after: number): number {
    let low = 0;
    let high = this.#items.length;
    while (low < high) {
      const middle = (low + high) >> 1;
      if (this.#texts.numberOf(this.#at(middle)) > after) high = middle;
      else low = middle + 1;
    }
    return low;
  }
}
