/**
 * Writes a run's counts, the names of failed tests, and the seconds of each file to files for
 * `scripts/summary.sh`. CI reads one closing line, `N passed, N failed, N skipped`, which Vitest
 * does not print, and keeps only the end of the output, which must therefore have the names, and
 * the seeds of properties.
 */
import { appendFileSync, mkdirSync, writeFileSync } from 'node:fs';
import type { Reporter, TestModule } from 'vitest/node';

export default class CountsReporter implements Reporter {
  onTestRunEnd(modules: readonly TestModule[], unhandled: readonly unknown[]): void {
    const stage = process.env.MUSTER_TEST_STAGE;
    if (!stage) return;
    const counts = { passed: 0, failed: unhandled.length, skipped: 0 };
    const again: string[] = [];
    const files: string[] = [];
    const seeds: string[] = [];
    const late = new Set<string>();
    const failures = unhandled.map((error) => `unhandled: ${told(error)}`);
    for (const module of modules) {
      const seconds = module.diagnostic().duration / 1000;
      files.push(`${seconds.toFixed(1)} ${module.relativeModuleId}`);
      let tests = 0;
      for (const test of module.children.allTests()) {
        tests++;
        const state = test.result().state;
        if (state === 'passed') {
          counts.passed++;
          if (test.diagnostic()?.flaky)
            again.push(`${module.relativeModuleId} > ${test.fullName}: ${told(test.result().errors?.[0])}`);
        } else if (state === 'skipped') counts.skipped++;
        else if (module.state() === 'skipped') {
          // There was no time for the file (budget.runner.ts).
          counts.skipped++;
          late.add(module.relativeModuleId);
        } else {
          const error = test.result().errors?.[0];
          counts.failed++;
          failures.push(`${module.relativeModuleId} > ${test.fullName}: ${told(error)}`);
          const seed = seedOf(error);
          if (seed) seeds.push(`${module.relativeModuleId} > ${test.fullName}: ${seed}`);
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
    appendFileSync('.cache/results/left-out', [...late].map((file) => `${file}\n`).join(''));
    for (const [what, lines] of Object.entries({ failures, again, seeds, files }))
      writeFileSync(`.cache/results/${stage}.${what}`, lines.map((line) => `${line}\n`).join(''));
  }
}

/** How fast-check's message names the case that failed. */
const SEED = /\{ seed: .*? \}/;
/** A longer counterexample is not copied by hand; seed and path find it again. */
const LONGEST_EXAMPLE = 2_000;

/**
 * What repeats the case of a property that failed: seed and path as a parameter of `fc.assert`, and
 * the counterexample as a row of its `examples`. Undefined for other errors.
 */
export function seedOf(error: unknown): string | undefined {
  const { message } = (error ?? {}) as { message?: unknown };
  const seed = typeof message === 'string' ? SEED.exec(message.replace(/\n/g, ' '))?.[0] : undefined;
  if (seed === undefined) return undefined;
  const example = /^Counterexample: (\[.*\])$/m.exec(message as string)?.[1];
  return example === undefined || example.length > LONGEST_EXAMPLE ? seed : `${seed} examples: [${example}]`;
}

/**
 * The error's message on one line, shortened; programs often say the reason later. A property's
 * seed and path, which repeat its case, are kept whole, and what failed in the case follows them.
 */
export function told(error: unknown): string {
  const { message, cause } = (error ?? {}) as { message?: unknown; cause?: { message?: unknown } };
  if (typeof message !== 'string') return 'no message';
  const line = message.replace(/\s*\n\s*/g, ' | ');
  const seed = SEED.exec(line)?.[0];
  if (seed === undefined) return line.slice(0, 1_500);
  const inside =
    typeof cause?.message === 'string' ? ` ${cause.message.replace(/\s*\n\s*/g, ' | ').slice(0, 300)}` : '';
  return `${seed}${inside} | ${line.slice(0, 1_000)}`;
}
