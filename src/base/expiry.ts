/** A queue ordered by the expiry time of its items. */
import type { Millis } from './duration.ts';

/** The place of an item in an {@link ExpiryQueue}; what {@link ExpiryQueue.remove} takes. */
export interface Due<T> {
  readonly at: Millis;
  readonly item: T;
}

interface Placed<T> extends Due<T> {
  /** Its index in the heap; -1 when it has left the queue. */
  index: number;
}

/** A queue of items ordered by their expiry time, earliest first (a binary heap). */
export class ExpiryQueue<T> {
  readonly #heap: Placed<T>[] = [];

  get size(): number {
    return this.#heap.length;
  }

  /** Adds an item, and returns its place. An item that is added twice is in the queue twice. */
  add(item: T, at: Millis): Due<T> {
    const due: Placed<T> = { at, item, index: this.#heap.length };
    this.#heap.push(due);
    this.#rise(due);
    return due;
  }

  /** Removes and returns the item that expires first, if it has expired at `now`. */
  take(now: Millis): T | undefined {
    const first = this.#heap[0];
    if (first === undefined || first.at > now) return undefined;
    this.remove(first);
    return first.item;
  }

  /**
   * Removes an item before its time, so that the queue refers to it no longer. Does nothing when
   * the item has left the queue already.
   */
  remove(due: Due<T>): void {
    const place = due as Placed<T>;
    const { index } = place;
    if (index < 0) return;
    place.index = -1;
    const last = this.#heap.pop()!;
    if (last === place) return;
    this.#put(last, index);
    this.#rise(last);
    this.#sink(last);
  }

  #put(due: Placed<T>, index: number): void {
    this.#heap[index] = due;
    due.index = index;
  }

  #rise(due: Placed<T>): void {
    const heap = this.#heap;
    let here = due.index;
    while (here > 0) {
      const parent = (here - 1) >> 1;
      if (heap[parent]!.at <= due.at) break;
      this.#put(heap[parent]!, here);
      here = parent;
    }
    this.#put(due, here);
  }

  #sink(due: Placed<T>): void {
    const heap = this.#heap;
    let here = due.index;
    for (;;) {
      let child = 2 * here + 1;
      if (child >= heap.length) break;
      if (child + 1 < heap.length && heap[child + 1]!.at < heap[child]!.at) child++;
      if (heap[child]!.at >= due.at) break;
      this.#put(heap[child]!, here);
      here = child;
    }
    this.#put(due, here);
  }
}
