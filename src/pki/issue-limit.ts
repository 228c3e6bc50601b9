/**
 * Limits how many certificates one machine gets. A machine makes its keys itself, so without a
 * limit one that was taken over could make the ledger grow for as long as it likes.
 */
import { duration, type Millis } from '../base/duration.ts';
import { TokenBucket } from '../base/token-bucket.ts';

/** How many certificates of one kind a machine gets at once: enough for a day of reboots. */
export const BURST = 24;
/** After that it gets one more in this time, six an hour. */
export const ONE_EVERY = duration('10m');

/** When more are counted than this, those are forgotten that may have all of their burst again. */
const MANY = 4096;

/** Counts certificates by who gets which. */
export class IssueLimit {
  readonly #counted = new Map<string, TokenBucket>();

  /**
   * Takes one certificate for `who` at the monotonic time `now`. Returns undefined, or how long
   * `who` has to wait for the next one.
   */
  take(who: string, now: Millis): Millis | undefined {
    let bucket = this.#counted.get(who);
    if (bucket !== undefined && !bucket.permits(now)) return bucket.wait(now);
    if (this.#counted.size >= MANY) this.#forget(now);
    bucket ??= new TokenBucket(BURST, ONE_EVERY);
    bucket.spend(now);
    this.#counted.set(who, bucket);
    return undefined;
  }

  #forget(now: Millis): void {
    for (const [who, bucket] of this.#counted) if (bucket.isFull(now)) this.#counted.delete(who);
  }
}
