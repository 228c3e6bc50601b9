/**
 * Texts kept outside of the collected heap. Two hundred thousand events as objects are what the
 * garbage collector spends most of its time on under load: each outlives its youth and dies old
 * (docs/decisions/0025).
 */

/**
 * Octets of a slot; a text takes a chain of as many as it needs. Most events are 200 to 400 octets
 * long and take one, by one call.
 */
const SLOT = 512;
const PAGE_SLOTS = 2048;
const NONE = -1;
/** A character in UTF-8 takes at most so many octets, and is not begun where it does not fit. */
const LONGEST_CHARACTER = 4;

/** Names a text that is held: its first slot. */
export type TextHandle = number;

class Page {
  readonly octets = Buffer.allocUnsafeSlow(SLOT * PAGE_SLOTS);
  /** For each slot: the next slot of the same text, or the next free one. */
  readonly next = new Int32Array(PAGE_SLOTS);
  /** For a text's first slot: how many octets the text has, its number, its reference count. */
  readonly lengths = new Uint32Array(PAGE_SLOTS);
  readonly numbers = new Float64Array(PAGE_SLOTS);
  readonly holders = new Uint8Array(PAGE_SLOTS);
}

/**
 * Texts with a number each, held by whoever put them and up to 254 others. Memory grows by 1 MiB as
 * it fills and is used again, but not given back. A handle that nobody holds any more must not be
 * used.
 */
export class HeldTexts {
  readonly #pages: Page[] = [];
  #free: number = NONE;

  /** Keeps `text`, held once, until {@link drop}. */
  put(text: string, number: number): TextHandle {
    const first = this.#take();
    const page = this.#pageOf(first);
    const index = first % PAGE_SLOTS;
    page.numbers[index] = number;
    page.holders[index] = 1;
    page.next[index] = NONE;
    const written = page.octets.write(text, index * SLOT, SLOT);
    page.lengths[index] = written <= SLOT - LONGEST_CHARACTER ? written : this.#putLong(text, first);
    return first;
  }

  /** Over as many slots as it takes; returns the length. */
  #putLong(text: string, first: TextHandle): number {
    const octets = Buffer.from(text);
    for (let at = 0, slot = first; ; ) {
      const page = this.#pageOf(slot);
      octets.copy(page.octets, (slot % PAGE_SLOTS) * SLOT, at, at + SLOT);
      at += SLOT;
      if (at >= octets.length) return octets.length;
      const next = this.#take();
      page.next[slot % PAGE_SLOTS] = next;
      slot = next;
      this.#pageOf(slot).next[slot % PAGE_SLOTS] = NONE;
    }
  }

  /** One more holds it. */
  hold(handle: TextHandle): void {
    this.#pageOf(handle).holders[handle % PAGE_SLOTS]!++;
  }

  /** One less holds it; after the last its slots are free. */
  drop(handle: TextHandle): void {
    if (--this.#pageOf(handle).holders[handle % PAGE_SLOTS]! > 0) return;
    let last = handle;
    for (let next = this.#after(last); next !== NONE; next = this.#after(last)) last = next;
    this.#pageOf(last).next[last % PAGE_SLOTS] = this.#free;
    this.#free = handle;
  }

  text(handle: TextHandle): string {
    const length = this.#pageOf(handle).lengths[handle % PAGE_SLOTS]!;
    const octets = Buffer.allocUnsafe(length);
    for (let at = 0, slot = handle; at < length; at += SLOT, slot = this.#after(slot)) {
      const from = (slot % PAGE_SLOTS) * SLOT;
      this.#pageOf(slot).octets.copy(octets, at, from, from + Math.min(SLOT, length - at));
    }
    return octets.toString();
  }

  numberOf(handle: TextHandle): number {
    return this.#pageOf(handle).numbers[handle % PAGE_SLOTS]!;
  }

  /** Octets of memory taken so far, used or free. */
  get size(): number {
    return this.#pages.length * PAGE_SLOTS * SLOT;
  }

  #pageOf(slot: number): Page {
    return this.#pages[Math.trunc(slot / PAGE_SLOTS)]!;
  }

  #after(slot: number): number {
    return this.#pageOf(slot).next[slot % PAGE_SLOTS]!;
  }

  #take(): number {
    if (this.#free === NONE) this.#grow();
    const slot = this.#free;
    this.#free = this.#after(slot);
    return slot;
  }

  #grow(): void {
    const page = new Page();
    const begin = this.#pages.length * PAGE_SLOTS;
    for (let n = 0; n < PAGE_SLOTS - 1; n++) page.next[n] = begin + n + 1;
    page.next[PAGE_SLOTS - 1] = NONE;
    this.#pages.push(page);
    this.#free = begin;
  }
}
