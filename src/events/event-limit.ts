/**
 * Limits how many events of a kind count, so that whoever causes them cannot fill what keeps them.
 */
import { AgedMap } from '../base/aged.ts';
import type { Millis } from '../base/duration.ts';

export interface KindLimit {
  /** At most this many events of one subject in a window. */
  readonly perSubject: number;
  /** At most this many of all subjects together; absent: no limit. */
  readonly perKind?: number;
}

/** What was left out of one kind in a window that has ended. */
export interface LeftOut {
  readonly kind: string;
  readonly count: number;
  /** When the window began, in the time of `take`. */
  readonly since: Millis;
}

/** Counts are kept for so many subjects of all kinds; then a new one takes the place of an old. */
const MAX_SUBJECTS = 50_000;

interface Window {
  since: Millis;
  count: number;
  left: number;
}

export class EventLimit {
  readonly #limitOf: (kind: string) => KindLimit | undefined;
  readonly #span: Millis;
  readonly #kinds = new Map<string, Window>();
  #held = 0;
  /** By kind, and then by subject: one text of both would be made, and hashed, for each event. */
  readonly #subjects = new Map<string, AgedMap<string, { since: Millis; count: number }>>();

  /**
   * @param limitOf the limits of a kind; undefined for a kind without any
   * @param span how long a window is
   */
  constructor(limitOf: (kind: string) => KindLimit | undefined, span: Millis) {
    this.#limitOf = limitOf;
    this.#span = span;
  }

  /** How many counts are kept. */
  get size(): number {
    return this.#kinds.size + this.#held;
  }

  /** Counts an event. False when it is beyond a limit: then it is left out. */
  take(kind: string, subject: string, now: Millis): boolean {
    const limit = this.#limitOf(kind);
    if (limit === undefined) return true;
    let window = this.#kinds.get(kind);
    const over = window !== undefined && window.left === 0 && !this.#isIn(window.since, now);
    if (window === undefined || over) {
      window = { since: now, count: 0, left: 0 };
      this.#kinds.set(kind, window);
    }
    const fits = window.count < (limit.perKind ?? Number.POSITIVE_INFINITY);
    if (fits && this.#takeSubject(kind, subject, limit.perSubject, now)) {
      window.count++;
      return true;
    }
    window.left++;
    return false;
  }

  #takeSubject(kind: string, subject: string, limit: number, now: Millis): boolean {
    let subjects = this.#subjects.get(kind);
    if (subjects === undefined) {
      subjects = new AgedMap();
      this.#subjects.set(kind, subjects);
    }
    const known = subjects.get(subject);
    if (known !== undefined && this.#isIn(known.since, now)) return ++known.count <= limit;
    subjects.set(subject, { since: now, count: 1 });
    if (known === undefined) this.#held++;
    if (this.#held > MAX_SUBJECTS) {
      const fullest = [...this.#subjects.values()].reduce((one, other) =>
        other.size > one.size ? other : one,
      );
      fullest.delete(fullest.oldest()!.key);
      this.#held--;
    }
    return limit > 0;
  }

  /** A clock that was set back ends a window too. */
  #isIn(since: Millis, now: Millis): boolean {
    return now >= since && now - since < this.#span;
  }

  /** Whether something was left out that {@link ended} has not said yet. */
  get pending(): boolean {
    return [...this.#kinds.values()].some(({ left }) => left > 0);
  }

  /** Ends the windows that are over, all of them with `all`, and says what they left out. */
  ended(now: Millis, all = false): readonly LeftOut[] {
    const found: LeftOut[] = [];
    for (const [kind, { since, left }] of this.#kinds) {
      if (!all && this.#isIn(since, now)) continue;
      this.#kinds.delete(kind);
      if (left > 0) found.push({ kind, count: left, since });
    }
    return found;
  }
}
