import fc from 'fast-check';
import { describe, expect, test } from 'vitest';
import { HeldTexts, type TextHandle } from '../../../src/events/texts.ts';

const PAGE = 1024 * 1024;

describe('texts outside of the heap', () => {
  test('are read back unchanged, whatever is stored, referenced and dropped in between', () => {
    const text = fc.oneof(
      fc.string({ unit: 'grapheme', maxLength: 700 }),
      // Lengths around the ends of slots, and unusually long texts.
      fc.integer({ min: 500, max: 520 }).map((length) => 'x'.repeat(length)),
      fc.integer({ min: 240, max: 9000 }).map((length) => 'é€😀'.repeat(length / 3)),
    );
    const step = fc.oneof(
      fc.record({ put: text }),
      fc.record({ hold: fc.nat() }),
      fc.record({ drop: fc.nat() }),
    );
    fc.assert(
      fc.property(fc.array(step, { maxLength: 120 }), (steps) => {
        const texts = new HeldTexts();
        const held: { readonly handle: TextHandle; readonly text: string; readonly number: number }[] = [];
        const pick = (n: number) => n % held.length;
        steps.forEach((step, number) => {
          if ('put' in step) held.push({ handle: texts.put(step.put, number), text: step.put, number });
          else if (held.length === 0) return;
          else if ('hold' in step) {
            const one = held[pick(step.hold)]!;
            texts.hold(one.handle);
            held.push(one);
          } else texts.drop(held.splice(pick(step.drop), 1)[0]!.handle);
        });
        for (const { handle, text, number } of held) {
          expect(texts.text(handle)).toBe(text);
          expect(texts.numberOf(handle)).toBe(number);
        }
      }),
      { seed: 20261124, numRuns: 500 },
    );
  });

  test('take no more memory while as many are dropped as stored', () => {
    const texts = new HeldTexts();
    const kept: TextHandle[] = [];
    for (let n = 0; n < 100_000; n++) {
      kept.push(texts.put(`${n} ${'x'.repeat(n % 600)}`, n));
      if (kept.length > 2000) texts.drop(kept.shift()!);
    }
    expect(texts.size).toBe(2 * PAGE);
    expect(kept.map((handle) => texts.text(handle).split(' ')[0])).toEqual(
      Array.from({ length: 2000 }, (_, n) => String(98_000 + n)),
    );
  });

  test('allocate another page when the last one is full', () => {
    const texts = new HeldTexts();
    const handles = Array.from({ length: 3000 }, (_, n) => texts.put(`text ${n}`, n));
    expect(texts.size).toBe(2 * PAGE);
    handles.forEach((handle, n) => {
      expect(texts.text(handle)).toBe(`text ${n}`);
    });
  });
});
