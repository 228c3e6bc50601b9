/**
 * Leaves a run's counts where `scripts/summary.sh` adds them up: CI reads one closing line, `N passed, N failed, N skipped`,
 * and Vitest's own is not of that form.
 */
import { mkdirSync, writeFileSync } from 'node:fs';
import type { Reporter, TestModule } from 'vitest/node';

export default class CountsReporter implements Reporter {
  onTestRunEnd(modules: readonly TestModule[], unhandled: readonly unknown[]): void {
    const stage = process.env.MUSTER_TEST_STAGE;
    if (!stage) return;
    const counts = { passed: 0, failed: unhandled.length, skipped: 0 };
    for (const module of modules) {
      let tests = 0;
      for (const test of module.children.allTests()) {
        tests++;
        const state = test.result().state;
        if (state === 'passed') counts.passed++;
        else if (state === 'skipped') counts.skipped++;
        else counts.failed++;
      }
      // A file that failed to load has no tests and must not count as nothing.
      if (tests === 0 && module.state() === 'failed') counts.failed++;
    }
    mkdirSync('.cache/results', { recursive: true });
    writeFileSync(`.cache/results/${stage}`, `${counts.passed} ${counts.failed} ${counts.skipped}\n`);
  }
}
