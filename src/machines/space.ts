/** What has to go when things that machines sent are too many octets together. Pure. */
import { AgedMap } from '../base/aged.ts';

export class Space {
  readonly #most: number;
  /** Octets by name, in the order in which they were set last. */
  readonly #sizes = new AgedMap<string, number>();
  #octets = 0;

  constructor(mostOctets: number) {
    this.#most = mostOctets;
  }

  /** What all have together. */
  get octets(): number {
    return this.#octets;
  }

  /** Takes how much one has now, which makes it the newest. */
  set(name: string, octets: number): void {
    this.#octets += octets - (this.#sizes.get(name) ?? 0);
    this.#sizes.set(name, octets);
  }

  delete(name: string): void {
    this.#octets -= this.#sizes.get(name) ?? 0;
    this.#sizes.delete(name);
  }

  /** Forgets the oldest until the rest has room, but never the newest. Returns their names. */
  takeTooMuch(): readonly string[] {
    const gone: string[] = [];
    while (this.#octets > this.#most && this.#sizes.size > 1) {
      const { key } = this.#sizes.oldest()!;
      gone.push(key);
      this.delete(key);
    }
    return gone;
  }
}
