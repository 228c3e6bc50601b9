import { expect, test } from 'vitest';
import { millis } from '../../../src/base/duration.ts';
import { EventLimit } from '../../../src/events/event-limit.ts';

const limit = () =>
  new EventLimit((kind) => (kind === 'a.b' ? { perSubject: 2, perKind: 3 } : undefined), millis(1000));

test('a subject and a kind have limits in a window, and other kinds none', () => {
  const one = limit();
  const taken = ['x', 'x', 'x', 'y', 'z'].map((subject) => one.take('a.b', subject, millis(0)));
  expect(taken).toEqual([true, true, false, true, false]);
  expect(one.take('c.d', 'x', millis(0))).toBe(true);
  expect(one.ended(millis(999))).toEqual([]);
  expect(one.ended(millis(1000))).toEqual([{ kind: 'a.b', count: 2, since: 0 }]);
  expect(one.take('a.b', 'x', millis(1000))).toBe(true);
});

test('a window in which nothing was left out ends by itself, also when the clock was set back', () => {
  for (const later of [1000, -5]) {
    const one = limit();
    for (const subject of ['x', 'y', 'z']) one.take('a.b', subject, millis(0));
    expect(one.take('a.b', 'w', millis(later))).toBe(true);
  }
});
