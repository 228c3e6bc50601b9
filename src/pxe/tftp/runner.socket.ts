/**
 * Who does the transfers: threads of their own, so that a storm of loaders takes all cores and no
 * DHCP packet waits behind a window of data; or this thread, for tests that own the clock.
 */
import { Worker } from 'node:worker_threads';
import type { Clock } from '../../base/clock.ts';
import type { Millis } from '../../base/duration.ts';
import type { Log } from '../../base/log.ts';
import { OpenFiles } from './blocks.files.ts';
import { Transfer, type TransferEnd, type TransferJob } from './transfer.socket.ts';

export interface RunningTransfer {
  /**
   * The same request came again; `anew` is called when it wants a transfer of its own ({@link
   * Transfer.again}).
   */
  again(anew: () => void): void;
  supersede(): void;
  shutDown(): void;
}

export interface TransferRunner {
  /** Begins a transfer; `onEnd` is called once, never before `start` returned. */
  start(job: TransferJob, onEnd: (end: TransferEnd) => void): RunningTransfer;
  /** When no transfer runs any more. */
  close(): Promise<void>;
}

/** Transfers in this thread. */
export function inlineRunner(clock: Clock): TransferRunner {
  const files = new OpenFiles();
  return {
    start(job, onEnd) {
      const transfer = new Transfer({ ...job, files, clock, onEnd });
      transfer.start();
      return {
        again: (anew) => {
          if (!transfer.again()) anew();
        },
        supersede: () => transfer.supersede(),
        shutDown: () => transfer.shutDown(),
      };
    },
    close: async () => {},
  };
}

/** To a thread. */
export type ToThread =
  | { readonly do: 'start'; readonly id: number; readonly job: TransferJob }
  | { readonly do: 'again' | 'supersede' | 'shutDown'; readonly id: number };

/** From a thread: a transfer ended, or whether a repeated request wants one of its own. */
export type FromThread =
  | { readonly id: number; readonly end: TransferEnd }
  | { readonly id: number; readonly anew: boolean };

/**
 * A thread that dies takes its transfers with it: their clients' time-outs begin anew with another
 * request.
 */
const DIED: TransferEnd = {
  outcome: 'failed',
  why: 'the thread that sent the file died',
  octets: 0,
  elapsed: 0 as Millis,
};

interface Place {
  worker: Worker | undefined;
  readonly running: Map<number, (end: TransferEnd) => void>;
  /** What to do if a repeated request wants a transfer of its own. */
  readonly repeats: Map<number, () => void>;
}

/** Transfers in `threads` threads, each job to the one with the fewest. */
export function threadRunner({
  threads,
  log,
}: {
  readonly threads: number;
  readonly log: Log;
}): TransferRunner {
  let nextId = 1;
  let closing = false;
  const pool: Place[] = Array.from({ length: threads }, () => ({
    worker: undefined,
    running: new Map(),
    repeats: new Map(),
  }));
  const spawn = (place: Place): Worker => {
    const worker = new Worker(new URL('./thread.socket.ts', import.meta.url));
    // sockets of the main thread keep the process alive, not these
    worker.unref();
    worker.on('message', (message: FromThread) => {
      if ('anew' in message) {
        const anew = place.repeats.get(message.id);
        place.repeats.delete(message.id);
        if (message.anew) anew?.();
        return;
      }
      const onEnd = place.running.get(message.id);
      place.running.delete(message.id);
      onEnd?.(message.end);
    });
    worker.on('error', (error: Error) => log.error({ error: error.message }, 'a TFTP thread died'));
    worker.on('exit', () => {
      if (closing) return;
      // the next transfer brings another one up
      place.worker = undefined;
      const lost = [...place.running.values()];
      place.running.clear();
      place.repeats.clear();
      for (const onEnd of lost) onEnd(DIED);
    });
    place.worker = worker;
    return worker;
  };
  for (const place of pool) spawn(place);
  return {
    start(job, onEnd) {
      const place = pool.reduce((least, one) => (one.running.size < least.running.size ? one : least));
      const id = nextId++;
      place.running.set(id, onEnd);
      const worker = place.worker ?? spawn(place);
      const tell = (message: ToThread) => worker.postMessage(message);
      tell({ do: 'start', id, job });
      return {
        again(anew) {
          place.repeats.set(id, anew);
          tell({ do: 'again', id });
        },
        supersede: () => tell({ do: 'supersede', id }),
        shutDown: () => tell({ do: 'shutDown', id }),
      };
    },
    async close() {
      closing = true;
      await Promise.all(pool.map(({ worker }) => worker?.terminate()));
    },
  };
}
