import { expect, test } from 'vitest';
import { ManualClock } from '../../../src/base/clock.ts';
import { type Millis, millis } from '../../../src/base/duration.ts';
import { lost, startWriter } from '../../../src/lab/writer.ts';

const members = ['m1', 'm2'].map((name) => ({ name, url: `https://${name}:2379` }));
/** Lets all settled promises run. */
const settle = () => new Promise((done) => setImmediate(done));

test('every acknowledged write is remembered, a refused one is not, and a silent member does not delay the others', async () => {
  const clock = new ManualClock();
  const silent = Promise.withResolvers<void>();
  let puts = 0;
  const put = (member: string): Promise<void> => {
    if (member === 'm2') return silent.promise;
    return puts++ % 2 === 0 ? Promise.resolve() : Promise.reject(new Error('no leader'));
  };
  const writer = startWriter({ members, put }, clock);
  for (let turn = 0; turn < 6; turn++) {
    await settle();
    clock.advance(millis(200));
  }
  await settle();
  expect([...writer.acknowledged.keys()]).toEqual([
    'm1/00000000',
    'm1/00000002',
    'm1/00000004',
    'm1/00000006',
  ]);
  silent.resolve();
  const stopped = writer.stop();
  await settle();
  clock.advance(millis(200));
  await stopped;
  expect(writer.acknowledged.has('m2/00000000')).toBe(true);
});

test('an acknowledged write that is missing is lost, unless it came after the given moment', () => {
  const acknowledged = new Map<string, Millis>([
    ['m1/0', millis(1000)],
    ['m1/1', millis(2000)],
    ['m1/2', millis(3000)],
  ]);
  expect(lost({ acknowledged }, new Set(['m1/0']), millis(3000))).toEqual(['m1/1', 'm1/2']);
  expect(lost({ acknowledged }, new Set(['m1/0']), millis(2500))).toEqual(['m1/1']);
  expect(lost({ acknowledged }, new Set(['m1/0', 'm1/1', 'm1/2']), millis(3000))).toEqual([]);
});
