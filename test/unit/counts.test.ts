/** What the summary of a run says about a failure. */
import fc from 'fast-check';
import { expect, test } from 'vitest';
import { seedOf, told } from '../counts.reporter.ts';

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

/** What the property `value < 10` says when it fails with these parameters. */
function failing(parameters: fc.Parameters<[number]>): Error {
  try {
    fc.assert(
      fc.property(fc.nat(), (value) => value < 10),
      parameters,
    );
  } catch (error) {
    return error as Error;
  }
  throw new Error('the property holds');
}

test('the summary has the case of a property that failed as it is copied into the test: seed and path, and a row of examples', () => {
  const seed = seedOf(failing({ seed: 7 }))!;
  const [, parameters, examples] =
    /^(\{ seed: 7, path: ".*", endOnFailure: true \}) examples: (\[\[10\]\])$/.exec(seed)!;
  expect(examples).toBe('[[10]]');
  const path = /path: "(.*?)"/.exec(parameters!)![1]!;
  expect(failing({ seed: 7, path, endOnFailure: true }).message).toContain('Property failed after 1 tests');
  expect(failing({ seed: 7, examples: [[10]] }).message).toContain('Property failed after 1 tests');
  expect(seedOf(new Error('a { b }'))).toBeUndefined();
});
