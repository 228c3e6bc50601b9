import fc from 'fast-check';
import { describe, expect, test } from 'vitest';
import { compareKeys, prefixEnd } from '../../../src/store/limits.ts';
import { anyText } from '../texts.ts';
import { followsModel } from './model.ts';
import { STORES } from './stores.ts';

for (const [name, open] of Object.entries(STORES)) followsModel(name, open, { grouped: false });

describe('the order of keys', () => {
  const wellFormed = anyText({ maxLength: 8 });
  test('is that of their UTF-8 octets', () => {
    fc.assert(
      fc.property(wellFormed, wellFormed, (a, b) => {
        expect(Math.sign(compareKeys(a, b))).toBe(Buffer.compare(Buffer.from(a), Buffer.from(b)));
      }),
      { numRuns: 3000, seed: 1 },
    );
  });

  test('puts the keys of a prefix, and no others, below the end of its range', () => {
    fc.assert(
      fc.property(wellFormed, wellFormed, fc.boolean(), (prefix, other, joined) => {
        const end = prefixEnd(prefix);
        const key = joined ? prefix + other : other;
        const inside = compareKeys(key, prefix) >= 0 && (end === undefined || compareKeys(key, end) < 0);
        expect(inside).toBe(key.startsWith(prefix));
      }),
      { numRuns: 3000, seed: 2 },
    );
  });
});
