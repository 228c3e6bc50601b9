import { expect, test } from 'vitest';
import { ManualClock } from '../../src/base/clock.ts';
import { duration } from '../../src/base/duration.ts';
import { limitedLines } from '../../src/base/log-limit.ts';

test('20,000 lines in a second become as many as the limit, and one that counts the rest', () => {
  const clock = new ManualClock();
  const lines: object[] = [];
  const write = limitedLines((fields) => void lines.push(fields), { lines: 3, span: duration('10s'), clock });
  for (let n = 0; n < 20_000; n++) write({ n }, 'refused');
  expect(lines).toEqual([{ n: 0 }, { n: 1 }, { n: 2 }]);
  clock.advance(duration('10s'));
  write({ n: 'later' }, 'refused');
  expect(lines.slice(3)).toEqual([{ leftOut: 19_997 }, { n: 'later' }]);
});
