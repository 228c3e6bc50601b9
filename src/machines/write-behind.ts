/**
 * Records that may be written a little later: collected by key, written in batches, kept when the
 * store refuses.
 */
import type { Clock } from '../base/clock.ts';
import { duration, type Millis } from '../base/duration.ts';
import type { Log } from '../base/log.ts';
import { MAX_OPERATIONS, type Store, type Write } from '../store/store.ts';

const DELAY = duration('1s');
const RETRY = duration('10s');

export interface WriteBehind {
  /**
   * The record of `key` is to be written (or deleted) as {@link WriteBehindDeps.writeOf} says when
   * its turn comes.
   */
  later(key: string): void;
  /** Somebody else has just written it. */
  done(key: string): void;
  /** Writes everything that waits. Rejects as the store does; what was not written waits on. */
  flush(): Promise<void>;
  /** No more writing by itself. */
  stop(): void;
}

export interface WriteBehindDeps {
  readonly store: Store;
  readonly clock: Clock;
  readonly log: Log;
  /** The write of a key as things are now. */
  readonly writeOf: (key: string) => Write;
}

export function createWriteBehind({ store, clock, log, writeOf }: WriteBehindDeps): WriteBehind {
  const waiting = new Set<string>();
  let cancel: (() => void) | undefined;
  let stopped = false;
  let writing: Promise<void> = Promise.resolve();

  const schedule = (span: Millis): void => {
    if (stopped) return;
    cancel ??= clock.after(span, () => {
      cancel = undefined;
      flush().catch((error: unknown) => {
        log.warn({ error: String(error) }, 'machine records could not be written; trying again');
        schedule(RETRY);
      });
    });
  };

  const writeAll = async (): Promise<void> => {
    while (waiting.size > 0) {
      const keys: string[] = [];
      for (const key of waiting) {
        keys.push(key);
        waiting.delete(key);
        if (keys.length === MAX_OPERATIONS) break;
      }
      try {
        await store.commit(keys.map(writeOf));
      } catch (error) {
        for (const key of keys) waiting.add(key);
        throw error;
      }
    }
  };

  /** One after another: two at once could write the older of two values last. */
  const flush = (): Promise<void> => {
    writing = writing.catch(() => {}).then(writeAll);
    return writing;
  };

  return {
    later(key) {
      waiting.add(key);
      schedule(DELAY);
    },
    done: (key) => void waiting.delete(key),
    flush,
    stop() {
      stopped = true;
      cancel?.();
      cancel = undefined;
    },
  };
}
