/** The hash of files that a browser uploads, held against OpenSSL's. */
import { createHash } from 'node:crypto';
import fc from 'fast-check';
import { expect, test } from 'vitest';
import { Sha256 } from '../../../src/page/base/sha256.ts';

const expected = (octets: Uint8Array): string => createHash('sha256').update(octets).digest('hex');

test('a hash is the same as that of OpenSSL, however the file is cut into pieces', () => {
  fc.assert(
    fc.property(fc.uint8Array({ maxLength: 400 }), fc.array(fc.nat(400)), (octets, cuts) => {
      const hash = new Sha256();
      const ends = [...cuts.filter((cut) => cut < octets.length), octets.length].sort((a, b) => a - b);
      for (const [n, end] of ends.entries()) hash.update(octets.subarray(ends[n - 1] ?? 0, end));
      expect(hash.digest()).toBe(expected(octets));
    }),
  );
});

test('every length around a block has the right padding', () => {
  for (let length = 0; length <= 130; length++) {
    const octets = new Uint8Array(length).fill(7);
    expect(new Sha256().update(octets).digest(), String(length)).toBe(expected(octets));
  }
});
