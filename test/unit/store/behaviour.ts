/** The behaviour of every implementation of Store. */
import { afterEach, beforeEach, describe, expect, test } from 'vitest';
import { MAX_OPERATIONS, MAX_VALUE_BYTES, type Store } from '../../../src/store/store.ts';
import { codeOf, type OpenedStore, type OpenStore, take } from './stores.ts';

const never = new AbortController().signal;

/**
 * Registers the tests for one implementation. `grouped`: commits that are made at the same time may
 * share a revision, and one that changes nothing may count.
 */
export function behaves(name: string, open: OpenStore, { grouped }: { readonly grouped: boolean }): void {
  describe(`a store in ${name}`, () => {
    let opened: OpenedStore;
    let store: Store;
    beforeEach(async () => {
      opened = await open();
      store = opened.store;
    });
    afterEach(() => opened.done());

    const put = async (key: string, value: string): Promise<number> => {
      const result = await store.commit([{ key, put: value }]);
      if (!result.ok) throw new Error('conflict');
      return result.revision;
    };
    const keys = async (prefix: string) => (await store.list(prefix)).records.map((record) => record.key);

    describe('commits', () => {
      test('a record is read back unchanged, with the revision of its commit', async () => {
        const revision = await put('machine/a', '{"v":1}');
        expect(await store.get('machine/a')).toEqual({ key: 'machine/a', value: '{"v":1}', revision });
      });

      test('a record that was never put, or was deleted, is absent', async () => {
        await put('a', '1');
        expect(await store.commit([{ key: 'a', delete: true }])).toEqual({ ok: true, revision: 2 });
        expect(await store.get('a')).toBeUndefined();
        expect(await store.get('b')).toBeUndefined();
      });

      test('revisions begin at 1 and grow by one with each commit that changes something', async () => {
        expect((await store.list('')).revision).toBe(0);
        expect(await put('a', '1')).toBe(1);
        expect(await put('a', '1')).toBe(2);
        expect((await store.list('')).revision).toBe(2);
      });

      test('all writes of a commit have one revision', async () => {
        const result = await store.commit([
          { key: 'a', put: '1' },
          { key: 'b', put: '2' },
        ]);
        expect(result).toEqual({ ok: true, revision: 1 });
        expect((await store.list('')).records.map((record) => record.revision)).toEqual([1, 1]);
      });

      test.skipIf(grouped)(
        'an empty commit and the deletion of an absent record succeed and change nothing',
        async () => {
          await put('a', '1');
          expect(await store.commit([])).toEqual({ ok: true, revision: 1 });
          expect(await store.commit([{ key: 'b', delete: true }])).toEqual({ ok: true, revision: 1 });
        },
      );

      test('a commit that deletes an absent record and puts another one has only the put as a change', async () => {
        await store.commit([
          { key: 'gone', delete: true },
          { key: 'here', put: '1' },
        ]);
        const [batch] = await take(store.watch('', 0, never), 1);
        expect(batch).toEqual([{ key: 'here', value: '1', revision: 1 }]);
      });

      test('a record that is deleted and put again counts as absent in between', async () => {
        await put('a', '1');
        expect((await store.commit([{ key: 'a', put: '2', expect: 'absent' }])).ok).toBe(false);
        await store.commit([{ key: 'a', delete: true, expect: 1 }]);
        expect((await store.commit([{ key: 'a', put: '2', expect: 'absent' }])).ok).toBe(true);
      });
    });

    describe('expectations', () => {
      test('a fulfilled revision or absence lets the commit through', async () => {
        expect((await store.commit([{ key: 'a', put: '1', expect: 'absent' }])).ok).toBe(true);
        expect((await store.commit([{ key: 'a', put: '2', expect: 1 }])).ok).toBe(true);
        expect((await store.commit([{ key: 'a', delete: true, expect: 2 }])).ok).toBe(true);
      });

      test('a failed expectation writes nothing, and every conflict is returned with the actual revision', async () => {
        await put('a', '1');
        const result = await store.commit([
          { key: 'a', put: 'x', expect: 'absent' },
          { key: 'b', put: 'x', expect: 7 },
          { key: 'c', put: 'x', expect: 'absent' },
          { key: 'd', put: 'x' },
        ]);
        expect(result).toEqual({
          ok: false,
          conflicts: [
            { key: 'a', actual: 1 },
            { key: 'b', actual: 'absent' },
          ],
        });
        expect((await store.list('')).records).toEqual([{ key: 'a', value: '1', revision: 1 }]);
      });

      test('a number that is not a revision is never fulfilled, not even by an absent record', async () => {
        for (const expectation of [0, -1, -2, 1.5, Number.NaN])
          expect(await store.commit([{ key: 'a', put: 'x', expect: expectation }])).toEqual({
            ok: false,
            conflicts: [{ key: 'a', actual: 'absent' }],
          });
      });

      test('a commit that conflicts does not affect others that were sent with it', async () => {
        const results = await Promise.all([
          store.commit([{ key: 'a', put: '1' }]),
          store.commit([{ key: 'a', put: '2', expect: 'absent' }]),
          store.commit([{ key: 'b', put: '3' }]),
        ]);
        expect(results.map((result) => result.ok)).toEqual([true, false, true]);
        expect((await store.list('')).records.map((record) => record.value)).toEqual(['1', '3']);
      });

      test('exactly one of many commits that create the same record succeeds', async () => {
        const results = await Promise.all(
          Array.from({ length: 200 }, (_, i) =>
            store.commit([{ key: 'lease/rack/10.0.0.1', put: `${i}`, expect: 'absent' }]),
          ),
        );
        expect(results.filter((result) => result.ok)).toHaveLength(1);
      });

      test('no increment is lost when many clients increase a counter by compare-and-set', async () => {
        await put('counter', '0');
        const raise = async () => {
          for (;;) {
            const record = (await store.get('counter'))!;
            const next = { key: 'counter', put: `${Number(record.value) + 1}`, expect: record.revision };
            if ((await store.commit([next])).ok) return;
          }
        };
        await Promise.all(Array.from({ length: 20 }, raise));
        expect((await store.get('counter'))!.value).toBe('20');
      });
    });

    describe('lists', () => {
      test('contain the records of a prefix, ordered by key, and their revision', async () => {
        for (const key of ['lease/b/2', 'lease/a/10', 'lease/a/1', 'leash', 'machine/x']) await put(key, '1');
        expect(await keys('lease/')).toEqual(['lease/a/1', 'lease/a/10', 'lease/b/2']);
        expect(await keys('lease/a/1')).toEqual(['lease/a/1', 'lease/a/10']);
        expect(await keys('nothing')).toEqual([]);
        expect((await store.list('')).revision).toBe(5);
      });

      test('take characters literally that are wildcards in SQL', async () => {
        for (const key of ['a%b', 'a_b', 'axb', "a'b", 'a*b', 'A%b']) await put(key, '1');
        expect(await keys('a%')).toEqual(['a%b']);
        expect(await keys('a_')).toEqual(['a_b']);
        expect(await keys("a'")).toEqual(["a'b"]);
        expect(await keys('A')).toEqual(['A%b']);
      });

      test('order keys by their UTF-8 octets, as etcd does', async () => {
        const ordered = [
          'a',
          'z',
          'é',
          '\ud7ff',
          '\u{e000}',
          '\ufffd',
          '\u{1f600}',
          '\u{10ffff}',
          '\u{10ffff}a',
        ];
        for (const key of ordered.toReversed()) await put(key, key);
        expect(await keys('')).toEqual(ordered);
        expect(await keys('\u{10ffff}')).toEqual(['\u{10ffff}', '\u{10ffff}a']);
        expect(await keys('\ud7ff')).toEqual(['\ud7ff']);
      });

      test('see every commit that was requested before them', async () => {
        const commits = Array.from({ length: 3000 }, (_, i) => store.commit([{ key: `k${i}`, put: '' }]));
        const listed = store.list('');
        expect((await listed).records.length).toBe(3000);
        await Promise.all(commits);
      });
    });

    describe('limits', () => {
      test(`${MAX_OPERATIONS} operations are accepted, one more is refused`, async () => {
        const writes = (count: number) =>
          Array.from({ length: count }, (_, i) => ({ key: `k${i}`, put: '' }));
        expect((await store.commit(writes(MAX_OPERATIONS))).ok).toBe(true);
        expect(await codeOf(store.commit(writes(MAX_OPERATIONS + 1)))).toBe('E_STORE_LIMIT');
      });

      test('a value of 1 MiB is accepted, one octet more is refused, counted in UTF-8', async () => {
        const commit = (value: string) => codeOf(store.commit([{ key: 'a', put: value }]));
        expect(await commit('x'.repeat(MAX_VALUE_BYTES))).toBe('fulfilled');
        expect((await store.get('a'))!.value.length).toBe(MAX_VALUE_BYTES);
        expect(await commit('x'.repeat(MAX_VALUE_BYTES + 1))).toBe('E_STORE_LIMIT');
        expect(await commit('é'.repeat(MAX_VALUE_BYTES / 2))).toBe('fulfilled');
        expect(await commit(`x${'é'.repeat(MAX_VALUE_BYTES / 2)}`)).toBe('E_STORE_LIMIT');
      });

      test('a key that is listed twice, empty, too long or contains NUL is refused', async () => {
        const twice = [
          { key: 'a', put: '1' },
          { key: 'a', delete: true },
        ] as const;
        expect(await codeOf(store.commit(twice))).toBe('E_STORE_LIMIT');
        for (const key of ['', 'k'.repeat(1025), 'a\0b'])
          expect(await codeOf(store.commit([{ key, put: '1' }]))).toBe('E_STORE_LIMIT');
        expect(await codeOf(store.commit([{ key: 'k'.repeat(1024), put: '1' }]))).toBe('fulfilled');
      });

      test('half a surrogate pair, which UTF-8 cannot encode, is refused in keys and values', async () => {
        expect(await codeOf(store.commit([{ key: 'a\ud800', put: '1' }]))).toBe('E_STORE_LIMIT');
        expect(await codeOf(store.commit([{ key: 'a', put: '1\udc00' }]))).toBe('E_STORE_LIMIT');
      });

      test('a refused commit changes nothing', async () => {
        await codeOf(
          store.commit([
            { key: 'a', put: '1' },
            { key: '', put: '1' },
          ]),
        );
        expect(await store.list('')).toEqual({ records: [], revision: 0 });
      });

      test('any value is read back unchanged, also an empty one and one with NUL', async () => {
        for (const value of ['', '\0', 'a\0b', '😀\u{10ffff}', '"\\\n', '\ufeffx'])
          expect((await store.get((await put('a', value)) ? 'a' : ''))!.value).toBe(value);
      });
    });

    describe('watches', () => {
      test('resume from a revision, in order, puts and deletions', async () => {
        await put('a', '1');
        await put('b', '2');
        await store.commit([{ key: 'a', delete: true }]);
        const all = await take(store.watch('', 0, never), 3);
        expect(all.flat()).toEqual([
          { key: 'a', value: '1', revision: 1 },
          { key: 'b', value: '2', revision: 2 },
          { key: 'a', value: undefined, revision: 3 },
        ]);
        expect((await take(store.watch('', 2, never), 1)).flat()).toEqual(all.flat().slice(2));
      });

      test('continue with later commits, without a gap or a repetition', async () => {
        for (let i = 0; i < 50; i++) await put(`k${i}`, 'before');
        const seen = take(store.watch('k', 0, never), 2050);
        await Promise.all(Array.from({ length: 2000 }, (_, i) => put(`k${i}`, 'during')));
        const revisions = (await seen).flat().map((change) => change.revision);
        expect(revisions).toEqual(revisions.toSorted((a, b) => a - b));
        expect(revisions).toHaveLength(2050);
        if (!grouped) expect(new Set(revisions).size).toBe(2050);
      });

      test('yield only changes with their prefix', async () => {
        const seen = take(store.watch('machine/', 0, never), 2);
        await put('lease/1', '1');
        await put('machine/1', '1');
        await put('machinery', '1');
        await put('machine/2', '1');
        expect((await seen).flat().map((change) => change.key)).toEqual(['machine/1', 'machine/2']);
      });

      test('never split a commit, live or from history', async () => {
        const commits = 60;
        const write = (i: number) =>
          store.commit(Array.from({ length: 100 }, (_, j) => ({ key: `k${j}`, put: `${i}` })));
        const live = take(store.watch('', 0, never), commits * 100);
        for (let i = 0; i < commits; i++) await write(i);
        for (const batches of [await live, await take(store.watch('', 0, never), commits * 100)]) {
          for (const batch of batches) {
            const perRevision = Map.groupBy(batch, (change) => change.revision);
            for (const changes of perRevision.values()) expect(changes).toHaveLength(100);
          }
          expect(batches.flat()).toHaveLength(commits * 100);
        }
      });

      test('give a slow watcher all changes, although there are more than are queued for it', async () => {
        const watch = store.watch('', 0, never)[Symbol.asyncIterator]();
        await put('first', '1');
        const seen = [...(await watch.next()).value!];
        const rounds = 100;
        for (let i = 0; i < rounds; i++)
          await store.commit(Array.from({ length: 100 }, (_, j) => ({ key: `k${j}`, put: `${i}` })));
        while (seen.length < rounds * 100 + 1) seen.push(...(await watch.next()).value!);
        const revisions = seen.map((change) => change.revision);
        expect(revisions).toEqual(revisions.toSorted((a, b) => a - b));
        expect(seen.at(-1)!.revision).toBe(rounds + 1);
        await put('last', '1');
        expect((await watch.next()).value).toMatchObject([{ key: 'last' }]);
        await watch.return!(undefined);
      });

      test('give a watcher that is slow while it reads history all old and new changes', async () => {
        const hundred = (i: number) =>
          store.commit(Array.from({ length: 100 }, (_, j) => ({ key: `k${j}`, put: `${i}` })));
        for (let i = 0; i < 40; i++) await hundred(i);
        const watch = store.watch('', 0, never)[Symbol.asyncIterator]();
        const seen = [...(await watch.next()).value!];
        if (!grouped) expect(seen.length).toBeLessThan(4000);
        for (let i = 0; i < 60; i++) await hundred(i);
        while (seen.length < 10_000) seen.push(...(await watch.next()).value!);
        expect(seen.map((change) => change.revision)).toEqual(
          Array.from({ length: 10_000 }, (_, i) => Math.floor(i / 100) + 1),
        );
        await watch.return!(undefined);
      });

      test('end when their signal aborts, while they wait or before they begin', async () => {
        const abort = new AbortController();
        const ended = (async () => {
          for await (const _ of store.watch('', 0, abort.signal));
          return 'ended';
        })();
        await put('a', '1');
        abort.abort();
        expect(await ended).toBe('ended');
        expect(await take(store.watch('', 0, abort.signal), 1)).toEqual([]);
      });

      test('fail with E_STORE_COMPACTED for a revision that the store has not reached', async () => {
        expect(await codeOf(take(store.watch('', 1, never), 1))).toBe('E_STORE_COMPACTED');
      });
    });

    describe('compaction', () => {
      test('ends watches from forgotten revisions with E_STORE_COMPACTED; the records stay', async () => {
        for (let i = 1; i <= 10; i++) await put(`k${i % 3}`, `${i}`);
        await store.commit([{ key: 'k0', delete: true }]);
        const before = await store.list('');
        await store.compact(8);
        expect(await store.list('')).toEqual(before);
        expect(await codeOf(take(store.watch('', 7, never), 1))).toBe('E_STORE_COMPACTED');
        expect((await take(store.watch('', 8, never), 3)).flat().map((change) => change.revision)).toEqual([
          9, 10, 11,
        ]);
        await store.compact(11);
        expect(await store.list('')).toEqual(before);
        expect(await codeOf(take(store.watch('', 10, never), 1))).toBe('E_STORE_COMPACTED');
      });

      test('does not affect a watch that has caught up, or one that continues from a list', async () => {
        await put('a', '1');
        const watch = store.watch('', 0, never)[Symbol.asyncIterator]();
        await watch.next();
        const next = watch.next();
        await put('other', '1');
        await next;
        await store.compact(2);
        const later = take(store.watch('', (await store.list('')).revision, never), 1);
        await put('b', '1');
        expect((await watch.next()).value).toEqual([{ key: 'b', value: '1', revision: 3 }]);
        expect((await later).flat()).toHaveLength(1);
        await watch.return!(undefined);
      });

      test('accepts a revision that is compacted already, or one in the future', async () => {
        await put('a', '1');
        await store.compact(1);
        await store.compact(0);
        await store.compact(99);
        expect(await put('a', '2')).toBe(2);
        expect((await take(store.watch('', 1, never), 1)).flat()).toHaveLength(1);
      });
    });

    describe('closing', () => {
      test('finishes earlier requests, refuses later ones, ends watches', async () => {
        const watch = take(store.watch('', 0, never), 10);
        const before = Array.from({ length: 3000 }, (_, i) => store.commit([{ key: `k${i}`, put: '1' }]));
        const closed = store.close();
        const after = store.commit([{ key: 'late', put: '1' }]);
        expect(await codeOf(after)).toBe('E_STORE_CLOSED');
        expect((await Promise.all(before)).every((result) => result.ok)).toBe(true);
        await closed;
        await watch;
        expect(await codeOf(store.get('k1'))).toBe('E_STORE_CLOSED');
        expect(await codeOf(store.list(''))).toBe('E_STORE_CLOSED');
        expect(await codeOf(store.compact(1))).toBe('E_STORE_CLOSED');
        expect(() => store.watch('', 0, never)).toThrow('closed');
      });

      test('can be requested twice', async () => {
        await Promise.all([store.close(), store.close()]);
        await store.close();
      });
    });
  });

  describe(`the history of a store in ${name}`, () => {
    test.skipIf(grouped)('is bounded: the oldest revisions are forgotten, the newest are kept', async () => {
      const kept = 2000;
      const { store, done } = await open({ keptRevisions: kept });
      const total = 6000;
      for (let i = 0; i < total; i += 500)
        await Promise.all(
          Array.from({ length: 500 }, (_, j) => store.commit([{ key: `k${j % 7}`, put: `${i + j}` }])),
        );
      expect(await codeOf(take(store.watch('', 100, never), 1))).toBe('E_STORE_COMPACTED');
      expect((await take(store.watch('', total - kept, never), kept)).flat()).toHaveLength(kept);
      expect((await store.list('')).records).toHaveLength(7);
      await done();
    });
  });
}
