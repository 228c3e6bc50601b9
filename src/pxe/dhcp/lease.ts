/**
 * A lease as a value: the record that the store keeps under `lease/NETWORK/ADDRESS`, and its views.
 */
import { STEPPED } from '../../base/clock-judge.ts';
import { duration, type Millis } from '../../base/duration.ts';
import { type Ipv4, parseIpv4 } from '../../base/ipv4.ts';
import { type Mac, parseMac } from '../../base/mac.ts';
import { KEYS } from '../../store/keys.ts';

/**
 * The states that are stored. `bound`: the client has the address until `expires`. `released`: the
 * client gave the address back; the record stays so that the client gets the same address again.
 * `declined`: the client found the address in use. `conflict`: a probe did. The last two set the
 * address aside until `expires`.
 */
export type StoredState = 'bound' | 'released' | 'declined' | 'conflict';

/**
 * The states that people see: the stored ones, `offered` (in memory for a minute) and `expired`
 * (bound until a time that is over).
 */
export type LeaseState = StoredState | 'offered' | 'expired';

export interface Lease {
  readonly v: 1;
  readonly mac: Mac;
  readonly state: StoredState;
  /** When the present state began. */
  readonly since: Millis;
  readonly expires: Millis;
  /** When `expires` was set; absent: at `since`. */
  readonly at?: Millis;
  /** Option 61 of the last request, hexadecimal; echoed, never used as identity. */
  readonly clientId?: string;
  readonly hostname?: string;
  /** Machine name, when recognised. */
  readonly machine?: string;
  /**
   * Option 82 of the request that came through a relay, hexadecimal: renewals bypass the relay and
   * carry none.
   */
  readonly agent?: string;
}

/** A lease or an offer, with its network and address. */
export interface LeaseView {
  readonly network: string;
  readonly address: Ipv4;
  readonly mac: Mac;
  readonly state: LeaseState;
  readonly expires: Millis;
  readonly lease?: Lease;
}

/**
 * How far ahead of the store an address is acknowledged while the store cannot write (full disk,
 * read-only file system, I/O error). An acknowledgement without a record may only extend what
 * nobody else could be given meanwhile:
 *
 * - The client's reservation. It is a document, which a restart does not forget.
 * - A lease that the client holds. While this process lives, its memory keeps the address. A
 *   process that starts knows only the record, in which the lease may have ended; so it keeps every
 *   lease for its client until this time has passed since its start ({@link keptAtStart}).
 *
 * A new lease of a pool's address is neither offered nor acknowledged. What was acknowledged
 * without a record is stored before any other lease is, in the order in which the leases began.
 */
export const UNRECORDED: Millis = duration('10m');

/**
 * Which leases a starting server keeps for their clients, although they may have ended: those that
 * had not ended when the last new lease was stored. An earlier one was over while the store could
 * still write, and nobody extends a lease that is over. Times after `now` come from a wrong clock.
 */
export function keptAtStart(leases: readonly Lease[], now: Millis): (lease: Lease) => boolean {
  const newest = leases.reduce((last, { since }) => (since <= now ? Math.max(last, since) : last), 0);
  return ({ state, expires }) => state === 'bound' && expires > newest && expires < now + UNRECORDED;
}

const STATES: ReadonlySet<string> = new Set(['bound', 'released', 'declined', 'conflict']);

/** Reads a stored lease. Undefined when it is malformed; its address is then never given out. */
export function readLease(text: string): Lease | undefined {
  let value: unknown;
  try {
    value = JSON.parse(text);
  } catch {
    return undefined;
  }
  if (typeof value !== 'object' || value === null) return undefined;
  const lease = value as Record<string, unknown>;
  const whole = (n: unknown) => typeof n === 'number' && Number.isFinite(n);
  const optional = (s: unknown) => s === undefined || typeof s === 'string';
  if (lease.v !== 1 || !whole(lease.since) || !whole(lease.expires)) return undefined;
  if (lease.at !== undefined && !whole(lease.at)) return undefined;
  if (typeof lease.mac !== 'string' || parseMac(lease.mac) !== lease.mac) return undefined;
  if (typeof lease.state !== 'string' || !STATES.has(lease.state)) return undefined;
  if (!['clientId', 'hostname', 'machine', 'agent'].every((field) => optional(lease[field])))
    return undefined;
  return value as Lease;
}

/** Network and address of a key `lease/NETWORK/ADDRESS`; undefined for any other key. */
export function readLeaseKey(key: string): { readonly network: string; readonly address: Ipv4 } | undefined {
  const parts = KEYS.lease.parse(key);
  const address = parts && parseIpv4(parts[1]);
  return address === undefined ? undefined : { network: parts![0], address };
}

/** The lease as if the clock had always been ahead by `step` more. */
export const shifted = (lease: Lease, step: number): Lease => ({
  ...lease,
  since: (lease.since + step) as Millis,
  expires: (lease.expires + step) as Millis,
  ...(lease.at !== undefined && { at: (lease.at + step) as Millis }),
});

/**
 * How far a stored lease has to be shifted because the clock was ahead when it was written: as if
 * it had been written now. 0 for any other lease.
 */
export function fromFuture({ since, at = since }: Lease, now: Millis): number {
  return at - now > STEPPED ? now - at : 0;
}

/** The state of a lease at `now`, as people see it. */
export function stateAt(lease: Lease, now: Millis): LeaseState {
  return lease.state === 'bound' && lease.expires <= now ? 'expired' : lease.state;
}

/** Whether another client may get the address: no client holds it and it is not set aside. */
export function isOver(lease: Lease, now: Millis): boolean {
  return lease.state === 'released' || lease.expires <= now;
}
