import { randomBytes } from 'node:crypto';
import fc from 'fast-check';
import { expect, test } from 'vitest';
import { createRevisionClaims, readRevisionClaim } from '../../../../src/agent/wire/revision-claim.ts';

const claims = createRevisionClaims(Buffer.alloc(32, 7));

test('a claim is believed for the machine and the revision that it was made for, and for no other', () => {
  const claim = readRevisionClaim(claims.of('cp1', 41))!;
  expect(claims.believed('cp1', claim)).toBe(true);
  expect(claims.believed('cp2', claim)).toBe(false);
  expect(claims.believed('cp1', { ...claim, revision: 999_999_999_999_999 })).toBe(false);
  expect(createRevisionClaims(randomBytes(32)).believed('cp1', claim)).toBe(false);
});

test('a text that is no claim is none, and no invented one is believed', () => {
  fc.assert(
    fc.property(fc.oneof(fc.string(), fc.stringMatching(/^[0-9]{1,16}\.[A-Za-z0-9_-]{40,45}$/)), (text) => {
      const claim = readRevisionClaim(text);
      if (claim !== undefined) expect(claims.believed('cp1', claim)).toBe(false);
    }),
    { numRuns: 20_000 },
  );
});

test('a key that is too short is refused', () => {
  expect(() => createRevisionClaims(Buffer.alloc(31))).toThrow(RangeError);
});
