/**
 * Opaque records: a key, a JSON text, a revision. One interface, several implementations (memory,
 * SQLite; etcd later), one behaviour suite for all (test/unit/store). Its limits are etcd's, so
 * that nothing has to change when etcd comes.
 */

/** At most this many writes in a commit (etcd's `--max-txn-ops`). */
export const MAX_OPERATIONS = 128;
/** At most this many octets in a value, UTF-8. */
export const MAX_VALUE_BYTES = 1024 * 1024;

/** A record as stored. `revision` is the store's revision at which it was last written. */
export interface StoredRecord {
  readonly key: string;
  readonly value: string;
  readonly revision: number;
}

/**
 * One write of a commit. `expect` names the revision that the record must have, or `absent`;
 * without it the write is unconditional. A commit contains each key at most once.
 */
export type Write =
  | { readonly key: string; readonly put: string; readonly expect?: number | 'absent' }
  | { readonly key: string; readonly delete: true; readonly expect?: number };

/**
 * All writes took effect at `revision`, or none did and `conflicts` says which expectations failed.
 */
export type CommitResult =
  | { readonly ok: true; readonly revision: number }
  | {
      readonly ok: false;
      readonly conflicts: readonly { readonly key: string; readonly actual: number | 'absent' }[];
    };

/** A record that changed at `revision`; `value` undefined when it was deleted. */
export interface Change {
  readonly key: string;
  readonly value: string | undefined;
  readonly revision: number;
}

/**
 * A store of records.
 *
 * @example
 * const key = KEYS.machine.key('node-1');
 * const before = await store.get(key);
 * const put = JSON.stringify({ v: 1, phase: 'ready' });
 * const result = await store.commit([{ key, put, expect: before?.revision ?? 'absent' }]);
 * if (!result.ok) throw new MusterError('E_CONFLICT', 'somebody else was first');
 */
export interface Store {
  /**
   * Writes all or nothing. Resolves when the result is durable (a power cut does not undo it).
   * Commits take effect in the order in which they are asked for, each by its own expectations; a
   * get or list sees those asked for before it. An empty commit, and the deletion of what is
   * absent, succeed and change nothing: the revision stays.
   *
   * @throws {MusterError} E_STORE_LIMIT (see also limits.ts), E_STORE_WRITE (disk full, read-only:
   *   nothing was written, the store continues), E_STORE_UNSURE (the store failed during the
   *   commit: read what is there) or, after close, E_STORE_CLOSED.
   */
  commit(writes: readonly Write[]): Promise<CommitResult>;
  get(key: string): Promise<StoredRecord | undefined>;
  /** All records whose key begins with `prefix`, ordered by key, as of `revision`. */
  list(prefix: string): Promise<{ readonly records: readonly StoredRecord[]; readonly revision: number }>;
  /**
   * Batches of changes under `prefix` with revision > `after`, in order, a commit never split. Ends
   * when `signal` aborts or the store closes.
   *
   * @throws {MusterError} E_STORE_COMPACTED when changes after `after` are no longer known, or
   *   `after` is ahead of this store (it was restored from a backup): list again.
   */
  watch(prefix: string, after: number, signal: AbortSignal): AsyncIterable<readonly Change[]>;
  /** Forgets the history up to and including `revision` (the records stay). */
  compact(revision: number): Promise<void>;
  /** Finishes what was asked before; refuses what comes after with E_STORE_CLOSED. */
  close(): Promise<void>;
}
