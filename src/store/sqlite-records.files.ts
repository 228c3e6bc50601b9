/**
 * Reads and writes the records of one SQLite file, synchronously. Runs in the store's thread
 * (sqlite-thread.files.ts).
 */
import type { DatabaseSync, StatementSync } from 'node:sqlite';
import { messageOf } from '../base/error-text.ts';
import { MusterError } from '../base/errors.ts';
import { prefixEnd } from './limits.ts';
import { CHANGES_PER_REVISION, STATEMENTS } from './sqlite-format.ts';
import { primaryCode } from './sqlite-open.files.ts';
import {
  ABSENT,
  ANY_REVISION,
  type FlatCommits,
  type Outcome,
  type ReadReply,
  type ThreadError,
} from './wire.ts';

/**
 * History is trimmed when it has this many revisions more than configured, so that not every commit
 * trims.
 */
const TRIM_EVERY_REVISIONS = 512;
/** History is trimmed by at most this many revisions at once, so that no commit waits long. */
const TRIM_REVISIONS = 1024;
/** If the values in the history exceed this, they are trimmed even if they are few revisions. */
const MAX_HISTORY_OCTETS = 64 * 1024 * 1024;
/**
 * A page of history ends after this many changes or this much text (UTF-16 units), at the end of a
 * commit.
 */
const PAGE_CHANGES = 1024;
const PAGE_TEXT = 4 * 1024 * 1024;
/**
 * The log is copied into the file when it has this many pages (4 KiB) that are not in the file yet.
 * Commits wait for that about a millisecond; with four times as many pages they would wait up to
 * five.
 */
const CHECKPOINT_PAGES = 256;
/**
 * When this many commits of a group could not be written alone either, only smaller ones are tried,
 * so that commits to a full disk fail quickly.
 */
const FAILURES_TRIED = 4;
/** SQLite orders this after every text. */
const ABOVE_TEXT = new Uint8Array(0);

type Row = readonly [key: string, value: string | null, id: number];
type Statements = Readonly<Record<keyof typeof STATEMENTS, StatementSync>>;

const firstId = (revision: number): number => revision * CHANGES_PER_REVISION;
const revisionOf = (id: number): number => Math.floor(id / CHANGES_PER_REVISION);

export class SqliteRecords {
  readonly #db: DatabaseSync;
  readonly #do: Statements;
  readonly #keptRevisions: number;
  #revision: number;
  #compacted: number;
  /** Octets of the values in the history that are counted so far. */
  #historyOctets = 0;
  /** Values of this revision and later ones are counted. */
  #countedFrom: number;

  constructor(db: DatabaseSync, keptRevisions: number) {
    this.#db = db;
    this.#keptRevisions = keptRevisions;
    this.#do = prepareAll(db);
    const one = (sql: string) => db.prepare(sql).get() as { n: number };
    this.#compacted = one("SELECT value AS n FROM meta WHERE key = 'compacted'").n;
    this.#revision = Math.max(
      this.#compacted,
      revisionOf(one('SELECT coalesce(max(id), 0) AS n FROM change').n),
    );
    this.#countedFrom = this.#revision + 1;
  }

  get revision(): number {
    return this.#revision;
  }

  /**
   * Writes a group of commits in one transaction. Each commit sees those before it, and succeeds or
   * fails by its own expectations. All outcomes are durable when this returns. If the group cannot
   * be written, each commit is tried alone, so that one that is too large for the disk does not
   * fail the others.
   */
  commit(group: FlatCommits): Outcome[] {
    if (group.length === 0) return [];
    try {
      return this.#transaction(group, true);
    } catch {
      return this.#oneByOne(group);
    }
  }

  #oneByOne(group: FlatCommits): Outcome[] {
    // Once the pages of a full log are in the file, the log can be reused without growing.
    this.#checkpoint(this.#do.restartLog);
    const outcomes: Outcome[] = [];
    let failed: { readonly error: ThreadError; readonly least: number } | undefined;
    let failures = 0;
    for (let at = 0; at < group.length; ) {
      const end = at + 1 + (group[at] as number) * 3;
      const commit = group.slice(at, end);
      const size = textOf(commit);
      at = end;
      if (failed && failures >= FAILURES_TRIED && size >= failed.least) {
        outcomes.push({ error: failed.error });
        continue;
      }
      try {
        outcomes.push(...this.#transaction(commit, false));
      } catch (cause) {
        failures++;
        failed = { error: writingError(cause), least: Math.min(size, failed?.least ?? size) };
        outcomes.push({ error: failed.error });
      }
    }
    return outcomes;
  }

  #transaction(group: FlatCommits, trim: boolean): Outcome[] {
    const before = [this.#revision, this.#compacted, this.#historyOctets] as const;
    try {
      this.#do.begin.run();
      const outcomes: Outcome[] = [];
      for (let at = 0; at < group.length; at += 1 + (group[at] as number) * 3)
        outcomes.push(this.#one(group, at + 1, group[at] as number));
      if (trim) this.#trim();
      this.#do.commit.run();
      return outcomes;
    } catch (error) {
      [this.#revision, this.#compacted, this.#historyOctets] = before;
      if (this.#db.isTransaction) this.#db.exec('ROLLBACK');
      throw error;
    }
  }

  /**
   * Executes one commit of `count` writes that begin at `at`. Checks all expectations first, so
   * that nothing needs to be undone.
   */
  #one(group: FlatCommits, at: number, count: number): Outcome {
    const currents: number[] = [];
    const conflicts: (string | number)[] = [];
    for (let i = 0; i < count; i++) {
      const key = group[at + i * 3] as string;
      const expected = group[at + i * 3 + 2] as number;
      const id = (this.#do.current.get(key) as unknown as [number] | undefined)?.[0] ?? ABSENT;
      currents.push(id);
      if (expected !== ANY_REVISION && expected !== revisionOf(id)) conflicts.push(key, revisionOf(id));
    }
    if (conflicts.length > 0) return { conflicts };
    const idle: number[] = [];
    const revision = this.#revision + 1;
    for (let i = 0; i < count; i++) {
      const key = group[at + i * 3] as string;
      const value = group[at + i * 3 + 1] as string | null;
      if (value === null && currents[i] === ABSENT) idle.push(i);
      else this.#change(firstId(revision) + i, key, value, currents[i]!);
    }
    if (idle.length < count) this.#revision = revision;
    return idle.length === 0 && count > 0 ? revision : { revision: this.#revision, idle };
  }

  #change(id: number, key: string, value: string | null, current: number): void {
    this.#do.append.run(id, key, value);
    if (value === null) this.#do.unpoint.run(key);
    else this.#do.point.run(key, id);
    this.#historyOctets += value?.length ?? 0;
    // The former change stays as history. If the history begins later, nothing needs it.
    if (current !== ABSENT && revisionOf(current) <= this.#compacted) this.#do.drop.run(current);
  }

  get(key: string): ReadReply {
    return this.#recordsReply(this.#do.get.all(key) as unknown as Row[]);
  }

  /** Records ordered by the octets of their keys. */
  list(prefix: string): ReadReply {
    return this.#recordsReply(this.#do.list.all(prefix, prefixEnd(prefix) ?? ABOVE_TEXT) as unknown as Row[]);
  }

  #recordsReply(rows: readonly Row[]): ReadReply {
    const records: (string | number)[] = [];
    for (const [key, value, id] of rows) records.push(key, value as string, revisionOf(id));
    return { records, revision: this.#revision };
  }

  /**
   * See WatchersOptions.page.
   *
   * @throws {MusterError} E_STORE_COMPACTED when the history after `after` is forgotten.
   */
  history(prefix: string, after: number, upto: number): ReadReply {
    if (after < this.#compacted)
      throw new MusterError('E_STORE_COMPACTED', `history begins after revision ${this.#compacted}`);
    const changes: (string | number | null)[] = [];
    let text = 0;
    let last = after;
    const rows = this.#do.history.iterate(
      firstId(after + 1),
      firstId(upto + 1),
      prefix,
      prefixEnd(prefix) ?? ABOVE_TEXT,
    );
    for (const [key, value, id] of rows as unknown as Iterable<Row>) {
      const revision = revisionOf(id);
      if (revision > last && (changes.length >= PAGE_CHANGES * 3 || text >= PAGE_TEXT))
        return { changes, through: last };
      changes.push(key, value, revision);
      text += value?.length ?? 0;
      last = revision;
    }
    return { changes, through: upto };
  }

  /** Forgets history up to and including `revision`, in steps. */
  /** Writes a consistent copy of the store to a new file. */
  copyTo(path: string): void {
    this.#db.prepare('VACUUM INTO ?').run(path);
  }

  compact(revision: number): void {
    const end = Math.min(revision, this.#revision);
    while (this.#compacted < end) {
      const before = [this.#compacted, this.#historyOctets] as const;
      try {
        this.#do.begin.run();
        this.#forget(Math.min(end, this.#compacted + TRIM_REVISIONS));
        this.#do.commit.run();
      } catch (error) {
        [this.#compacted, this.#historyOctets] = before;
        if (this.#db.isTransaction) this.#db.exec('ROLLBACK');
        throw thrownByThread(writingError(error));
      }
    }
  }

  #trim(): void {
    const surplus = this.#revision - this.#compacted - this.#keptRevisions;
    if (surplus >= TRIM_EVERY_REVISIONS) this.#forget(this.#compacted + Math.min(surplus, TRIM_REVISIONS));
    while (this.#historyOctets > MAX_HISTORY_OCTETS && this.#compacted < this.#revision)
      this.#forget(Math.min(this.#revision, this.#compacted + TRIM_REVISIONS));
  }

  #forget(through: number): void {
    const from = this.#compacted + 1;
    const counted = this.#octets(Math.max(from, this.#countedFrom), through + 1);
    this.#historyOctets = Math.max(0, this.#historyOctets - counted);
    this.#do.forget.run(firstId(from), firstId(through + 1));
    this.#do.compacted.run(through);
    this.#compacted = through;
  }

  #octets(from: number, before: number): number {
    return (this.#do.octets.get(firstId(from), firstId(before)) as unknown as [number])[0];
  }

  /** Work that can wait until the answers are sent. Called after each request. */
  maintain(): void {
    this.#checkpointIfLong();
    this.#countHistory();
  }

  /**
   * Counts the history that an earlier process left, a little at a time, because reading all of it
   * would delay the start.
   */
  #countHistory(): void {
    if (this.#countedFrom <= this.#compacted + 1) return;
    const from = Math.max(this.#compacted + 1, this.#countedFrom - TRIM_REVISIONS);
    this.#historyOctets += this.#octets(from, this.#countedFrom);
    this.#countedFrom = from;
  }

  /** Copies the log into the file when it is long. */
  #checkpointIfLong(): void {
    const [, log, copied] = this.#do.logLength.get() as unknown as [
      busy: number,
      log: number,
      copied: number,
    ];
    if (log - copied >= CHECKPOINT_PAGES) this.#checkpoint(this.#do.checkpoint);
  }

  /** Never throws: pages that stay in the log are durable and in use. */
  #checkpoint(how: StatementSync): void {
    try {
      how.get();
    } catch {
      // The next commits try again.
    }
  }

  close(): void {
    this.#db.close();
  }
}

/** Size of a group's keys and values, in UTF-16 units. */
function textOf(group: FlatCommits): number {
  return group.reduce<number>((sum, item) => sum + (typeof item === 'string' ? item.length : 0), 0);
}

function prepareAll(db: DatabaseSync): Statements {
  const prepared = Object.entries(STATEMENTS).map(([name, sql]) => {
    const statement = db.prepare(sql);
    statement.setReturnArrays(true);
    return [name, statement];
  });
  return Object.fromEntries(prepared) as Statements;
}

/** Converts an error of SQLite while writing. Nothing was written. */
function writingError(cause: unknown): ThreadError {
  const code = primaryCode(cause);
  const damaged = code === 11 || code === 26; // SQLITE_CORRUPT, SQLITE_NOTADB
  return { code: damaged ? 'E_STORE_DAMAGED' : 'E_STORE_WRITE', message: messageOf(cause) };
}

function thrownByThread(error: ThreadError): MusterError {
  return new MusterError(error.code, error.message);
}
