/** A model of a store, and commits at random that an implementation is held to. */
import fc from 'fast-check';
import { describe, expect, test } from 'vitest';
import type { Change, Store, Write } from '../../../src/store/store.ts';
import { anyText } from '../texts.ts';
import { type OpenStore, take } from './stores.ts';

/** The simplest model of a store: a map, and a list of all changes. */
class Model {
  readonly records = new Map<string, { value: string; revision: number }>();
  readonly history: Change[] = [];
  revision: number;
  /** Whether a commit that changes nothing counts too. */
  readonly #grouped: boolean;

  constructor(revision: number, grouped: boolean) {
    this.revision = revision;
    this.#grouped = grouped;
  }

  commit(writes: readonly Write[]) {
    if (this.#grouped) this.revision++;
    const conflicts = writes
      .map((write) => ({ write, actual: this.records.get(write.key)?.revision ?? ('absent' as const) }))
      .filter(({ write, actual }) => write.expect !== undefined && write.expect !== actual)
      .map(({ write, actual }) => ({ key: write.key, actual }));
    if (conflicts.length > 0) return { ok: false, conflicts };
    const effective = writes.filter((write) => 'put' in write || this.records.has(write.key));
    if (effective.length > 0 && !this.#grouped) this.revision++;
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
 * model. Without `revisions`, which a store that groups commits shares out, a record that is there
 * is expected in no revision.
 */
function writesOf(step: Step, prefix: string, model: Model, revisions = true): Write[] {
  return step.map(({ key, put, expectation }) => {
    const full = prefix + key;
    const actual = model.records.get(full)?.revision;
    const expect =
      expectation === 'none'
        ? undefined
        : expectation === 'absent'
          ? ('absent' as const)
          : expectation === 'actual'
            ? revisions
              ? (actual ?? ('absent' as const))
              : actual === undefined
                ? ('absent' as const)
                : undefined
            : (actual ?? 0) + 1000;
    if (put !== undefined) return { key: full, put, ...(expect !== undefined && { expect }) };
    return { key: full, delete: true as const, ...(typeof expect === 'number' && { expect }) };
  });
}

/** `grouped`: see behaviour.ts; results of commits at the same time are not compared then. */
export function followsModel(
  name: string,
  open: OpenStore,
  { grouped }: { readonly grouped: boolean },
): void {
  describe(`a store in ${name} behaves like the model`, () => {
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
          const model = new Model(from, grouped);
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
      check(grouped ? 25 : 60, async (store, model, all, prefix) => {
        for (const step of all) {
          const writes = writesOf(step, prefix, model);
          const expected = model.commit(writes);
          expect(await store.commit(writes)).toEqual(expected);
        }
      }));

    const outcome = ({ records }: { records: readonly { key: string; value: string }[] }) =>
      records.map(({ key, value }) => ({ key, value }));

    test.runIf(grouped)('when commits come all at once and share transactions', async () => {
      const { store, done } = await open();
      let runs = 0;
      await fc.assert(
        fc.asyncProperty(steps, async (all) => {
          const prefix = `run${runs++}/`;
          const model = new Model(0, true);
          const asked = all.map((step) => {
            const writes = writesOf(step, prefix, model, false);
            return { ok: model.commit(writes).ok, result: store.commit(writes) };
          });
          for (const { ok, result } of asked) expect((await result).ok).toBe(ok);
          expect(outcome(await store.list(prefix))).toEqual(outcome({ records: model.list(prefix) }));
        }),
        { numRuns: 60, seed: 20261129 },
      );
      await done();
    });

    test.skipIf(grouped)('when commits come all at once, in the order of their calls', () =>
      check(200, async (store, model, all, prefix) => {
        const asked = all.map((step) => {
          const writes = writesOf(step, prefix, model);
          return { expected: model.commit(writes), result: store.commit(writes) };
        });
        for (const { expected, result } of asked) expect(await result).toEqual(expected);
      }),
    );
  });
}
