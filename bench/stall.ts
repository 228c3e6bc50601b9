/**
 * Preloaded into the server by `NODE_OPTIONS=--import`: measures how long its main thread was
 * blocked. SIGUSR2 writes the delays since the last SIGUSR2 to the file that MUSTER_BENCH_STALL
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
  // The histogram has the time between two turns, which includes the timer's own interval.
  const ms = (nanoseconds: number): number => Math.max(0, nanoseconds / 1e6 - RESOLUTION_MS);
  process.on('SIGUSR2', () => {
    writeFileSync(`${file}.new`, JSON.stringify({ maxMs: ms(delays.max), p99Ms: ms(delays.percentile(99)) }));
    renameSync(`${file}.new`, file);
    delays.reset();
  });
}
