/** The life of a store: restored, accepted, superseded. */
import { expect, test } from 'vitest';
import { ManualClock } from '../../../src/base/clock.ts';
import { silentLog } from '../../../src/base/log.ts';
import { KEYS } from '../../../src/store/keys.ts';
import { beginLife, lifeRevision, openLife, partsOf } from '../../../src/store/life.ts';
import { openMemoryStore } from '../../../src/store/memory.ts';

const world = async (store = openMemoryStore()) => {
  const clock = new ManualClock();
  return { store, clock, life: await openLife({ store, clock, log: silentLog }) };
};

test('a store that was never restored serves, and its numbers are its revisions', async () => {
  const { life } = await world();
  expect(life).toMatchObject({ number: 0, state: 'usual', detail: undefined });
  expect(await life.seen('m1', lifeRevision(0, 5_000_000))).toBe('usual');
  expect(lifeRevision(0, 17)).toBe(17);
  expect(partsOf(lifeRevision(99_999, 9_999_999_999))).toEqual({ life: 99_999, revision: 9_999_999_999 });
  expect(String(lifeRevision(99_999, 9_999_999_999))).toHaveLength(15);
});

test('a restored store waits for an operator, and says which machines have seen more', async () => {
  const { store, clock } = await world();
  await store.commit([{ key: 'x', put: '1' }]);
  expect(await beginLife(store, 1000, clock.now())).toBe(1);
  const { life } = await world(store);
  expect(life.state).toBe('restored');
  expect(life.detail).toContain('no machine has reported a later state yet');
  expect(await life.seen('m2', lifeRevision(0, 1))).toBe('restored');
  expect(life.detail).toContain('no machine');
  await life.seen('m1', lifeRevision(0, 900));
  expect(life.detail).toContain('m1 have seen later states');
  await life.accept();
  expect(life).toMatchObject({ number: 1, state: 'usual', detail: undefined });
  expect((await world(store)).life.state).toBe('usual');
});

test('a machine that has seen a later life ends this one, also after a restart, until an operator decides', async () => {
  const { store, life } = await world();
  let told = 0;
  life.onSuperseded(() => told++);
  expect(await life.seen('m1', lifeRevision(1, 3))).toBe('superseded');
  expect(await life.seen('m1', lifeRevision(1, 4))).toBe('superseded');
  expect(told).toBe(1);
  const again = (await world(store)).life;
  expect(again.state).toBe('superseded');
  expect(again.detail).toContain('m1 has seen a later life');
  await again.accept();
  expect(again).toMatchObject({ number: 2, state: 'usual' });
});

test('a record that is not understood does not make the store serve', async () => {
  const { store } = await world();
  await store.commit([{ key: KEYS.life.key(), put: '{"v":9}' }]);
  expect((await world(store)).life.state).toBe('superseded');
});
