/**
 * Skips files of peers that begin when CI's time is nearly over: on a slow host they would take it
 * beyond its limit, and then nothing that passed would count. The summary counts them as skipped.
 */
import { type RunnerTestFile, TestRunner } from 'vitest';

/** How long after the last long part of `make test-all` began a file may still begin. */
const AFTER_LONG_S = 25 * 60;

export default class BudgetRunner extends TestRunner {
  onCollected(files: readonly RunnerTestFile[]): void {
    const until = Number(process.env.MUSTER_LONG_UNTIL ?? Number.POSITIVE_INFINITY) + AFTER_LONG_S;
    if (Date.now() / 1000 < until) return;
    for (const file of files) file.mode = 'skip';
  }
}
