/** The invitations of new boot hosts. Only the hashes of their secrets are kept, and in memory. */
import { createHash, randomBytes, timingSafeEqual } from 'node:crypto';
import type { Clock } from '../../base/clock.ts';
import { type Millis, millis } from '../../base/duration.ts';
import { TokenBucket } from '../../base/token-bucket.ts';
import { SECRET_OCTETS } from './code.ts';

export const INVITED_FOR: Millis = millis(15 * 60_000);
/** So many wrong secrets are recorded at once, and then one a minute. */
const RECORDED = 5;
const RECORD_EVERY = millis(60_000);

interface Invitation {
  readonly hash: Buffer;
  readonly until: Millis;
  /** The new host also gets the certificate that this one shows etcd. */
  readonly sharesCertificate: boolean;
}

/** What a secret was: right for this host, or not. `recorded`: worth an entry in the log. */
export type Redeemed =
  | { readonly host: string; readonly sharesCertificate: boolean }
  | { readonly host?: undefined; readonly recorded: boolean };

const hashOf = (secret: string): Buffer => createHash('sha256').update(secret).digest();

export class Invitations {
  readonly #clock: Pick<Clock, 'monotonic'>;
  readonly #open = new Map<string, Invitation>();
  readonly #wrong = new TokenBucket(RECORDED, RECORD_EVERY);

  constructor(clock: Pick<Clock, 'monotonic'>) {
    this.#clock = clock;
  }

  /** Makes the secret of an invitation. A former one of that host ends. */
  invite(host: string, sharesCertificate: boolean): string {
    const secret = randomBytes(SECRET_OCTETS).toString('hex');
    const until = (this.#clock.monotonic() + INVITED_FOR) as Millis;
    this.#open.set(host, { hash: hashOf(secret), until, sharesCertificate });
    return secret;
  }

  /** Whether a host is invited. */
  has(host: string): boolean {
    this.#forgetOld();
    return this.#open.has(host);
  }

  callOff(host: string): void {
    this.#open.delete(host);
  }

  /** Whether anybody who is no boot host gets an answer now. */
  get some(): boolean {
    this.#forgetOld();
    return this.#open.size > 0;
  }

  /**
   * Takes a secret, which counts once. A right one is never kept back by wrong ones: 128 random
   * bits need no other defence against guessing.
   */
  redeem(secret: string): Redeemed {
    this.#forgetOld();
    const hash = hashOf(secret);
    for (const [host, one] of this.#open)
      if (timingSafeEqual(one.hash, hash)) {
        this.#open.delete(host);
        return { host, sharesCertificate: one.sharesCertificate };
      }
    const now = this.#clock.monotonic();
    const recorded = this.#wrong.permits(now);
    if (recorded) this.#wrong.spend(now);
    return { recorded };
  }

  #forgetOld(): void {
    const now = this.#clock.monotonic();
    for (const [host, { until }] of this.#open) if (until <= now) this.#open.delete(host);
  }
}
