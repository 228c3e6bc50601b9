/** The decoder of the security log against damaged lines. The seed is fixed. */
import { expect, it } from 'vitest';
import { readCheckpoint, readEntry } from '../../../src/events/audit-chain.ts';
import { auditVerifier } from '../../../src/events/audit-verify.ts';
import { INPUTS } from '../fuzzing.ts';
import { jsonMutants, mutant, xorshift } from '../pxe/tftp/mutate.ts';
import { madeLog, testKey } from './audit-kit.ts';

const SEED = 20261126;
const key = testKey();
const { lines } = madeLog(20, 5, key);

it(`damaged lines are entries as they were, or refused with a reason`, () => {
  console.log(`security log: seed ${SEED}, ${INPUTS} inputs`);
  const random = xorshift(SEED);
  const seeds = lines.map((line) => Buffer.from(line));
  const genuine = new Set(lines);
  const verifier = auditVerifier(key.keys);
  let refused = 0;
  for (let n = 0; n < INPUTS; n++) {
    const line = mutant(seeds, random).toString('utf8');
    const read = readEntry(line);
    if (read.ok && !genuine.has(line)) throw new Error(`taken: ${line}`);
    if (!read.ok && read.text === '') throw new Error('no reason');
    if (!read.ok) refused++;
    verifier.line(line, 'fuzz');
    readCheckpoint(line);
  }
  const verdict = verifier.end();
  expect(verdict.ok).toBe(false);
  expect(refused).toBeGreaterThan(INPUTS / 2);
});

it(`JSON objects of other shapes are refused`, () => {
  const seeds = lines.map((line) => JSON.parse(line) as object);
  const genuine = new Set(lines);
  const mutated = jsonMutants(seeds, xorshift(SEED + 1));
  for (let n = 0; n < INPUTS; n++) {
    const text = mutated();
    const read = readEntry(text);
    if (read.ok && !genuine.has(text)) throw new Error(`taken: ${text}`);
  }
});
