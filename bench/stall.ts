/**
 * Preloaded into the server by `NODE_OPTIONS=--import`: how long its main thread was not to be
 * spoken to. SIGUSR2 writes what was seen since the last one to the file that MUSTER_BENCH_STALL
 * names: `{"maxMs": 12.3, "p99Ms": 1.2}`.
 */
import { renameSync, writeFileSync } from 'node:fs';
import { monitorEventLoopDelay } from 'node:perf_hooks';
import { isMainThread } from 'node:worker_threads';

const RESOLUTION_MS = 2;

const file = process.env.MUSTER_BENCH_STALL;
if (isMainThread && file !== undefined) {
  const delays = monitorEventLoopDelay({ resolution: RESOLUTION_MS });
  delays.enable();
  // What is measured is the time between two turns, the timer's own included.
  const ms = (nanoseconds: number): number => Math.max(0, nanoseconds / 1e6 - RESOLUTION_MS);
  process.on('SIGUSR2', () => {
    writeFileSync(`${file}.new`, JSON.stringify({ maxMs: ms(delays.max), p99Ms: ms(delays.percentile(99)) }));
    renameSync(`${file}.new`, file);
    delays.reset();
  });
}
