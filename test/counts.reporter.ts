/**
 * Writes a run's counts and the names of failed tests to a file for `scripts/summary.sh`. CI reads
 * one closing line, `N passed, N failed, N skipped`, which Vitest does not print, and keeps only
 * the end of the output, which must therefore have the names.
 */
import { mkdirSync, writeFileSync } from 'node:fs';
import type { Reporter, TestModule } from 'vitest/node';

export default class CountsReporter implements Reporter {
  onTestRunEnd(modules: readonly TestModule[], unhandled: readonly unknown[]): void {
    const stage = process.env.MUSTER_TEST_STAGE;
    if (!stage) return;
    const counts = { passed: 0, failed: unhandled.length, skipped: 0 };
    const again: string[] = [];
    const failures = unhandled.map((error) => `unhandled: ${told(error)}`);
    for (const module of modules) {
      let tests = 0;
      for (const test of module.children.allTests()) {
        tests++;
        const state = test.result().state;
        if (state === 'passed') {
          counts.passed++;
          if (test.diagnostic()?.flaky)
            again.push(`${module.relativeModuleId} > ${test.fullName}: ${told(test.result().errors?.[0])}`);
        } else if (state === 'skipped') counts.skipped++;
        else {
          counts.failed++;
          failures.push(`${module.relativeModuleId} > ${test.fullName}: ${told(test.result().errors?.[0])}`);
        }
      }
      // A file that failed to load has no tests but must count as a failure.
      if (tests === 0 && module.state() === 'failed') {
        counts.failed++;
        failures.push(`${module.relativeModuleId}: ${told(module.errors()[0])}`);
      }
    }
    mkdirSync('.cache/results', { recursive: true });
    writeFileSync(`.cache/results/${stage}`, `${counts.passed} ${counts.failed} ${counts.skipped}\n`);
    writeFileSync(`.cache/results/${stage}.failures`, failures.map((line) => `${line}\n`).join(''));
    writeFileSync(`.cache/results/${stage}.again`, again.map((line) => `${line}\n`).join(''));
  }
}

/**
 * The error's message on one line, shortened; programs often say the reason later. A property's
 * seed and path, which repeat its case, are kept whole, and what failed in the case follows them.
 */
export function told(error: unknown): string {
  const { message, cause } = (error ?? {}) as { message?: unknown; cause?: { message?: unknown } };
  if (typeof message !== 'string') return 'no message';
  const line = message.replace(/\s*\n\s*/g, ' | ');
  const seed = /\{ seed: .*? \}/.exec(line)?.[0];
  if (seed === undefined) return line.slice(0, 1_500);
  const inside =
    typeof cause?.message === 'string' ? ` ${cause.message.replace(/\s*\n\s*/g, ' | ').slice(0, 300)}` : '';
  return `${seed}${inside} | ${line.slice(0, 1_000)}`;
}
