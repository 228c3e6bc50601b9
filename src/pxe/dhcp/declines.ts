/**
 * Counts the addresses that each client declines. A broken or malicious client could otherwise set
 * aside a whole pool within a minute.
 */
import { AgedMap } from '../../base/aged.ts';
import { type Millis, millis } from '../../base/duration.ts';
import type { Mac } from '../../base/mac.ts';

/**
 * A client that declined this many addresses within {@link WITHIN} gets no pool address. Fewer may
 * really be in use: by a second DHCP server's clients, or by static addresses inside the pool.
 */
const DECLINES = 3;
const WITHIN: Millis = millis(60_000);

/** The recent declines of all clients of a network. */
export class Declines {
  /** The last {@link DECLINES} times at which a client declined, the newest last. */
  readonly #times = new AgedMap<Mac, readonly Millis[]>();

  get size(): number {
    return this.#times.size;
  }

  /** Notes that a client declined an address at time `at`. */
  note(mac: Mac, at: Millis): void {
    this.#times.set(mac, [...(this.#times.get(mac) ?? []), at].slice(-DECLINES));
    for (let first = this.#times.oldest(); first !== undefined; first = this.#times.oldest()) {
      if (at - first.value.at(-1)! <= WITHIN) break;
      this.#times.delete(first.key);
    }
  }

  /** Whether the client declined {@link DECLINES} addresses within {@link WITHIN} before `now`. */
  tooMany(mac: Mac, now: Millis): boolean {
    const times = this.#times.get(mac);
    return times?.length === DECLINES && now - times[0]! < WITHIN;
  }
}
