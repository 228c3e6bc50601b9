/**
 * Limits how often something may happen that nobody can prove: requests without an offer, and
 * declines that a relay forwards.
 */
import type { Millis } from '../../base/duration.ts';

/** A token bucket. Reading it changes nothing; only {@link Allowance.spend} does. */
export class Allowance {
  readonly #burst: number;
  readonly #every: Millis;
  #tokens: number;
  #filledAt: Millis | undefined;

  /**
   * @param burst how often it may happen at once
   * @param every after how long it may happen once more
   */
  constructor(burst: number, every: Millis) {
    this.#burst = burst;
    this.#every = every;
    this.#tokens = burst;
  }

  #at(now: Millis): number {
    // A clock that was set back does not fill the bucket, and does not empty it.
    const since = this.#filledAt === undefined ? 0 : Math.max(0, now - this.#filledAt);
    return Math.min(this.#burst, this.#tokens + since / this.#every);
  }

  /** Whether it may happen at `now`. */
  permits(now: Millis): boolean {
    return this.#at(now) >= 1;
  }

  /** Notes that it happened. */
  spend(now: Millis): void {
    this.#tokens = Math.max(0, this.#at(now) - 1);
    this.#filledAt = now;
  }
}
