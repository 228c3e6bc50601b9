/**
 * How fast machines that nobody knows become records: a flood of invented addresses costs neither
 * memory nor disk.
 */
import type { Clock } from '../base/clock.ts';
import type { Millis } from '../base/duration.ts';

/**
 * New discoveries: this many at once, then this many a second. More is a flood; those machines are
 * answered, not recorded.
 */
export const DISCOVERY = { burst: 2_000, perSecond: 100 } as const;

/** A bucket that fills with time. */
export class DiscoveryRate {
  readonly #clock: Clock;
  #tokens: number = DISCOVERY.burst;
  #filledAt: Millis;

  constructor(clock: Clock) {
    this.#clock = clock;
    this.#filledAt = clock.monotonic();
  }

  /** Whether one more may be recorded now; it then counts. */
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
