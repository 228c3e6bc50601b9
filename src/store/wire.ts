/**
 * Messages between the store and its thread. Commits are flat arrays of strings and numbers,
 * because their structured clone costs a third of that of nested objects, and a busy DHCP server
 * sends tens of thousands per second.
 */
import { type ErrorCode, MusterError } from '../base/errors.ts';
import type { Change, CommitResult, Write } from './store.ts';

/** Data with which the thread is started. */
export interface StoreThreadData {
  readonly path: string;
  /** Length of the history that is kept, in revisions. */
  readonly keptRevisions: number;
  /** Limit of the file's size in pages of 4 KiB. Absent: no limit. */
  readonly maxPages?: number;
}

/**
 * A sequence of commits. Each is the number of its writes and then, for each write, key, value
 * (null deletes) and expectation ({@link ANY_REVISION}, {@link ABSENT}, or a revision).
 */
export type FlatCommits = (string | number | null)[];

export const ANY_REVISION = -1;
/** Stands for an absent record. Revisions begin at 1, so 0 is free. */
export const ABSENT = 0;
/** An expectation that no record fulfils. */
const NO_REVISION = -2;

export type ReadRequest =
  | { readonly read: 'get'; readonly key: string }
  | { readonly read: 'list'; readonly prefix: string }
  | { readonly read: 'history'; readonly prefix: string; readonly after: number; readonly upto: number }
  /** Compaction is not a read, but it is ordered and answered like one. */
  | { readonly read: 'compact'; readonly revision: number }
  | { readonly read: 'copy'; readonly path: string };

export interface ThreadRequest {
  readonly commits: FlatCommits;
  /** Executed after the commits. */
  readonly reads: readonly ReadRequest[];
  readonly close?: true;
}

export interface ThreadError {
  readonly code: ErrorCode;
  readonly message: string;
}

/**
 * Result of a commit, one of: its revision; its revision and the positions of writes that changed
 * nothing (deletions of absent records); the expectations that failed, as alternating keys and
 * revisions (or {@link ABSENT}); the error with which it failed.
 */
export type Outcome =
  | number
  | { readonly revision: number; readonly idle: readonly number[] }
  | { readonly conflicts: readonly (string | number)[] }
  | { readonly error: ThreadError };

/** Result of a read, also as flat arrays. */
export type ReadReply =
  /** Key, value and revision of each record; `revision` is that of the store. */
  | { readonly records: readonly (string | number)[]; readonly revision: number }
  /** Key, value (or null) and revision of each change; see HistoryPage. */
  | { readonly changes: readonly (string | number | null)[]; readonly through: number }
  | { readonly done: true }
  | { readonly error: ThreadError };

export type ThreadReply =
  | { readonly ready: { readonly revision: number } }
  | { readonly failed: ThreadError }
  | { readonly outcomes: readonly Outcome[]; readonly reads: readonly ReadReply[] };

/** Appends a commit to `flat`. */
export function flatten(writes: readonly Write[], flat: FlatCommits): void {
  flat.push(writes.length);
  for (const write of writes)
    flat.push(write.key, 'put' in write ? write.put : null, flatExpectation(write.expect));
}

function flatExpectation(expect: number | 'absent' | undefined): number {
  if (expect === undefined) return ANY_REVISION;
  if (expect === 'absent') return ABSENT;
  return expect >= 1 ? expect : NO_REVISION;
}

/**
 * The result of a commit.
 *
 * @throws {MusterError} E_STORE_WRITE or E_STORE_DAMAGED when the commit was not written.
 */
export function resultOf(outcome: Outcome): CommitResult {
  if (typeof outcome === 'number') return { ok: true, revision: outcome };
  if ('revision' in outcome) return { ok: true, revision: outcome.revision };
  if ('error' in outcome) throw thrown(outcome.error);
  const conflicts: { key: string; actual: number | 'absent' }[] = [];
  for (let i = 0; i < outcome.conflicts.length; i += 2) {
    const actual = outcome.conflicts[i + 1] as number;
    conflicts.push({ key: outcome.conflicts[i] as string, actual: actual === ABSENT ? 'absent' : actual });
  }
  return { ok: false, conflicts };
}

/** The changes that a commit made. */
export function changesOf(writes: readonly Write[], outcome: Outcome): Change[] {
  if (typeof outcome !== 'number' && !('revision' in outcome)) return [];
  const revision = typeof outcome === 'number' ? outcome : outcome.revision;
  const changes = writes.map((write) => ({
    key: write.key,
    value: 'put' in write ? write.put : undefined,
    revision,
  }));
  return typeof outcome === 'number' ? changes : changes.filter((_, place) => !outcome.idle.includes(place));
}

export function thrown(error: ThreadError): MusterError {
  return new MusterError(error.code, error.message);
}
