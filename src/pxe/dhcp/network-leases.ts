/**
 * The addresses of one network in memory: the leases that the store holds, the offers of the last
 * minute, and the free addresses. No function waits, and none that a packet calls takes time
 * proportional to the number of addresses.
 */
import { AgedMap } from '../../base/aged.ts';
import { type Millis, millis } from '../../base/duration.ts';
import { ExpiryQueue } from '../../base/expiry.ts';
import type { Ipv4 } from '../../base/ipv4.ts';
import type { Mac } from '../../base/mac.ts';
import { TokenBucket } from '../../base/token-bucket.ts';
import type { BootClient } from '../client.ts';
import { Declines } from './declines.ts';
import { Doubts } from './doubts.ts';
import { isOver, type Lease, type LeaseState, type LeaseView, shifted, stateAt } from './lease.ts';
import { inPool, Pool, type PoolRules } from './pool.ts';

/** How long an offer is kept for the client that got it. */
export const OFFER_HOLD: Millis = millis(60_000);
/** How long a probe's result that an address is free is used. */
const PROBE_VALID: Millis = millis(300_000);
/** How often, at most, an exhausted pool is searched again from its beginning. */
const RESTART_EVERY: Millis = millis(60_000);
/**
 * How many addresses from other servers are remembered with their client. Beyond it the oldest is
 * dropped.
 */
const MAX_ELSEWHERE = 20_000;

/**
 * A REQUEST that names us and has no offer may be of a client whose offer was forgotten when Muster
 * restarted. It may also be blind: whoever sends it needs no answer. So there are this many places
 * for such clients at once, for each relay and for the network's own interface, and one more each
 * minute. All others have to ask for an offer.
 */
const WITHOUT_OFFER = { burst: 16, every: millis(60_000) } as const;
/**
 * An address that a relay's client declines cannot be probed. This many declines count at once, and
 * one more each two minutes, so that at most ten addresses are set aside at a time.
 */
const RELAYED_DECLINES = { burst: 5, every: millis(120_000) } as const;

/** An address that is held for a client for {@link OFFER_HOLD}. */
export interface Offer {
  readonly mac: Mac;
  readonly until: Millis;
  readonly xid: number;
  /** What its DISCOVER said; some REQUESTs say less (quirk request-without-vendor-class). */
  readonly client: BootClient;
}

/** What is known about one address. */
export interface AddressEntry {
  readonly address: Ipv4;
  lease?: Lease;
  /** The store's revision of the record; absent when there is none. */
  revision?: number;
  offer?: Offer;
  /** A commit about this address is running. */
  busy: boolean;
  /** The lease has expired, and the address was given back. */
  lapsed?: boolean;
  /** The lease in memory promises more than the record does. */
  ahead?: boolean;
  /** It counts as one of the pool's addresses in use. */
  counted?: boolean;
}

/** Leases, offers and free addresses of one network. */
export class NetworkLeases {
  readonly network: string;
  readonly #entries = new Map<Ipv4, AddressEntry>();
  readonly #leaseOf = new Map<Mac, AddressEntry>();
  /** All offers are held equally long, so the oldest offer ends first. */
  readonly #offerOf = new AgedMap<Mac, AddressEntry>();
  #due = new ExpiryQueue<Ipv4>();
  readonly #queued = new Set<Ipv4>();
  readonly #probed = new Map<Ipv4, Millis>();
  /** Clients that took an address from another server. Used only to name who asks for files. */
  readonly #elsewhere = new AgedMap<Ipv4, Mac>();
  #declines = new Declines();
  /** Declines that are to be proven. */
  readonly doubts = new Doubts();
  readonly #relayedDeclines = new TokenBucket(RELAYED_DECLINES.burst, RELAYED_DECLINES.every);
  /** By relay; `undefined` is the network's interface. Documents name the relays. */
  readonly #withoutOffer = new Map<Ipv4 | undefined, TokenBucket>();
  /** How many addresses of the pools are leased, offered, set aside or being written. */
  #used = 0;
  #pool: Pool | undefined;
  #restarted = 0 as Millis;

  constructor(network: string) {
    this.network = network;
  }

  /** Adopts the network's ranges. Does nothing when `rules` is the object of the last call. */
  follow(rules: PoolRules): void {
    if (this.#pool?.rules === rules) return;
    this.#pool = new Pool(rules);
    this.#probed.clear();
    this.#used = 0;
    for (const entry of this.#entries.values()) {
      this.#pool.giveBack(entry.address);
      entry.counted = false;
      this.#count(entry);
    }
  }

  /** Whether more than half of the pools is in use. */
  get crowded(): boolean {
    return this.#pool !== undefined && 2 * this.#used > this.#pool.size;
  }

  /** Keeps {@link #used} up to date. To be called after each change of an entry. */
  #count(entry: AddressEntry): void {
    const { lease, offer, busy, lapsed, address } = entry;
    const leased = lease !== undefined && lease.state !== 'released' && !lapsed;
    const counted =
      (busy || offer !== undefined || leased) &&
      this.#pool !== undefined &&
      inPool(this.#pool.rules, address);
    if (counted !== (entry.counted ?? false)) this.#used += counted ? 1 : -1;
    entry.counted = counted;
  }

  /** Whether the address is kept for documented machines, of which `count` have no reserved one. */
  isKept(address: Ipv4, count: number): boolean {
    return this.#pool?.isKept(address, count) ?? false;
  }

  /**
   * Whether a client may take an address without an offer. `relay`: the one that forwarded its
   * request.
   */
  permitsWithoutOffer(relay: Ipv4 | undefined, now: Millis): boolean {
    return this.#withoutOffer.get(relay)?.permits(now) ?? true;
  }

  /** Notes that a client took an address without an offer. */
  tookWithoutOffer(relay: Ipv4 | undefined, now: Millis): void {
    let allowance = this.#withoutOffer.get(relay);
    if (allowance === undefined) {
      // A small pool has fewer places, so that a quarter of it at most is taken at once.
      const burst = Math.min(WITHOUT_OFFER.burst, Math.max(1, (this.#pool?.size ?? 0) >> 2));
      allowance = new TokenBucket(burst, WITHOUT_OFFER.every);
      this.#withoutOffer.set(relay, allowance);
    }
    allowance.spend(now);
  }

  /** Whether a decline that a relay forwarded may count. */
  permitsRelayedDecline(now: Millis): boolean {
    return this.#relayedDeclines.permits(now);
  }

  /** Notes that a decline that a relay forwarded counted. */
  countedRelayedDecline(now: Millis): void {
    this.#relayedDeclines.spend(now);
  }

  /** What is known about an address. */
  entry(address: Ipv4): AddressEntry | undefined {
    return this.#entries.get(address);
  }

  /** The entry of the address that a client returns to. */
  leaseOf(mac: Mac): AddressEntry | undefined {
    return this.#leaseOf.get(mac);
  }

  /** The entry that is offered to a client at `now`. */
  offerOf(mac: Mac, now: Millis): AddressEntry | undefined {
    const entry = this.#offerOf.get(mac);
    return entry?.offer && entry.offer.until > now ? entry : undefined;
  }

  /**
   * Whether no lease or offer keeps the address from `mac`. An address that is set aside is free
   * only for a client that a probe found on it.
   */
  isFreeFor(address: Ipv4, mac: Mac, now: Millis): boolean {
    const entry = this.#entries.get(address);
    if (entry === undefined) return true;
    if (entry.offer && entry.offer.mac !== mac && entry.offer.until > now) return false;
    const lease = entry.lease;
    if (lease === undefined || isOver(lease, now))
      return !entry.busy || lease?.mac === mac || entry.offer?.mac === mac;
    // A client that a probe found on the address uses it already, so it may have it.
    return lease.mac === mac && (lease.state === 'bound' || lease.state === 'conflict');
  }

  /** Whether the client has the address, by a lease or an offer. */
  isHeldBy(address: Ipv4, mac: Mac, now: Millis): boolean {
    const { lease, offer } = this.#entries.get(address) ?? {};
    if (offer?.mac === mac && offer.until > now) return true;
    return lease?.mac === mac && lease.state === 'bound' && !isOver(lease, now);
  }

  /** Whether another client gave the address back, and returns to it before others get it. */
  isAwaited(address: Ipv4, mac: Mac): boolean {
    const lease = this.#entries.get(address)?.lease;
    return lease?.state === 'released' && lease.mac !== mac;
  }

  /** Whether the client declined so many addresses that it gets no pool address for now. */
  declinesAll(mac: Mac, now: Millis): boolean {
    return this.#declines.tooMany(mac, now);
  }

  /**
   * A free address of the pools; those that a probe found free come first. The address stays free
   * until it is offered. The last `kept` addresses are not given. Undefined when the pools are
   * exhausted.
   */
  nextFree(now: Millis, reserved: (address: Ipv4) => boolean, kept = 0): Ipv4 | undefined {
    const pool = this.#pool;
    if (pool === undefined) return undefined;
    this.expire(now);
    const free = (address: Ipv4) => this.#isFree(address, now) && !reserved(address);
    for (const [address, until] of this.#probed) {
      if (pool.isKept(address, kept)) continue;
      if (until > now && free(address)) return address;
      this.#probed.delete(address);
    }
    const found = pool.peek(free, kept);
    if (found !== undefined || now - this.#restarted < RESTART_EVERY) return found;
    this.#restarted = now;
    pool.restart();
    return pool.peek(free, kept);
  }

  #isFree(address: Ipv4, now: Millis): boolean {
    const entry = this.#entries.get(address);
    if (entry === undefined) return true;
    if (entry.busy || (entry.offer && entry.offer.until > now)) return false;
    return entry.lease === undefined || isOver(entry.lease, now);
  }

  #ensure(address: Ipv4): AddressEntry {
    let entry = this.#entries.get(address);
    if (entry === undefined) {
      entry = { address, busy: false };
      this.#entries.set(address, entry);
    }
    return entry;
  }

  /** Records an offer; the client's former offer ends. */
  offer(address: Ipv4, offer: Offer): void {
    const before = this.#offerOf.get(offer.mac);
    if (before && before.address !== address) this.withdraw(offer.mac);
    const entry = this.#ensure(address);
    if (entry.offer && entry.offer.mac !== offer.mac) this.#offerOf.delete(entry.offer.mac);
    entry.offer = offer;
    this.#pool?.take(address);
    this.#probed.delete(address);
    this.#offerOf.set(offer.mac, entry);
    this.#count(entry);
  }

  /** Ends the offer of a client, if it has one. */
  withdraw(mac: Mac): void {
    const entry = this.#offerOf.get(mac);
    if (entry === undefined) return;
    this.#offerOf.delete(mac);
    delete entry.offer;
    this.#vacated(entry);
  }

  /**
   * Notes that a client has `address` from another server. Its offer ends. False when the oldest
   * such address was given up for it.
   */
  tookElsewhere(mac: Mac, address: Ipv4 | undefined): boolean {
    this.withdraw(mac);
    if (address === undefined) return true;
    this.#elsewhere.set(address, mac);
    if (this.#elsewhere.size <= MAX_ELSEWHERE) return true;
    this.#elsewhere.delete(this.#elsewhere.oldest()!.key);
    return false;
  }

  /** The client that last took the address from another server, unless it was leased here since. */
  elsewhere(address: Ipv4): Mac | undefined {
    return this.#elsewhere.get(address);
  }

  /**
   * Deletes an empty entry and gives its address back. The pool skips an address that turns out not
   * to be free.
   */
  #vacated(entry: AddressEntry): void {
    this.#count(entry);
    if (entry.lease === undefined && entry.offer === undefined && !entry.busy)
      this.#entries.delete(entry.address);
    this.#pool?.giveBack(entry.address);
  }

  /** Marks an address as busy: a commit about it starts. */
  begin(address: Ipv4): AddressEntry {
    const entry = this.#ensure(address);
    entry.busy = true;
    this.#count(entry);
    this.#pool?.take(address);
    return entry;
  }

  /** Ends a commit that had no effect. */
  abandon(entry: AddressEntry): void {
    entry.busy = false;
    this.#vacated(entry);
  }

  /**
   * Takes over what the store holds for the address: after a commit, on loading, or after another
   * host changed it.
   */
  settle(
    address: Ipv4,
    stored: { readonly lease: Lease; readonly revision: number | undefined } | undefined,
  ): void {
    const entry = this.#ensure(address);
    entry.busy = false;
    const before = entry.lease;
    if (before && before.mac !== stored?.lease.mac && this.#leaseOf.get(before.mac) === entry)
      this.#leaseOf.delete(before.mac);
    if (stored === undefined) {
      delete entry.lease;
      delete entry.revision;
      this.abandon(entry);
      return;
    }
    const { lease, revision } = stored;
    this.#elsewhere.delete(address);
    entry.lease = lease;
    if (revision !== undefined) entry.revision = revision;
    entry.ahead = false;
    entry.lapsed = false;
    if (lease.state === 'declined') this.#declines.note(lease.mac, lease.since);
    // A client returns to its address in every state but `declined`, in which it must not get it.
    const returns = lease.state === 'conflict' ? !this.#leaseOf.has(lease.mac) : lease.state !== 'declined';
    if (returns) this.#leaseOf.set(lease.mac, entry);
    else if (lease.state === 'conflict') {
      // The client has a lease on another address and uses this one without a lease.
    } else if (this.#leaseOf.get(lease.mac) === entry) this.#leaseOf.delete(lease.mac);
    if (entry.offer?.mac === lease.mac || lease.state === 'declined' || lease.state === 'conflict') {
      if (entry.offer) this.#offerOf.delete(entry.offer.mac);
      delete entry.offer;
    }
    this.#count(entry);
    if (lease.state === 'released') this.#pool?.giveBack(address);
    else this.#watchExpiry(address, lease.expires);
  }

  /** Keeps a lease in memory that its record does not have, or not so long. */
  promise(address: Ipv4, lease: Lease): AddressEntry {
    this.settle(address, { lease, revision: undefined });
    this.#pool?.take(address);
    const entry = this.#ensure(address);
    entry.ahead = true;
    return entry;
  }

  /**
   * Queues an address for its lease's end. Each address is queued once; `expire` queues it again if
   * the lease was extended.
   */
  #watchExpiry(address: Ipv4, at: Millis): void {
    if (this.#queued.has(address)) return;
    this.#queued.add(address);
    this.#due.add(address, at);
  }

  /** Ends the offers and gives back the leases that have expired by `now`. */
  expire(now: Millis): void {
    for (let first = this.#offerOf.oldest(); first !== undefined; first = this.#offerOf.oldest()) {
      if (this.offerOf(first.key, now)) break;
      this.withdraw(first.key);
    }
    for (let address = this.#due.take(now); address !== undefined; address = this.#due.take(now)) {
      this.#queued.delete(address);
      const entry = this.#entries.get(address);
      const lease = entry?.lease;
      if (entry === undefined || lease === undefined || lease.state === 'released') continue;
      if (lease.expires > now) this.#watchExpiry(address, lease.expires);
      else {
        entry.lapsed = true;
        this.#count(entry);
        this.#pool?.giveBack(address);
      }
    }
  }

  /**
   * The clock was set by `step`: what is held here ends when it would have ended, because clients
   * count the time that passes. Returns the leases that differ from their records now.
   */
  shift(step: number): readonly AddressEntry[] {
    this.#due = new ExpiryQueue();
    this.#queued.clear();
    this.#probed.clear();
    this.#declines = new Declines();
    this.#restarted = 0 as Millis;
    const changed: AddressEntry[] = [];
    for (const entry of this.#entries.values()) {
      if (entry.offer) entry.offer = { ...entry.offer, until: (entry.offer.until + step) as Millis };
      const { lease } = entry;
      if (lease === undefined || lease.state === 'released') continue;
      entry.lease = shifted(lease, step);
      this.#watchExpiry(entry.address, entry.lease.expires);
      if (entry.busy) continue;
      entry.ahead = true;
      changed.push(entry);
    }
    return changed;
  }

  /** The addresses of which the store has a record. */
  *stored(): IterableIterator<AddressEntry & { readonly lease: Lease; readonly revision: number }> {
    for (const entry of this.#entries.values())
      if (entry.lease !== undefined && entry.revision !== undefined)
        yield entry as AddressEntry & { readonly lease: Lease; readonly revision: number };
  }

  /** Up to `count` addresses that would be given out next and were not probed yet. */
  toProbe(count: number, now: Millis): Ipv4[] {
    for (const [address, until] of this.#probed)
      if (until <= now || !this.#isFree(address, now)) this.#probed.delete(address);
    const wanted = count - this.#probed.size;
    if (wanted <= 0 || this.#pool === undefined) return [];
    return this.#pool.upcoming(wanted, (address) => !this.#probed.has(address) && this.#isFree(address, now));
  }

  /** Notes that a probe found no machine on the address. */
  probedFree(address: Ipv4, now: Millis): void {
    if (this.#isFree(address, now)) this.#probed.set(address, (now + PROBE_VALID) as Millis);
  }

  /** How many entries each table has that packets fill. */
  get sizes(): Readonly<Record<string, number>> {
    return {
      entries: this.#entries.size,
      leaseOf: this.#leaseOf.size,
      offers: this.#offerOf.size,
      due: this.#due.size,
      probed: this.#probed.size,
      elsewhere: this.#elsewhere.size,
      declines: this.#declines.size,
      doubts: this.doubts.size,
      withoutOffer: this.#withoutOffer.size,
    };
  }

  /** The number of addresses in each state. Allocates nothing per address. */
  counts(now: Millis): ReadonlyMap<LeaseState, number> {
    const counts = new Map<LeaseState, number>();
    for (const entry of this.#entries.values()) {
      const state = this.#stateOf(entry, now);
      if (state) counts.set(state, (counts.get(state) ?? 0) + 1);
    }
    return counts;
  }

  #stateOf({ lease, offer }: AddressEntry, now: Millis): LeaseState | undefined {
    if (offer !== undefined && offer.until > now && (lease === undefined || isOver(lease, now)))
      return 'offered';
    return lease && stateAt(lease, now);
  }

  /** All leases and offers; for people. */
  *views(now: Millis): IterableIterator<LeaseView> {
    for (const entry of this.#entries.values()) {
      const view = this.view(entry, now);
      if (view) yield view;
    }
  }

  /** A lease or offer as people see it; undefined for an entry without one. */
  view(entry: AddressEntry, now: Millis): LeaseView | undefined {
    const { address, lease, offer } = entry;
    const state = this.#stateOf(entry, now);
    if (state === undefined) return undefined;
    const { mac, until } = state === 'offered' ? offer! : { mac: lease!.mac, until: lease!.expires };
    return {
      network: this.network,
      address,
      mac,
      state,
      expires: until,
      ...(lease ? { lease } : {}),
    };
  }
}
