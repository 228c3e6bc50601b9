/**
 * A disk with a volatile write cache, like real disks: written data can be read immediately, but
 * are sure to survive a power cut only after a flush. Pure; nbd.ts serves it to QEMU.
 */

/** Octets of a sector, which a disk writes completely or not at all. */
export const SECTOR = 512;

/** What a power cut does to the writes since the last flush. */
export type Cut = 'lose all' | 'keep some writes' | 'keep some sectors' | 'keep the oldest';
export const CUTS: readonly Cut[] = ['lose all', 'keep some writes', 'keep some sectors', 'keep the oldest'];

export interface CutReport {
  readonly cut: Cut;
  readonly unflushedWrites: number;
  readonly unflushedSectors: number;
  readonly survivingSectors: number;
}

export class VolatileDisk {
  readonly #seen: Buffer;
  readonly #durable: Buffer;
  #unflushed: { readonly at: number; readonly data: Buffer }[] = [];
  #flushes = 0;
  #alarm: { readonly at: number; readonly ring: () => void } | undefined;

  constructor(content: Buffer) {
    this.#seen = Buffer.from(content);
    this.#durable = Buffer.from(content);
  }

  get size(): number {
    return this.#seen.length;
  }

  /** Flushes since the disk was made. */
  get flushes(): number {
    return this.#flushes;
  }

  /** A view of the octets that the machine reads. */
  read(at: number, length: number): Buffer {
    return this.#seen.subarray(at, at + length);
  }

  /** Writes `data`, which must be whole sectors and must not be changed afterwards. */
  write(at: number, data: Buffer): void {
    data.copy(this.#seen, at);
    this.#unflushed.push({ at, data });
    if (this.#alarm && this.#unflushed.length >= this.#alarm.at) {
      const { ring } = this.#alarm;
      this.#alarm = undefined;
      ring();
    }
  }

  /** Calls `ring` once, from within the write that makes `count` of them unflushed. */
  alarm(count: number, ring: () => void): void {
    this.#alarm = { at: count, ring };
  }

  /** Makes all writes so far durable. */
  flush(): void {
    for (const { at, data } of this.#unflushed) data.copy(this.#durable, at);
    this.#unflushed = [];
    this.#flushes++;
  }

  /**
   * Cuts the power: only some of the writes since the last flush survive, in any order and torn
   * between sectors, as `random` (0 to 1) decides. Afterwards the disk has what the machine finds
   * at its next start.
   */
  powerCut(cut: Cut, random: () => number): CutReport {
    const writes = this.#unflushed;
    this.#unflushed = [];
    this.#alarm = undefined;
    let survivingSectors = 0;
    const keepUpTo = cut === 'keep the oldest' ? Math.floor(random() * (writes.length + 1)) : 0;
    writes.forEach(({ at, data }, index) => {
      const whole = cut === 'keep some writes' ? random() < 0.5 : index < keepUpTo;
      for (let from = 0; from < data.length; from += SECTOR) {
        if (cut === 'keep some sectors' ? random() >= 0.5 : !whole) continue;
        data.copy(this.#durable, at + from, from, from + SECTOR);
        survivingSectors++;
      }
    });
    this.#durable.copy(this.#seen);
    const unflushedSectors = writes.reduce((sum, { data }) => sum + data.length / SECTOR, 0);
    return { cut, unflushedWrites: writes.length, unflushedSectors, survivingSectors };
  }
}
