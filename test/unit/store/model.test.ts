import fc from 'fast-check';
import { describe, expect, test } from 'vitest';
import { compareKeys, prefixEnd } from '../../../src/store/limits.ts';
import type { Change, Store, Write } from '../../../src/store/store.ts';
import { anyText } from '../texts.ts';
import { STORES, take } from './stores.ts';

/** The simplest model of a store: a map, and a list of all changes. */
class Model {
  readonly records = new Map<string, { value: string; revision: number }>();
  readonly history: Change[] = [];
  revision: number;

  constructor(revision: number) {
    this.revision = revision;
  }

  commit(writes: readonly Write[]) {
    const conflicts = writes
      .map((write) => ({ write, actual: this.records.get(write.key)?.revision ?? ('absent' as const) }))
      .filter(({ write, actual }) => write.expect !== undefined && write.expect !== actual)
      .map(({ write, actual }) => ({ key: write.key, actual }));
    if (conflicts.length > 0) return { ok: false, conflicts };
    const effective = writes.filter((write) => 'put' in write || this.records.has(write.key));
    if (effective.length > 0) this.revision++;
    for (const write of effective) {
      const value = 'put' in write ? write.put : undefined;
      if (value === undefined) this.records.delete(write.key);
      else this.records.set(write.key, { value, revision: this.revision });
      this.history.push({ key: write.key, value, revision: this.revision });
    }
    return { ok: true, revision: this.revision };
  }

  list(prefix: string) {
    return [...this.records]
      .filter(([key]) => key.startsWith(prefix))
      .map(([key, record]) => ({ key, ...record }))
      .sort((a, b) => Buffer.compare(Buffer.from(a.key), Buffer.from(b.key)));
  }
}

const text = anyText({ maxLength: 4 }).map((s) => s.replaceAll('\0', '0'));
/** Few keys, so that commits conflict; some unusual ones, to test order and ranges. */
const key = fc.oneof(
  fc.constantFrom('a', 'a/', 'a/b', 'a0', 'b', 'é', '\ufffd', '\u{1f600}'),
  text.map((s) => `x${s}`),
);
/** What a write expects: nothing, absence, the revision in the model, or a wrong revision. */
const expectation = fc.constantFrom('none', 'absent', 'actual', 'wrong');
const write = fc.record({
  key,
  put: fc.option(text, { nil: undefined }),
  expectation,
});
const commit = fc.uniqueArray(write, { selector: (w) => w.key, maxLength: 6 });
const steps = fc.array(commit, { minLength: 1, maxLength: 25 });
type Step = (typeof steps extends fc.Arbitrary<infer T> ? T : never)[number];

/**
 * The writes of a step with keys below `prefix`. Takes the revisions of expectations from the
 * model.
 */
function writesOf(step: Step, prefix: string, model: Model): Write[] {
  return step.map(({ key, put, expectation }) => {
    const full = prefix + key;
    const actual = model.records.get(full)?.revision;
    const expect =
      expectation === 'none'
        ? undefined
        : expectation === 'absent'
          ? ('absent' as const)
          : expectation === 'actual'
            ? (actual ?? ('absent' as const))
            : (actual ?? 0) + 1000;
    if (put !== undefined) return { key: full, put, ...(expect !== undefined && { expect }) };
    return { key: full, delete: true as const, ...(typeof expect === 'number' && { expect }) };
  });
}

describe.each(Object.entries(STORES))('a store in %s behaves like the model', (_, open) => {
  const check = async (
    numRuns: number,
    run: (store: Store, model: Model, steps: Step[], prefix: string) => Promise<void>,
  ) => {
    const { store, done } = await open();
    let runs = 0;
    await fc.assert(
      fc.asyncProperty(steps, async (all) => {
        const prefix = `run${runs++}/`;
        const from = (await store.list(prefix)).revision;
        const model = new Model(from);
        await run(store, model, all, prefix);
        expect(await store.list(prefix)).toEqual({ records: model.list(prefix), revision: model.revision });
        expect((await store.list(`${prefix}a`)).records).toEqual(model.list(`${prefix}a`));
        const signal = new AbortController().signal;
        if (model.history.length > 0)
          expect((await take(store.watch(prefix, from, signal), model.history.length)).flat()).toEqual(
            model.history,
          );
      }),
      { numRuns, seed: 20261120 },
    );
    await done();
  };

  test('when commits come one after the other', () =>
    check(60, async (store, model, all, prefix) => {
      for (const step of all) {
        const writes = writesOf(step, prefix, model);
        const expected = model.commit(writes);
        expect(await store.commit(writes)).toEqual(expected);
      }
    }));

  test('when commits come all at once, in the order of their calls', () =>
    check(200, async (store, model, all, prefix) => {
      const asked = all.map((step) => {
        const writes = writesOf(step, prefix, model);
        return { expected: model.commit(writes), result: store.commit(writes) };
      });
      for (const { expected, result } of asked) expect(await result).toEqual(expected);
    }));
});

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
