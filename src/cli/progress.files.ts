/** Shows the progress of a transfer on the terminal. */
import path from 'node:path';
import type { TransferIo } from './attempts.ts';
import type { OnProgress } from './image/sources.files.ts';
import { sizeText } from './output.ts';

/**
 * Runs the transfer of a file, and shows its progress on the terminal. When the user interrupts the
 * transfer, `again` is printed, which says what the same command will do.
 */
export async function withProgress<T>(
  shown: string,
  again: string,
  io: TransferIo,
  transfer: (how: { readonly io: TransferIo; readonly onProgress: OnProgress }) => Promise<T>,
): Promise<T> {
  const line = progressLine();
  const err = (text: string) => {
    line.clear();
    io.err(text);
  };
  try {
    return await transfer({
      io: { err, signal: io.signal, pause: (span) => io.pause(span) },
      onProgress: (received, total) => line.show(progressText(shown, received, total)),
    });
  } catch (error) {
    if (io.signal.aborted) err(`interrupted; the same command ${again}\n`);
    throw error;
  } finally {
    line.clear();
  }
}

/** A line of progress: `vmlinuz  [##########----------]  52 %  12.0 MiB of 23.0 MiB`. */
export function progressText(shown: string, received: number, total: number | undefined): string {
  const name = path.basename(shown).slice(0, 30);
  if (total === undefined || total === 0) return `${name}  ${sizeText(received)}`;
  const part = Math.min(received / total, 1);
  const bar = '#'.repeat(Math.floor(part * 20)).padEnd(20, '-');
  return `${name}  [${bar}]  ${Math.floor(part * 100)} %  ${sizeText(received)} of ${sizeText(total)}`;
}

/**
 * Returns a line on the terminal that is overwritten; it shows nothing when standard error is not a
 * terminal.
 */
function progressLine(): { show(text: string): void; clear(): void } {
  const terminal = process.stderr.isTTY === true && process.env.TERM !== 'dumb';
  let last = 0;
  let shown = false;
  return {
    show(text) {
      const now = performance.now();
      if (!terminal || now - last < 100) return;
      last = now;
      shown = true;
      const width = Math.max(20, (process.stderr.columns ?? 80) - 1);
      process.stderr.write(`\r\x1b[K${text.slice(0, width)}`);
    },
    clear() {
      if (shown) process.stderr.write('\r\x1b[K');
      shown = false;
    },
  };
}
