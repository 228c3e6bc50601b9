/** Reading a configuration directory, and noticing when it changes. */
import { type FSWatcher, readdirSync, readFileSync, realpathSync, statSync, watch } from 'node:fs';
import { join } from 'node:path';
import type { Clock } from '../base/clock.ts';
import { millis } from '../base/duration.ts';
import { type Fault, MusterError } from '../base/errors.ts';
import type { Log } from '../base/log.ts';
import { decodeText } from './yaml.ts';

/** Whether a file is the same as when it was last read. */
export interface Stamp {
  readonly modified: number;
  readonly size: number;
  readonly inode: number;
}

export interface Scan {
  readonly files: ReadonlyMap<string, Stamp>;
  readonly directories: readonly string[];
}

/**
 * All `*.yaml` and `*.yml` below `directory`, ordered by path; hidden files and directories are left out, links are followed.
 * Throws E_UNREADABLE when the directory itself cannot be read.
 */
export function scan(directory: string): Scan {
  const files = new Map<string, Stamp>();
  const directories: string[] = [];
  const visited = new Set<string>();
  const visit = (path: string, top: boolean) => {
    let entries: string[];
    try {
      const real = realpathSync(path);
      if (visited.has(real)) return;
      visited.add(real);
      entries = readdirSync(path).sort();
    } catch (cause) {
      if (top) throw unreadable(path, cause);
      return;
    }
    directories.push(path);
    for (const name of entries) {
      if (name.startsWith('.') || name.endsWith('~')) continue;
      const full = join(path, name);
      const found = statSync(full, { throwIfNoEntry: false });
      if (found?.isDirectory()) visit(full, false);
      else if (found?.isFile() && /\.ya?ml$/.test(name))
        files.set(full, { modified: found.mtimeMs, size: found.size, inode: found.ino });
    }
  };
  visit(directory, true);
  return { files, directories };
}

/** The text of a file, or why there is none. */
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

const reason = (cause: unknown): string => (cause instanceof Error ? cause.message : String(cause));

/** Editors write several times and rename; what they leave after this long is what they meant. */
const SETTLE = millis(100);
/** Where the kernel gives no more watches, look this often. */
const POLL = millis(5000);

export interface Watching {
  /** Watches exactly these directories from now on. */
  set(directories: readonly string[]): void;
  close(): void;
}

/** Calls `changed` when something in the watched directories changed and has been quiet for a moment. */
export function watchDirectories(deps: {
  readonly clock: Clock;
  readonly log: Log;
  changed(): void;
}): Watching {
  const watchers = new Map<string, FSWatcher>();
  let settling: (() => void) | undefined;
  let polling: (() => void) | undefined;
  let closed = false;
  const touched = () => {
    settling?.();
    settling = deps.clock.after(SETTLE, () => {
      settling = undefined;
      if (!closed) deps.changed();
    });
  };
  const poll = () => {
    polling = deps.clock.after(POLL, () => {
      deps.changed();
      poll();
    });
  };
  const add = (directory: string) => {
    try {
      const watcher = watch(directory, { persistent: false }, touched);
      watcher.on('error', () => drop(directory));
      watchers.set(directory, watcher);
    } catch (error) {
      if (!polling) {
        deps.log.warn(
          { directory, error: reason(error) },
          'cannot watch a directory; looking every 5 seconds',
        );
        poll();
      }
    }
  };
  const drop = (directory: string) => {
    watchers.get(directory)?.close();
    watchers.delete(directory);
  };
  return {
    set(directories) {
      if (closed) return;
      const wanted = new Set(directories);
      for (const directory of [...watchers.keys()]) if (!wanted.has(directory)) drop(directory);
      for (const directory of wanted) if (!watchers.has(directory)) add(directory);
    },
    close() {
      closed = true;
      settling?.();
      polling?.();
      for (const directory of [...watchers.keys()]) drop(directory);
    },
  };
}
