/** Which boots give up their console lines when all machines together have too many. Pure. */
import { AgedMap } from '../base/aged.ts';

/** A boot of a machine. */
export interface BootOf {
  readonly machine: string;
  readonly boot: string;
}

export class ConsoleSpace {
  readonly #most: number;
  /** `MACHINE/BOOT` → octets, in the order in which lines came last. */
  readonly #boots = new AgedMap<string, number>();
  #octets = 0;

  constructor(mostOctets: number) {
    this.#most = mostOctets;
  }

  /** What all boots together have. */
  get octets(): number {
    return this.#octets;
  }

  /** Takes how much a boot has now, which makes it the newest. */
  set({ machine, boot }: BootOf, octets: number): void {
    const key = `${machine}/${boot}`;
    this.#octets += octets - (this.#boots.get(key) ?? 0);
    this.#boots.set(key, octets);
  }

  delete({ machine, boot }: BootOf): void {
    const key = `${machine}/${boot}`;
    this.#octets -= this.#boots.get(key) ?? 0;
    this.#boots.delete(key);
  }

  /** Forgets the oldest boots, except the newest one, until the rest has room, and returns them. */
  takeTooMuch(): readonly BootOf[] {
    const gone: BootOf[] = [];
    while (this.#octets > this.#most && this.#boots.size > 1) {
      const [machine = '', boot = ''] = this.#boots.oldest()!.key.split('/');
      gone.push({ machine, boot });
      this.delete({ machine, boot });
    }
    return gone;
  }
}
