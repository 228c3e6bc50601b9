/**
 * Probes whether free addresses are really unused, without privileges: a datagram to port 9 makes
 * the kernel send an ARP request, and /proc/net/arp shows who answered. A few addresses of each
 * pool are probed in advance, so that no OFFER waits.
 */
import { type Millis, millis } from '../../base/duration.ts';
import type { Ipv4 } from '../../base/ipv4.ts';
import type { Mac } from '../../base/mac.ts';
import { readArpLine } from '../neighbours.ts';

/** Number of addresses of a network that are kept probed. */
export const LOOK_AHEAD = 16;
/**
 * How long an answer is awaited: the kernel sends three ARP requests, a second apart
 * (neigh/default/mcast_solicit).
 */
export const ASK: Millis = millis(3_200);
/**
 * The ARP entry of a machine that has left looks like that of a present one. After another datagram
 * the kernel waits 5 s and sends three more requests before it drops the entry
 * (delay_first_probe_time, ucast_solicit). An entry that is still there afterwards belongs to a
 * present machine.
 */
export const CONFIRM: Millis = millis(9_500);

/** The complete entries of /proc/net/arp (`text`) for interface `on`. */
export function parseArp(text: string, on: string): ReadonlyMap<Ipv4, Mac> {
  const found = new Map<Ipv4, Mac>();
  for (const line of text.split('\n').slice(1)) {
    const entry = readArpLine(line);
    if (entry?.interface === on) found.set(entry.address, entry.mac);
  }
  return found;
}

/** An address that is being probed. */
export interface Asked {
  readonly address: Ipv4;
  /** When the ARP table is read for it. */
  readonly due: Millis;
  /** The first reading found a machine; the second one decides. */
  readonly suspect: boolean;
}

/** What one reading of the ARP table gives. */
export interface Findings {
  readonly free: readonly Ipv4[];
  readonly taken: readonly { readonly address: Ipv4; readonly mac: Mac }[];
  /** Addresses that are not decided yet. */
  readonly pending: readonly Asked[];
  /** Addresses of `pending` to which another datagram must be sent. */
  readonly askAgain: readonly Ipv4[];
}

/** Compares the addresses that were probed with the ARP table. */
export function judge(asked: readonly Asked[], arp: ReadonlyMap<Ipv4, Mac>, now: Millis): Findings {
  const free: Ipv4[] = [];
  const taken: { address: Ipv4; mac: Mac }[] = [];
  const pending: Asked[] = [];
  const askAgain: Ipv4[] = [];
  for (const one of asked) {
    const mac = arp.get(one.address);
    if (one.due > now) pending.push(one);
    else if (mac === undefined) free.push(one.address);
    else if (one.suspect) taken.push({ address: one.address, mac });
    else {
      pending.push({ address: one.address, due: (now + CONFIRM) as Millis, suspect: true });
      askAgain.push(one.address);
    }
  }
  return { free, taken, pending, askAgain };
}
