/**
 * Those who watch a store: each reads history until it has caught up, then takes commits as they
 * come.
 */
import { MusterError } from '../base/errors.ts';
import type { Change } from './store.ts';

/**
 * At most this many changes wait for one slow watcher; beyond that it reads them from the history
 * again.
 */
const MAX_WAITING_CHANGES = 4096;
/** And at most this much text (UTF-16 units) in them. */
const MAX_WAITING_TEXT = 16 * 1024 * 1024;

/** Changes under a prefix with `after` < revision ≤ `through`; whole commits only. */
export interface HistoryPage {
  readonly changes: readonly Change[];
  readonly through: number;
}

export interface WatchersOptions {
  /** The newest revision that was published. */
  readonly head: () => number;
  /**
   * Reads history in pages: changes of `after` < revision ≤ `upto`, as many as fit, `through` >
   * `after`. Throws E_STORE_COMPACTED when some of them are forgotten.
   */
  readonly page: (prefix: string, after: number, upto: number) => Promise<HistoryPage>;
}

interface Watcher {
  readonly prefix: string;
  /**
   * Everything up to here is delivered, or did not concern this watcher. Moves while it reads
   * history or takes a batch.
   */
  at: number;
  waiting: Change[];
  waitingText: number;
  /** Must read history from `at` on before it takes `waiting`. */
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

  /** Whether anybody watches: if not, the caller need not build changes. */
  get any(): boolean {
    return this.#watchers.size > 0;
  }

  /** Hands one commit's changes, all of one revision, to those whom they concern. */
  publish(changes: readonly Change[]): void {
    for (const watcher of this.#watchers) {
      // One that is behind reads this commit from the history later.
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

  /** Lets all watchers read history again: what happened since `head` is known only there. */
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

  /** See {@link import('./store.ts').Store.watch}. */
  async *watch(prefix: string, after: number, signal: AbortSignal): AsyncGenerator<readonly Change[], void> {
    if (signal.aborted || this.#closed) return;
    if (after > this.#options.head())
      throw new MusterError(
        'E_STORE_COMPACTED',
        `revision ${after} is not of this store, which is at ${this.#options.head()}`,
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

  /** Reads history up to the head as it is now; what is published meanwhile waits. */
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

/** Drops what waits; the watcher reads from `from` on, or from where its reading stands. */
function fallBehind(watcher: Watcher, from: number): void {
  if (!watcher.reading) watcher.at = Math.max(watcher.at, from);
  watcher.waiting = [];
  watcher.waitingText = 0;
  watcher.behind = true;
}
