/**
 * Limits how many certificates one machine gets. A machine makes its keys itself, so without a
 * limit one that was taken over could make the ledger grow for as long as it likes.
 */
import { duration, type Millis } from '../base/duration.ts';

/** How many certificates of one kind a machine gets at once: enough for a day of reboots. */
export const BURST = 24;
/** After that it gets one more in this time, six an hour. */
export const ONE_EVERY = duration('10m');

/** When more are counted than this, those are forgotten that may have all of their burst again. */
const MANY = 4096;

interface Counted {
  /** How many are left, as of `at`. */
  readonly left: number;
  /** Monotonic. */
  readonly at: Millis;
}

/** Counts certificates by who gets which. */
export class IssueLimit {
  readonly #counted = new Map<string, Counted>();

  /**
   * Takes one certificate for `who` at the monotonic time `now`. Returns undefined, or how long
   * `who` has to wait for the next one.
   */
  take(who: string, now: Millis): Millis | undefined {
    const left = this.#left(who, now);
    if (left < 1) return Math.ceil((1 - left) * ONE_EVERY) as Millis;
    if (this.#counted.size >= MANY) this.#forget(now);
    this.#counted.set(who, { left: left - 1, at: now });
    return undefined;
  }

  #left(who: string, now: Millis): number {
    const counted = this.#counted.get(who);
    return counted === undefined
      ? BURST
      : Math.min(BURST, counted.left + Math.max(0, now - counted.at) / ONE_EVERY);
  }

  #forget(now: Millis): void {
    for (const who of this.#counted.keys()) if (this.#left(who, now) >= BURST) this.#counted.delete(who);
  }
}
