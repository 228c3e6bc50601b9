/** Work that is repeated for as long as the process lives, one round after the other. */
import type { Clock } from '../../base/clock.ts';
import type { Millis } from '../../base/duration.ts';
import { MusterError } from '../../base/errors.ts';

export interface Rounds {
  /** Starts a round when the one under way has ended. Rejects with the round's error. */
  now(): Promise<void>;
  /** As {@link now}, but does not wait: {@link failure} reports the error. */
  soon(): void;
  /** Begins to repeat rounds. */
  start(): void;
  /** Why the last round that was not asked for by {@link now} failed. */
  failure(): string | undefined;
  /** Ends the rounds; resolves when none is under way. */
  close(): Promise<void>;
}

/** Repeats `round` every `every`; `failed` is called with a text whenever that text changes. */
export function createRounds(options: {
  readonly clock: Clock;
  readonly every: Millis;
  readonly round: () => Promise<void>;
  readonly failed: (text: string) => void;
}): Rounds {
  const { clock, every, round, failed } = options;
  let failure: string | undefined;
  let closed = false;
  let cancel: () => void = () => {};
  let last: Promise<void> = Promise.resolve();

  const now = (): Promise<void> => {
    last = last.catch(() => {}).then(() => (closed ? undefined : round()));
    return last;
  };
  const soon = (): void =>
    void now().then(
      () => {
        failure = undefined;
      },
      (error: unknown) => {
        const text = error instanceof MusterError ? `${error.code} ${error.message}` : String(error);
        if (text !== failure) failed(text);
        failure = text;
      },
    );
  const start = (): void => {
    if (closed) return;
    cancel = clock.after(every, () => {
      soon();
      start();
    });
  };
  return {
    now,
    soon,
    start,
    failure: () => failure,
    async close() {
      closed = true;
      cancel();
      await last.catch(() => {});
    },
  };
}
