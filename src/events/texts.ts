/**
 * Keeps texts outside of the JavaScript heap. With 200,000 events as objects the garbage collector
 * spends most of its time on them under load, because each is promoted to the old generation before
 * it is dropped (docs/decisions/0025).
 */

/**
 * Octets of a slot. A text takes a chain of as many slots as it needs. Most events are 200 to 400
 * octets long and take one slot.
 */
const SLOT = 512;
const PAGE_SLOTS = 2048;
const NONE = -1;
/** Maximum octets of a character in UTF-8. `Buffer.write` does not write part of a character. */
const LONGEST_CHARACTER = 4;

/** Identifies a text by its first slot. */
export type TextHandle = number;

class Page {
  readonly octets = Buffer.allocUnsafeSlow(SLOT * PAGE_SLOTS);
  /** For each slot: the next slot of the same text, or the next free one. */
  readonly next = new Int32Array(PAGE_SLOTS);
  /** For a text's first slot: how many octets the text has, its number, its reference count. */
  readonly lengths = new Uint32Array(PAGE_SLOTS);
  readonly numbers = new Float64Array(PAGE_SLOTS);
  readonly references = new Uint8Array(PAGE_SLOTS);
}

/**
 * Reference-counted texts, each with a number; at most 255 references to a text. Memory grows by 1
 * MiB at a time; it is reused, but never returned to the system. A handle without references must
 * not be used.
 */
export class HeldTexts {
  readonly #pages: Page[] = [];
  #free: number = NONE;

  /** Stores `text` with one reference. */
  put(text: string, number: number): TextHandle {
    const first = this.#take();
    const page = this.#pageOf(first);
    const index = first % PAGE_SLOTS;
    page.numbers[index] = number;
    page.references[index] = 1;
    page.next[index] = NONE;
    const written = page.octets.write(text, index * SLOT, SLOT);
    page.lengths[index] = written <= SLOT - LONGEST_CHARACTER ? written : this.#putLong(text, first);
    return first;
  }

  /** Stores a text in several slots. Returns its length in octets. */
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

  /** Adds a reference. */
  hold(handle: TextHandle): void {
    this.#pageOf(handle).references[handle % PAGE_SLOTS]!++;
  }

  /** Removes a reference. Without references the slots of the text are free. */
  drop(handle: TextHandle): void {
    if (--this.#pageOf(handle).references[handle % PAGE_SLOTS]! > 0) return;
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

  /** Octets of allocated memory, used or free. */
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
