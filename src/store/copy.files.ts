/** Copies all records of a store to another one. */
import { createHash } from 'node:crypto';
import { MusterError } from '../base/errors.ts';
import { silentLog } from '../base/log.ts';
import { createMetrics } from '../base/metrics.ts';
import { KEYS } from './keys.ts';
import { nextLife, unfinishedLife } from './life.ts';
import { inCommits } from './limits.ts';
import { openSqliteStore } from './sqlite.files.ts';
import { createDatabase } from './sqlite-open.files.ts';
import type { Store, StoredRecord } from './store.ts';

/** What a store has, without its life: how many records, and a hash of their keys and values. */
export interface Contents {
  readonly records: number;
  /** Hexadecimal SHA-256. */
  readonly sha256: string;
}

function contentsOf(records: readonly StoredRecord[]): Contents {
  const hash = createHash('sha256');
  const counted = records.filter(({ key }) => key !== KEYS.life.key());
  for (const { key, value } of counted)
    hash.update(`${Buffer.byteLength(key)} ${key}${Buffer.byteLength(value)} `).update(value);
  return { records: counted.length, sha256: hash.digest('hex') };
}

/**
 * Copies the records to an empty store, which begins the next life: the copy is the store from now
 * on. Reads both again, and compares them.
 *
 * @throws {MusterError} E_USAGE when `to` is not empty; E_STORE_DAMAGED when the copy is not equal.
 */
export async function copyStore(from: Store, to: Store): Promise<Contents> {
  if ((await to.list('')).records.length > 0)
    throw new MusterError('E_USAGE', 'the store to copy to is not empty; name a new file or another prefix');
  // A server that opens an unfinished copy answers no machine.
  await to.commit([{ key: KEYS.life.key(), put: unfinishedLife(Date.now()) }]);
  const { records } = await from.list('');
  await writeAll(
    records.filter(({ key }) => key !== KEYS.life.key()),
    to,
  );
  const [source, copy] = [contentsOf((await from.list('')).records), contentsOf((await to.list('')).records)];
  if (source.sha256 !== copy.sha256)
    throw new MusterError(
      'E_STORE_DAMAGED',
      `the copy has ${copy.records} records (${copy.sha256}) and not ${source.records} (${source.sha256})`,
    );
  await to.commit([{ key: KEYS.life.key(), put: await nextLife(from) }]);
  return copy;
}

/** In the order in which they were written, so that a later record has a later revision. */
async function writeAll(records: readonly StoredRecord[], to: Store): Promise<void> {
  const writes = records
    .toSorted((a, b) => a.revision - b.revision)
    .map(({ key, value }) => ({ key, put: value, expect: 'absent' as const }));
  for (const part of inCommits(writes)) {
    const result = await to.commit(part);
    if (!result.ok) throw new MusterError('E_CONFLICT', 'another process writes to the store');
  }
}

/** Opens a new file whose revisions are later than those of `from`. */
export async function newFileAfter(from: Store, path: string) {
  createDatabase(path, (await from.list(KEYS.life.key())).revision);
  return openSqliteStore({ path, log: silentLog, metrics: createMetrics() });
}

/** Writes the records of a store that is no file to a new file, with their life. */
export async function writeFile(from: Store, path: string): Promise<void> {
  const { records } = await from.list('');
  const file = await newFileAfter(from, path);
  try {
    await writeAll(records, file);
  } finally {
    await file.close();
  }
}
