/**
 * Records that may be written a little later: collected by key, written in batches, and kept when
 * the store refuses.
 */
import type { Clock } from '../base/clock.ts';
import { duration, type Millis } from '../base/duration.ts';
import type { Log } from '../base/log.ts';
import { MAX_OPERATIONS, type Store, type Write } from '../store/store.ts';

/** How long records are collected before they are written. */
const DELAY = duration('1s');
/** How long to wait after the store refused. */
const RETRY = duration('10s');

export interface WriteBehind {
  /**
   * Queues the record of `key`; when its turn comes, {@link WriteBehindDeps.writeOf} says what is
   * written.
   */
  later(key: string): void;
  /** Takes a record out of the queue: the caller has written it. */
  done(key: string): void;
  /** Writes all queued records. Rejects with the store's error; records not written stay queued. */
  flush(): Promise<void>;
  /** Stops writing by a timer. */
  stop(): void;
}

interface WriteBehindDeps {
  readonly store: Store;
  readonly clock: Clock;
  readonly log: Log;
  /** The write of a key as its record is now. */
  readonly writeOf: (key: string) => Write;
}

/** Creates an empty queue, which a timer writes. A refused write is logged and tried again. */
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

  /** One flush at a time: two at once could write the older of two values last. */
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
