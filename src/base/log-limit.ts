/** Limits lines of the log that anybody on the network can cause. */
import type { Clock } from './clock.ts';
import type { Millis } from './duration.ts';

type Write = (fields: object, message: string) => void;

/**
 * Returns a function that writes at most `lines` lines in each `span`. The first line after that
 * comes with the number of those that were left out.
 */
export function limitedLines(
  write: Write,
  {
    lines,
    span,
    clock,
  }: { readonly lines: number; readonly span: Millis; readonly clock: Pick<Clock, 'monotonic'> },
): Write {
  let since: number | undefined;
  let count = 0;
  return (fields, message) => {
    const now = clock.monotonic();
    if (since === undefined || now - since >= span) {
      if (count > lines) write({ leftOut: count - lines }, 'lines of this kind were left out');
      since = now;
      count = 0;
    }
    if (++count <= lines) write(fields, message);
  };
}
