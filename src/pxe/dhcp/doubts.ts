/**
 * Declines that are not proven yet. Anybody can send a DECLINE in the name of a client, and an
 * address that is set aside is taken from its client. So the address is probed first: somebody else
 * has to answer for it.
 */
import { AgedMap } from '../../base/aged.ts';
import { type Millis, millis } from '../../base/duration.ts';
import type { Ipv4 } from '../../base/ipv4.ts';
import type { Mac } from '../../base/mac.ts';

/** How many addresses of a network are probed for declines at a time. Further declines are not. */
const MAX_DOUBTS = 64;
/** How many clients are remembered with an address that they declined and that nobody else uses. */
const MAX_SHUNNED = 4096;
/** How long a client is offered another address than the one that it declined without proof. */
const SHUN: Millis = millis(600_000);

/** The unproven declines of one network. */
export class Doubts {
  /** The client that declined each address. */
  readonly #open = new Map<Ipv4, Mac>();
  readonly #shunned = new AgedMap<Mac, { readonly address: Ipv4; readonly until: Millis }>();

  get size(): number {
    return this.#open.size + this.#shunned.size;
  }

  /** The addresses that are to be probed. */
  addresses(): readonly Ipv4[] {
    return [...this.#open.keys()];
  }

  /** Notes that the client declined the address. False when too many wait for their probe. */
  add(address: Ipv4, mac: Mac): boolean {
    if (this.#open.size >= MAX_DOUBTS && !this.#open.has(address)) return false;
    this.#open.set(address, mac);
    return true;
  }

  /** Ends the doubt about an address; returns the client that declined it. */
  take(address: Ipv4): Mac | undefined {
    const mac = this.#open.get(address);
    this.#open.delete(address);
    return mac;
  }

  /** The client gets another address when it looks for one, although nobody uses this one. */
  shun(mac: Mac, address: Ipv4, now: Millis): void {
    this.#shunned.set(mac, { address, until: (now + SHUN) as Millis });
    for (let first = this.#shunned.oldest(); first !== undefined; first = this.#shunned.oldest()) {
      if (first.value.until > now && this.#shunned.size <= MAX_SHUNNED) break;
      this.#shunned.delete(first.key);
    }
  }

  /** Whether the client declined the address, and nobody was found on it. */
  shuns(mac: Mac, address: Ipv4, now: Millis): boolean {
    const shunned = this.#shunned.get(mac);
    return shunned?.address === address && shunned.until > now;
  }
}
