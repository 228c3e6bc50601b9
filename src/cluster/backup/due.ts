/** Decides when the next snapshot of a cluster is due, and which ones are surplus. Pure. */
import { duration, type Millis, millis } from '../../base/duration.ts';
import type { Snapshot } from './snapshot.ts';

/**
 * After a snapshot that failed, the next attempt waits this long, or `every` if that is shorter.
 */
const RETRY_AFTER = duration('10m');

interface Known {
  /** When the newest snapshot was taken; undefined when there is none. */
  readonly newest: number | undefined;
  /** When the last attempt failed; undefined when it did not. */
  readonly failed: number | undefined;
}

/**
 * When the next snapshot is due, ms since 1970. One from the future (the clock was wrong) does not
 * count: the schedule would wait for that time.
 */
export function nextDue(every: Millis, { newest, failed }: Known, now: number): number {
  const next = newest === undefined || newest > now ? now : newest + every;
  if (failed === undefined || failed > now) return next;
  return Math.max(next, failed + Math.min(every, RETRY_AFTER));
}

/**
 * The oldest snapshots beyond the `keep` newest at `now`. One from the future (the clock was wrong)
 * would push out newer ones: it does not count, and is not removed.
 */
export const surplus = (
  snapshots: readonly Pick<Snapshot, 'id' | 'takenAt'>[],
  keep: number,
  now: number,
): readonly string[] =>
  snapshots
    .filter(({ takenAt }) => takenAt <= now)
    .toSorted((a, b) => b.takenAt - a.takenAt || (a.id < b.id ? 1 : -1))
    .slice(keep)
    .map(({ id }) => id);

/** How long an order may stay without progress before another member takes it. */
export const STALLED: Millis = millis(10 * 60_000);
