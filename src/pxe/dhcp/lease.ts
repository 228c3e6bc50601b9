/**
 * A lease as a value: the record that the store keeps under `lease/NETWORK/ADDRESS`, and its views.
 */
import type { Millis } from '../../base/duration.ts';
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

/** The state of a lease at `now`, as people see it. */
export function stateAt(lease: Lease, now: Millis): LeaseState {
  return lease.state === 'bound' && lease.expires <= now ? 'expired' : lease.state;
}

/** Whether another client may get the address: no client holds it and it is not set aside. */
export function isOver(lease: Lease, now: Millis): boolean {
  return lease.state === 'released' || lease.expires <= now;
}
