/** A store in memory, for tests. */
import { MusterError } from '../base/errors.ts';
import { isRehearsal } from '../base/rehearsal.ts';
import { checkWrites, compareKeys } from './limits.ts';
import { rehearseCommit } from './rehearsed.ts';
import type { Change, CommitResult, Store, StoredRecord, Write } from './store.ts';
import { type HistoryPage, Watchers } from './watchers.ts';

/**
 * Number of revisions of history that are kept, unless `compact` is called. History is trimmed when
 * it is a quarter longer.
 */
export const KEPT_REVISIONS = 100_000;
/** A page of history ends after this many changes, so that a long history is read in steps. */
const PAGE_CHANGES = 1024;

/**
 * Opens a store whose records are lost when the process ends. `keptRevisions`: length of the
 * history, default 100,000.
 */
export function openMemoryStore(options: { readonly keptRevisions?: number } = {}): Store {
  return new MemoryStore(options.keptRevisions ?? KEPT_REVISIONS);
}

class MemoryStore implements Store {
  readonly #records = new Map<string, StoredRecord>();
  readonly #keptRevisions: number;
  /** One entry per commit, ordered by revision; the first one has the revision `#compacted` + 1. */
  #history: (readonly Change[])[] = [];
  #revision = 0;
  #compacted = 0;
  #closed = false;
  readonly #watchers = new Watchers({
    head: () => this.#revision,
    page: async (prefix, after, upto) => this.#page(prefix, after, upto),
  });

  constructor(keptRevisions: number) {
    this.#keptRevisions = keptRevisions;
  }

  async commit(writes: readonly Write[]): Promise<CommitResult> {
    this.#mustBeOpen();
    checkWrites(writes);
    if (writes.length > 0 && isRehearsal()) return rehearseCommit(this, writes);
    const conflicts = writes.flatMap((write) => {
      const actual = this.#records.get(write.key)?.revision ?? ('absent' as const);
      return write.expect === undefined || write.expect === actual ? [] : [{ key: write.key, actual }];
    });
    if (conflicts.length > 0) return { ok: false, conflicts };
    const changes = this.#apply(writes, this.#revision + 1);
    if (changes.length > 0) {
      this.#revision++;
      this.#history.push(changes);
      if (this.#history.length > this.#keptRevisions * 1.25)
        this.#forget(this.#revision - this.#keptRevisions);
      this.#watchers.publish(changes);
    }
    return { ok: true, revision: this.#revision };
  }

  /** Changes the records. The deletion of an absent record is not a change. */
  #apply(writes: readonly Write[], revision: number): Change[] {
    const changes: Change[] = [];
    for (const write of writes) {
      if ('put' in write) {
        this.#records.set(write.key, { key: write.key, value: write.put, revision });
        changes.push({ key: write.key, value: write.put, revision });
      } else if (this.#records.delete(write.key)) {
        changes.push({ key: write.key, value: undefined, revision });
      }
    }
    return changes;
  }

  async get(key: string): Promise<StoredRecord | undefined> {
    this.#mustBeOpen();
    return this.#records.get(key);
  }

  async list(
    prefix: string,
  ): Promise<{ readonly records: readonly StoredRecord[]; readonly revision: number }> {
    this.#mustBeOpen();
    const records = [...this.#records.values()].filter((record) => record.key.startsWith(prefix));
    return { records: records.sort((a, b) => compareKeys(a.key, b.key)), revision: this.#revision };
  }

  watch(prefix: string, after: number, signal: AbortSignal): AsyncIterable<readonly Change[]> {
    this.#mustBeOpen();
    return this.#watchers.watch(prefix, after, signal);
  }

  #page(prefix: string, after: number, upto: number): HistoryPage {
    if (after < this.#compacted)
      throw new MusterError('E_STORE_COMPACTED', `history begins after revision ${this.#compacted}`);
    const changes: Change[] = [];
    let through = after;
    while (through < upto && changes.length < PAGE_CHANGES) {
      const commit = this.#history[through - this.#compacted]!;
      changes.push(...commit.filter((change) => change.key.startsWith(prefix)));
      through++;
    }
    return { changes, through };
  }

  async compact(revision: number): Promise<void> {
    this.#mustBeOpen();
    this.#forget(Math.min(revision, this.#revision));
  }

  #forget(revision: number): void {
    if (revision <= this.#compacted) return;
    this.#history = this.#history.slice(revision - this.#compacted);
    this.#compacted = revision;
  }

  async close(): Promise<void> {
    this.#closed = true;
    this.#watchers.close();
  }

  #mustBeOpen(): void {
    if (this.#closed) throw new MusterError('E_STORE_CLOSED', 'the store is closed');
  }
}
