/** Opens the file of a store: creates a new one, refuses files that are not a store of Muster. */
import { closeSync, openSync } from 'node:fs';
import { dirname } from 'node:path';
import { DatabaseSync } from 'node:sqlite';
import { messageOf } from '../base/error-text.ts';
import { type ErrorCode, MusterError } from '../base/errors.ts';
import { syncDirectorySync } from '../base/replace-file.files.ts';
import { APPLICATION_ID, FORMAT, PRAGMAS, STATEMENTS, TABLES } from './sqlite-format.ts';

/**
 * Opens the file at `path`, and creates it with mode 0600 if it does not exist. Its directory must
 * exist.
 *
 * @throws {MusterError} E_STORE_NEWER when a newer version of Muster wrote the file; E_STORE_IN_USE
 *   when another process has it open; E_STORE_DAMAGED when it is not a store; E_STORE_OPEN
 *   otherwise.
 */
export function openDatabase(path: string): DatabaseSync {
  let db: DatabaseSync | undefined;
  try {
    createFile(path);
    db = new DatabaseSync(path);
    // Set before the first read: the log then needs no shared-memory file, and a second server is
    // refused from here on.
    db.exec('PRAGMA locking_mode = EXCLUSIVE');
    const isNew = formatOf(db, path) === 0;
    db.exec(PRAGMAS);
    // One transaction, so that an interruption leaves an empty file or a complete one.
    if (isNew)
      db.exec(
        `BEGIN IMMEDIATE; ${TABLES}; PRAGMA user_version = ${FORMAT}; PRAGMA application_id = ${APPLICATION_ID}; COMMIT`,
      );
    return db;
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
  syncDirectorySync(dirname(path));
}

/** Makes a new file whose revisions go on from `revision`. */
export function createDatabase(path: string, revision: number): void {
  const db = openDatabase(path);
  try {
    db.prepare(STATEMENTS.compacted).run(revision);
  } finally {
    db.close();
  }
}

/** The format of the file; 0 when it is new. */
function formatOf(db: DatabaseSync, path: string): number {
  // Read before the first write, so that a newer store or a file of another program is not changed.
  const number = (sql: string) => Number(Object.values(db.prepare(sql).get() ?? {})[0] ?? 0);
  const tables = number('SELECT count(*) FROM sqlite_schema');
  const application = number('PRAGMA application_id');
  if (tables > 0 && application !== APPLICATION_ID)
    throw new MusterError('E_STORE_DAMAGED', `${path} is an SQLite file, but not a store of Muster`);
  const format = number('PRAGMA user_version');
  if (format > FORMAT)
    throw new MusterError(
      'E_STORE_NEWER',
      `${path} has format ${format}; this version knows formats up to ${FORMAT}`,
    );
  return format;
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
  return new MusterError(code, `${path}: ${messageOf(error)}`, { cause: error });
}

/** SQLite's primary result code of an error of node:sqlite; undefined for other errors. */
export function primaryCode(error: unknown): number | undefined {
  const extended = (error as { errcode?: unknown }).errcode;
  return typeof extended === 'number' ? extended & 0xff : undefined;
}
