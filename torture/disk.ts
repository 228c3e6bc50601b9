/**
 * A disk with a volatile write cache, as real ones have: what is written is seen at once, and
 * survives a power cut for certain only after a flush. Pure; nbd.ts serves it to QEMU.
 */

/** The unit that a disk writes whole or not at all. */
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

  /** A view of the octets as the machine sees them. */
  read(at: number, length: number): Buffer {
    return this.#seen.subarray(at, at + length);
  }

  /** Keeps `data`, which must be whole sectors and must not change afterwards. */
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

  /** All writes so far are durable. */
  flush(): void {
    for (const { at, data } of this.#unflushed) data.copy(this.#durable, at);
    this.#unflushed = [];
    this.#flushes++;
  }

  /**
   * The power goes: of the writes since the last flush only some survive, in any order and torn
   * between sectors, as `random` (0 to 1) decides. The disk then holds what the machine will find
   * when it starts again.
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
