/** Opens a store's file: creates it, refuses what is not ours, migrates what is older. */
import { closeSync, fsyncSync, openSync, rmSync } from 'node:fs';
import { dirname } from 'node:path';
import { DatabaseSync } from 'node:sqlite';
import { type ErrorCode, MusterError } from '../base/errors.ts';
import { APPLICATION_ID, FORMAT, MIGRATIONS, type Migration, PRAGMAS } from './sqlite-format.ts';

/**
 * Opens the file at `path`, made with mode 0600 if it is not there; its directory must exist.
 *
 * An older format is migrated; a copy of the file as it was stays beside it as `PATH.format-N`.
 * Returns the connection and, if it was migrated, the format that it had. Throws E_STORE_NEWER,
 * E_STORE_IN_USE, E_STORE_DAMAGED or E_STORE_OPEN.
 */
export function openDatabase(
  path: string,
  migrations: readonly Migration[] = MIGRATIONS,
): { readonly db: DatabaseSync; readonly migratedFrom?: number } {
  let db: DatabaseSync | undefined;
  try {
    createFile(path);
    db = new DatabaseSync(path);
    // Before the first look: the log then needs no shared-memory file, and a second server is kept
    // out from here on.
    db.exec('PRAGMA locking_mode = EXCLUSIVE');
    const format = formatOf(db, path, migrations.at(-1)?.to ?? FORMAT);
    db.exec(PRAGMAS);
    const migrated = migrate(db, path, format, migrations);
    return migrated && format > 0 ? { db, migratedFrom: format } : { db };
  } catch (error) {
    if (db?.isOpen) db.close();
    throw openingError(error, path);
  }
}

/** The file and its name in the directory are on the disk before anything relies on them. */
function createFile(path: string): void {
  closeSync(openSync(path, 'a', 0o600));
  const directory = openSync(dirname(path), 'r');
  fsyncSync(directory);
  closeSync(directory);
}

/** The file's format; 0 when it is fresh. */
function formatOf(db: DatabaseSync, path: string, newest: number): number {
  // Looked at before the first write: a newer store, or somebody else's file, is left as it was.
  const number = (sql: string) => Number(Object.values(db.prepare(sql).get() ?? {})[0] ?? 0);
  const tables = number('SELECT count(*) FROM sqlite_schema');
  const application = number('PRAGMA application_id');
  if (tables > 0 && application !== APPLICATION_ID)
    throw new MusterError('E_STORE_DAMAGED', `${path} is an SQLite file, but not a store of Muster`);
  const format = number('PRAGMA user_version');
  if (format > newest)
    throw new MusterError(
      'E_STORE_NEWER',
      `${path} has format ${format}; this version knows formats up to ${newest}`,
    );
  return format;
}

function migrate(db: DatabaseSync, path: string, from: number, migrations: readonly Migration[]): boolean {
  const steps = migrations.filter((migration) => migration.to > from);
  if (from > 0 && steps.length > 0) keepCopy(db, `${path}.format-${from}`);
  // All steps in one transaction: whatever stops it, the file is of the old format or of the new
  // one.
  db.exec('BEGIN IMMEDIATE');
  for (const step of steps) db.exec(`${step.sql}; PRAGMA user_version = ${step.to};`);
  if (from === 0) db.exec(`PRAGMA application_id = ${APPLICATION_ID}`);
  db.exec('COMMIT');
  return steps.length > 0;
}

/** A complete copy of the file; one that an interrupted attempt left is replaced. */
function keepCopy(db: DatabaseSync, path: string): void {
  rmSync(path, { force: true });
  db.prepare('VACUUM INTO ?').run(path);
}

/** SQLite's result codes (sqlite.org/rescode.html) that say more than "could not open". */
const OPENING: Readonly<Record<number, ErrorCode>> = {
  5: 'E_STORE_IN_USE', // SQLITE_BUSY
  6: 'E_STORE_IN_USE', // SQLITE_LOCKED
  11: 'E_STORE_DAMAGED', // SQLITE_CORRUPT
  26: 'E_STORE_DAMAGED', // SQLITE_NOTADB
};

function openingError(error: unknown, path: string): MusterError {
  if (error instanceof MusterError) return error;
  const code = OPENING[primaryCode(error) ?? 0] ?? 'E_STORE_OPEN';
  return new MusterError(code, `${path}: ${(error as Error).message}`, { cause: error });
}

/** SQLite's primary result code of an error of node:sqlite, undefined for other errors. */
export function primaryCode(error: unknown): number | undefined {
  const extended = (error as { errcode?: unknown }).errcode;
  return typeof extended === 'number' ? extended & 0xff : undefined;
}
