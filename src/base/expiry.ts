/** A queue ordered by the expiry time of its items. */
import type { Millis } from './duration.ts';

interface Due<T> {
  readonly at: Millis;
  readonly item: T;
}

/** A queue of items ordered by their expiry time, earliest first (a binary heap). */
export class ExpiryQueue<T> {
  readonly #heap: Due<T>[] = [];

  get size(): number {
    return this.#heap.length;
  }

  add(item: T, at: Millis): void {
    const heap = this.#heap;
    const due: Due<T> = { at, item };
    let here = heap.length;
    heap.push(due);
    while (here > 0) {
      const parent = (here - 1) >> 1;
      if (heap[parent]!.at <= at) break;
      heap[here] = heap[parent]!;
      here = parent;
    }
    heap[here] = due;
  }

  /** Removes and returns the item that expires first, if it has expired at `now`. */
  take(now: Millis): T | undefined {
    const heap = this.#heap;
    const first = heap[0];
    if (first === undefined || first.at > now) return undefined;
    const last = heap.pop()!;
    if (heap.length > 0) this.#sink(last);
    return first.item;
  }

  #sink(due: Due<T>): void {
    const heap = this.#heap;
    let here = 0;
    for (;;) {
      let child = 2 * here + 1;
      if (child >= heap.length) break;
      if (child + 1 < heap.length && heap[child + 1]!.at < heap[child]!.at) child++;
      if (heap[child]!.at >= due.at) break;
      heap[here] = heap[child]!;
      here = child;
    }
    heap[here] = due;
  }
}
