/** Starts a server with stall.ts, and asks it how long its main thread was blocked. */
import { readFileSync, rmSync } from 'node:fs';
import { setTimeout as pause } from 'node:timers/promises';

const STALL = new URL('../.cache/bench-stall.json', import.meta.url).pathname;
const PRELOAD = new URL('stall.ts', import.meta.url).href;

/** The flags of Node for a server that is started next with the environment of this process. */
export function stallFlags(): string {
  process.env.MUSTER_BENCH_STALL = STALL;
  return `--import=${PRELOAD}`;
}

/** How long the server's main thread was blocked since the last call. */
export async function stalls(pid: number): Promise<{ readonly maxMs: number; readonly p99Ms: number }> {
  rmSync(STALL, { force: true });
  process.kill(pid, 'SIGUSR2');
  for (let waited = 0; waited < 10_000; waited += 20) {
    await pause(20);
    try {
      return JSON.parse(readFileSync(STALL, 'utf8')) as { maxMs: number; p99Ms: number };
    } catch {
      // Not written yet.
    }
  }
  throw new Error('the server does not report how long its main thread was blocked');
}
