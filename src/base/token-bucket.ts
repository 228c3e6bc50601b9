/** Limits how often something may happen: so many times at once, and then once in a while. */
import type { Millis } from './duration.ts';

export class TokenBucket {
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

  /** Whether it may happen at `now`. Changes nothing. */
  permits(now: Millis): boolean {
    return this.#at(now) >= 1;
  }

  /** How long it has to wait; 0 when it may happen at `now`. Changes nothing. */
  wait(now: Millis): Millis {
    return Math.max(0, Math.ceil((1 - this.#at(now)) * this.#every)) as Millis;
  }

  /** Whether all of its burst is there. Changes nothing. */
  isFull(now: Millis): boolean {
    return this.#at(now) >= this.#burst;
  }

  /** Notes that it happened. */
  spend(now: Millis): void {
    this.#tokens = Math.max(0, this.#at(now) - 1);
    this.#filledAt = now;
  }
}
