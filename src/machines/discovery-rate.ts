/**
 * Limits how fast unknown machines become records, so that a flood of invented addresses costs
 * neither memory nor disk.
 */
import type { Clock } from '../base/clock.ts';
import type { Millis } from '../base/duration.ts';

/**
 * How many unknown machines are recorded at once, and then per second. Beyond that they are still
 * answered, but not recorded.
 */
export const DISCOVERY = { burst: 2_000, perSecond: 100 } as const;

/** A token bucket. */
export class DiscoveryRate {
  readonly #clock: Clock;
  #tokens: number = DISCOVERY.burst;
  #filledAt: Millis;

  constructor(clock: Clock) {
    this.#clock = clock;
    this.#filledAt = clock.monotonic();
  }

  /** Takes a token; false when there is none. */
  take(): boolean {
    const now = this.#clock.monotonic();
    const filled = this.#tokens + ((now - this.#filledAt) / 1000) * DISCOVERY.perSecond;
    this.#tokens = Math.min(DISCOVERY.burst, filled);
    this.#filledAt = now;
    if (this.#tokens < 1) return false;
    this.#tokens--;
    return true;
  }
}
