/** Watches the configuration directory and gives the files that changed since the last time. */
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
  /** Is called when something in the directory changed and has been quiet for a moment. */
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

  /** Why the directory could not be read the last time; empty when it could. */
  get unreadable(): readonly Fault[] {
    return this.#unreadable;
  }

  /**
   * Reads the whole directory and begins to watch it.
   *
   * @throws {MusterError} E_UNREADABLE when there is no such directory.
   */
  open(): FileChanges {
    return this.#changesIn(scan(this.#directory), new Map());
  }

  /**
   * The files that changed since the last time, and those whose version in `known` has faults.
   * Undefined when the directory cannot be read: see {@link unreadable}.
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
    // Watched before the files are read: a change in between is then read twice, not never.
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
