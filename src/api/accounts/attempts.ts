/**
 * Limits failed log-ins. What is limited is an address, and an address that tries one operator:
 * never the operator alone, because then anybody could lock that operator out.
 */
import type { Clock } from '../../base/clock.ts';
import { duration, type Millis } from '../../base/duration.ts';
import { parseIp } from '../../base/ip.ts';
import { TokenBucket } from '../../base/token-bucket.ts';
import type { Standing } from './passwords.ts';

/** Failures of one address: so many at once, then one more in each interval. */
const PER_ADDRESS = { burst: 20, every: duration('5s') } as const;
/** Failures of one address with one operator's name. */
const PER_NAME = { burst: 5, every: duration('30s') } as const;
/** When more are counted, the one that failed longest ago is forgotten. */
const MANY = 4096;

/** Counts failures in memory; the table has a fixed size. */
export class Attempts {
  readonly #clock: Pick<Clock, 'monotonic'>;
  readonly #counted = new Map<string, TokenBucket>();
  /** Addresses from which somebody logged in, the latest last. */
  readonly #trusted = new Set<string>();

  constructor(clock: Pick<Clock, 'monotonic'>) {
    this.#clock = clock;
  }

  /** How long this address has to wait before it may try this operator; 0 when it may now. */
  wait(address: string, name: string): Millis {
    const now = this.#clock.monotonic();
    const waits = keysOf(address, name).map(({ key }) => this.#counted.get(key)?.wait(now) ?? 0);
    return Math.max(...waits) as Millis;
  }

  /** How this address is known. */
  standing(address: string): Standing {
    const bucket = this.#counted.get(addressKey(address));
    if (bucket !== undefined && !bucket.isFull(this.#clock.monotonic())) return 'suspect';
    return this.#trusted.has(networkOf(address)) ? 'trusted' : 'unknown';
  }

  failed(address: string, name: string): void {
    const now = this.#clock.monotonic();
    for (const { key, limit } of keysOf(address, name)) {
      const bucket = this.#counted.get(key) ?? new TokenBucket(limit.burst, limit.every);
      bucket.spend(now);
      this.#counted.delete(key);
      this.#counted.set(key, bucket);
    }
    for (const key of this.#counted.keys()) {
      if (this.#counted.size <= MANY) break;
      this.#counted.delete(key);
    }
  }

  /**
   * A log-in succeeded: the failures of this address with this operator are forgotten, and the
   * address is trusted.
   */
  succeeded(address: string, name: string): void {
    this.#counted.delete(nameKey(address, name));
    this.trust(address);
  }

  /** Somebody who is known asks from this address. */
  trust(address: string): void {
    const network = networkOf(address);
    this.#trusted.delete(network);
    this.#trusted.add(network);
    for (const oldest of this.#trusted) {
      if (this.#trusted.size <= MANY) break;
      this.#trusted.delete(oldest);
    }
  }

  get size(): number {
    return this.#counted.size;
  }
}

const keysOf = (address: string, name: string) => [
  { key: addressKey(address), limit: PER_ADDRESS },
  { key: nameKey(address, name), limit: PER_NAME },
];

const addressKey = (address: string): string => `address ${networkOf(address)}`;
const nameKey = (address: string, name: string): string => `name ${networkOf(address)} ${name.slice(0, 64)}`;

/** An IPv6 host has a whole /64 to choose addresses from, so that counts as one address. */
export function networkOf(address: string): string {
  const plain = address.replace(/^::ffff:(?=[0-9.]+$)/, '');
  if (!plain.includes(':')) return plain;
  const ip = parseIp(plain);
  return ip?.family === 6 ? `${(ip.value >> 64n).toString(16)}/64` : plain;
}
