/**
 * Watchers of a store. Each reads history until it has caught up, and then gets commits as they are
 * made.
 */
import { MusterError } from '../base/errors.ts';
import type { Change } from './store.ts';

/**
 * At most this many changes are queued for a slow watcher. If there are more, it reads them from
 * the history.
 */
const MAX_WAITING_CHANGES = 4096;
/** At most this much text (UTF-16 units) is queued for a slow watcher. */
const MAX_WAITING_TEXT = 16 * 1024 * 1024;

/** Changes of keys with a prefix, `after` < revision ≤ `through`. Contains whole commits only. */
export interface HistoryPage {
  readonly changes: readonly Change[];
  readonly through: number;
}

export interface WatchersOptions {
  /** The newest revision that was published. */
  readonly head: () => number;
  /**
   * Reads a page of history: changes with `after` < revision ≤ `upto`, as many as fit; `through` >
   * `after`. Throws E_STORE_COMPACTED when some of them are forgotten.
   */
  readonly page: (prefix: string, after: number, upto: number) => Promise<HistoryPage>;
}

interface Watcher {
  readonly prefix: string;
  /**
   * Changes up to this revision are delivered, or do not have the prefix.
   */
  at: number;
  waiting: Change[];
  waitingText: number;
  /** Whether it must read history after `at` before it takes `waiting`. */
  behind: boolean;
  reading: boolean;
  ended: boolean;
  wake: (() => void) | undefined;
}

export class Watchers {
  readonly #options: WatchersOptions;
  readonly #watchers = new Set<Watcher>();
  #closed = false;

  constructor(options: WatchersOptions) {
    this.#options = options;
  }

  /** Whether there are watchers. Without any, the caller does not need to build changes. */
  get any(): boolean {
    return this.#watchers.size > 0;
  }

  /** Queues the changes of one commit for the watchers of their keys. */
  publish(changes: readonly Change[]): void {
    for (const watcher of this.#watchers) {
      // A watcher that is behind reads this commit from the history later.
      if (watcher.behind) continue;
      let woken = false;
      for (const change of changes) {
        if (!change.key.startsWith(watcher.prefix)) continue;
        watcher.waiting.push(change);
        watcher.waitingText += change.value?.length ?? 0;
        woken = true;
      }
      if (watcher.waiting.length > MAX_WAITING_CHANGES || watcher.waitingText > MAX_WAITING_TEXT)
        fallBehind(watcher, watcher.waiting[0]!.revision - 1);
      if (woken) watcher.wake?.();
    }
  }

  /**
   * Makes all watchers read the history after `head` again, because they were not sent those
   * changes.
   */
  reread(head: number): void {
    for (const watcher of this.#watchers) {
      if (!watcher.behind) fallBehind(watcher, watcher.waiting[0] ? watcher.waiting[0].revision - 1 : head);
      watcher.wake?.();
    }
  }

  /** Ends all watches. */
  close(): void {
    this.#closed = true;
    for (const watcher of this.#watchers) {
      watcher.ended = true;
      watcher.wake?.();
    }
  }

  /**
   * See {@link import('./store.ts').Store.watch}.
   *
   * @throws {MusterError} E_STORE_COMPACTED when `after` is ahead of this store, or its history is
   *   forgotten.
   */
  async *watch(prefix: string, after: number, signal: AbortSignal): AsyncGenerator<readonly Change[], void> {
    if (signal.aborted || this.#closed) return;
    if (after > this.#options.head())
      throw new MusterError(
        'E_STORE_COMPACTED',
        `revision ${after} is ahead of this store, which is at ${this.#options.head()}`,
      );
    const watcher = newWatcher(prefix, after);
    const end = () => {
      watcher.ended = true;
      watcher.wake?.();
    };
    signal.addEventListener('abort', end, { once: true });
    this.#watchers.add(watcher);
    try {
      while (!watcher.ended) {
        if (watcher.behind) {
          yield* this.#catchUp(watcher);
        } else if (watcher.waiting.length > 0) {
          const batch = watcher.waiting;
          watcher.waiting = [];
          watcher.waitingText = 0;
          watcher.at = batch.at(-1)!.revision;
          yield batch;
        } else {
          await new Promise<void>((resolve) => {
            watcher.wake = resolve;
          });
          watcher.wake = undefined;
        }
      }
    } finally {
      this.#watchers.delete(watcher);
      signal.removeEventListener('abort', end);
    }
  }

  /**
   * Reads history up to the current head. Changes that are published in the meantime are queued.
   */
  async *#catchUp(watcher: Watcher): AsyncGenerator<readonly Change[], void> {
    const upto = this.#options.head();
    watcher.behind = false;
    watcher.reading = true;
    while (watcher.at < upto && !watcher.ended) {
      const page = await this.#options.page(watcher.prefix, watcher.at, upto);
      watcher.at = page.through;
      if (page.changes.length > 0 && !watcher.ended) yield page.changes;
    }
    watcher.reading = false;
  }
}

function newWatcher(prefix: string, after: number): Watcher {
  return {
    prefix,
    at: after,
    waiting: [],
    waitingText: 0,
    behind: true,
    reading: false,
    ended: false,
    wake: undefined,
  };
}

/**
 * Drops the queue of the watcher. It reads history after `from`, or continues the read that is
 * running.
 */
function fallBehind(watcher: Watcher, from: number): void {
  if (!watcher.reading) watcher.at = Math.max(watcher.at, from);
  watcher.waiting = [];
  watcher.waitingText = 0;
  watcher.behind = true;
}
