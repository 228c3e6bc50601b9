/** The parts of the page that need no browser: addresses, streams, roles, times. */
import fc from 'fast-check';
import { expect, test, vi } from 'vitest';
import { ROLES } from '../../../src/api/access.ts';
import { throttle } from '../../../src/page/base/clock.ts';
import { Frames } from '../../../src/page/base/frames.ts';
import { ALLOWS, allowed } from '../../../src/page/base/may.ts';
import { readPlace, writePlace } from '../../../src/page/base/route.ts';
import { span } from '../../../src/page/base/times.ts';
import { mark, ticks } from '../../../src/page/machine/scale.ts';

test('the page knows the same roles as the server', () => {
  const roles = Object.entries(ROLES).map(([role, { allows }]) => [role, allows]);
  expect(ALLOWS).toEqual(Object.fromEntries(roles));
});

test('a grant for one cluster allows nothing elsewhere', () => {
  const grants = [{ role: 'operator', clusters: ['blue'] }] as const;
  expect(allowed(grants, 'operate', 'blue')).toBe(true);
  expect(allowed(grants, 'operate', 'red')).toBe(false);
  expect(allowed(grants, 'operate')).toBe(false);
  expect(allowed(grants, 'administer', 'blue')).toBe(false);
  expect(allowed([{ role: 'admin' }], 'administer', 'red')).toBe(true);
  const spare = [{ role: 'operator', pools: ['spare'] }] as const;
  expect([allowed(spare, 'operate'), allowed(spare, 'operate', 'blue')]).toEqual([false, false]);
});

test('work that is called for often is done at once, and then at intervals', () => {
  vi.useFakeTimers({ toFake: ['setTimeout', 'performance'] });
  const done: number[] = [];
  const began = performance.now();
  const work = throttle(80, () => done.push(performance.now() - began));
  for (let ms = 0; ms < 200; ms += 10) {
    work();
    vi.advanceTimersByTime(10);
  }
  vi.advanceTimersByTime(1000);
  work();
  vi.advanceTimersByTime(1);
  vi.useRealTimers();
  expect(done).toEqual([0, 80, 160, 240, 1200]);
});

test('a place reads back as it was written', () => {
  const word = fc.string({ minLength: 1 });
  fc.assert(
    fc.property(fc.array(word), fc.dictionary(fc.stringMatching(/^[a-z]+$/), word), (path, query) => {
      expect(readPlace(writePlace(path, query))).toEqual({ path, query });
    }),
  );
});

test('a stream gives the same frames however it is cut into pieces', () => {
  const stream =
    ': muster\n\nid: 7\nevent: dhcp.offer\ndata: {"a":\ndata: 1}\n\nid: 8\r\ndata: x\r\n\r\n: alive\n\n';
  fc.assert(
    fc.property(fc.array(fc.nat(stream.length)), (cuts) => {
      const frames = new Frames();
      const ends = [...new Set([...cuts, stream.length])].sort((a, b) => a - b);
      const found = ends.flatMap((end, n) => frames.push(stream.slice(ends[n - 1] ?? 0, end)));
      expect(found).toEqual([
        { id: '7', event: 'dhcp.offer', data: '{"a":\n1}' },
        { id: '8', event: 'message', data: 'x' },
      ]);
    }),
  );
});

test('times are short and carry their unit', () => {
  expect([850, 3_210, 250_000, 12_000_000].map(span)).toEqual([
    '850 ms',
    '3.2 s',
    '4 min 10 s',
    '3 h 20 min',
  ]);
});

test('marks on a line of time are at round times and never more than asked for', () => {
  fc.assert(
    fc.property(fc.integer({ min: 1, max: 40_000_000_000 }), (length) => {
      const marks = ticks(length, 8, mark);
      expect(marks.length).toBeLessThanOrEqual(9);
      expect(marks.every(({ at }) => at <= length)).toBe(true);
    }),
  );
});
