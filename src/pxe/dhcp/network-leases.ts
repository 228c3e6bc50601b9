/**
 * Who has which address on one network, in memory: the leases that the store holds, the offers of
 * the last minute, and what is free. Nothing here waits and nothing is proportional to the number
 * of addresses.
 */
import { AgedMap } from '../../base/aged.ts';
import { type Millis, millis } from '../../base/duration.ts';
import { ExpiryQueue } from '../../base/expiry.ts';
import type { Ipv4 } from '../../base/ipv4.ts';
import type { Mac } from '../../base/mac.ts';
import type { BootClient } from '../client.ts';
import { Declines } from './declines.ts';
import { isOver, type Lease, type LeaseState, type LeaseView, stateAt } from './lease.ts';
import { Pool, type PoolRules } from './pool.ts';

/** How long an offer is kept for the client that got it. */
export const OFFER_HOLD: Millis = millis(60_000);
/** How long a probe's finding that an address is free is worth something. */
const PROBE_VALID: Millis = millis(300_000);
const RESTART_EVERY: Millis = millis(60_000);
/** Of so many addresses it is remembered who took them from another server. */
const MAX_ELSEWHERE = 20_000;

export interface Offer {
  readonly mac: Mac;
  readonly until: Millis;
  readonly xid: number;
  /**
   * What its DISCOVER said: some firmware's REQUEST says less (quirk request-without-vendor-class).
   */
  readonly client: BootClient;
}

export interface AddressEntry {
  readonly address: Ipv4;
  lease?: Lease;
  /** The store's revision of the record; absent when there is none. */
  revision?: number;
  offer?: Offer;
  /** A commit about this address is under way. */
  busy: boolean;
}

export class NetworkLeases {
  readonly network: string;
  readonly #entries = new Map<Ipv4, AddressEntry>();
  readonly #leaseOf = new Map<Mac, AddressEntry>();
  /** All offers are held equally long, so the oldest one ends first. */
  readonly #offerOf = new AgedMap<Mac, AddressEntry>();
  readonly #due = new ExpiryQueue<Ipv4>();
  readonly #queued = new Set<Ipv4>();
  readonly #probed = new Map<Ipv4, Millis>();
  /** Who took an address from another server. It says who asks for files, and binds nobody. */
  readonly #elsewhere = new AgedMap<Ipv4, Mac>();
  readonly #declines = new Declines();
  #pool: Pool | undefined;
  #restarted = 0 as Millis;

  constructor(network: string) {
    this.network = network;
  }

  /** Takes the network's ranges; the same object again costs nothing. */
  follow(rules: PoolRules): void {
    if (this.#pool?.rules === rules) return;
    this.#pool = new Pool(rules);
    this.#probed.clear();
    for (const entry of this.#entries.values()) this.#pool.giveBack(entry.address);
  }

  entry(address: Ipv4): AddressEntry | undefined {
    return this.#entries.get(address);
  }

  leaseOf(mac: Mac): AddressEntry | undefined {
    return this.#leaseOf.get(mac);
  }

  offerOf(mac: Mac, now: Millis): AddressEntry | undefined {
    const entry = this.#offerOf.get(mac);
    return entry?.offer && entry.offer.until > now ? entry : undefined;
  }

  /**
   * Whether `mac` may have the address, as far as leases and offers go. A quarantined one nobody
   * may have.
   */
  isFreeFor(address: Ipv4, mac: Mac, now: Millis): boolean {
    const entry = this.#entries.get(address);
    if (entry === undefined) return true;
    if (entry.offer && entry.offer.mac !== mac && entry.offer.until > now) return false;
    const lease = entry.lease;
    if (lease === undefined || isOver(lease, now))
      return !entry.busy || lease?.mac === mac || entry.offer?.mac === mac;
    // Whoever a probe found on an address uses it already: it may have it.
    return lease.mac === mac && (lease.state === 'bound' || lease.state === 'conflict');
  }

  /**
   * Whether the client declined so many addresses of late that it gets none of a pool for a while.
   */
  declinesAll(mac: Mac, now: Millis): boolean {
    return this.#declines.tooMany(mac, now);
  }

  /**
   * An address of the pools for a client that has none; the probed ones first. It stays free until
   * it is offered.
   */
  nextFree(now: Millis, reserved: (address: Ipv4) => boolean): Ipv4 | undefined {
    const pool = this.#pool;
    if (pool === undefined) return undefined;
    this.expire(now);
    const free = (address: Ipv4) => this.#isFree(address, now) && !reserved(address);
    for (const [address, until] of this.#probed) {
      if (until > now && free(address)) return address;
      this.#probed.delete(address);
    }
    const found = pool.peek(free);
    if (found !== undefined || now - this.#restarted < RESTART_EVERY) return found;
    this.#restarted = now;
    pool.restart();
    return pool.peek(free);
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

  offer(address: Ipv4, offer: Offer): void {
    const before = this.#offerOf.get(offer.mac);
    if (before && before.address !== address) this.withdraw(offer.mac);
    const entry = this.#ensure(address);
    if (entry.offer && entry.offer.mac !== offer.mac) this.#offerOf.delete(entry.offer.mac);
    entry.offer = offer;
    this.#pool?.take(address);
    this.#probed.delete(address);
    this.#offerOf.set(offer.mac, entry);
  }

  /** Ends the offer of a client, if there is one. */
  withdraw(mac: Mac): void {
    const entry = this.#offerOf.get(mac);
    if (entry === undefined) return;
    this.#offerOf.delete(mac);
    delete entry.offer;
    this.#vacated(entry);
  }

  /** A client said that another server gave it `address`; an offer of ours ends. */
  tookElsewhere(mac: Mac, address: Ipv4 | undefined): void {
    this.withdraw(mac);
    if (address === undefined) return;
    this.#elsewhere.set(address, mac);
    if (this.#elsewhere.size > MAX_ELSEWHERE) this.#elsewhere.delete(this.#elsewhere.oldest()!.key);
  }

  /**
   * Who last took the address from another server, as far as it was heard and we did not lease it
   * since.
   */
  elsewhere(address: Ipv4): Mac | undefined {
    return this.#elsewhere.get(address);
  }

  /**
   * Forgets an entry that says nothing any more. What is queued and turns out not to be free is
   * passed over when its turn comes.
   */
  #vacated(entry: AddressEntry): void {
    if (entry.lease === undefined && entry.offer === undefined && !entry.busy)
      this.#entries.delete(entry.address);
    this.#pool?.giveBack(entry.address);
  }

  /** Marks an address as being written about. */
  begin(address: Ipv4): AddressEntry {
    const entry = this.#ensure(address);
    entry.busy = true;
    this.#pool?.take(address);
    return entry;
  }

  /** The commit ended without effect: everything is as before. */
  abandon(entry: AddressEntry): void {
    entry.busy = false;
    this.#vacated(entry);
  }

  /**
   * What the store now holds for the address: after a commit, on loading, or after another host
   * changed it.
   */
  settle(address: Ipv4, stored: { readonly lease: Lease; readonly revision: number } | undefined): void {
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
    entry.revision = revision;
    if (lease.state === 'declined') this.#declines.note(lease.mac, lease.since);
    // A client that declined an address must not find it again; any other state is a reason to come
    // back to it.
    const comesBack = lease.state === 'conflict' ? !this.#leaseOf.has(lease.mac) : lease.state !== 'declined';
    if (comesBack) this.#leaseOf.set(lease.mac, entry);
    else if (lease.state === 'conflict') {
      // It has a lease elsewhere, and this is a second address of its own making.
    } else if (this.#leaseOf.get(lease.mac) === entry) this.#leaseOf.delete(lease.mac);
    if (entry.offer?.mac === lease.mac || lease.state === 'declined' || lease.state === 'conflict') {
      if (entry.offer) this.#offerOf.delete(entry.offer.mac);
      delete entry.offer;
    }
    if (lease.state === 'released') this.#pool?.giveBack(address);
    else this.#watchExpiry(address, lease.expires);
  }

  /**
   * One place in the queue for each address: a lease that was prolonged meanwhile is queued again
   * when its turn comes.
   */
  #watchExpiry(address: Ipv4, at: Millis): void {
    if (this.#queued.has(address)) return;
    this.#queued.add(address);
    this.#due.add(address, at);
  }

  /** Takes back what has run out by `now`. */
  expire(now: Millis): void {
    for (let first = this.#offerOf.oldest(); first !== undefined; first = this.#offerOf.oldest()) {
      if (this.offerOf(first.key, now)) break;
      this.withdraw(first.key);
    }
    for (let address = this.#due.take(now); address !== undefined; address = this.#due.take(now)) {
      this.#queued.delete(address);
      const lease = this.#entries.get(address)?.lease;
      if (lease === undefined || lease.state === 'released') continue;
      if (lease.expires > now) this.#watchExpiry(address, lease.expires);
      else this.#pool?.giveBack(address);
    }
  }

  /** Up to `count` addresses that would go out next and are not known to be free on the wire. */
  toProbe(count: number, now: Millis): Ipv4[] {
    for (const [address, until] of this.#probed)
      if (until <= now || !this.#isFree(address, now)) this.#probed.delete(address);
    const wanted = count - this.#probed.size;
    if (wanted <= 0 || this.#pool === undefined) return [];
    return this.#pool.upcoming(wanted, (address) => !this.#probed.has(address) && this.#isFree(address, now));
  }

  /** A probe found nobody at the address. */
  probedFree(address: Ipv4, now: Millis): void {
    if (this.#isFree(address, now)) this.#probed.set(address, (now + PROBE_VALID) as Millis);
  }

  /** How many addresses are in each state; nothing is allocated for each of them. */
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

  *views(now: Millis): IterableIterator<LeaseView> {
    for (const entry of this.#entries.values()) {
      const view = this.view(entry, now);
      if (view) yield view;
    }
  }

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
