import fc from 'fast-check';
import { describe, expect, test } from 'vitest';
import {
  type AuditEntry,
  CHECKPOINT_EVERY,
  chained,
  checkpointText,
  isSigned,
  readCheckpoint,
  readEntry,
} from '../../../src/events/audit-chain.ts';
import { madeLog, testKey, verdictOf } from './audit-kit.ts';

const key = testKey();
const { lines, head } = madeLog(30, 7, key);
const LAST = lines.length;
const at = fc.integer({ min: 0, max: LAST - 1 });
const entryOf = (line: string): AuditEntry => (readEntry(line) as { entry: AuditEntry }).entry;

/**
 * What somebody can do who may write the file and has no key: every hash from there on fits again.
 */
function rewritten(changed: readonly string[], from: number): string[] {
  const result = changed.slice(0, from);
  for (const line of changed.slice(from)) {
    const { hash: _, prev: __, sequence: ___, ...content } = entryOf(line);
    const before = result.length === 0 ? undefined : entryOf(result.at(-1)!);
    result.push(chained(content, before).line);
  }
  return result;
}

describe('the chain of the security log', () => {
  test('an untouched log is whole, and signed up to its last entry but the checkpoint', () => {
    const verdict = verdictOf(lines, key.keys, [head]);
    expect(verdict).toMatchObject({
      ok: true,
      entries: LAST,
      first: 1,
      last: LAST,
      signedTo: LAST - 1,
      notes: [],
    });
    expect(verdict.checkpoints).toBe(5);
  });

  test('a change of any octet of any entry is found', () => {
    fc.assert(
      fc.property(at, fc.nat(), fc.integer({ min: 1, max: 255 }), (n, place, by) => {
        const octets = Buffer.from(lines[n]!);
        octets[place % octets.length]! ^= by;
        const changed = octets.toString('utf8').split('\n');
        const verdict = verdictOf(lines.toSpliced(n, 1, ...changed), key.keys, [head]);
        expect(verdict.ok).toBe(false);
        expect(verdict.problems[0]!.sequence).toBeLessThanOrEqual(n + 2);
      }),
      { numRuns: 2000 },
    );
  });

  test('a changed entry is named by its number', () => {
    const changed = lines.with(9, lines[9]!.replace('agent.step', 'agent.left'));
    expect(verdictOf(changed, key.keys).problems).toEqual([
      {
        code: 'changed',
        sequence: 10,
        text: 'entry 10 (log:10) was changed: its hash does not fit its content',
      },
    ]);
  });

  test('a changed entry with a fitting hash is found at the next one', () => {
    const { hash: _, prev: __, sequence: ___, ...content } = entryOf(lines[9]!);
    const { line } = chained({ ...content, subject: 'other' }, entryOf(lines[8]!));
    expect(verdictOf(lines.with(9, line), key.keys).problems).toMatchObject([
      { code: 'replaced', sequence: 11 },
    ]);
  });

  test('a removed entry is found wherever it was, if the end of the log is known', () => {
    for (let n = 0; n < LAST; n++) {
      const { problems } = verdictOf(lines.toSpliced(n, 1), key.keys, [head]);
      expect(problems.map(({ code, sequence }) => [code, sequence])).toEqual([
        [n === LAST - 1 ? 'cut' : 'missing', n + 1],
      ]);
    }
  });

  test('entries that were exchanged are found, and those between them are not called missing', () => {
    fc.assert(
      fc.property(at, at, (a, b) => {
        fc.pre(a !== b);
        const { problems } = verdictOf(lines.with(a, lines[b]!).with(b, lines[a]!), key.keys, [head]);
        expect(problems.map(({ code }) => code)).toContain('moved');
        expect(problems.filter(({ code }) => code === 'missing')).toEqual([]);
      }),
    );
  });

  test('an entry that is there twice is found', () => {
    fc.assert(
      fc.property(at, at, (a, b) => {
        fc.pre(b >= a);
        const { problems } = verdictOf(lines.toSpliced(b + 1, 0, lines[a]!), key.keys, [head]);
        expect(problems).toMatchObject([{ code: 'moved', sequence: a + 1 }]);
      }),
    );
  });

  test('a log that ends early is found by any checkpoint or head that was kept', () => {
    for (let n = 0; n < LAST; n++) {
      const { problems } = verdictOf(lines.slice(0, n), key.keys, [head]);
      expect(problems).toMatchObject([{ code: 'cut', sequence: n + 1 }]);
    }
  });

  test('a log that ends without a checkpoint says which entries are not signed', () => {
    expect(verdictOf(lines.slice(0, -1), key.keys)).toMatchObject({
      ok: true,
      notes: [
        'entries 33 to 34: no checkpoint signs them yet, so whoever wrote the file could have changed them',
      ],
    });
  });

  test('a log of which nothing is signed is not whole, however short it is', () => {
    const written = rewritten(
      lines.filter((line) => entryOf(line).kind !== 'audit.checkpoint').slice(0, 5),
      0,
    );
    expect(verdictOf(written, key.keys)).toMatchObject({
      ok: false,
      problems: [{ code: 'unsigned', sequence: 1 }],
    });
  });

  test('a log whose hashes were all computed again is found by its next checkpoint', () => {
    fc.assert(
      fc.property(fc.integer({ min: 0, max: LAST - 2 }), (n) => {
        const entry = entryOf(lines[n]!);
        fc.pre(entry.kind !== 'audit.checkpoint');
        const forged = rewritten(lines.with(n, chained({ ...entry, subject: 'other' }, undefined).line), n);
        const { problems } = verdictOf(forged, key.keys);
        expect(problems[0]).toMatchObject({ code: 'signature' });
        expect(problems[0]!.text).toContain('false signature');
      }),
    );
  });

  test('a log that was written again without checkpoints, or with another key, is found', () => {
    const long = madeLog(CHECKPOINT_EVERY + 20, 1000, key);
    const without = rewritten(
      long.lines.filter((line) => entryOf(line).kind !== 'audit.checkpoint'),
      0,
    );
    expect(verdictOf(without, key.keys).problems).toMatchObject([
      { code: 'unsigned', sequence: CHECKPOINT_EVERY + 1 },
    ]);
    const other = madeLog(5, 10, testKey('other-key'));
    expect(verdictOf(other.lines, key.keys).problems).toMatchObject([
      { code: 'signature', text: expect.stringContaining('other-key, which was not given') },
    ]);
  });

  test('there is a checkpoint after so many entries without being asked', () => {
    const long = madeLog(3 * CHECKPOINT_EVERY, 100_000, key);
    expect(verdictOf(long.lines, key.keys)).toMatchObject({ ok: true, checkpoints: 3 });
  });

  test('a kept checkpoint of another history is found', () => {
    const other = madeLog(30, 7, testKey());
    const { problems } = verdictOf(lines, key.keys, [{ ...other.head, hash: 'f'.repeat(64) }]);
    expect(problems).toMatchObject([{ code: 'replaced', sequence: other.head.sequence }]);
  });

  test('a beginning that rotation removed is a note, and one that somebody removed a fault', () => {
    const removed = entryOf(lines[4]!);
    const made = chained(
      {
        at: removed.at,
        kind: 'audit.removed',
        subject: 'security-log',
        fields: { first: 1, last: 5, hash: removed.hash, octets: 1000 },
      },
      head,
    );
    expect(verdictOf([...lines.slice(5), made.line], key.keys)).toMatchObject({
      ok: true,
      notes: [
        'entries 1 to 5 were removed by rotation, as the log says itself',
        expect.stringContaining('no checkpoint'),
      ],
    });
    expect(verdictOf([...lines.slice(6), made.line], key.keys).problems).toMatchObject([
      { code: 'missing', sequence: 1 },
    ]);
  });

  test('a checkpoint in one word can be read again, and its signature is checked', () => {
    const entry = entryOf(lines.at(-1)!);
    const { signature } = entry.fields as { signature: string };
    const checkpoint = { sequence: entry.sequence - 1, hash: entry.prev, signature };
    const read = readCheckpoint(checkpointText(checkpoint))!;
    expect(read).toEqual(checkpoint);
    const [publicKey] = [...key.keys.values()];
    expect(isSigned(read, publicKey!)).toBe(true);
    expect(isSigned({ ...read, sequence: 1 }, publicKey!)).toBe(false);
    expect(isSigned({ ...read, signature: '' }, publicKey!)).toBe(false);
    for (const wrong of ['', '1', '0.00', `1.${'0'.repeat(63)}`, `${checkpointText(checkpoint)}.x`])
      expect(readCheckpoint(wrong)).toBeUndefined();
  });
});
