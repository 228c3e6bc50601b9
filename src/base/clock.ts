/** Time as a dependency, so that leases, sessions and back-off can be tested without waiting. */
import type { ClockDoubt } from './clock-judge.ts';
import type { Millis } from './duration.ts';
import { MusterError } from './errors.ts';
import { apart } from './rehearsal.ts';

export interface Clock {
  /**
   * Wall-clock time, milliseconds since 1970-01-01 UTC. It may jump. Use it for times that are
   * stored or shown. While the host's clock is in doubt, it is the time that other clocks prove, if
   * they do.
   */
  now(): Millis;
  /**
   * Why nothing may be issued, deleted or begun by the time of now; undefined while the host's
   * clock is proved.
   */
  doubt(): ClockDoubt | undefined;
  /** Monotonic milliseconds from an arbitrary origin. Use it to measure spans in this process. */
  monotonic(): Millis;
  /**
   * Calls `fn` once after the span; the returned function cancels the timer. The timer does not
   * keep the process alive.
   */
  after(after: Millis, fn: () => void): () => void;
}

export const systemClock: Clock = {
  now: () => Date.now() as Millis,
  doubt: () => undefined,
  monotonic: () => performance.now() as Millis,
  after(span, fn) {
    const timer = apart(() => setTimeout(fn, span)).unref();
    return () => clearTimeout(timer);
  },
};

/**
 * Lets something happen that lasts: a certificate, a key, the end of a record.
 *
 * @throws {MusterError} E_CLOCK while the host's clock is in doubt
 */
export function mustKnowTime(clock: Pick<Clock, 'doubt'>): void {
  const doubt = clock.doubt();
  if (doubt !== undefined) throw new MusterError('E_CLOCK', doubt.text);
}

/** The time to tell machines, which may set their clocks by it; undefined while it is in doubt. */
export const timeToTell = (clock: Pick<Clock, 'now' | 'doubt'>): Millis | undefined =>
  clock.doubt() === undefined ? clock.now() : undefined;

/** Resolves after `span`, or as soon as `signal` aborts. */
export const pause = (clock: Clock, span: Millis, signal: AbortSignal): Promise<void> =>
  new Promise((resolve) => {
    const done = (): void => {
      cancel();
      signal.removeEventListener('abort', done);
      resolve();
    };
    const cancel = clock.after(span, done);
    signal.addEventListener('abort', done);
    if (signal.aborted) done();
  });

/**
 * A clock for tests that moves only by `advance` and `leap`; timers run in the order of their
 * times.
 */
export class ManualClock implements Clock {
  #now: Millis;
  #doubt: ClockDoubt | undefined;
  /** How far the wall clock was set. */
  #set = 0;
  #timers: { due: number; fn: () => void }[] = [];

  constructor(start: Millis = Date.UTC(2026, 0, 1) as Millis) {
    this.#now = start;
  }

  now(): Millis {
    return (this.#now + this.#set) as Millis;
  }

  /** Sets the wall clock by a step; time does not pass by that. */
  step(by: number): void {
    this.#set += by;
  }

  doubt(): ClockDoubt | undefined {
    return this.#doubt;
  }

  /** Puts the clock in doubt, or ends that. */
  setDoubt(doubt: ClockDoubt | undefined): void {
    this.#doubt = doubt;
  }

  monotonic(): Millis {
    return this.#now;
  }

  after(span: Millis, fn: () => void): () => void {
    const timer = { due: this.#now + span, fn };
    this.#timers.push(timer);
    return () => {
      this.#timers = this.#timers.filter((other) => other !== timer);
    };
  }

  /**
   * Moves the clock forward by `span` and runs the timers that become due, each at its own time.
   */
  advance(span: Millis): void {
    const until = this.#now + span;
    for (;;) {
      const next = this.#timers.filter((t) => t.due <= until).sort((a, b) => a.due - b.due)[0];
      if (!next) break;
      this.#timers = this.#timers.filter((t) => t !== next);
      this.#now = next.due as Millis;
      next.fn();
    }
    this.#now = until as Millis;
  }

  /** Simulates a suspended host: the clock jumps forward and no timer runs meanwhile. */
  leap(span: Millis): void {
    this.#now = (this.#now + span) as Millis;
  }
}
