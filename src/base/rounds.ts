/** Work that is repeated for as long as the server runs. */
import type { Clock } from './clock.ts';
import type { Millis } from './duration.ts';
import { messageOf } from './error-text.ts';
import type { Log } from './log.ts';
import { apart } from './rehearsal.ts';

/**
 * Does `round` again and again, `every` after the last one ended, and first after that time: rounds
 * that take long do not queue up. Returns what ends it.
 *
 * @param failed What the log says when a round throws; the next one comes all the same.
 */
export function startRounds(
  { clock, log }: { readonly clock: Pick<Clock, 'after'>; readonly log: Log },
  { every, failed }: { readonly every: Millis; readonly failed: string },
  round: () => Promise<void>,
): () => void {
  let isClosed = false;
  let cancel = (): void => {};
  const again = async (): Promise<void> => {
    await round().catch((error: unknown) => {
      log.warn({ cause: messageOf(error) }, failed);
    });
    if (!isClosed) cancel = clock.after(every, () => void again());
  };
  cancel = clock.after(every, () => void apart(again));
  return () => {
    isClosed = true;
    cancel();
  };
}
