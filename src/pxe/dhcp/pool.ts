/**
 * The addresses of one network that nobody holds, without a list of them: a place in each range up
 * to which addresses were never given out, and a queue of those that came back. Asking costs the
 * same for a pool of ten and of a million.
 */
import { AgedMap } from '../../base/aged.ts';
import { broadcastOf, type Cidr, type Ipv4 } from '../../base/ipv4.ts';

export interface PoolRange {
  readonly start: Ipv4;
  readonly end: Ipv4;
}

export interface PoolRules {
  readonly subnet: Cidr;
  readonly ranges: readonly PoolRange[];
  /** Addresses that are somebody's own: the server's, the gateway's. */
  readonly taken: readonly Ipv4[];
}

/**
 * Whether an address of the ranges may be given out at all. `.0` and `.255` are not: Windows
 * refuses them (quirk windows-dot-0).
 */
export function inPool(rules: PoolRules, address: Ipv4): boolean {
  const last = address & 255;
  if (last === 0 || last === 255 || rules.taken.includes(address)) return false;
  if (address === rules.subnet.base || address === broadcastOf(rules.subnet)) return false;
  return rules.ranges.some((range) => address >= range.start && address <= range.end);
}

export class Pool {
  readonly rules: PoolRules;
  #range = 0;
  #next: number;
  /** The address that came back first goes out first. */
  readonly #back = new AgedMap<Ipv4, true>();

  constructor(rules: PoolRules) {
    this.rules = rules;
    this.#next = rules.ranges[0]?.start ?? 0;
  }

  /**
   * Looks at every address again: for addresses that were passed over because a document reserved
   * them and none does any more.
   */
  restart(): void {
    this.#range = 0;
    this.#next = this.rules.ranges[0]?.start ?? 0;
  }

  /** Somebody has the address now: it is neither fresh nor among those that came back. */
  take(address: Ipv4): void {
    this.#back.delete(address);
    if (address === this.#next) this.#next++;
  }

  /** An address that somebody gave back, or that was not given out after all. */
  giveBack(address: Ipv4): void {
    if (!inPool(this.rules, address)) return;
    this.#back.set(address, true);
  }

  /**
   * The next address for which `free` holds; it stays where it is until it is no longer free. Those
   * that are not free are passed over for good: whoever holds them gives them back. Amortised
   * constant time.
   */
  peek(free: (address: Ipv4) => boolean): Ipv4 | undefined {
    for (;;) {
      const range = this.rules.ranges[this.#range];
      if (range === undefined) break;
      if (this.#next > range.end) {
        this.#range++;
        this.#next = this.rules.ranges[this.#range]?.start ?? 0;
        continue;
      }
      const address = this.#next as Ipv4;
      if (inPool(this.rules, address) && free(address)) return address;
      this.#next++;
    }
    for (const [address] of this.#back) {
      if (free(address)) return address;
      this.#back.delete(address);
    }
    return undefined;
  }

  /**
   * Up to `count` addresses that are free, in the order in which they would go out; nothing is
   * passed over.
   */
  upcoming(count: number, free: (address: Ipv4) => boolean): Ipv4[] {
    const found: Ipv4[] = [];
    let looked = 0;
    for (let range = this.#range; range < this.rules.ranges.length && found.length < count; range++) {
      const { start, end } = this.rules.ranges[range]!;
      for (let at = range === this.#range ? this.#next : start; at <= end && found.length < count; at++) {
        if (++looked > 4 * count) return found;
        if (inPool(this.rules, at as Ipv4) && free(at as Ipv4)) found.push(at as Ipv4);
      }
    }
    for (const [address] of this.#back) {
      if (found.length >= count || ++looked > 8 * count) break;
      if (free(address)) found.push(address);
    }
    return found;
  }
}
