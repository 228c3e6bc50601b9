/** What the summary of a run says about a failure. */
import { expect, test } from 'vitest';
import { told } from '../counts.reporter.ts';

test('the summary of a run repeats the seed and path of a property that failed, and what failed in its case', () => {
  const path = Array.from({ length: 900 }, (_, n) => n % 100).join(':');
  const failure = new Error(
    `Property failed after 26 tests\n{ seed: -253637145, path: "${path}", endOnFailure: true }\nCounterexample: [2]`,
    { cause: new Error('expected [ cp0 ]\nto deeply equal []') },
  );
  expect(told(failure)).toContain(
    `{ seed: -253637145, path: "${path}", endOnFailure: true } expected [ cp0 ] | to deeply equal []`,
  );
  expect(told(new Error('a\n  b'))).toBe('a | b');
  expect(told(undefined)).toBe('no message');
});
