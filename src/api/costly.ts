/**
 * Limits what one operator may ask of the server that takes it long: machines are answered by the
 * same thread.
 */
import { setBounded } from '../base/aged.ts';
import type { Clock } from '../base/clock.ts';
import { millis } from '../base/duration.ts';
import { MusterError } from '../base/errors.ts';
import { TokenBucket } from '../base/token-bucket.ts';
import type { Principal } from './access.ts';

/** So many at once, as a page with all its views asks for, and then one in each interval. */
const AT_ONCE = 30;
const EVERY = millis(500);
/** When more operators are counted, the one who came first is forgotten. */
const MOST = 2_000;

/** What the limit is, for the reference. */
export const LIMIT_TEXT = `${AT_ONCE} at once and then ${1000 / EVERY} a second`;

export class CostlyReads {
  readonly #clock: Pick<Clock, 'monotonic'>;
  /** By the name of the operator: all their sessions and tokens share one. */
  readonly #asked = new Map<string, TokenBucket>();

  constructor(clock: Pick<Clock, 'monotonic'>) {
    this.#clock = clock;
  }

  /**
   * Counts a request. The local socket has no limit: it is the way in when all else fails.
   *
   * @throws {MusterError} E_READ_LIMIT when the operator asked for too much
   */
  take({ name, by }: Pick<Principal, 'name' | 'by'>): void {
    if (by === 'socket') return;
    const bucket = this.#asked.get(name) ?? new TokenBucket(AT_ONCE, EVERY);
    setBounded(this.#asked, name, bucket, MOST);
    const now = this.#clock.monotonic();
    const retryAfterSeconds = Math.ceil(bucket.wait(now) / 1000);
    if (retryAfterSeconds > 0)
      throw new MusterError(
        'E_READ_LIMIT',
        `${name} asked for more than the server answers at a time: ${LIMIT_TEXT}; the next one is possible in ${retryAfterSeconds} s`,
        { retryAfterSeconds },
      );
    bucket.spend(now);
  }
}
