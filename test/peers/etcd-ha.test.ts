import { afterAll, beforeAll, expect, test } from 'vitest';
import { openRack, type Rack } from './etcd/rack.ts';

let rack: Rack;
beforeAll(async () => {
  rack = await openRack();
});
afterAll(() => rack.close());

test('three machines powered on together found one etcd', async () => {
  await Promise.all(rack.all.map((machine) => machine.powerOn()));
  await rack.healthy();
  expect((await rack.founding()).record?.openedBy).toBe('all-asked');
});
