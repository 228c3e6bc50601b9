/**
 * Writes the log's lines to a file descriptor that may fail. The server must not stop because its
 * log cannot be written (terminal closed: EIO, disk full: ENOSPC, reader gone: EPIPE). Such lines
 * are dropped and counted, and writing is tried again with the next line.
 *
 * Pino's own destination does not do that: without a listener for `error` it ends the process, and
 * its hook at exit retries a failing write for ever (sonic-boom's flushSync).
 */
import { writeSync, write as writeToFile } from 'node:fs';

/** While this many characters wait for a slow reader, further lines are dropped. */
const MAX_WAITING = 8 * 1024 * 1024;
/** How long to wait before the next attempt when a pipe or terminal is full (EAGAIN). */
const BUSY_RETRY_MS = 100;
/** How long {@link LogSink.flush} waits for a reader that does not read. */
const FLUSH_LIMIT_MS = 5000;

export interface LogSinkOptions {
  readonly fd: number;
  /** Is called for each group of dropped lines. */
  readonly dropped: (lines: number) => void;
  /** The line that reports dropped lines when writing works again; `error` is a code of errno. */
  readonly report: (lines: number, error: string) => string;
  /** For tests: fs.write. */
  readonly write?: (fd: number, octets: Buffer, done: (error: Error | null, written: number) => void) => void;
}

export interface LogSink {
  /** Queues whole lines, each with its line break, and returns immediately. Never throws. */
  write(lines: string): void;
  /** Resolves when all lines are written or dropped, at the latest after five seconds. */
  flush(): Promise<void>;
  /** Tries once to write the queued lines, synchronously. Call it when the process exits. */
  writeNow(): void;
}

/** Opens a sink for whole lines on `fd`. */
export function openLogSink({ fd, dropped, report, write = writeToFile }: LogSinkOptions): LogSink {
  let waiting = '';
  let writing = false;
  /** The last write ended in the middle of a line. */
  let torn = false;
  /** Number of lines that were dropped since the last successful write, and the reason. */
  let lost = 0;
  let why = '';
  let flushed: (() => void)[] = [];

  const drop = (text: string, error: string): void => {
    const lines = text.split('\n').length - 1;
    lost += lines;
    why = error;
    dropped(lines);
  };

  const writeRest = (octets: Buffer): void => {
    write(fd, octets, (error, written) => {
      const code = (error as NodeJS.ErrnoException | null)?.code;
      if (code === 'EAGAIN' || code === 'EBUSY') {
        setTimeout(() => writeRest(octets), BUSY_RETRY_MS).unref();
        return;
      }
      if (error) {
        drop(octets.toString(), code ?? 'unknown');
        next();
        return;
      }
      torn = octets[written - 1] !== 0x0a;
      if (written < octets.length) writeRest(octets.subarray(written));
      else {
        if (lost > 0) {
          waiting = report(lost, why) + waiting;
          lost = 0;
        }
        next();
      }
    });
  };

  const next = (): void => {
    writing = waiting !== '';
    if (writing) {
      const octets = Buffer.from(torn ? `\n${waiting}` : waiting);
      waiting = '';
      writeRest(octets);
      return;
    }
    for (const resolve of flushed) resolve();
    flushed = [];
  };

  return {
    write(lines) {
      if (waiting.length > MAX_WAITING) {
        drop(lines, 'the reader is too slow');
        return;
      }
      waiting += lines;
      if (writing) return;
      writing = true;
      // What one turn of the event loop says is one write, which costs as much as a line.
      setImmediate(next);
    },
    flush() {
      if (!writing) return Promise.resolve();
      return new Promise((resolve) => {
        const limit = setTimeout(resolve, FLUSH_LIMIT_MS);
        flushed.push(() => {
          clearTimeout(limit);
          resolve();
        });
      });
    },
    writeNow() {
      try {
        if (waiting !== '') writeSync(fd, waiting);
      } catch {
        // The process is exiting and has no other place for its log.
      }
    },
  };
}
