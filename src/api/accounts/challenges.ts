/**
 * Challenges that were given to browsers and are not answered yet. Everybody may ask for one, so
 * each network has a number of its own: asking for many pushes out one's own challenges first.
 */
import { randomBytes } from 'node:crypto';
import { AgedMap } from '../../base/aged.ts';
import type { Clock } from '../../base/clock.ts';
import { duration, type Millis } from '../../base/duration.ts';

/** How long a person has to answer the browser. */
export const LASTS = duration('2m');
/** The most open challenges of one network; beyond that its oldest one ends. */
const PER_NETWORK = 32;
/** The most networks; beyond that the one that asked longest ago loses its challenges. */
const MAX_NETWORKS = 1024;

/** Challenges for one purpose, each with what it was given for. */
export class Challenges<T> {
  readonly #clock: Pick<Clock, 'monotonic'>;
  /** Network → challenge → what it is for. */
  readonly #networks = new AgedMap<string, AgedMap<string, { readonly what: T; readonly until: Millis }>>();

  constructor(clock: Pick<Clock, 'monotonic'>) {
    this.#clock = clock;
  }

  /** A new challenge (32 octets, base64url). */
  begin(network: string, what: T): string {
    const challenge = randomBytes(32).toString('base64url');
    const open = this.#networks.get(network) ?? new AgedMap();
    open.set(challenge, { what, until: (this.#clock.monotonic() + LASTS) as Millis });
    if (open.size > PER_NETWORK) open.delete(open.oldest()!.key);
    this.#networks.set(network, open);
    if (this.#networks.size > MAX_NETWORKS) this.#networks.delete(this.#networks.oldest()!.key);
    return challenge;
  }

  /** What the challenge is for; undefined when it is not open for this network. It counts once. */
  take(challenge: string, network: string): T | undefined {
    const open = this.#networks.get(network);
    const found = open?.get(challenge);
    if (open === undefined || found === undefined) return undefined;
    open.delete(challenge);
    if (open.size === 0) this.#networks.delete(network);
    return found.until > this.#clock.monotonic() ? found.what : undefined;
  }

  /** How many are kept. */
  get size(): number {
    return [...this.#networks].reduce((sum, [, open]) => sum + open.size, 0);
  }
}
