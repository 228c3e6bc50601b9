/**
 * The implementations of Store under test, each opened with an empty store, and functions that read
 * a watch.
 */
import { mkdtemp, rm } from 'node:fs/promises';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { silentLog } from '../../../src/base/log.ts';
import { createMetrics } from '../../../src/base/metrics.ts';
import { openMemoryStore } from '../../../src/store/memory.ts';
import { openSqliteStore, type SqliteStoreOptions } from '../../../src/store/sqlite.files.ts';
import type { Change, Store } from '../../../src/store/store.ts';

export interface OpenedStore {
  readonly store: Store;
  /** Closes the store and removes its files. */
  done(): Promise<void>;
}

export type OpenStore = (options?: { readonly keptRevisions?: number }) => Promise<OpenedStore>;

export const STORES: Readonly<Record<string, OpenStore>> = {
  memory: async (options) => {
    const store = openMemoryStore(options);
    return { store, done: () => store.close() };
  },
  SQLite: async (options) => {
    const directory = await temporaryDirectory();
    const store = await openAt(join(directory, 'store.sqlite'), options);
    return {
      store,
      done: async () => {
        await store.close();
        await rm(directory, { recursive: true });
      },
    };
  },
};

export const temporaryDirectory = (): Promise<string> => mkdtemp(join(tmpdir(), 'muster-store-'));

export const openAt = (path: string, options: Partial<SqliteStoreOptions> = {}): Promise<Store> =>
  openSqliteStore({ path, log: silentLog, metrics: createMetrics(), ...options });

/** The first `count` changes that a watch yields, by batches. */
export async function take(watch: AsyncIterable<readonly Change[]>, count: number): Promise<Change[][]> {
  const batches: Change[][] = [];
  let taken = 0;
  for await (const batch of watch) {
    batches.push([...batch]);
    taken += batch.length;
    if (taken >= count) break;
  }
  return batches;
}

/** The code of the error that a promise rejects with, or `fulfilled`. */
export async function codeOf(promise: Promise<unknown>): Promise<string> {
  try {
    await promise;
    return 'fulfilled';
  } catch (error) {
    return (error as { code?: string }).code ?? String(error);
  }
}
