/**
 * How records lie in SQLite, and how older files become newer ones.
 *
 * Every change is appended to `change`, under an id made of its revision and its place in the
 * commit, so that commits write to the end of one B-tree whatever their keys; `record` only says
 * which change is a key's present one. That is also the history that watchers resume from. Measured
 * against rows with the value in them (format 1): twice the commits a second, a seventh of the p99,
 * because fewer pages get dirty.
 */

/** `PRAGMA application_id` of our files: "Must". */
export const APPLICATION_ID = 0x4d757374;

/**
 * A change's id is revision × this + place in the commit. At least MAX_OPERATIONS; never to be
 * changed.
 */
export const CHANGES_PER_REVISION = 128;

/**
 * Each step brings a file from the format before to `to`, in one transaction. A fresh file goes
 * through all of them, so that there is one description of each table and no way that a new and a
 * migrated file differ.
 */
export interface Migration {
  readonly to: number;
  readonly about: string;
  readonly sql: string;
}

export const MIGRATIONS: readonly Migration[] = [
  {
    to: 1,
    about: 'The value in the row of its key; no history.',
    sql: `
      CREATE TABLE record(key TEXT PRIMARY KEY, value TEXT NOT NULL, revision INTEGER NOT NULL) STRICT, WITHOUT ROWID;
      CREATE TABLE meta(key TEXT PRIMARY KEY, value INTEGER NOT NULL) STRICT, WITHOUT ROWID;
      INSERT INTO meta VALUES('revision', 0);
    `,
  },
  {
    to: 2,
    about:
      'Values in the order of their change, with history; `compacted` says up to which revision it is forgotten.',
    sql: `
      ALTER TABLE record RENAME TO record_1;
      CREATE TABLE change(id INTEGER PRIMARY KEY, key TEXT NOT NULL, value TEXT) STRICT;
      CREATE TABLE record(key TEXT PRIMARY KEY, change INTEGER NOT NULL) STRICT, WITHOUT ROWID;
      INSERT INTO change
        SELECT revision * 128 + row_number() OVER (PARTITION BY revision ORDER BY key) - 1, key, value FROM record_1;
      INSERT INTO record SELECT key, id FROM change;
      INSERT INTO meta SELECT 'compacted', value FROM meta WHERE key = 'revision';
      DELETE FROM meta WHERE key = 'revision';
      DROP TABLE record_1;
    `,
  },
];

/** The format that this version reads and writes. */
export const FORMAT = MIGRATIONS.at(-1)!.to;

/**
 * `synchronous=FULL`: a commit is on the disk when it returns, in WAL mode too. Checkpoints are
 * ours to time: after the answers have left.
 */
export const PRAGMAS = `
  PRAGMA journal_mode = WAL;
  PRAGMA synchronous = FULL;
  PRAGMA wal_autocheckpoint = 0;
  PRAGMA journal_size_limit = 67108864;
  PRAGMA cache_size = -32768;
  PRAGMA temp_store = MEMORY;
`;

export const STATEMENTS = {
  begin: 'BEGIN IMMEDIATE',
  commit: 'COMMIT',
  current: 'SELECT change FROM record WHERE key = ?',
  append: 'INSERT INTO change(id, key, value) VALUES(?, ?, ?)',
  point: 'INSERT OR REPLACE INTO record(key, change) VALUES(?, ?)',
  unpoint: 'DELETE FROM record WHERE key = ?',
  drop: 'DELETE FROM change WHERE id = ?',
  get: 'SELECT c.key, c.value, c.id FROM record r JOIN change c ON c.id = r.change WHERE r.key = ?',
  /** Without an upper bound the second parameter is an empty blob, which is above every text. */
  list: `SELECT r.key, c.value, c.id FROM record r JOIN change c ON c.id = r.change
         WHERE r.key >= ? AND r.key < ? ORDER BY r.key`,
  history: 'SELECT key, value, id FROM change WHERE id >= ? AND id < ? AND key >= ? AND key < ? ORDER BY id',
  /** Deletes the changes in a range of ids that are no key's current one. */
  forget: `DELETE FROM change WHERE id >= ? AND id < ?
           AND NOT EXISTS (SELECT 1 FROM record r WHERE r.key = change.key AND r.change = change.id)`,
  octets: 'SELECT total(octet_length(value)) AS octets FROM change WHERE id >= ? AND id < ?',
  compacted: "UPDATE meta SET value = ? WHERE key = 'compacted'",
  /** How many pages the log holds, and how many of them are in the file; does nothing. */
  logLength: 'PRAGMA wal_checkpoint(NOOP)',
  checkpoint: 'PRAGMA wal_checkpoint(PASSIVE)',
  /** Also lets the next commit begin the log anew. */
  restartLog: 'PRAGMA wal_checkpoint(RESTART)',
} as const;
