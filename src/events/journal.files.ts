/**
 * Keeps events on disk, so that `muster events` shows events from before a restart. Events are
 * written later and without fsync; if a write fails, they are counted as lost.
 *
 * The journal is a sequence of segments `events-NNNNNNNN.jsonl` with one event per line. Events are
 * appended to the newest segment; the oldest segments are removed.
 */
import { type FileHandle, mkdir, open, readdir, readFile, rm } from 'node:fs/promises';
import { join } from 'node:path';
import type { Clock } from '../base/clock.ts';
import { type Millis, millis } from '../base/duration.ts';
import { messageOf } from '../base/error-text.ts';
import type { Log } from '../base/log.ts';
import type { Metrics } from '../base/metrics.ts';
import { EVENT_KINDS, type MusterEvent } from './event.ts';
import type { MemoryEventLog } from './log.ts';

export interface EventJournalOptions {
  readonly events: MemoryEventLog;
  /** Created if it does not exist. */
  readonly directory: string;
  readonly log: Log;
  readonly clock: Clock;
  readonly metrics: Metrics;
  /** A segment ends at this size; default 4 MiB. */
  readonly segmentBytes?: number;
  /** Number of segments that are kept, including the newest; default 16, at least 2. */
  readonly segments?: number;
  /** Maximum number of events that are read at the start; default 10,000. */
  readonly restored?: number;
}

interface EventJournal {
  /** Whether the last write failed. */
  readonly failing: boolean;
  /** Resolves when all events recorded so far are written, or counted as lost. */
  flush(): Promise<void>;
  /** Writes all recorded events and ends the journal. */
  close(): Promise<void>;
}

/** Events are collected for this time before they are written. */
const GATHER: Millis = millis(100);
/** Maximum number of events that wait for a slow disk; further ones are lost. */
const MAX_WAITING = 20_000;
/** Number of events in one write: few enough that packets do not wait while they are encoded. */
const BATCH = 500;
const SEGMENT = /^events-([0-9]{8,})\.jsonl$/;
const segmentName = (number: number): string => `events-${String(number).padStart(8, '0')}.jsonl`;

/**
 * Restores the events of the journal into `events`, and then writes every new event to the journal.
 * Never throws because of the disk: an unreadable or unwritable directory is logged, and later
 * events try again.
 */
export async function attachEventJournal(options: EventJournalOptions): Promise<EventJournal> {
  const journal = new Journal(options);
  await journal.start();
  return journal;
}

class Journal implements EventJournal {
  readonly #options: EventJournalOptions;
  readonly #segmentBytes: number;
  readonly #segments: number;
  /** Numbers of the segments on disk, oldest first. */
  #numbers: number[] = [];
  #file: FileHandle | undefined;
  #written = 0;
  /** Whether the last line of the segment was written only in part. */
  #torn = false;
  /** Texts of the events that are not written yet. */
  #waiting: string[] = [];
  #writing: Promise<void> | undefined;
  #cancelTimer: (() => void) | undefined;
  #failing = false;
  #unsubscribe: () => void = () => {};

  get failing(): boolean {
    return this.#failing;
  }

  constructor(options: EventJournalOptions) {
    this.#options = options;
    this.#segmentBytes = options.segmentBytes ?? 4 * 1024 * 1024;
    this.#segments = Math.max(2, options.segments ?? 16);
  }

  async start(): Promise<void> {
    try {
      await mkdir(this.#options.directory, { recursive: true, mode: 0o700 });
      this.#numbers = await this.#list();
      this.#options.events.restore(await this.#tail(this.#options.restored ?? 10_000));
    } catch (error) {
      this.#failed(error, 0);
    }
    this.#unsubscribe = this.#options.events.subscribe((_, text) => this.#take(text));
  }

  /** Keeps the event for the next write. It is called within `record` and must be cheap. */
  #take(text: string): void {
    if (this.#waiting.length >= MAX_WAITING) {
      this.#lost(1);
      return;
    }
    this.#waiting.push(text);
    this.#schedule();
  }

  #schedule(): void {
    if (this.#writing || this.#cancelTimer || this.#waiting.length === 0) return;
    this.#cancelTimer = this.#options.clock.after(GATHER, () => {
      this.#cancelTimer = undefined;
      void this.flush();
    });
  }

  async flush(): Promise<void> {
    this.#cancelTimer?.();
    this.#cancelTimer = undefined;
    while (this.#writing) await this.#writing;
    if (this.#waiting.length === 0) return;
    this.#writing = this.#writeWaiting();
    await this.#writing;
    this.#writing = undefined;
    this.#schedule();
  }

  async #writeWaiting(): Promise<void> {
    const count = this.#waiting.length;
    for (let done = 0; done < count; ) {
      const batch = this.#waiting.splice(0, Math.min(BATCH, count - done));
      done += batch.length;
      try {
        await this.#write(`${batch.join('\n')}\n`);
        if (this.#failing) this.#options.log.info({}, 'events are written to the journal again');
        this.#failing = false;
      } catch (error) {
        this.#failed(error, batch.length);
      }
    }
  }

  async #write(text: string): Promise<void> {
    await this.#rotate();
    const bytes = Buffer.from(this.#torn ? `\n${text}` : text);
    let at = 0;
    try {
      // A write to a disk that becomes full first writes a part and then fails.
      while (at < bytes.length) {
        const { bytesWritten } = await this.#file!.write(bytes, at);
        if (bytesWritten === 0) throw new Error('the disk wrote nothing');
        at += bytesWritten;
      }
      this.#torn = false;
    } finally {
      if (at > 0 && at < bytes.length) this.#torn = bytes[at - 1] !== 0x0a;
      this.#written += at;
    }
  }

  /**
   * Opens the segment to append to. Begins a new one when the newest is long enough, and removes
   * the oldest.
   */
  async #rotate(): Promise<void> {
    if (this.#file && this.#written >= this.#segmentBytes) {
      const full = this.#file;
      this.#file = undefined;
      this.#numbers.push(this.#numbers.at(-1)! + 1);
      await full.close();
    }
    if (this.#file) return;
    if (this.#numbers.length === 0) this.#numbers.push(1);
    while (this.#numbers.length > this.#segments)
      await rm(this.#path(this.#numbers.shift()!), { force: true });
    const file = await open(this.#path(this.#numbers.at(-1)!), 'a', 0o600);
    this.#written = (await file.stat()).size;
    this.#file = file;
    if (this.#written >= this.#segmentBytes) await this.#rotate();
  }

  #failed(error: unknown, lost: number): void {
    this.#lost(lost);
    if (this.#failing) return;
    this.#failing = true;
    const { log, directory } = this.#options;
    log.error(
      { code: 'E_EVENT_JOURNAL', directory, cause: messageOf(error) },
      'events are not written to the journal',
    );
  }

  #lost(count: number): void {
    if (count > 0) this.#options.metrics.add('muster_event_journal_lost_total', {}, count);
  }

  #path(number: number): string {
    return join(this.#options.directory, segmentName(number));
  }

  async #list(): Promise<number[]> {
    const names = await readdir(this.#options.directory);
    const numbers = names.flatMap((name) => SEGMENT.exec(name)?.[1] ?? []).map(Number);
    return numbers.sort((a, b) => a - b);
  }

  /**
   * The last `count` events, oldest first. Skips lines that are not events because a crash or a
   * full disk cut them off.
   */
  async #tail(count: number): Promise<MusterEvent[]> {
    let tail: MusterEvent[] = [];
    for (const number of this.#numbers.toReversed()) {
      if (tail.length >= count) break;
      const text = await readFile(this.#path(number), 'utf8');
      if (number === this.#numbers.at(-1)) this.#torn = text !== '' && !text.endsWith('\n');
      tail = [...text.split('\n').flatMap(readEvent), ...tail];
    }
    return tail.slice(-count);
  }

  async close(): Promise<void> {
    this.#unsubscribe();
    await this.flush();
    const file = this.#file;
    this.#file = undefined;
    await file?.close();
  }
}

const isText = (value: unknown): boolean => value === undefined || typeof value === 'string';
const FIELD_TYPES: readonly string[] = ['string', 'number', 'boolean'];

/**
 * Parses a line of the journal. Returns the event, or an empty list if the line is not a valid
 * event.
 */
export function readEvent(line: string): MusterEvent[] {
  try {
    const event = JSON.parse(line) as Partial<MusterEvent> | null;
    if (typeof event !== 'object' || event === null) return [];
    const { sequence, at, subject, kind, session, network, reason, fields, actor } = event;
    const fits =
      Number.isSafeInteger(sequence) &&
      Number.isFinite(at) &&
      typeof subject === 'string' &&
      typeof kind === 'string' &&
      Object.hasOwn(EVENT_KINDS, kind) &&
      isText(session) &&
      isText(network) &&
      (reason === undefined || (typeof reason.code === 'string' && typeof reason.text === 'string')) &&
      (fields === undefined || areFields(fields)) &&
      (actor === undefined || typeof actor?.user === 'string');
    return fits ? [event as MusterEvent] : [];
  } catch {
    return [];
  }
}

const areFields = (fields: unknown): boolean =>
  typeof fields === 'object' &&
  fields !== null &&
  Object.values(fields).every((value) => FIELD_TYPES.includes(typeof value));
