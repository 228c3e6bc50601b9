/**
 * The configuration directory: watches it, and returns the files that changed since the last read.
 */
import type { Clock } from '../base/clock.ts';
import { type Fault, MusterError } from '../base/errors.ts';
import type { Log } from '../base/log.ts';
import {
  readText,
  type Scan,
  type Stamp,
  sameStamp,
  scan,
  type Watching,
  watchDirectories,
} from './directory.files.ts';
import type { FileChanges, Files } from './file-layer.ts';

export interface ConfigDirectoryDeps {
  readonly directory: string;
  readonly clock: Clock;
  readonly log: Log;
  /** Called when something in the directory changed and nothing more has changed for a moment. */
  changed(): void;
}

export class ConfigDirectory {
  readonly #directory: string;
  readonly #watching: Watching;
  #stamps: ReadonlyMap<string, Stamp> = new Map();
  #unreadable: readonly Fault[] = [];

  constructor(deps: ConfigDirectoryDeps) {
    this.#directory = deps.directory;
    this.#watching = watchDirectories(deps);
  }

  /** Why the last read of the directory failed; empty when it succeeded. */
  get unreadable(): readonly Fault[] {
    return this.#unreadable;
  }

  /**
   * Reads the whole directory and starts watching it.
   *
   * @throws {MusterError} E_UNREADABLE when there is no such directory.
   */
  open(): FileChanges {
    return this.#changesIn(scan(this.#directory), new Map());
  }

  /**
   * Returns the files that changed since the last read, and those whose version in `known` has
   * faults. Undefined when the directory cannot be read; see {@link unreadable}.
   */
  read(known: Files): FileChanges | undefined {
    let found: Scan;
    try {
      found = scan(this.#directory);
    } catch (error) {
      if (!(error instanceof MusterError)) throw error;
      this.#watching.set(undefined);
      const at = { file: this.#directory, line: 1, column: 1 };
      this.#unreadable = [{ code: error.code, message: error.message, at }];
      return undefined;
    }
    this.#unreadable = [];
    return this.#changesIn(found, known);
  }

  /** Stops watching. */
  close(): void {
    this.#watching.close();
  }

  #changesIn(found: Scan, known: Files): FileChanges {
    // The watch starts before the files are read, so that a change in between is read twice and not
    // missed.
    this.#watching.set(found);
    const changes = new Map<string, { readonly text: string } | { readonly fault: Fault } | 'gone'>();
    for (const [file, stamp] of found.files) {
      const before = this.#stamps.get(file);
      const faulty = (known.get(file)?.faults.length ?? 0) > 0;
      if (faulty || !before || !sameStamp(before, stamp)) changes.set(file, readText(file));
    }
    for (const file of known.keys()) if (!found.files.has(file)) changes.set(file, 'gone');
    this.#stamps = found.files;
    return changes;
  }
}
