/**
 * The security log: what agents, clusters, documents and operators did, apart from what packets
 * cause, on the disk within a second, and chained so that changes show
 * (docs/decisions/0045-the-security-log.md).
 *
 * A disk that takes nothing stops nothing: entries wait in memory, and are counted when they are
 * dropped.
 */

import type { Clock } from '../base/clock.ts';
import { type Millis, millis } from '../base/duration.ts';
import { messageOf } from '../base/error-text.ts';
import type { Log } from '../base/log.ts';
import type { Metrics } from '../base/metrics.ts';
import type { AuditContent, AuditEntry, ChainPlace, Checkpoint } from './audit-chain.ts';
import { AuditSegments } from './audit-segments.files.ts';
import type { EventLog, MusterEvent } from './event.ts';
import { EventLimit } from './event-limit.ts';
import {
  contentOf,
  dailyLimit,
  isSecurityKind,
  LIMIT_WINDOW,
  LONG_WINDOW,
  securityLimit,
} from './security.ts';
import { type AuditKey, RECENT, SecurityChain } from './security-chain.ts';

export interface SecurityLogOptions {
  /** Made if it is not there. */
  readonly directory: string;
  readonly key: AuditKey;
  /**
   * Where the newest signed place is kept besides, so that a log that was cut is noticed at start.
   */
  readonly head: {
    get(): Promise<ChainPlace | undefined>;
    put(place: ChainPlace): Promise<void>;
  };
  /** Its security events are recorded from now on. */
  readonly events: EventLog;
  readonly clock: Clock;
  readonly log: Log;
  readonly metrics: Metrics;
  /** The oldest segments are removed beyond this size; default 256 MiB. */
  readonly limitBytes?: number;
  /** A segment ends at this size; default 8 MiB, and at most a quarter of the limit. */
  readonly segmentBytes?: number;
}

export interface AuditStatus {
  readonly key: Pick<AuditKey, 'id' | 'pem'>;
  readonly head?: ChainPlace;
  readonly checkpoint?: Checkpoint;
  /** Number of the oldest entry that is kept. */
  readonly first?: number;
  readonly octets: number;
  readonly segments: number;
  /** Whether the disk takes no entries at present. */
  readonly failing: boolean;
}

export interface SecurityLog {
  status(): AuditStatus;
  /**
   * Resolves when all that was recorded so far is on the disk; false when the disk does not take
   * it.
   */
  durable(): Promise<boolean>;
  /** Signs all entries and resolves when the checkpoint is on the disk, or was refused. */
  checkpoint(): Promise<Checkpoint | undefined>;
  /** The newest checkpoint that is on the disk and noted besides: the one to give away. */
  kept(): Checkpoint | undefined;
  /** See {@link SecurityChain.list}. */
  list(filter: { readonly after?: number; readonly limit?: number }): readonly AuditEntry[];
  subscribe(listener: (entry: AuditEntry) => void): () => void;
  /** See {@link SecurityChain.compare}. */
  compare(place: ChainPlace): ReturnType<SecurityChain['compare']>;
  /** All lines on the disk, in pieces. */
  read(): AsyncIterable<string>;
  /** Signs what there is, writes it and ends the log. */
  close(): Promise<void>;
}

const DEFAULT_LIMIT_BYTES = 256 * 1024 * 1024;
/** Entries gather for so long before they are written, unless somebody waits for them. */
const GATHER: Millis = millis(200);
/** After the disk refused entries they are tried again this often. */
const RETRY: Millis = millis(1_000);
/** Nobody can change what is older than this without its showing. */
const CHECKPOINT_INTERVAL: Millis = millis(60_000);
/** More entries than this are not held for a disk that takes none. */
const MAX_WAITING = 20_000;

/** Opens the log, and repairs or reports what an earlier process left. */
export async function openSecurityLog(options: SecurityLogOptions): Promise<SecurityLog> {
  const log = new FileSecurityLog(options);
  await log.start();
  return log;
}

class FileSecurityLog implements SecurityLog {
  readonly #options: SecurityLogOptions;
  readonly #chain: SecurityChain;
  readonly #limits = [new EventLimit(securityLimit, LIMIT_WINDOW), new EventLimit(dailyLimit, LONG_WINDOW)];
  #segments: AuditSegments | undefined;
  /** What was recorded before the log could be opened. */
  readonly #early: AuditContent[] = [];
  #waiting: { readonly line: string; readonly sequence: number }[] = [];
  #writing: Promise<boolean> | undefined;
  #cancelWrite: (() => void) | undefined;
  #cancelRound: () => void = () => {};
  #cancelWindow: (() => void) | undefined;
  #unsubscribe: () => void = () => {};
  /** The next line begins a segment. */
  #fresh = false;
  #failing = false;
  /** Entries that were dropped because too many waited. */
  #lost = 0;
  #savedHead = 0;
  #kept: Checkpoint | undefined;

  constructor(options: SecurityLogOptions) {
    this.#options = options;
    const { key, clock } = options;
    this.#chain = new SecurityChain({
      key,
      clock,
      write: (line, { sequence }) => this.#waiting.push({ line, sequence }),
    });
  }

  async start(): Promise<void> {
    const { events, log, directory } = this.#options;
    this.#unsubscribe = events.subscribe((event) => this.#take(event));
    this.#signRegularly();
    if (!(await this.durable()))
      log.error({ code: 'E_AUDIT_LOG', directory }, 'there is no security log yet');
  }

  /** Reads how far the log is, and continues it. */
  async #begin(): Promise<AuditSegments> {
    const { directory, head, key } = this.#options;
    const stored = await head.get();
    const segments = await AuditSegments.open(directory);
    const { recent, torn, damaged } = await segments.find(RECENT);
    const last = recent.at(-1);
    const cut = stored !== undefined && stored.sequence > (last?.sequence ?? 0);
    this.#chain.resume(cut ? stored : last, recent);
    this.#savedHead = stored?.sequence ?? 0;
    const signed = this.#chain.checkpointed;
    if (signed !== undefined && signed.sequence === stored?.sequence) this.#kept = signed;
    this.#fresh = cut || damaged;
    this.#segments = segments;
    if (torn > 0) this.#chain.note('audit.torn', { fields: { octets: torn } });
    this.#chain.note('audit.opened', { fields: { key: key.id } });
    for (const content of this.#early.splice(0)) this.#chain.add(content);
    this.#chain.sign();
    if (cut)
      this.#alarm(
        'log_cut',
        `it ends with entry ${last?.sequence ?? 0}, and entry ${stored.sequence} existed`,
      );
    else if (damaged) this.#alarm('log_damaged', 'lines of its newest segment cannot be read');
    else if (stored && this.#chain.compare(stored) === 'other')
      this.#alarm('log_rewritten', `entry ${stored.sequence} is not the one that was signed`);
    return segments;
  }

  #alarm(code: string, what: string): void {
    const { events, log } = this.#options;
    const text = `The security log was changed while the server did not run: ${what}.`;
    log.error({ code: 'E_AUDIT_LOG', reason: code }, text);
    events.record({ kind: 'audit.alarm', subject: 'security-log', reason: { code, text } });
  }

  #signRegularly(): void {
    this.#cancelRound = this.#options.clock.after(CHECKPOINT_INTERVAL, () => {
      void this.checkpoint();
      this.#signRegularly();
    });
  }

  /** Records an event, if it is one for this log. Called from inside `record`: does not wait. */
  #take(event: MusterEvent): void {
    if (!isSecurityKind(event.kind)) return;
    if (!this.#limits.every((limit) => limit.take(event.kind, event.subject, event.at))) {
      this.#sayLater();
      return;
    }
    this.#add(contentOf(event));
  }

  #add(content: AuditContent): void {
    const begun = this.#segments !== undefined;
    if (this.#waiting.length + this.#early.length >= MAX_WAITING) {
      this.#lost++;
      this.#options.metrics.add('muster_audit_lost_total');
      return;
    }
    if (begun) this.#chain.add(content);
    else this.#early.push(content);
    this.#schedule(GATHER);
  }

  /** Says what the limits left out, once their window is over. */
  #sayLater(): void {
    this.#cancelWindow ??= this.#options.clock.after(LIMIT_WINDOW, () => {
      this.#cancelWindow = undefined;
      this.#sayLeftOut();
    });
  }

  #sayLeftOut(all = false): void {
    const now = this.#options.clock.now();
    for (const { kind, count, since } of this.#limits.flatMap((limit) => limit.ended(now, all)))
      this.#chain.note('audit.limited', {
        subject: kind,
        reason: { code: 'too_many', text: `${count} further entries of this kind were left out.` },
        fields: { count, since: new Date(since).toISOString() },
      });
    if (this.#waiting.length > 0) this.#schedule(GATHER);
    if (this.#limits.some(({ pending }) => pending)) this.#sayLater();
  }

  #schedule(span: Millis): void {
    if (this.#writing || this.#cancelWrite) return;
    this.#cancelWrite = this.#options.clock.after(span, () => {
      this.#cancelWrite = undefined;
      void this.durable();
    });
  }

  async durable(): Promise<boolean> {
    const wanted = this.#chain.head?.sequence ?? 0;
    // What was being written when this was called may not contain the newest entry.
    while (this.#segments === undefined || (this.#waiting[0]?.sequence ?? Number.POSITIVE_INFINITY) <= wanted)
      if (!(await this.#write())) return false;
    return true;
  }

  /** Writes what waits; a call during another one waits for that. False when the disk refuses. */
  #write(): Promise<boolean> {
    this.#cancelWrite?.();
    this.#cancelWrite = undefined;
    this.#writing ??= this.#writeNow().finally(() => {
      this.#writing = undefined;
      if (this.#failing || this.#waiting.length > 0) this.#schedule(this.#failing ? RETRY : GATHER);
    });
    return this.#writing;
  }

  /** Writes what waits, then begins and removes segments. Never throws. */
  async #writeNow(): Promise<boolean> {
    try {
      const segments = this.#segments ?? (await this.#begin());
      await this.#append(segments);
      if (this.#failing) this.#options.log.info({}, 'the security log is written again');
      this.#failing = false;
      this.#sayLost();
      await this.#shrink(segments);
    } catch (error) {
      this.#failed(error);
      return false;
    }
    await this.#saveHead();
    return true;
  }

  async #append(segments: AuditSegments): Promise<void> {
    const batch = this.#waiting.slice();
    if (batch.length === 0) return;
    const text = batch.map(({ line }) => `${line}\n`).join('');
    await segments.append(text, batch[0]!.sequence, this.#fresh);
    this.#waiting.splice(0, batch.length);
    this.#fresh = segments.growing >= this.#segmentBytes;
  }

  get #limitBytes(): number {
    return this.#options.limitBytes ?? DEFAULT_LIMIT_BYTES;
  }

  get #segmentBytes(): number {
    return Math.min(this.#options.segmentBytes ?? 8 * 1024 * 1024, this.#limitBytes / 4);
  }

  #sayLost(): void {
    if (this.#lost === 0) return;
    const count = this.#lost;
    this.#lost = 0;
    this.#chain.note('audit.lost', { fields: { count } });
  }

  /**
   * Removes the oldest segments beyond the limit; each only after an entry that has its last number
   * and hash is on the disk.
   */
  async #shrink(segments: AuditSegments): Promise<void> {
    while (segments.octets > this.#limitBytes) {
      const oldest = await segments.oldest();
      if (oldest === undefined) return;
      const { first, octets, last } = oldest;
      const { sequence } = this.#chain.note('audit.removed', {
        fields: { first, last: last?.sequence ?? first, hash: last?.hash ?? 'unreadable', octets },
      });
      await this.#append(segments);
      this.#options.log.info(
        { first, last: last?.sequence, octets, entry: sequence },
        'the oldest part of the security log is removed',
      );
      await segments.removeOldest();
    }
  }

  /** Keeps the newest signed place in the store, once it is on the disk. */
  async #saveHead(): Promise<void> {
    const { head, log } = this.#options;
    const signed = this.#chain.checkpointed;
    const written = (this.#waiting[0]?.sequence ?? Number.POSITIVE_INFINITY) - 1;
    if (signed === undefined || signed.sequence <= this.#savedHead || signed.sequence >= written) return;
    const { sequence, hash } = signed;
    this.#savedHead = sequence;
    try {
      await head.put({ sequence, hash });
      this.#kept = signed;
    } catch (error) {
      log.warn({ cause: String(error) }, 'the checkpoint was not noted in the store');
    }
  }

  #failed(error: unknown): void {
    if (this.#failing) return;
    this.#failing = true;
    const { log, directory } = this.#options;
    log.error({ code: 'E_AUDIT_LOG', directory, cause: messageOf(error) }, 'the security log is not written');
  }

  async checkpoint(): Promise<Checkpoint | undefined> {
    if (this.#segments !== undefined) this.#chain.sign();
    await this.durable();
    return this.#chain.checkpointed;
  }

  status(): AuditStatus {
    const { head, checkpointed } = this.#chain;
    const { id, pem } = this.#options.key;
    const first = this.#segments?.first;
    return {
      key: { id, pem },
      ...(head && { head }),
      ...(checkpointed && { checkpoint: checkpointed }),
      ...(first !== undefined && { first }),
      octets: this.#segments?.octets ?? 0,
      segments: this.#segments?.count ?? 0,
      failing: this.#failing,
    };
  }

  kept(): Checkpoint | undefined {
    return this.#kept;
  }

  list(filter: { readonly after?: number; readonly limit?: number }): readonly AuditEntry[] {
    return this.#chain.list(filter);
  }

  subscribe(listener: (entry: AuditEntry) => void): () => void {
    return this.#chain.subscribe(listener);
  }

  compare(place: ChainPlace): ReturnType<SecurityChain['compare']> {
    return this.#chain.compare(place);
  }

  async *read(): AsyncGenerator<string> {
    await this.durable();
    if (this.#segments !== undefined) yield* this.#segments.read();
  }

  async close(): Promise<void> {
    this.#unsubscribe();
    this.#cancelRound();
    this.#cancelWindow?.();
    this.#sayLeftOut(true);
    await this.checkpoint();
    await this.#writing;
    this.#cancelWrite?.();
    await this.#segments?.end();
  }
}
