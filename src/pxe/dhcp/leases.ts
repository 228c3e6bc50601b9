/**
 * The lease book: the leases of all networks in memory, and their records in the store. Reading is
 * synchronous. Offers are kept in memory only; every other change takes effect when the store has
 * it.
 */
import type { Clock } from '../../base/clock.ts';
import { STEPPED } from '../../base/clock-judge.ts';
import { type Millis, millis } from '../../base/duration.ts';
import { MusterError } from '../../base/errors.ts';
import { formatIpv4, type Ipv4 } from '../../base/ipv4.ts';
import type { Mac } from '../../base/mac.ts';
import type { Metrics } from '../../base/metrics.ts';
import type { EventSink } from '../../events/event.ts';
import { KEYS } from '../../store/keys.ts';
import { type CommitResult, MAX_OPERATIONS, type Store, type Write } from '../../store/store.ts';
import {
  fromFuture,
  isOver,
  keptAtStart,
  type Lease,
  type LeaseView,
  readLease,
  readLeaseKey,
  type StoredState,
  shifted,
  UNRECORDED,
} from './lease.ts';
import { type AddressEntry, NetworkLeases, type Offer } from './network-leases.ts';

/** How long a declined or conflicting address is set aside. */
export const QUARANTINE: Millis = millis(600_000);
/** How often expired leases are given back and leases are counted for the metrics. */
const SWEEP_EVERY: Millis = millis(5_000);

/** A change of leases: computed by the pure step, carried out by the packet pipeline. */
export type LeaseChange =
  | { readonly kind: 'offer'; readonly network: string; readonly address: Ipv4; readonly offer: Offer }
  /**
   * The client takes an address (`undefined`: not known which) from another server. Its offer ends.
   */
  | {
      readonly kind: 'elsewhere';
      readonly network: string;
      readonly mac: Mac;
      readonly address: Ipv4 | undefined;
    }
  /** The client declined the address, which is probed before that counts. */
  | { readonly kind: 'doubt'; readonly network: string; readonly address: Ipv4; readonly mac: Mac }
  /** The lease was acknowledged without a record, see {@link UNRECORDED}. */
  | { readonly kind: 'promise'; readonly network: string; readonly address: Ipv4; readonly lease: Lease }
  | {
      readonly kind: 'write';
      readonly network: string;
      readonly address: Ipv4;
      readonly lease: Lease;
      /**
       * Nothing but the packet shows that it is true, so it counts against the network's limit for
       * such packets.
       */
      readonly unproven?: 'relayed-decline' | { readonly withoutOffer: Ipv4 | undefined };
      /** Other records of the same transaction. */
      readonly writes: readonly Write[];
    };

/**
 * `stored`: the lease is durable. `unchanged`: it was durable before. `lost`: another boot host has
 * the address. `stale`: one of the other writes lost a race; evaluate the packet again.
 * `in_flight`: a commit about this address or client is running.
 */
export type WriteResult = 'stored' | 'unchanged' | 'lost' | 'stale' | 'in_flight';

export interface LeaseBook {
  /**
   * The time to compare leases with. When the clock was set since the last call, the leases are
   * shifted by that: they end when their clients count.
   */
  now(): Millis;
  /** The leases of a network; an unknown network has none. */
  network(name: string): NetworkLeases;
  /** Whether the store refused the last lease, so that a new one is not offered. */
  readonly failing: boolean;
  /** How many addresses were acknowledged and are not recorded yet. */
  readonly unrecorded: number;
  /** Applies a change that is kept in memory only. */
  apply(change: Exclude<LeaseChange, { kind: 'write' }>): void;
  /**
   * Stores a lease.
   *
   * @throws {MusterError} E_STORE_WRITE when the store cannot write; nothing has changed then.
   */
  write(change: Extract<LeaseChange, { kind: 'write' }>): Promise<WriteResult>;
  /** Sets aside an address that `mac` was found to use, for {@link QUARANTINE}. */
  setAside(network: string, address: Ipv4, mac: Mac, state: StoredState): Promise<WriteResult>;
  /**
   * Ends the leases of a client that is known to be off for good: its address may be reserved for
   * another one now, which gets it at once. Durable when it resolves.
   *
   * @throws {MusterError} E_STORE_WRITE when the store cannot write
   */
  end(mac: Mac): Promise<void>;
  /** The address that `mac` holds a lease on now. Takes constant time per network. */
  addressOf(mac: Mac): Ipv4 | undefined;
  /** All leases and offers, sorted by network and address; for people. */
  list(network?: string): LeaseView[];
  close(): void;
}

const same = (a: Lease, b: Lease) =>
  a.mac === b.mac &&
  a.state === b.state &&
  a.expires >= b.expires &&
  a.clientId === b.clientId &&
  a.hostname === b.hostname &&
  a.machine === b.machine &&
  a.agent === b.agent;

const CANNOT_WRITE: ReadonlySet<string> = new Set(['E_STORE_WRITE', 'E_STORE_DAMAGED', 'E_STORE_CLOSED']);

/** Whether a commit failed for a reason that lies in the store, so that nothing was written. */
export const cannotWrite = (error: unknown): boolean =>
  error instanceof MusterError && CANNOT_WRITE.has(error.code);

class Book implements LeaseBook {
  readonly #store: Store;
  readonly #clock: Clock;
  readonly #metrics: Metrics;
  readonly #networks = new Map<string, NetworkLeases>();
  /** Labels of the gauges that were set, so that a state without leases is set to zero. */
  #shown = new Set<string>();
  #cancel: (() => void) | undefined;
  failing = false;
  /** The leases that were acknowledged without a record. */
  readonly #promised = new Map<AddressEntry, NetworkLeases>();
  #recording: Promise<void> | undefined;
  #trying: Promise<void> | undefined;
  /** The clock minus the time that has passed, at the last look. */
  #offset: number | undefined;

  constructor(parts: { store: Store; clock: Clock; metrics: Metrics }) {
    this.#store = parts.store;
    this.#clock = parts.clock;
    this.#metrics = parts.metrics;
  }

  /**
   * Reads all leases. Returns the keys of malformed records; their addresses are never given out.
   */
  async load(): Promise<readonly string[]> {
    const { records } = await this.#store.list(KEYS.lease.prefix());
    const unreadable: string[] = [];
    const now = this.now();
    const keeps = keptAtStart(
      records.flatMap(({ value }) => readLease(value) ?? []),
      now,
    );
    for (const record of records) {
      const place = readLeaseKey(record.key);
      const lease = readLease(record.value);
      if (place && lease) {
        const network = this.network(place.network);
        network.settle(place.address, { lease, revision: record.revision });
        const step = fromFuture(lease, now);
        if (step !== 0) this.#promised.set(network.promise(place.address, shifted(lease, step)), network);
        else if (keeps(lease))
          network.promise(place.address, { ...lease, expires: (now + UNRECORDED) as Millis });
      } else {
        unreadable.push(record.key);
        if (place) this.network(place.network).begin(place.address);
      }
    }
    this.#sweep();
    return unreadable;
  }

  now(): Millis {
    const now = this.#clock.now();
    const offset = now - this.#clock.monotonic();
    const step = this.#offset === undefined ? 0 : offset - this.#offset;
    this.#offset = offset;
    if (Math.abs(step) > STEPPED)
      for (const network of this.#networks.values())
        for (const entry of network.shift(step)) this.#promised.set(entry, network);
    return now;
  }

  network(name: string): NetworkLeases {
    let found = this.#networks.get(name);
    if (found === undefined) {
      found = new NetworkLeases(name);
      this.#networks.set(name, found);
    }
    return found;
  }

  apply(change: Exclude<LeaseChange, { kind: 'write' }>): void {
    const network = this.network(change.network);
    if (change.kind === 'offer') network.offer(change.address, change.offer);
    else if (change.kind === 'promise')
      this.#promised.set(network.promise(change.address, change.lease), network);
    else if (change.kind === 'doubt') {
      if (!network.doubts.add(change.address, change.mac)) this.#dropped('declines');
    } else if (!network.tookElsewhere(change.mac, change.address)) this.#dropped('elsewhere');
  }

  #dropped(table: string): void {
    this.#metrics.add('muster_table_dropped_total', { table });
  }

  get unrecorded(): number {
    return this.#promised.size;
  }

  async write(change: Extract<LeaseChange, { kind: 'write' }>): Promise<WriteResult> {
    if (this.#promised.size > 0) await this.#record();
    const network = this.network(change.network);
    const { address, lease } = change;
    const known = network.entry(address);
    const former = network.leaseOf(lease.mac);
    // A client holds one address of a network: its former lease is deleted in the same transaction.
    const moved =
      lease.state === 'bound' && former && former.address !== address && former.lease?.state !== 'conflict'
        ? former
        : undefined;
    if (known?.busy || moved?.busy) return 'in_flight';
    if (known?.lease && !known.ahead && !moved && change.writes.length === 0 && same(known.lease, lease)) {
      network.withdraw(lease.mac);
      return 'unchanged';
    }
    const { unproven } = change;
    if (unproven === 'relayed-decline') network.countedRelayedDecline(this.now());
    else if (unproven) network.tookWithoutOffer(unproven.withoutOffer, this.now());
    const entry = network.begin(address);
    if (moved) network.begin(moved.address);
    const writes: Write[] = [
      { key: this.#key(network, address), put: JSON.stringify(lease), expect: entry.revision ?? 'absent' },
      ...(moved?.revision === undefined
        ? []
        : [{ key: this.#key(network, moved.address), delete: true, expect: moved.revision } as const]),
      ...change.writes,
    ];
    try {
      const result = await this.#commit(writes);
      if (result.ok) {
        network.settle(address, { lease, revision: result.revision });
        if (moved) network.settle(moved.address, undefined);
        return 'stored';
      }
      return await this.#reconcile(network, [entry, ...(moved ? [moved] : [])], result.conflicts);
    } catch (error) {
      for (const touched of moved ? [entry, moved] : [entry]) network.abandon(touched);
      throw error;
    }
  }

  async #commit(writes: readonly Write[]): Promise<CommitResult> {
    try {
      const result = await this.#store.commit(writes);
      this.failing = false;
      return result;
    } catch (error) {
      if (cannotWrite(error)) this.failing = true;
      throw error;
    }
  }

  /** Stores what was acknowledged without a record. Rejects with the store's error. */
  #record(): Promise<void> {
    this.#recording ??= this.#recordAll().finally(() => {
      this.#recording = undefined;
    });
    return this.#recording;
  }

  async #recordAll(): Promise<void> {
    while (this.#promised.size > 0) {
      // In this order a server that dies in between finds no new lease without those that its start
      // relies on (keptAtStart).
      const batch = [...this.#promised]
        .toSorted(([a], [b]) => a.lease!.since - b.lease!.since)
        .slice(0, MAX_OPERATIONS);
      for (const [{ address }, network] of batch) network.begin(address);
      try {
        const result = await this.#commit(
          batch.map(([{ address, lease, revision }, network]) => ({
            key: this.#key(network, address),
            put: JSON.stringify(lease),
            expect: revision ?? 'absent',
          })),
        );
        for (const [entry, network] of batch) {
          const { address, lease } = entry;
          if (result.ok) network.settle(address, { lease: lease!, revision: result.revision });
          else if ((await this.#reconcile(network, [entry], result.conflicts)) !== 'lost') continue;
          this.#promised.delete(entry);
        }
      } catch (error) {
        for (const [entry, network] of batch) network.abandon(entry);
        throw error;
      }
    }
  }

  /**
   * Looks whether the store writes again: records what was promised, or writes a lease once more as
   * it is.
   */
  async #tryAgain(): Promise<void> {
    if (this.#promised.size > 0) return this.#record();
    for (const network of this.#networks.values())
      for (const { address, lease, revision, busy, ahead } of network.stored()) {
        if (busy || ahead) continue;
        const key = this.#key(network, address);
        const entry = network.begin(address);
        try {
          const result = await this.#commit([{ key, put: JSON.stringify(lease), expect: revision }]);
          if (result.ok) network.settle(address, { lease, revision: result.revision });
          else await this.#reconcile(network, [entry], result.conflicts);
        } catch (error) {
          network.abandon(entry);
          throw error;
        }
        return;
      }
    this.failing = false;
  }

  /** After a refused commit: takes over what another boot host wrote about these addresses. */
  async #reconcile(
    network: NetworkLeases,
    touched: readonly AddressEntry[],
    conflicts: readonly { readonly key: string }[],
  ): Promise<WriteResult> {
    let lost = false;
    for (const entry of touched) {
      const key = this.#key(network, entry.address);
      if (!conflicts.some((conflict) => conflict.key === key)) {
        network.abandon(entry);
        continue;
      }
      lost = true;
      const record = await this.#store.get(key);
      const lease = record && readLease(record.value);
      // The address of a malformed record stays busy for ever, so that no client gets it.
      if (record && lease === undefined) continue;
      network.settle(entry.address, record && lease ? { lease, revision: record.revision } : undefined);
    }
    return lost ? 'lost' : 'stale';
  }

  setAside(network: string, address: Ipv4, mac: Mac, state: StoredState): Promise<WriteResult> {
    const now = this.now();
    const lease: Lease = { v: 1, mac, state, since: now, expires: (now + QUARANTINE) as Millis };
    return this.write({ kind: 'write', network, address, lease, writes: [] });
  }

  async end(mac: Mac): Promise<void> {
    const now = this.now();
    for (const [network, leases] of this.#networks) {
      const { address, lease: held } = leases.leaseOf(mac) ?? {};
      if (address === undefined || held?.state !== 'bound') continue;
      const lease: Lease = { ...held, state: 'released', since: now, expires: now };
      await this.write({ kind: 'write', network, address, lease, writes: [] });
    }
  }

  addressOf(mac: Mac): Ipv4 | undefined {
    const now = this.now();
    for (const leases of this.#networks.values()) {
      const entry = leases.leaseOf(mac);
      if (entry?.lease?.state === 'bound' && !isOver(entry.lease, now)) return entry.address;
    }
    return undefined;
  }

  list(network?: string): LeaseView[] {
    const now = this.now();
    const chosen = network === undefined ? [...this.#networks.values()] : [this.network(network)];
    return chosen
      .flatMap((leases) => [...leases.views(now)])
      .sort((a, b) => (a.network === b.network ? a.address - b.address : a.network < b.network ? -1 : 1));
  }

  close(): void {
    this.#cancel?.();
    this.#cancel = undefined;
  }

  #key(network: NetworkLeases, address: Ipv4): string {
    return KEYS.lease.key(network.network, formatIpv4(address));
  }

  #sweep(): void {
    // Its failure is known: `failing` stays, and the next sweep tries again.
    if (this.failing || this.#promised.size > 0)
      this.#trying ??= this.#tryAgain()
        .catch(() => {})
        .finally(() => {
          this.#trying = undefined;
        });
    this.#metrics.set('muster_dhcp_unrecorded_leases', {}, this.#promised.size);
    const now = this.now();
    const shown = new Set<string>();
    for (const [name, network] of this.#networks) {
      network.expire(now);
      for (const [state, count] of network.counts(now)) {
        this.#metrics.set('muster_dhcp_leases', { network: name, state }, count);
        shown.add(`${name} ${state}`);
      }
    }
    for (const label of this.#shown) {
      const [network, state] = label.split(' ') as [string, string];
      if (!shown.has(label)) this.#metrics.set('muster_dhcp_leases', { network, state }, 0);
    }
    this.#shown = shown;
    this.#cancel = this.#clock.after(SWEEP_EVERY, () => this.#sweep());
  }
}

/**
 * Reads the leases from an open store. Malformed records are reported as events, and their
 * addresses are never given out.
 */
export async function openLeaseBook(parts: {
  readonly store: Store;
  readonly clock: Clock;
  readonly events: EventSink;
  readonly metrics: Metrics;
}): Promise<LeaseBook> {
  const book = new Book(parts);
  for (const key of await book.load()) {
    parts.events.record({
      kind: 'dhcp.store',
      subject: key,
      reason: {
        code: 'lease_unreadable',
        text: `The record ${key} is not a lease that this version reads; its address is not given out.`,
      },
    });
  }
  return book;
}
