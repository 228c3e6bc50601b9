/** Damaged streams of events and addresses never throw. */
import fc from 'fast-check';
import { expect, test } from 'vitest';
import { Frames } from '../../../src/page/base/frames.ts';
import { readPlace } from '../../../src/page/base/route.ts';
import { machinesFrom } from '../../../src/page/register/table.ts';
import { INPUTS } from '../fuzzing.ts';

const piece = fc.oneof(
  fc.constantFrom('\n', '\n\n', '\r\n', ':', 'id: ', 'event: ', 'data: ', '{"a":1}'),
  fc.string(),
);

test('any stream of events is read without an error', () => {
  fc.assert(
    fc.property(fc.array(piece), (pieces) => {
      const frames = new Frames();
      for (const frame of pieces.flatMap((one) => frames.push(one))) expect(typeof frame.data).toBe('string');
    }),
    { numRuns: INPUTS / 2 },
  );
});

test('any address of the page is read without an error', () => {
  fc.assert(
    fc.property(fc.oneof(fc.string(), fc.stringMatching(/^#\/[%/?&=a-f0-9]*$/)), (hash) => {
      expect(Array.isArray(readPlace(hash).path)).toBe(true);
    }),
    { numRuns: INPUTS / 2 },
  );
});

test('any pasted table is read without an error', () => {
  const cell = fc.oneof(
    fc.constantFrom('name', 'mac', 'labels', '"', '""', ',', '\t', '\n', '='),
    fc.string(),
  );
  fc.assert(
    fc.property(fc.array(cell), (cells) => {
      const read = machinesFrom(cells.join(''));
      expect(read.ok ? read.machines.length > 0 : read.fault !== '').toBe(true);
    }),
    { numRuns: INPUTS / 2 },
  );
});
