/**
 * The free addresses of one network, without a list of them: a position in the ranges from which on
 * no address was given out yet, and a queue of returned addresses. Finding one costs the same for a
 * pool of ten and of a million addresses.
 */
import { AgedMap } from '../../base/aged.ts';
import { broadcastOf, type Cidr, type Ipv4 } from '../../base/ipv4.ts';

interface PoolRange {
  readonly start: Ipv4;
  readonly end: Ipv4;
}

/** Which addresses of a network may be given out. */
export interface PoolRules {
  readonly subnet: Cidr;
  readonly ranges: readonly PoolRange[];
  /** Addresses of the server and the gateway. */
  readonly taken: readonly Ipv4[];
}

/**
 * Whether an address may be given out at all. Addresses that end in .0 or .255 may not, because
 * Windows refuses them (quirk windows-dot-0).
 */
export function inPool(rules: PoolRules, address: Ipv4): boolean {
  const last = address & 255;
  if (last === 0 || last === 255 || rules.taken.includes(address)) return false;
  if (address === rules.subnet.base || address === broadcastOf(rules.subnet)) return false;
  return rules.ranges.some((range) => address >= range.start && address <= range.end);
}

/** Documented machines can have at most this part of the pools kept for them, and this many. */
const KEPT = { part: 4, most: 256 } as const;

/** Counts the addresses of the pools, and ranks the last of them: the last one is 0. */
function lastOf(rules: PoolRules): { readonly size: number; readonly ranks: ReadonlyMap<Ipv4, number> } {
  const size = rules.ranges.reduce((sum, { start, end }) => sum + Math.max(0, end - start + 1), 0);
  const most = Math.min(KEPT.most, Math.floor(size / KEPT.part));
  const ranks = new Map<Ipv4, number>();
  for (const { start, end } of [...rules.ranges].reverse())
    for (let at = end as number; at >= start && ranks.size < most; at--)
      if (inPool(rules, at as Ipv4)) ranks.set(at as Ipv4, ranks.size);
  return { size, ranks };
}

/** The free addresses of one network. */
export class Pool {
  readonly rules: PoolRules;
  /** How many addresses the ranges have. */
  readonly size: number;
  readonly #ranks: ReadonlyMap<Ipv4, number>;
  #range = 0;
  #next: number;
  /** The address that was returned first is given out first. */
  readonly #returned = new AgedMap<Ipv4, true>();

  constructor(rules: PoolRules) {
    this.rules = rules;
    const { size, ranks } = lastOf(rules);
    this.size = size;
    this.#ranks = ranks;
    this.#next = rules.ranges[0]?.start ?? 0;
  }

  /**
   * Whether the address is one of the last `count`, which are kept for documented machines. They
   * are never more than a quarter of the pools.
   */
  isKept(address: Ipv4, count: number): boolean {
    return count > 0 && (this.#ranks.get(address) ?? count) < count;
  }

  /** Starts over at the first address. Finds addresses that were reserved and no longer are. */
  restart(): void {
    this.#range = 0;
    this.#next = this.rules.ranges[0]?.start ?? 0;
  }

  /** Notes that the address is in use. */
  take(address: Ipv4): void {
    this.#returned.delete(address);
    if (address === this.#next) this.#next++;
  }

  /** Returns an address, unless it may not be given out. */
  giveBack(address: Ipv4): void {
    if (!inPool(this.rules, address)) return;
    this.#returned.set(address, true);
  }

  /**
   * The next address for which `free` holds and that is not one of the last `kept`. It stays the
   * next one until it is taken. An address that is not free is skipped for good, because its holder
   * returns it. Amortised constant time.
   */
  peek(free: (address: Ipv4) => boolean, kept = 0): Ipv4 | undefined {
    for (;;) {
      const range = this.rules.ranges[this.#range];
      if (range === undefined) break;
      if (this.#next > range.end) {
        this.#range++;
        this.#next = this.rules.ranges[this.#range]?.start ?? 0;
        continue;
      }
      const address = this.#next as Ipv4;
      // The kept addresses are the last ones, so all that follow are kept too.
      if (this.isKept(address, kept)) break;
      if (inPool(this.rules, address) && free(address)) return address;
      this.#next++;
    }
    for (const [address] of this.#returned) {
      if (this.isKept(address, kept)) continue;
      if (free(address)) return address;
      this.#returned.delete(address);
    }
    return undefined;
  }

  /**
   * Up to `count` free addresses in the order in which they would be given out. Changes nothing.
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
    for (const [address] of this.#returned) {
      if (found.length >= count || ++looked > 8 * count) break;
      if (free(address)) found.push(address);
    }
    return found;
  }
}
