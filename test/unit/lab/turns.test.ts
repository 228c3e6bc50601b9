import { setImmediate as turnOver } from 'node:timers/promises';
import { expect, test } from 'vitest';
import { openTurns, type Turn } from '../../lab/turns.ts';

/** A rack of two slots, in which work ends when it is told to. */
function rack() {
  const inTurn = openTurns(2);
  const started: string[] = [];
  const ends = new Map<string, PromiseWithResolvers<void>>();
  return {
    started,
    come(name: string, turn: Turn): Promise<void> {
      const end = Promise.withResolvers<void>();
      ends.set(name, end);
      return inTurn(turn, () => {
        started.push(name);
        return end.promise;
      });
    },
    async end(name: string): Promise<void> {
      ends.get(name)!.resolve();
      await turnOver();
      await turnOver();
    },
  };
}

test('of those that come at the same moment the longest runs first, two-slot ones before all others', async () => {
  const { come, end, started } = rack();
  const all = [
    come('short', { slots: 1, cost: 1 }),
    come('long', { slots: 1, cost: 9 }),
    come('wide', { slots: 2, cost: 2 }),
    come('wide and long', { slots: 2, cost: 9 }),
  ];
  await turnOver();
  expect(started).toEqual(['wide and long']);
  await end('wide and long');
  expect(started).toEqual(['wide and long', 'wide']);
  await end('wide');
  expect(started).toEqual(['wide and long', 'wide', 'long', 'short']);
  await end('long');
  await end('short');
  await Promise.all(all);
});

test('one that needs both slots is not passed for ever by those that need one', async () => {
  const { come, end, started } = rack();
  const first = [come('a', { slots: 1, cost: 1 }), come('b', { slots: 1, cost: 1 })];
  await turnOver();
  const later = [come('wide', { slots: 2, cost: 1 }), come('c', { slots: 1, cost: 9 })];
  await end('a');
  expect(started).toEqual(['a', 'b']);
  await end('b');
  expect(started).toEqual(['a', 'b', 'wide']);
  await end('wide');
  await end('c');
  await Promise.all([...first, ...later]);
});

test('a failure gives its slot back', async () => {
  const inTurn = openTurns(1);
  const turn = { slots: 1, cost: 1 };
  await expect(inTurn(turn, () => Promise.reject(new Error('it fell')))).rejects.toThrow('it fell');
  expect(await inTurn(turn, async () => 'done')).toBe('done');
});
