/** A queue of addresses by the time at which something about them ends: a binary heap, smallest first. */
import type { Millis } from '../../base/duration.ts';
import type { Ipv4 } from '../../base/ipv4.ts';

interface Due {
  readonly at: Millis;
  readonly address: Ipv4;
}

export class ExpiryQueue {
  readonly #heap: Due[] = [];

  get size(): number {
    return this.#heap.length;
  }

  add(address: Ipv4, at: Millis): void {
    const heap = this.#heap;
    const due: Due = { at, address };
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

  /** Takes the address that is due first, if it is due by `now`. */
  take(now: Millis): Ipv4 | undefined {
    const heap = this.#heap;
    const first = heap[0];
    if (first === undefined || first.at > now) return undefined;
    const last = heap.pop()!;
    if (heap.length > 0) this.#sink(last);
    return first.address;
  }

  #sink(due: Due): void {
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
