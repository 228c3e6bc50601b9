/** The store on real members of etcd: the suite of all stores, and what only this one can do. */
import { setTimeout as wait } from 'node:timers/promises';
import { afterAll, beforeAll, describe, expect, test } from 'vitest';
import { silentLog } from '../../src/base/log.ts';
import { createMetrics } from '../../src/base/metrics.ts';
import { writeFile } from '../../src/store/copy.files.ts';
import { type EtcdStore, type EtcdStoreOptions, openEtcdStore } from '../../src/store/etcd.socket.ts';
import type { Change, Store, Write } from '../../src/store/store.ts';
import { behaves } from '../unit/store/behaviour.ts';
import { followsModel } from '../unit/store/model.ts';
import { codeOf, type OpenStore, take } from '../unit/store/stores.ts';
import { type StoreMembers, startMembers } from './etcd-members.ts';

let members: StoreMembers;
let prefixes = 0;
beforeAll(async () => {
  members = await startMembers(3);
});
afterAll(() => members?.end());

const opened = (options: Partial<EtcdStoreOptions> = {}): Promise<EtcdStore> =>
  openEtcdStore({
    ...{ endpoints: members.endpoints, files: members.files, log: silentLog, metrics: createMetrics() },
    ...{ prefix: `p${prefixes++}/`, host: 'host1', about: undefined, signal: new AbortController().signal },
    copy: writeFile,
    standsBy: () => {},
    ...options,
  });

/** The store, with its revisions counted from now. */
function counted(store: Store, zero: number): Store {
  const down = <T extends { readonly revision: number }>(one: T): T => ({
    ...one,
    revision: one.revision - zero,
  });
  return {
    async commit(writes) {
      const up = writes.map((write) =>
        typeof write.expect === 'number' && write.expect > 0
          ? { ...write, expect: write.expect + zero }
          : write,
      );
      const result = await store.commit(up as Write[]);
      if (result.ok) return down(result);
      const conflicts = result.conflicts.map(({ key, actual }) => ({
        key,
        actual: actual === 'absent' ? actual : actual - zero,
      }));
      return { ok: false, conflicts };
    },
    async get(key) {
      const record = await store.get(key);
      return record && down(record);
    },
    async list(prefix) {
      const { records, revision } = await store.list(prefix);
      return { records: records.map(down), revision: revision - zero };
    },
    watch(prefix, after, signal) {
      const watch = store.watch(prefix, after + zero, signal);
      return (async function* (): AsyncGenerator<Change[]> {
        for await (const batch of watch) yield batch.map(down);
      })();
    },
    compact: (revision) => store.compact(revision + zero),
    close: () => store.close(),
  };
}

const open: OpenStore = async () => {
  const store = await opened();
  const { revision } = await store.list('');
  return { store: counted(store, revision), done: () => store.close() };
};

behaves('etcd', open, { grouped: true });
followsModel('etcd', open, { grouped: true });

describe('a store on etcd', () => {
  test('goes on when a member is stuck or gone, and loses nothing that it acknowledged', async () => {
    const prefix = `p${prefixes++}/`;
    const store = await opened({ prefix });
    const changes = take(store.watch('', (await store.list('')).revision, new AbortController().signal), 600);
    let number = 0;
    const write = async (count: number) => {
      for (let i = 0; i < count; i++)
        expect((await store.commit([{ key: `k${number++}`, put: 'x', expect: 'absent' }])).ok).toBe(true);
    };
    await write(100);
    for (const place of [0, 1, 2]) {
      members.signal(place, 'SIGSTOP');
      await write(150);
      members.signal(place, 'SIGCONT');
      await wait(1500);
    }
    await write(50);
    expect((await store.list('')).records).toHaveLength(number);
    expect((await changes).flat().map(({ key }) => key)).toEqual(
      Array.from({ length: 600 }, (_, i) => `k${i}`),
    );
    await store.close();
  }, 60_000);

  test('belongs to one host at a time, and goes to the next one when it is closed', async () => {
    const prefix = `p${prefixes++}/`;
    const first = await opened({ prefix });
    await first.commit([{ key: 'a', put: '1' }]);
    const abort = new AbortController();
    const waiting = opened({ prefix, host: 'host2', signal: abort.signal });
    await wait(1000);
    expect(first.actingMs).toBeGreaterThan(0);
    await first.close();
    const second = await waiting;
    expect((await second.get('a'))!.value).toBe('1');
    await second.close();
  });

  test('without etcd, its host stops before another one can act, and says so', async () => {
    const lost = Promise.withResolvers<string>();
    const store = await opened({ broken: (error) => lost.resolve(error.code) });
    for (const place of [0, 1]) members.signal(place, 'SIGSTOP');
    const commit = store.commit([{ key: 'a', put: '1' }]);
    expect(await codeOf(commit)).toBe('E_STORE_UNSURE');
    expect(await lost.promise).toBe('E_HOST_NOT_ACTING');
    expect(store.actingMs).toBeLessThanOrEqual(0);
    expect(await codeOf(store.get('a'))).toBe('E_HOST_NOT_ACTING');
    for (const place of [0, 1]) members.signal(place, 'SIGCONT');
    await store.close();
  }, 30_000);
});

test('members that take no large requests are refused, with the setting to change', async () => {
  const plain = await startMembers(1, { words: [] });
  const { endpoints, files } = plain;
  await expect(opened({ endpoints, files })).rejects.toThrow(/start it with --max-request-bytes=8388608/);
  await plain.end();
});
