/** Reads a configuration directory and notices when it changes. */
import {
  type FSWatcher,
  readdirSync,
  readFileSync,
  realpathSync,
  type Stats,
  statSync,
  watch,
} from 'node:fs';
import { join } from 'node:path';
import { setImmediate } from 'node:timers/promises';
import type { Clock } from '../base/clock.ts';
import { millis } from '../base/duration.ts';
import { messageOf } from '../base/error-text.ts';
import { type Fault, MusterError } from '../base/errors.ts';
import type { Log } from '../base/log.ts';
import { decodeText } from './yaml.ts';

/** Tells whether a file changed since it was last read. */
export interface Stamp {
  readonly modified: number;
  readonly size: number;
  readonly inode: number;
}

export const sameStamp = (a: Stamp, b: Stamp): boolean =>
  a.modified === b.modified && a.size === b.size && a.inode === b.inode;

export interface Scan {
  readonly files: ReadonlyMap<string, Stamp>;
  /**
   * By path, the identity of the directory there. A watch stays on the directory that it was set
   * on, even when another directory takes its path.
   */
  readonly directories: ReadonlyMap<string, string>;
}

/**
 * Returns all `*.yaml` and `*.yml` below `directory`, ordered by path. Leaves out hidden files and
 * directories; follows links.
 *
 * @throws {MusterError} E_UNREADABLE when `directory` itself cannot be read.
 */
export function scan(directory: string): Scan {
  const steps = walk(directory);
  for (;;) {
    const step = steps.next();
    if (step.done) return step.value;
  }
}

/**
 * Like {@link scan}, but yields to the event loop in between. Undefined when the directory cannot
 * be read.
 */
async function scanInTurns(directory: string): Promise<Scan | undefined> {
  const steps = walk(directory);
  try {
    for (;;) {
      const step = steps.next();
      if (step.done) return step.value;
      await setImmediate();
    }
  } catch {
    return undefined;
  }
}

/** Files that are examined before the scan yields to the event loop. */
const TURN = 100;

/** The work of {@link scan}, as a generator that yields every {@link TURN} files. */
function* walk(top: string): Generator<undefined, Scan> {
  const files = new Map<string, Stamp>();
  const directories = new Map<string, string>();
  const visited = new Set<string>();
  let looked = 0;
  const visit = function* (path: string): Generator<undefined, void> {
    let entries: string[];
    try {
      const real = realpathSync(path);
      if (visited.has(real)) return;
      visited.add(real);
      directories.set(path, identity(statSync(path)));
      entries = readdirSync(path).sort();
    } catch (cause) {
      directories.delete(path);
      if (path === top) throw unreadable(path, cause);
      return;
    }
    for (const name of entries) {
      if (name.startsWith('.') || name.endsWith('~')) continue;
      if (++looked % TURN === 0) yield;
      const full = join(path, name);
      const found = statSync(full, { throwIfNoEntry: false });
      if (found?.isDirectory()) yield* visit(full);
      else if (found?.isFile() && /\.ya?ml$/.test(name))
        files.set(full, { modified: found.mtimeMs, size: found.size, inode: found.ino });
    }
  };
  yield* visit(top);
  return { files, directories };
}

/** Contains the time of creation, because file systems reuse inode numbers. */
const identity = ({ dev, ino, birthtimeMs }: Stats): string => `${dev}:${ino}:${birthtimeMs}`;

function sameScan(a: Scan | undefined, b: Scan | undefined): boolean {
  if (a === undefined || b === undefined) return a === b;
  if (a.files.size !== b.files.size || a.directories.size !== b.directories.size) return false;
  for (const [path, directory] of a.directories) if (b.directories.get(path) !== directory) return false;
  for (const [file, stamp] of a.files) {
    const other = b.files.get(file);
    if (other === undefined || !sameStamp(stamp, other)) return false;
  }
  return true;
}

/** Returns the text of a file, or why it cannot be read. */
export function readText(file: string): { readonly text: string } | { readonly fault: Fault } {
  try {
    const decoded = decodeText(readFileSync(file), file);
    return decoded.ok ? { text: decoded.text } : { fault: decoded.fault };
  } catch (cause) {
    return { fault: { code: 'E_UNREADABLE', message: reason(cause), at: { file, line: 1, column: 1 } } };
  }
}

function unreadable(path: string, cause: unknown): MusterError {
  return new MusterError('E_UNREADABLE', `${path}: ${reason(cause)}`, { cause });
}

const reason = (cause: unknown): string => messageOf(cause);

/**
 * Editors write several times and rename. A change is read when the directory was quiet for this
 * time.
 */
const SETTLE = millis(100);
/**
 * Interval at which the directory is scanned for changes that no watch reports: another directory
 * at the path, files behind links, NFS, and a kernel without free watches.
 */
const LOOK = millis(5000);

export interface Watching {
  /**
   * Watches the directories of `found` from now on and reports what differs from it. Undefined: the
   * directory could not be read.
   */
  set(found: Scan | undefined): void;
  close(): void;
}

/**
 * Calls `changed` when something in `directory` changed and nothing more has changed for a moment.
 * Starts with the first call of `set`.
 */
export function watchDirectories(deps: {
  readonly directory: string;
  readonly clock: Clock;
  readonly log: Log;
  changed(): void;
}): Watching {
  const watchers = new Map<string, { readonly watcher: FSWatcher; readonly identity: string }>();
  let known: Scan | undefined;
  let settling: (() => void) | undefined;
  let looking: (() => void) | undefined;
  let warned = false;
  let closed = false;
  const touched = () => {
    settling?.();
    settling = deps.clock.after(SETTLE, () => {
      settling = undefined;
      if (!closed) deps.changed();
    });
  };
  const lookLater = () => {
    looking = deps.clock.after(LOOK, () => void look());
  };
  const look = async () => {
    const before = known;
    const found = await scanInTurns(deps.directory);
    if (closed) return;
    // If the directory was read in the meantime, that read is newer than this scan.
    if (known === before && !settling && !sameScan(before, found)) touched();
    lookLater();
  };
  const add = (directory: string, identity: string) => {
    try {
      const watcher = watch(directory, { persistent: false }, touched);
      watcher.on('error', () => drop(directory));
      watchers.set(directory, { watcher, identity });
    } catch (error) {
      if (warned) return;
      warned = true;
      deps.log.warn(
        { directory, error: reason(error) },
        'cannot watch a directory; it is scanned every 5 seconds',
      );
    }
  };
  const drop = (directory: string) => {
    watchers.get(directory)?.watcher.close();
    watchers.delete(directory);
  };
  return {
    set(found) {
      if (closed) return;
      known = found;
      const wanted = found?.directories ?? new Map<string, string>();
      for (const [directory, { identity }] of [...watchers])
        if (wanted.get(directory) !== identity) drop(directory);
      for (const [directory, identity] of wanted) if (!watchers.has(directory)) add(directory, identity);
      if (!looking) lookLater();
    },
    close() {
      closed = true;
      settling?.();
      looking?.();
      for (const directory of [...watchers.keys()]) drop(directory);
    },
  };
}
