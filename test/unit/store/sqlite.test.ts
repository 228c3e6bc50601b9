import { existsSync } from 'node:fs';
import { chmod, copyFile, mkdir, readFile, rm, stat, writeFile } from 'node:fs/promises';
import { join } from 'node:path';
import { DatabaseSync } from 'node:sqlite';
import { Worker } from 'node:worker_threads';
import { afterEach, beforeEach, describe, expect, test } from 'vitest';
import type { MusterError } from '../../../src/base/errors.ts';
import { createMetrics } from '../../../src/base/metrics.ts';
import { FORMAT } from '../../../src/store/sqlite-format.ts';
import type { Store } from '../../../src/store/store.ts';
import type { StoreThreadData, ThreadRequest } from '../../../src/store/wire.ts';
import { codeOf, openAt, take, temporaryDirectory } from './stores.ts';

const never = new AbortController().signal;
let directory: string;
let path: string;
beforeEach(async () => {
  directory = await temporaryDirectory();
  path = join(directory, 'store.sqlite');
});
afterEach(() => rm(directory, { recursive: true, force: true }));

describe('a store file', () => {
  test('keeps records, revision and history when it is opened again', async () => {
    const first = await openAt(path);
    await first.commit([{ key: 'a', put: '1' }]);
    await first.commit([
      { key: 'a', put: '2' },
      { key: 'b', put: '1' },
    ]);
    await first.commit([{ key: 'b', delete: true }]);
    const before = await first.list('');
    const history = await take(first.watch('', 0, never), 4);
    await first.close();
    const second = await openAt(path);
    expect(await second.list('')).toEqual(before);
    expect(await take(second.watch('', 0, never), 4)).toEqual(history);
    expect(await second.commit([{ key: 'c', put: '1' }])).toEqual({ ok: true, revision: 4 });
    await second.close();
  });

  test('keeps its revision when all records are deleted and the history is compacted', async () => {
    const first = await openAt(path);
    await first.commit([{ key: 'a', put: '1' }]);
    await first.commit([{ key: 'a', delete: true }]);
    await first.compact(2);
    await first.close();
    const second = await openAt(path);
    expect(await second.list('')).toEqual({ records: [], revision: 2 });
    expect(await codeOf(take(second.watch('', 1, never), 1))).toBe('E_STORE_COMPACTED');
    await second.close();
  });

  test('can be read only by its owner', async () => {
    const store = await openAt(path);
    await store.commit([{ key: 'a', put: '1' }]);
    for (const name of [path, `${path}-wal`]) expect((await stat(name)).mode & 0o777).toBe(0o600);
    await store.close();
  });

  test('contains each record and the history, and no forgotten changes', async () => {
    const keys = 3000;
    const kept = 1000;
    const store = await openAt(path, { keptRevisions: kept });
    for (let i = 0; i < 5; i++)
      await Promise.all(
        Array.from({ length: keys }, (_, k) => store.commit([{ key: `k${k}`, put: `${i}` }])),
      );
    await Promise.all(Array.from({ length: keys }, (_, k) => store.commit([{ key: `k${k}`, delete: true }])));
    await store.compact(keys * 6);
    await store.commit([{ key: 'last', put: '1' }]);
    await store.close();
    const db = new DatabaseSync(path, { readOnly: true });
    expect(db.prepare('SELECT count(*) AS n FROM change').get()).toEqual({ n: 1 });
    expect(db.prepare('SELECT count(*) AS n FROM record').get()).toEqual({ n: 1 });
    db.close();
  });

  test('does not grow with records that are written over and over', async () => {
    const keys = 3000;
    const kept = 1000;
    const store = await openAt(path, { keptRevisions: kept });
    for (let i = 0; i < 6; i++)
      await Promise.all(
        Array.from({ length: keys }, (_, k) => store.commit([{ key: `k${k}`, put: 'x'.repeat(300) }])),
      );
    await store.close();
    const db = new DatabaseSync(path, { readOnly: true });
    const { n } = db.prepare('SELECT count(*) AS n FROM change').get() as { n: number };
    expect(n).toBeLessThan(keys + kept + 2048);
    db.close();
  });

  test('bounds its history by the size of the values too', async () => {
    const value = 'x'.repeat(1024 * 1024);
    const write = async (store: Store, count: number) => {
      for (let i = 0; i < count; i++) await store.commit([{ key: 'big', put: value }]);
      await store.close();
    };
    // Opened twice: the second process counts the history that the first one left.
    await write(await openAt(path), 50);
    await write(await openAt(path), 50);
    const store = await openAt(path);
    expect(await codeOf(take(store.watch('', 1, never), 1))).toBe('E_STORE_COMPACTED');
    await store.close();
    expect((await stat(path)).size).toBeLessThan(90 * 1024 * 1024);
  });

  test('can be opened by one server at a time', async () => {
    const store = await openAt(path);
    expect(await codeOf(openAt(path))).toBe('E_STORE_IN_USE');
    expect((await store.commit([{ key: 'a', put: '1' }])).ok).toBe(true);
    await store.close();
    await (await openAt(path)).close();
  });
});

describe('opening', () => {
  test('refuses a newer store and does not change it', async () => {
    const store = await openAt(path);
    await store.commit([{ key: 'a', put: '1' }]);
    await store.close();
    const db = new DatabaseSync(path);
    db.exec(`PRAGMA user_version = ${FORMAT + 1}`);
    db.close();
    const before = await readFile(path);
    expect(await codeOf(openAt(path))).toBe('E_STORE_NEWER');
    expect((await readFile(path)).equals(before)).toBe(true);
  });

  test("refuses another program's SQLite file, a text file, and a damaged store", async () => {
    const db = new DatabaseSync(path);
    db.exec('CREATE TABLE other(x)');
    db.close();
    expect(await codeOf(openAt(path))).toBe('E_STORE_DAMAGED');
    await writeFile(path, 'not a database, and long enough to be read as a header of one'.repeat(100));
    expect(await codeOf(openAt(path))).toBe('E_STORE_DAMAGED');
    await rm(path);
    const store = await openAt(path);
    for (let i = 0; i < 50; i++) await store.commit([{ key: `k${i}`, put: 'x'.repeat(500) }]);
    await store.close();
    const bytes = await readFile(path);
    await writeFile(path, bytes.fill(0x5a, 100, 4096 * 3));
    expect(await codeOf(openAt(path))).toBe('E_STORE_DAMAGED');
  });

  test('names the path when its directory is missing or it is a directory', async () => {
    await expect(openAt(join(directory, 'missing', 'x'))).rejects.toMatchObject({
      code: 'E_STORE_OPEN',
      message: expect.stringContaining('missing'),
    });
    await mkdir(path);
    expect(await codeOf(openAt(path))).toBe('E_STORE_OPEN');
  });

  test('recovers the log that a killed server left', async () => {
    const store = await openAt(path);
    for (let i = 0; i < 50; i++) await store.commit([{ key: `k${i}`, put: `${i}` }]);
    const killed = join(directory, 'killed.sqlite');
    await copyFile(path, killed);
    await copyFile(`${path}-wal`, `${killed}-wal`);
    await store.close();
    // A power cut may leave a partly written commit at the end of the log, which was never
    // acknowledged.
    await writeFile(`${killed}-wal`, Buffer.alloc(3000, 7), { flag: 'a' });
    await chmod(killed, 0o600);
    const again = await openAt(killed);
    expect((await again.list('')).revision).toBe(50);
    await again.close();
  });
});

describe('a full disk', () => {
  const mebibyte = 'x'.repeat(1024 * 1024);
  /** The pages of a small store, plus 3 MiB. */
  const maxPages = 800;

  test('fails the commit that does not fit; other commits and existing records stay', async () => {
    const store = await openAt(path, { maxPages });
    await store.commit([{ key: 'before', put: '1' }]);
    const big = Array.from({ length: 6 }, (_, i) => ({ key: `big${i}`, put: mebibyte }));
    const [small, large, other, conflict] = await Promise.allSettled([
      store.commit([{ key: 'small', put: '1' }]),
      store.commit(big),
      store.commit([{ key: 'other', put: '1' }]),
      store.commit([{ key: 'before', put: '2', expect: 'absent' }]),
    ]);
    expect(small.status).toBe('fulfilled');
    expect(large).toMatchObject({ status: 'rejected', reason: { code: 'E_STORE_WRITE' } });
    expect(other.status).toBe('fulfilled');
    expect(conflict).toMatchObject({ status: 'fulfilled', value: { ok: false } });
    const { records, revision } = await store.list('');
    expect(records.map((record) => record.key)).toEqual(['before', 'other', 'small']);
    expect(revision).toBe(3);
    expect((await take(store.watch('', 0, never), 3)).flat().map((change) => change.revision)).toEqual([
      1, 2, 3,
    ]);
    await store.close();
  });

  test('fails many large commits of a group, and the small one after them succeeds', async () => {
    const store = await openAt(path, { maxPages });
    const large = 'x'.repeat(500_000);
    for (let i = 0; i < 6; i++) await store.commit([{ key: `filler${i}`, put: large }]);
    const group = [
      ...Array.from({ length: 7 }, (_, i) => [{ key: `large${i}`, put: large }]),
      [{ key: 'lease/rack/10.77.0.20', put: '{}' }],
    ];
    const codes = await Promise.all(group.map((writes) => codeOf(store.commit(writes))));
    expect(codes).toEqual([...Array.from({ length: 7 }, () => 'E_STORE_WRITE'), 'fulfilled']);
    await store.close();
  });

  test('does not lose acknowledged commits, and commits succeed again once there is room', async () => {
    const store = await openAt(path, { maxPages });
    const acknowledged: string[] = [];
    let refused = 0;
    for (let i = 0; i < 20; i++) {
      const code = await codeOf(store.commit([{ key: `k${i}`, put: mebibyte }]));
      if (code === 'fulfilled') acknowledged.push(`k${i}`);
      else expect(code).toBe('E_STORE_WRITE');
      if (code !== 'fulfilled') refused++;
    }
    expect(acknowledged.length).toBeGreaterThan(0);
    expect(refused).toBeGreaterThan(0);
    const { records, revision } = await store.list('');
    expect(records.map((record) => record.key)).toEqual(acknowledged.toSorted());
    // Deleting and compacting makes room inside the file.
    await store.commit(acknowledged.map((key) => ({ key, delete: true as const })));
    await store.compact(revision + 1);
    expect(await codeOf(store.commit([{ key: 'fits', put: mebibyte }]))).toBe('fulfilled');
    await store.close();
  });

  test('is counted in the metrics, and logged once when it begins and once when it ends', async () => {
    const lines: string[] = [];
    const line = (level: string) => (_: object, message: string) => void lines.push(`${level} ${message}`);
    const log = {
      debug() {},
      info: line('info'),
      warn: line('warn'),
      error: line('error'),
      child: () => log,
      isLevelEnabled: () => false,
    };
    const metrics = createMetrics();
    const store = await openAt(path, { maxPages, log, metrics });
    const big = [1, 2, 3, 4, 5].map((i) => ({ key: `${i}`, put: mebibyte }));
    for (let i = 0; i < 5; i++) await codeOf(store.commit(big));
    await store.commit([{ key: 'small', put: '1' }]);
    await store.commit([{ key: 'small', put: '1', expect: 'absent' }]);
    await store.close();
    expect(lines).toEqual(['error the store cannot write', 'info the store can write again']);
    const text = await metrics.text();
    expect(text).toContain('muster_store_commits_total{outcome="failed"} 5');
    expect(text).toContain('muster_store_commits_total{outcome="committed"} 1');
    expect(text).toContain('muster_store_commits_total{outcome="conflict"} 1');
    expect(text).toContain('muster_store_commit_seconds_count 7');
  });
});

test('commits are collected while a group is written; a second group is sent only when it has enough commits', async () => {
  const posted: number[] = [];
  const gate = Promise.withResolvers<void>();
  const store = await openAt(path, {
    startThread: (workerData) => {
      const thread = new Worker(new URL('../../../src/store/sqlite-thread.files.ts', import.meta.url), {
        workerData,
      });
      const post = thread.postMessage.bind(thread);
      thread.postMessage = (request: ThreadRequest) => {
        // one write each: its number, key, value, expectation
        posted.push(request.commits.length / 4);
        void gate.promise.then(() => post(request));
      };
      return thread;
    },
  });
  const results: Promise<unknown>[] = [];
  const commitInTurns = async (count: number) => {
    for (let n = 0; n < count; n++) {
      results.push(store.commit([{ key: `key/${results.length}`, put: '1' }]));
      await new Promise((resolve) => setImmediate(resolve));
    }
  };
  await commitInTurns(20);
  expect(posted).toEqual([1]);
  await commitInTurns(60);
  expect(posted).toEqual([1, 64]);
  gate.resolve();
  await Promise.all(results);
  expect(posted.reduce((sum, one) => sum + one)).toBe(80);
  await store.close();
  expect(posted.length).toBeLessThan(6);
});

describe('a store whose thread fails', () => {
  let threads: Worker[];
  const startThread = (workerData: StoreThreadData) => {
    const thread = new Worker(new URL('../../../src/store/sqlite-thread.files.ts', import.meta.url), {
      workerData,
    });
    threads.push(thread);
    return thread;
  };
  const open = (more: { readonly broken?: (error: MusterError) => void } = {}): Promise<Store> => {
    threads = [];
    return openAt(path, { startThread, ...more });
  };

  test('replaces it: running commits fail with E_STORE_UNSURE, later ones succeed, and no acknowledged commit is lost', async () => {
    const store = await open();
    const acknowledged = new Set<string>();
    const codes = new Map<string, number>();
    const write = async (key: string) => {
      const code = await codeOf(store.commit([{ key, put: '1' }]));
      codes.set(code, (codes.get(code) ?? 0) + 1);
      if (code === 'fulfilled') acknowledged.add(key);
    };
    for (let round = 0; round < 2; round++) {
      await write(`${round}/first`);
      const under = Array.from({ length: 5000 }, (_, i) => write(`${round}/${i}`));
      await new Promise((resolve) => setImmediate(resolve));
      void threads.at(-1)!.terminate();
      await Promise.all(under);
    }
    await write('last');
    expect(threads.length).toBe(3);
    expect([...codes.keys()].toSorted()).toEqual(['E_STORE_UNSURE', 'fulfilled']);
    const there = new Set((await store.list('')).records.map((record) => record.key));
    for (const key of acknowledged) expect(there).toContain(key);
    await store.close();
  });

  test('continues its watches without a gap', async () => {
    const store = await open();
    const abort = new AbortController();
    const seen: number[] = [];
    const watching = (async () => {
      for await (const batch of store.watch('', 0, abort.signal)) {
        seen.push(...batch.map((change) => change.revision));
        if (batch.some((change) => change.key === 'last')) abort.abort();
      }
    })();
    const under = Array.from({ length: 5000 }, (_, i) => codeOf(store.commit([{ key: `${i}`, put: '1' }])));
    await under[0];
    void threads[0]!.terminate();
    await Promise.all(under);
    const last = await store.commit([{ key: 'last', put: '1' }]);
    await watching;
    expect(seen).toEqual(Array.from({ length: last.ok ? last.revision : 0 }, (_, i) => i + 1));
    await store.close();
  });

  test('gives up when threads fail repeatedly, and rejects all requests', async () => {
    const broken: MusterError[] = [];
    const store = await open({ broken: (error) => broken.push(error) });
    const ended = take(store.watch('', 0, never), 1);
    for (let i = 0; i < 3; i++) {
      await threads.at(-1)!.terminate();
      if (i < 2) await store.list('');
    }
    expect(await codeOf(store.commit([{ key: 'a', put: '1' }]))).toBe('E_STORE_CLOSED');
    expect(await codeOf(store.list(''))).toBe('E_STORE_CLOSED');
    expect(await ended).toEqual([]);
    expect(broken.map(({ code }) => code)).toEqual(['E_STORE_CLOSED']);
    await store.close();
    expect(existsSync(path)).toBe(true);
  });

  /** A store whose first thread executes its nth group and dies before it answers. */
  const openDying = (nth: number): Promise<Store> => {
    const url = new URL('../../../src/store/sqlite-thread.files.ts', import.meta.url).href;
    const dying = `
      const { parentPort } = require('node:worker_threads');
      const post = parentPort.postMessage.bind(parentPort);
      let groups = 0;
      parentPort.postMessage = (message) => {
        if ('outcomes' in message && ++groups === ${nth}) process.exit(1);
        post(message);
      };
      import(${JSON.stringify(url)});`;
    threads = [];
    return openAt(path, {
      startThread: (workerData) => {
        if (threads.length > 0) return startThread(workerData);
        const thread = new Worker(dying, { eval: true, workerData });
        threads.push(thread);
        return thread;
      },
    });
  };

  test('gives watchers the changes that the thread wrote but did not report', async () => {
    const store = await openDying(2);
    const watch = take(store.watch('', 0, never), 3);
    expect(await codeOf(store.commit([{ key: 'reported', put: '1' }]))).toBe('fulfilled');
    expect(await codeOf(store.commit([{ key: 'not reported', put: '1' }]))).toBe('E_STORE_UNSURE');
    expect(await store.commit([{ key: 'after', put: '1' }])).toEqual({ ok: true, revision: 3 });
    expect((await watch).flat().map((change) => change.key)).toEqual(['reported', 'not reported', 'after']);
    await store.close();
  });

  test('answers reads that were running', async () => {
    const store = await openDying(2);
    await store.commit([{ key: 'a', put: '1' }]);
    expect((await store.list('')).records).toHaveLength(1);
    expect(threads).toHaveLength(2);
    await store.close();
  });

  test('closes although the thread dies during the close', async () => {
    const store = await openDying(2);
    await store.commit([{ key: 'a', put: '1' }]);
    await store.close();
    expect(threads).toHaveLength(2);
    await (await openAt(path)).close();
  });

  test('closes although the thread ends when the close is requested', async () => {
    const store = await open();
    const commit = codeOf(store.commit([{ key: 'a', put: '1' }]));
    const closed = store.close();
    void threads[0]!.terminate();
    await closed;
    expect(['fulfilled', 'E_STORE_UNSURE']).toContain(await commit);
  });
});
