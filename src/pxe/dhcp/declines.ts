/**
 * Clients that find every address in use. One that is broken, or means harm, would set aside a
 * whole pool for others in a minute.
 */
import { AgedMap } from '../../base/aged.ts';
import { type Millis, millis } from '../../base/duration.ts';
import type { Mac } from '../../base/mac.ts';

/**
 * So many addresses may really be somebody's: a segment with a second DHCP server, a pool drawn
 * over static addresses.
 */
const DECLINES = 3;
const WITHIN: Millis = millis(60_000);

export class Declines {
  /** When a client declined last, and the times before: the newest last, no more than count. */
  readonly #times = new AgedMap<Mac, readonly Millis[]>();

  /** A client declined an address at that time. */
  note(mac: Mac, at: Millis): void {
    this.#times.set(mac, [...(this.#times.get(mac) ?? []), at].slice(-DECLINES));
    for (let first = this.#times.oldest(); first !== undefined; first = this.#times.oldest()) {
      if (at - first.value.at(-1)! <= WITHIN) break;
      this.#times.delete(first.key);
    }
  }

  /** Whether the client gets no address of a pool now: it declined three within the last minute. */
  tooMany(mac: Mac, now: Millis): boolean {
    const times = this.#times.get(mac);
    return times?.length === DECLINES && now - times[0]! < WITHIN;
  }
}
