/**
 * The store of one boot host: SQLite in a separate thread. Commits that arrive while the thread
 * writes form the next group; a group is one transaction with one fsync.
 */
import { Worker } from 'node:worker_threads';
import { systemClock } from '../base/clock.ts';
import { MusterError } from '../base/errors.ts';
import type { Log } from '../base/log.ts';
import type { Metrics } from '../base/metrics.ts';
import { isRehearsal } from '../base/rehearsal.ts';
import { checkWrites } from './limits.ts';
import { KEPT_REVISIONS } from './memory.ts';
import { rehearseCommit } from './rehearsed.ts';
import type { Change, CommitResult, Store, StoredRecord, Write } from './store.ts';
import { type HistoryPage, Watchers } from './watchers.ts';
import {
  changesOf,
  type FlatCommits,
  flatten,
  type Outcome,
  type ReadReply,
  type ReadRequest,
  resultOf,
  type StoreThreadData,
  type ThreadReply,
  type ThreadRequest,
  thrown,
} from './wire.ts';

export interface SqliteStoreOptions {
  /** The file; its directory must exist. SQLite keeps its log in `PATH-wal`. */
  readonly path: string;
  readonly log: Log;
  readonly metrics: Metrics;
  /**
   * Length of the history from which watchers can resume, in revisions; default 100,000. The values
   * in the history are also limited to 64 MiB.
   */
  readonly keptRevisions?: number;
  /** Limit of the file's size in pages of 4 KiB. Default: no limit. */
  readonly maxPages?: number;
  /**
   * Called with the error text when commits to the disk begin to fail, and without a text when they
   * succeed again.
   */
  readonly failing?: (cause: string | undefined) => void;
  /**
   * Called once when the store's thread could not be replaced. Every further call of the store
   * rejects.
   */
  readonly broken?: (error: MusterError) => void;
  /** Starts the store's thread. Tests replace it with one that they can stop. */
  readonly startThread?: (data: StoreThreadData) => Worker;
}

/**
 * A group ends at this many commits or this much text (UTF-16 units), so that no commit waits long
 * for the others.
 */
const GROUP_COMMITS = 1024;
const GROUP_TEXT = 4 * 1024 * 1024;
/**
 * Number of groups that are sent to the thread before it answers. With two, the thread never waits
 * for the next group.
 */
const GROUPS_IN_FLIGHT = 2;
/**
 * A second group is sent when it has this many commits. A message wakes both threads, which costs
 * tens of microseconds, while a commit in it costs a few. Under moderate load it is therefore
 * cheaper to collect commits while the first group is written.
 */
const SECOND_GROUP_COMMITS = 64;
/**
 * A thread that fails is replaced. If threads failed this often within the span, the store gives
 * up.
 */
const MAX_BREAKDOWNS = 3;
const BREAKDOWN_SPAN_MS = 60_000;

/**
 * Opens the store; creates the file if it does not exist. Only one process can have it open.
 *
 * @throws {MusterError} E_STORE_NEWER when a newer version of Muster wrote the file; E_STORE_IN_USE
 *   when another process has it open; E_STORE_DAMAGED when it is not a store; E_STORE_OPEN
 *   otherwise.
 */
export async function openSqliteStore(options: SqliteStoreOptions): Promise<FileStore> {
  const store = new SqliteStore(options);
  await store.open();
  return store;
}

/** A store in a file. */
export interface FileStore extends Store {
  /**
   * Writes a consistent copy of the store, with all commits of earlier calls, to a new file.
   * Commits wait meanwhile: about a second for 200 MiB.
   */
  copyTo(path: string): Promise<void>;
}

interface PendingCommit {
  readonly writes: readonly Write[];
  readonly since: number;
  readonly resolve: (result: CommitResult) => void;
  readonly reject: (error: unknown) => void;
}

interface PendingRead {
  readonly request: ReadRequest;
  /** Number of commits that were requested before it, which it must see. */
  readonly after: number;
  readonly resolve: (reply: ReadReply) => void;
  readonly reject: (error: unknown) => void;
}

interface Group {
  readonly commits: readonly PendingCommit[];
  readonly reads: readonly PendingRead[];
}

class SqliteStore implements FileStore {
  readonly #options: SqliteStoreOptions;
  readonly #watchers: Watchers;
  #thread: Worker | undefined;
  /** Newest revision that is durable and was published to watchers. */
  #head = 0;
  #commits: PendingCommit[] = [];
  #reads: PendingRead[] = [];
  #inFlight: Group[] = [];
  /** Number of commits requested, and number of these sent to the thread. */
  #asked = 0;
  #sent = 0;
  #closeSent = false;
  #flushing = false;
  #breakdowns: number[] = [];
  #writeFailing = false;
  /** Set when the store accepts nothing more, because it was closed or gave up. */
  #ended: MusterError | undefined;
  #closed: { readonly promise: Promise<void>; readonly resolve: () => void } | undefined;

  constructor(options: SqliteStoreOptions) {
    this.#options = options;
    this.#watchers = new Watchers({
      head: () => this.#head,
      page: (prefix, after, upto) => this.#page(prefix, after, upto),
    });
  }

  /** Starts the thread; resolves when it has opened the file. */
  open(): Promise<void> {
    const { path, keptRevisions = KEPT_REVISIONS, maxPages, startThread = startStoreThread } = this.#options;
    const thread = startThread({ path, keptRevisions, ...(maxPages !== undefined && { maxPages }) });
    const { promise, resolve, reject } = Promise.withResolvers<void>();
    let ready = false;
    let cause: unknown;
    thread.on('message', (reply: ThreadReply) => {
      if ('outcomes' in reply) {
        this.#answer(reply.outcomes, reply.reads);
      } else if ('ready' in reply) {
        ready = true;
        this.#thread = thread;
        this.#opened(reply.ready);
        resolve();
      } else {
        cause = thrown(reply.failed);
      }
    });
    thread.on('error', (error) => {
      cause = error;
    });
    thread.on('exit', () => {
      this.#thread = undefined;
      if (!ready)
        reject(
          cause ??
            new MusterError('E_STORE_OPEN', `${path}: the store's thread ended before the file was open`),
        );
      else if (this.#closed && this.#inFlight.length === 0) this.#closed.resolve();
      else this.#brokeDown(cause);
    });
    return promise;
  }

  #opened(ready: { readonly revision: number }): void {
    const before = this.#head;
    this.#head = ready.revision;
    // If a thread failed, the history contains the commits that it wrote but did not report.
    this.#watchers.reread(before);
    this.#flushSoon();
  }

  commit(writes: readonly Write[]): Promise<CommitResult> {
    if (writes.length > 0 && isRehearsal()) return rehearseCommit(this, writes);
    const { promise, resolve, reject } = Promise.withResolvers<CommitResult>();
    try {
      if (this.#ended) throw this.#ended;
      checkWrites(writes);
      this.#asked++;
      this.#commits.push({ writes, since: systemClock.monotonic(), resolve, reject });
      this.#flushSoon();
    } catch (error) {
      reject(error);
    }
    return promise;
  }

  async get(key: string): Promise<StoredRecord | undefined> {
    const reply = await this.#read({ read: 'get', key });
    return recordsOf(reply)[0];
  }

  async list(
    prefix: string,
  ): Promise<{ readonly records: readonly StoredRecord[]; readonly revision: number }> {
    const reply = await this.#read({ read: 'list', prefix });
    return { records: recordsOf(reply), revision: 'revision' in reply ? reply.revision : 0 };
  }

  watch(prefix: string, after: number, signal: AbortSignal): AsyncIterable<readonly Change[]> {
    if (this.#ended) throw this.#ended;
    return this.#watchers.watch(prefix, after, signal);
  }

  async copyTo(path: string): Promise<void> {
    await this.#read({ read: 'copy', path });
  }

  async compact(revision: number): Promise<void> {
    await this.#read({ read: 'compact', revision });
  }

  /** Refuses new requests, finishes earlier ones, ends watches and closes the file. */
  close(): Promise<void> {
    if (!this.#closed) {
      this.#closed = Promise.withResolvers<void>();
      this.#watchers.close();
      if (this.#ended) this.#closed.resolve();
      this.#ended ??= new MusterError('E_STORE_CLOSED', 'the store is closed');
      this.#flushSoon();
    }
    return this.#closed.promise;
  }

  async #page(prefix: string, after: number, upto: number): Promise<HistoryPage> {
    const reply = await this.#read({ read: 'history', prefix, after, upto });
    if (!('changes' in reply)) throw new MusterError('E_INTERNAL', "the store's thread sent no history");
    const changes: Change[] = [];
    for (let i = 0; i < reply.changes.length; i += 3) {
      changes.push({
        key: reply.changes[i] as string,
        value: (reply.changes[i + 1] as string | null) ?? undefined,
        revision: reply.changes[i + 2] as number,
      });
    }
    return { changes, through: reply.through };
  }

  #read(request: ReadRequest): Promise<ReadReply> {
    const { promise, resolve, reject } = Promise.withResolvers<ReadReply>();
    if (this.#ended) reject(this.#ended);
    else this.#reads.push({ request, after: this.#asked, resolve, reject });
    this.#flushSoon();
    return promise;
  }

  /**
   * Sends after this turn of the event loop, so that the requests of all packets that were read in
   * it travel together.
   */
  #flushSoon(): void {
    if (this.#flushing || !this.#mayFlush()) return;
    this.#flushing = true;
    setImmediate(() => {
      this.#flushing = false;
      this.#flush();
    });
  }

  #mayFlush(): boolean {
    const under = this.#inFlight.length;
    return under === 0 || (under < GROUPS_IN_FLIGHT && this.#commits.length >= SECOND_GROUP_COMMITS);
  }

  #flush(): void {
    if (!this.#thread) return;
    while (this.#mayFlush() && (this.#commits.length > 0 || this.#reads.length > 0)) {
      const { commits, flat } = this.#nextCommits();
      const reads = this.#nextReads();
      this.#inFlight.push({ commits, reads });
      this.#send({ commits: flat, reads: reads.map((read) => read.request) });
    }
    if (this.#closed && this.#inFlight.length === 0 && !this.#closeSent) {
      this.#closeSent = true;
      this.#inFlight.push({ commits: [], reads: [] });
      this.#send({ commits: [], reads: [], close: true });
    }
  }

  #send(request: ThreadRequest): void {
    this.#thread!.postMessage(request);
  }

  #nextCommits(): { readonly commits: readonly PendingCommit[]; readonly flat: FlatCommits } {
    const flat: FlatCommits = [];
    let text = 0;
    let count = 0;
    while (count < this.#commits.length && count < GROUP_COMMITS && text < GROUP_TEXT) {
      const { writes } = this.#commits[count]!;
      flatten(writes, flat);
      for (const write of writes) if ('put' in write) text += write.put.length;
      count++;
    }
    this.#sent += count;
    return { commits: this.#commits.splice(0, count), flat };
  }

  /** Removes and returns the reads whose earlier commits are sent. */
  #nextReads(): PendingRead[] {
    const wait = this.#reads.findIndex((read) => read.after > this.#sent);
    return this.#reads.splice(0, wait < 0 ? this.#reads.length : wait);
  }

  #answer(outcomes: readonly Outcome[], reads: readonly ReadReply[]): void {
    const group = this.#inFlight.shift()!;
    group.commits.forEach((commit, i) => {
      this.#settle(commit, outcomes[i]!);
    });
    this.#count(group.commits, outcomes);
    group.reads.forEach((read, i) => {
      const reply = reads[i]!;
      if ('error' in reply) read.reject(thrown(reply.error));
      else read.resolve(reply);
    });
    this.#flushSoon();
  }

  #settle({ writes, resolve, reject }: PendingCommit, outcome: Outcome): void {
    try {
      const result = resultOf(outcome);
      if (result.ok) {
        this.#head = Math.max(this.#head, result.revision);
        if (this.#watchers.any) {
          const changes = changesOf(writes, outcome);
          if (changes.length > 0) this.#watchers.publish(changes);
        }
      }
      resolve(result);
    } catch (error) {
      reject(error);
    }
  }

  #count(commits: readonly PendingCommit[], outcomes: readonly Outcome[]): void {
    const { metrics, log, path } = this.#options;
    const tally = { committed: 0, conflict: 0, failed: 0 };
    let failure: string | undefined;
    for (const outcome of outcomes) {
      if (typeof outcome === 'number' || 'revision' in outcome) tally.committed++;
      else if ('conflicts' in outcome) tally.conflict++;
      else {
        tally.failed++;
        failure = outcome.error.message;
      }
    }
    for (const [outcome, count] of Object.entries(tally))
      if (count > 0) metrics.add('muster_store_commits_total', { outcome }, count);
    const now = systemClock.monotonic();
    for (const { since } of commits) metrics.observe('muster_store_commit_seconds', (now - since) / 1000);
    // Logged once when commits begin to fail and once when they succeed again, not for every packet
    // that could not be answered.
    if (failure === undefined && tally.committed === 0) return;
    if ((failure !== undefined) === this.#writeFailing) return;
    this.#writeFailing = failure !== undefined;
    if (failure === undefined) log.info({ path }, 'the store can write again');
    else log.error({ code: 'E_STORE_WRITE', path, cause: failure }, 'the store cannot write');
    this.#options.failing?.(failure);
  }

  /**
   * Handles a thread that ended by itself: starts another one for all requests that were not sent.
   * Commits that were sent may or may not be written.
   */
  #brokeDown(cause: unknown): void {
    const { path, log } = this.#options;
    log.error({ code: 'E_STORE_UNSURE', path, cause: String(cause) }, "the store's thread failed");
    const lost = this.#inFlight;
    this.#inFlight = [];
    this.#closeSent = false;
    this.#reads.unshift(...lost.flatMap((group) => group.reads));
    const unsure = new MusterError('E_STORE_UNSURE', "the store's thread failed during the commit", {
      cause,
    });
    for (const commit of lost.flatMap((group) => group.commits)) commit.reject(unsure);
    const now = systemClock.monotonic();
    this.#breakdowns = [...this.#breakdowns.filter((at) => now - at < BREAKDOWN_SPAN_MS), now];
    if (this.#breakdowns.length >= MAX_BREAKDOWNS) this.#giveUp(unsure);
    else this.open().catch((error: unknown) => this.#giveUp(error));
  }

  #giveUp(cause: unknown): void {
    const { path, log } = this.#options;
    log.error(
      { code: 'E_STORE_CLOSED', path, cause: String(cause) },
      'the store cannot continue; restart the server',
    );
    this.#ended = new MusterError('E_STORE_CLOSED', "the store's thread could not be replaced", { cause });
    for (const pending of [...this.#commits.splice(0), ...this.#reads.splice(0)]) pending.reject(this.#ended);
    this.#watchers.close();
    this.#closed?.resolve();
    this.#options.broken?.(this.#ended);
  }
}

function startStoreThread(workerData: StoreThreadData): Worker {
  return new Worker(new URL('./sqlite-thread.files.ts', import.meta.url), { workerData, execArgv: [] });
}

function recordsOf(reply: ReadReply): StoredRecord[] {
  if (!('records' in reply)) throw new MusterError('E_INTERNAL', "the store's thread sent no records");
  const records: StoredRecord[] = [];
  for (let i = 0; i < reply.records.length; i += 3) {
    records.push({
      key: reply.records[i] as string,
      value: reply.records[i + 1] as string,
      revision: reply.records[i + 2] as number,
    });
  }
  return records;
}
