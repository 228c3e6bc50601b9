/**
 * The interface of the store. A record is a key, a JSON text and a revision; the store does not
 * interpret it. One test suite (test/unit/store) covers all implementations. The limits are those
 * of etcd, so that an implementation on etcd needs no other callers.
 */

/**
 * Maximum number of writes in a commit. etcd's `--max-txn-ops` is 128, of which the store on etcd
 * needs some itself.
 */
export const MAX_OPERATIONS = 120;
/** Maximum size of all values of a commit in octets of UTF-8. */
export const MAX_COMMIT_BYTES = 7 * 1024 * 1024;
/** Maximum size of a value in octets of UTF-8. */
export const MAX_VALUE_BYTES = 1024 * 1024;

/** A stored record. `revision`: the store's revision at which it was last written. */
export interface StoredRecord {
  readonly key: string;
  readonly value: string;
  readonly revision: number;
}

/**
 * One write of a commit. `expect`: the revision that the record must have, or `absent`; without it
 * the write is unconditional. A commit contains each key at most once.
 */
export type Write =
  | { readonly key: string; readonly put: string; readonly expect?: number | 'absent' }
  | { readonly key: string; readonly delete: true; readonly expect?: number };

/**
 * Either all writes took effect at `revision`, or none did and `conflicts` lists the expectations
 * that failed.
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
 * if (!result.ok) throw new MusterError('E_CONFLICT', 'node-1 was changed in the meantime');
 */
export interface Store {
  /**
   * Writes all of `writes` or none. Resolves when the result is durable (a power cut does not undo
   * it). Commits take effect in the order of their calls, each with its own expectations; a get or
   * list sees the commits of earlier calls. An empty commit and the deletion of an absent record
   * succeed and change nothing, and the revision stays the same. Within a rehearsal
   * (src/base/rehearsal.ts) a commit without conflicts writes nothing and ends the rehearsal.
   *
   * @throws {MusterError} E_STORE_LIMIT when `writes` exceed a limit (limits.ts); E_STORE_WRITE
   *   when the disk is full or read-only (nothing was written; the store continues); E_STORE_UNSURE
   *   when the store failed during the commit (read the records to learn the result);
   *   E_STORE_CLOSED after close.
   */
  commit(writes: readonly Write[]): Promise<CommitResult>;
  get(key: string): Promise<StoredRecord | undefined>;
  /** All records whose key begins with `prefix`, ordered by key, as of `revision`. */
  list(prefix: string): Promise<{ readonly records: readonly StoredRecord[]; readonly revision: number }>;
  /**
   * Yields batches of changes of keys that begin with `prefix` and with revision > `after`, in
   * order. A commit is never split. Ends when `signal` aborts or the store closes.
   *
   * @throws {MusterError} E_STORE_COMPACTED when the history after `after` is forgotten, or when
   *   `after` is ahead of this store because it was restored from a backup. List again.
   */
  watch(prefix: string, after: number, signal: AbortSignal): AsyncIterable<readonly Change[]>;
  /** Forgets the history up to and including `revision`. Records stay. */
  compact(revision: number): Promise<void>;
  /** Finishes requests that were made before; later ones reject with E_STORE_CLOSED. */
  close(): Promise<void>;
}
