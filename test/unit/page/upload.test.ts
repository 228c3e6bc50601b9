/** The hash of files that a browser uploads, held against OpenSSL's. */
import { createHash, randomBytes } from 'node:crypto';
import { expect, test } from 'vitest';
import { hashOf } from '../../../src/page/base/upload.ts';

test('a file is hashed as OpenSSL does it, and how much was read is told', async () => {
  for (const octets of [Buffer.alloc(0), Buffer.from('abc'), randomBytes(300_000)]) {
    const told: number[] = [];
    const hash = await hashOf(new Blob([octets]), (_, done) => told.push(done));
    expect(hash).toBe(createHash('sha256').update(octets).digest('hex'));
    expect(told.at(-1) ?? 0).toBe(octets.length);
  }
});
