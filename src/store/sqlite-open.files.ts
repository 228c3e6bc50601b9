/**
 * Opens the file of a store: creates a new one, refuses files that are not a store of Muster,
 * migrates older formats.
 */
import { closeSync, fsyncSync, openSync, rmSync } from 'node:fs';
import { dirname } from 'node:path';
import { DatabaseSync } from 'node:sqlite';
import { type ErrorCode, MusterError } from '../base/errors.ts';
import { APPLICATION_ID, FORMAT, MIGRATIONS, type Migration, PRAGMAS } from './sqlite-format.ts';

/**
 * Opens the file at `path`, and creates it with mode 0600 if it does not exist. Its directory must
 * exist.
 *
 * A file of an older format N is copied to `PATH.format-N` and then migrated. Returns the
 * connection and, if the file was migrated, its former format.
 *
 * @throws {MusterError} E_STORE_NEWER when a newer version of Muster wrote the file; E_STORE_IN_USE
 *   when another process has it open; E_STORE_DAMAGED when it is not a store; E_STORE_OPEN
 *   otherwise.
 */
export function openDatabase(
  path: string,
  migrations: readonly Migration[] = MIGRATIONS,
): { readonly db: DatabaseSync; readonly migratedFrom?: number } {
  let db: DatabaseSync | undefined;
  try {
    createFile(path);
    db = new DatabaseSync(path);
    // Set before the first read: the log then needs no shared-memory file, and a second server is
    // refused from here on.
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

/**
 * Creates the file and syncs its directory, so that both survive a power cut before anything relies
 * on them.
 */
function createFile(path: string): void {
  closeSync(openSync(path, 'a', 0o600));
  const directory = openSync(dirname(path), 'r');
  fsyncSync(directory);
  closeSync(directory);
}

/** The format of the file; 0 when it is new. */
function formatOf(db: DatabaseSync, path: string, newest: number): number {
  // Read before the first write, so that a newer store or a file of another program is not changed.
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
  // All steps run in one transaction, so that the file has the old or the new format even if the
  // migration is interrupted.
  db.exec('BEGIN IMMEDIATE');
  for (const step of steps) db.exec(`${step.sql}; PRAGMA user_version = ${step.to};`);
  if (from === 0) db.exec(`PRAGMA application_id = ${APPLICATION_ID}`);
  db.exec('COMMIT');
  return steps.length > 0;
}

/** Makes a complete copy of the file. Replaces a copy that an interrupted attempt left. */
function keepCopy(db: DatabaseSync, path: string): void {
  rmSync(path, { force: true });
  db.prepare('VACUUM INTO ?').run(path);
}

/** SQLite's result codes (sqlite.org/rescode.html) that have their own error code. */
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

/** SQLite's primary result code of an error of node:sqlite; undefined for other errors. */
export function primaryCode(error: unknown): number | undefined {
  const extended = (error as { errcode?: unknown }).errcode;
  return typeof extended === 'number' ? extended & 0xff : undefined;
}
