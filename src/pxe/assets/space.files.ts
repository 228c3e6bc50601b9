/**
 * Free space of the state directory's file system. The store shares it with uploads, and no lease
 * can be confirmed once the store cannot write. Therefore uploads leave a reserve to the store.
 */
import { statfs } from 'node:fs/promises';
import type { Clock } from '../../base/clock.ts';
import { type Millis, millis } from '../../base/duration.ts';
import { messageOf } from '../../base/error-text.ts';
import type { Log } from '../../base/log.ts';
import type { Metrics } from '../../base/metrics.ts';

/** Octets of a file system: its size, and what an unprivileged process can still write. */
export interface Space {
  readonly size: number;
  readonly free: number;
}

/** The largest reserve. The store's journal and the event journal stay far below it. */
const MAX_RESERVE_BYTES = 256 * 1024 * 1024;
/** On a small file system the reserve is this fraction of its size. */
const RESERVE_PART = 1 / 10;

/** How often the free space is measured for the metrics. */
const MEASURE_EVERY: Millis = millis(15_000);

/** Reads the space of the file system that holds `path`. Rejects with the system's error. */
export async function readSpace(path: string): Promise<Space> {
  const { bsize, blocks, bavail } = await statfs(path);
  return { size: blocks * bsize, free: bavail * bsize };
}

/** Octets that uploads leave free for the store. */
export function reserveOf({ size }: Pick<Space, 'size'>): number {
  return Math.min(MAX_RESERVE_BYTES, Math.floor(size * RESERVE_PART));
}

/**
 * Keeps the metrics of free space up to date, and logs once when uploads can no longer be accepted.
 * Returns a function that stops it.
 */
export function watchSpace(parts: {
  readonly directory: string;
  readonly metrics: Pick<Metrics, 'set'>;
  readonly clock: Clock;
  readonly log: Log;
  readonly read?: (path: string) => Promise<Space>;
}): () => void {
  const { directory, metrics, clock, log, read = readSpace } = parts;
  let stopped = false;
  let low = false;
  let cancel = () => {};
  const measure = async (): Promise<void> => {
    try {
      const space = await read(directory);
      const reserve = reserveOf(space);
      metrics.set('muster_state_free_bytes', {}, space.free);
      metrics.set('muster_state_reserve_bytes', {}, reserve);
      if (space.free < reserve && !low)
        log.warn(
          { directory, free: space.free, reserve },
          'the state directory is nearly full: uploads are refused, so that leases can still be stored',
        );
      low = space.free < reserve;
    } catch (error) {
      log.debug({ directory, error: messageOf(error) }, 'the free space could not be measured');
    }
    if (!stopped) cancel = clock.after(MEASURE_EVERY, () => void measure());
  };
  void measure();
  return () => {
    stopped = true;
    cancel();
  };
}
