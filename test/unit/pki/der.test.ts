/** DER elements are written, and read back by the strict reader. */
import fc from 'fast-check';
import { expect, test } from 'vitest';
import { DerReader, element, TAG } from '../../../src/pki/der.ts';

test('an element is read back as it was written, and its length has DER’s minimal form', () => {
  for (const length of [0, 1, 0x7f, 0x80, 0xff, 0x100, 0xffff, 0x10000]) {
    const body = Buffer.alloc(length, 7);
    const reader = new DerReader(element(TAG.bits, body));
    expect(reader.next(TAG.bits).body.equals(body)).toBe(true);
    reader.end();
  }
});

test('an element contains its parts in order', () => {
  fc.assert(
    fc.property(fc.array(fc.uint8Array({ maxLength: 200 })), (parts) => {
      const inner = parts.map((part) => element(TAG.bits, Buffer.from(part)));
      const reader = new DerReader(new DerReader(element(TAG.sequence, ...inner)).next(TAG.sequence).body);
      for (const part of parts) expect([...reader.next(TAG.bits).body]).toEqual([...part]);
      reader.end();
    }),
    { numRuns: 200, seed: 3 },
  );
});
