/**
 * Runs transfers in threads, so that many loaders use all cores and no DHCP packet waits behind a
 * window of data; or in this thread, for tests that control the clock.
 */
import { closeSync, writeSync } from 'node:fs';
import { Worker } from 'node:worker_threads';
import type { Clock } from '../../base/clock.ts';
import type { Millis } from '../../base/duration.ts';
import type { Kernel } from '../../base/kernel/kernel.socket.ts';
import { loopWatcher } from '../../base/kernel/waiter.socket.ts';
import type { Log } from '../../base/log.ts';
import { OpenFiles } from './blocks.files.ts';
import { nativeOpener } from './native-sockets.socket.ts';
import { nodeOpener } from './sockets.socket.ts';
import { Transfer, type TransferEnd, type TransferJob } from './transfer.socket.ts';

export interface RunningTransfer {
  /**
   * Handles a repeated request. `restart` is called when it needs a new transfer ({@link
   * Transfer.again}).
   */
  again(restart: () => void): void;
  /** Ends the transfer, because its client asked for something else from the same port. */
  supersede(): void;
  /** Ends the transfer, whose client has acknowledged nothing, because its place is needed. */
  displace(): void;
  /** Ends the transfer, because the server stops. */
  shutDown(): void;
}

/** What a transfer tells. Neither is called before `start` has returned. */
export interface TransferWatcher {
  /** Called at most once: the client has acknowledged something. */
  onConfirmed(): void;
  /** Called once. */
  onEnd(end: TransferEnd): void;
}

export interface TransferRunner {
  start(job: TransferJob, watcher: TransferWatcher): RunningTransfer;
  /** To be called when no transfer runs any more. */
  close(): Promise<void>;
}

/** Runs transfers in this thread. `kernel`: its system calls; undefined: `node:dgram` is used. */
export function inlineRunner(clock: Clock, kernel: Kernel | undefined): TransferRunner {
  const files = new OpenFiles();
  const sockets = kernel ? nativeOpener(kernel, loopWatcher(kernel)) : nodeOpener;
  return {
    start(job, watcher) {
      const transfer = new Transfer({ ...job, ...watcher, files, sockets, clock });
      transfer.start();
      return {
        again: (restart) => {
          if (!transfer.again()) restart();
        },
        supersede: () => transfer.supersede(),
        displace: () => transfer.displace(),
        shutDown: () => transfer.shutDown(),
      };
    },
    close: async () => {},
  };
}

/** What a thread is started with. */
export interface ThreadData {
  /**
   * Descriptors that the main thread opened for the thread and closes after it: the counter that
   * wakes it for a message, and the set that it waits for. Undefined: it uses `node:dgram`.
   */
  readonly waits: { readonly wake: number; readonly set: number } | undefined;
}

/** Messages to a thread. */
export type ToThread =
  | { readonly do: 'start'; readonly id: number; readonly job: TransferJob }
  | { readonly do: 'again' | 'supersede' | 'displace' | 'shutDown'; readonly id: number };

/**
 * Messages from a thread: a transfer ended, its client acknowledged something, or whether a
 * repeated request needs a new transfer.
 */
export type FromThread =
  | { readonly id: number; readonly end: TransferEnd }
  | { readonly id: number; readonly confirmed: true }
  | { readonly id: number; readonly restart: boolean };

/** The end of a transfer whose thread has died. Its client times out and asks again. */
const DIED: TransferEnd = {
  outcome: 'failed',
  why: 'the thread that sent the file died',
  octets: 0,
  resent: 0,
  elapsed: 0 as Millis,
};

/** One thread and its transfers. */
interface Place {
  worker: Worker | undefined;
  waits: ThreadData['waits'];
  readonly running: Map<number, TransferWatcher>;
  /** What to call when a repeated request needs a new transfer. */
  readonly repeats: Map<number, () => void>;
}

/** Added to the counter of a thread (eventfd(2)). */
const ONE = Buffer.from([1, 0, 0, 0, 0, 0, 0, 0]);

/**
 * Runs transfers in `threads` threads; each transfer goes to the thread with the fewest. `kernel`:
 * this thread's system calls; the others then use their own.
 */
export function threadRunner({
  threads,
  log,
  kernel,
}: {
  readonly threads: number;
  readonly log: Log;
  readonly kernel: Kernel | undefined;
}): TransferRunner {
  let nextId = 1;
  let closing = false;
  const pool: Place[] = Array.from({ length: threads }, () => ({
    worker: undefined,
    waits: undefined,
    running: new Map(),
    repeats: new Map(),
  }));
  const spawn = (place: Place): Worker => {
    const waits = kernel && { wake: kernel.eventCounter().fd, set: kernel.waitSet().fd };
    place.waits = waits;
    const workerData: ThreadData = { waits };
    const worker = new Worker(new URL('./thread.socket.ts', import.meta.url), { workerData });
    // The sockets of the main thread keep the process alive.
    worker.unref();
    worker.on('message', (message: FromThread) => {
      if ('restart' in message) {
        const restart = place.repeats.get(message.id);
        place.repeats.delete(message.id);
        if (message.restart) restart?.();
        return;
      }
      const watcher = place.running.get(message.id);
      if ('confirmed' in message) {
        watcher?.onConfirmed();
        return;
      }
      place.running.delete(message.id);
      watcher?.onEnd(message.end);
    });
    worker.on('error', (error: Error) => log.error({ error: error.message }, 'a TFTP thread died'));
    worker.on('exit', () => {
      for (const fd of Object.values(waits ?? {})) closeSync(fd);
      if (closing) return;
      // The next transfer starts another thread.
      place.worker = undefined;
      const lost = [...place.running.values()];
      place.running.clear();
      place.repeats.clear();
      for (const { onEnd } of lost) onEnd(DIED);
    });
    place.worker = worker;
    return worker;
  };
  for (const place of pool) spawn(place);
  return {
    start(job, watcher) {
      const place = pool.reduce((least, one) => (one.running.size < least.running.size ? one : least));
      const id = nextId++;
      place.running.set(id, watcher);
      const worker = place.worker ?? spawn(place);
      const { waits } = place;
      const post = (message: ToThread) => {
        // After the death of its thread the transfer has ended, and its descriptors are closed.
        if (place.worker !== worker) return;
        worker.postMessage(message);
        if (waits) writeSync(waits.wake, ONE);
      };
      post({ do: 'start', id, job });
      return {
        again(restart) {
          place.repeats.set(id, restart);
          post({ do: 'again', id });
        },
        supersede: () => post({ do: 'supersede', id }),
        displace: () => post({ do: 'displace', id }),
        shutDown: () => post({ do: 'shutDown', id }),
      };
    },
    async close() {
      closing = true;
      await Promise.all(pool.map(({ worker }) => worker?.terminate()));
    },
  };
}
