import fc from 'fast-check';
import { expect, it } from 'vitest';
import { AgedMap } from '../../src/base/aged.ts';

it('an aged map equals a Map whose keys are deleted before they are set again', () => {
  const key = fc.integer({ min: 0, max: 7 });
  const act = fc.oneof(
    fc.record({ act: fc.constant('set' as const), key, value: fc.nat() }),
    fc.record({ act: fc.constant('delete' as const), key }),
  );
  fc.assert(
    fc.property(fc.array(act, { maxLength: 60 }), (acts) => {
      const aged = new AgedMap<number, number>();
      const model = new Map<number, number>();
      for (const one of acts) {
        const was = model.delete(one.key);
        if (one.act === 'set') {
          aged.set(one.key, one.value);
          model.set(one.key, one.value);
        } else expect(aged.delete(one.key)).toBe(was);
        expect([...aged]).toEqual([...model]);
        expect(aged.oldest()?.key).toBe(model.keys().next().value);
        expect(aged.size).toBe(model.size);
        expect(aged.get(one.key)).toBe(model.get(one.key));
        expect(aged.has(one.key)).toBe(model.has(one.key));
      }
    }),
    { seed: 20261124, numRuns: 2000 },
  );
});

it('an entry of an aged map may be deleted while the map is iterated', () => {
  const aged = new AgedMap<string, number>();
  for (const [n, name] of ['a', 'b', 'c', 'd'].entries()) aged.set(name, n);
  const seen: string[] = [];
  for (const [name] of aged) {
    seen.push(name);
    if (name !== 'c') aged.delete(name);
  }
  expect(seen).toEqual(['a', 'b', 'c', 'd']);
  expect([...aged]).toEqual([['c', 2]]);
});
