/** The time that has passed since the kernel started, also while the host was suspended. */
import { readFileSync } from 'node:fs';

/** The kernel is asked again after this time; in between, the monotonic clock is precise enough. */
const READ_EVERY_MS = 1000;

/**
 * Makes a function that returns the milliseconds since the kernel started. It reads /proc/uptime,
 * since node's monotonic clock stops while a host is suspended.
 */
export function passedTime(): (exact?: 'exact') => number {
  let read = { passed: uptime(), monotonic: performance.now() };
  return (exact) => {
    const monotonic = performance.now();
    const since = monotonic - read.monotonic;
    if (exact || since >= READ_EVERY_MS || since < 0) read = { passed: uptime(), monotonic };
    return read.passed + (monotonic - read.monotonic);
  };
}

function uptime(): number {
  try {
    return Number(readFileSync('/proc/uptime', 'utf8').split(' ')[0]) * 1000;
  } catch {
    return performance.now();
  }
}
