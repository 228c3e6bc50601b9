/**
 * The store on a real file system that is full or read-only: a small tmpfs in this process's mount
 * namespace.
 */
import { execFileSync } from 'node:child_process';
import { mkdirSync, rmSync, statfsSync, writeFileSync } from 'node:fs';
import { afterAll, beforeAll, expect, test } from 'vitest';
import { MAX_COMMIT_BYTES, type Store } from '../../src/store/store.ts';
import { codeOf, openAt } from '../unit/store/stores.ts';

const MOUNT = '/run/muster-store-test';
const FILLER = `${MOUNT}/filler`;
const mebibyte = 'x'.repeat(1024 * 1024);
let store: Store;

beforeAll(async () => {
  mkdirSync(MOUNT);
  execFileSync('mount', ['-t', 'tmpfs', '-o', 'size=16m', 'tmpfs', MOUNT]);
  store = await openAt(`${MOUNT}/store.sqlite`);
});
afterAll(async () => {
  await store.close();
  execFileSync('umount', [MOUNT]);
});

/** Fills the rest of the file system. */
function fill(): void {
  const { bavail, bsize } = statfsSync(MOUNT);
  writeFileSync(FILLER, Buffer.alloc(Number(bavail) * Number(bsize)));
}

test('on a full disk commits fail with E_STORE_WRITE and reads work; freed room is used without a restart', async () => {
  await store.commit([{ key: 'before', put: '1' }]);
  fill();
  const codes = await Promise.all(
    Array.from({ length: 40 }, (_, i) => codeOf(store.commit([{ key: `full/${i}`, put: mebibyte }]))),
  );
  expect(new Set(codes)).toEqual(new Set(['E_STORE_WRITE']));
  expect((await store.list('')).records.map((record) => record.key)).toEqual(['before']);
  rmSync(FILLER);
  expect(await codeOf(store.commit([{ key: 'after', put: mebibyte }]))).toBe('fulfilled');
  expect((await store.list('')).records.map((record) => record.key)).toEqual(['after', 'before']);
});

test('commits that were acknowledged before the disk was full are there when the store is opened again', async () => {
  const acknowledged: string[] = [];
  let refused = 0;
  for (let i = 0; i < 40; i++) {
    if ((await codeOf(store.commit([{ key: `k${i}`, put: mebibyte }]))) === 'fulfilled')
      acknowledged.push(`k${i}`);
    else refused++;
  }
  expect(acknowledged.length).toBeGreaterThan(2);
  expect(refused).toBeGreaterThan(2);
  await store.close();
  store = await openAt(`${MOUNT}/store.sqlite`);
  expect((await store.list('k')).records.map((record) => record.key)).toEqual(acknowledged.toSorted());
});

test('small commits, such as leases, still fit where a large one does not', async () => {
  const values = MAX_COMMIT_BYTES / mebibyte.length;
  const large = Array.from({ length: values }, (_, i) => ({ key: `large/${i}`, put: mebibyte }));
  const codes = await Promise.all([
    codeOf(store.commit(large)),
    codeOf(store.commit([{ key: 'lease/rack/10.77.0.20', put: '{"v":1}' }])),
  ]);
  expect(codes).toEqual(['E_STORE_WRITE', 'fulfilled']);
});
