import fs from 'node:fs';
import path from 'node:path';
import { afterEach, beforeEach, expect, test } from 'vitest';
import type { InventoryList } from '../../../src/api/operations/inventory.ts';
import { readInventory } from '../../../src/machines/inventory.ts';
import { run } from '../cli/run.ts';
import { openWorld, type World } from './world.ts';

let world: World;
beforeEach(async () => {
  world = await openWorld();
  const disk = 'disk NAME="sda" SIZE="480103981056" ROTA="0" TRAN="sata" SERIAL="S4XY" WWN="" MODEL="MZ7L"';
  const lines = `cpu threads 8\nmemory 16777216\ndmi product_name R640\n${disk}\nnic eno1 52:54:00:aa:00:01 1 10000 ixgbe\n`;
  await world.inventories.take('node-1', readInventory(lines)!);
  await world.inventories.take('gone', readInventory(lines)!);
});
afterEach(() => world.close());

test('inventories of machines that exist are listed, and one machine by any of its names', async () => {
  const { items } = await world.client.call<InventoryList>('GET', '/v1/inventory');
  expect(items.map(({ machine }) => machine)).toEqual(['node-1']);
  const query = { machine: '52:54:00:aa:00:01' };
  const one = await world.client.call<InventoryList>('GET', '/v1/inventory', { query });
  expect(one.items).toMatchObject([
    { machine: 'node-1', memoryBytes: 16 * 1024 ** 3, disks: [{ serial: 'S4XY' }] },
  ]);
  await expect(
    world.client.call('GET', '/v1/inventory', { query: { machine: 'gone' } }),
  ).rejects.toMatchObject({ code: 'E_NOT_FOUND' });
});

test('`muster get inventory` prints a line for each machine, and all parts of one', async () => {
  const list = await run(['get', 'inventory', '--socket', world.socket]);
  expect(list.out).toMatch(
    /^MACHINE +FROM +CPUS +MEMORY +DISKS +LINKS +PRODUCT\nnode-1 +agent +8 +16.0 GiB +sda:447GiB +1\/1 +R640\n$/,
  );
  const one = await run(['get', 'inventory', 'node-1', '--socket', world.socket]);
  expect(one.out).toContain('sda, 447 GiB, sata, MZ7L, serial S4XY');
  expect(one.out).toContain('eno1, 52:54:00:aa:00:01, link at 10000 Mbit/s, ixgbe');
  expect((await run(['get', 'inventory', 'node-9', '--socket', world.socket])).code).toBe(1);
});

test('a dry run and `diff` say which machines a selector gives another profile', async () => {
  const file = path.join(world.directory, 'selecting.yaml');
  const of = (kind: string, name: string, spec: string) =>
    `---\napiVersion: muster/v1\nkind: ${kind}\nmetadata: {name: ${name}}\nspec: ${spec}\n`;
  const big = (name: string, memory: string) =>
    of('Profile', name, `{boot: hold, selector: {inventory: {memory: {min: ${memory}}}}}`);
  const muster = async (...words: string[]) =>
    (await run([...words, '-f', file, '--socket', world.socket])).out;
  fs.writeFileSync(file, of('Machine', 'node-2', '{macs: ["52:54:00:aa:00:02"], profile: worker}'));
  expect(await muster('apply')).toBe('machine/node-2 created\n');
  await world.inventories.take('node-2', readInventory('cpu threads 8\nmemory 16777216\n')!);
  fs.writeFileSync(
    file,
    of('Machine', 'node-2', '{macs: ["52:54:00:aa:00:02"]}') + big('roomy', '16GiB') + big('huge', '64GiB'),
  );
  const says = 'profile worker becomes roomy at the next boot of node-2\n';
  expect(await muster('apply', '--dry-run')).toContain(says);
  expect(await muster('apply', '--dry-run')).not.toContain('huge at');
  expect(await muster('diff')).toContain(says);
  expect(await muster('apply')).not.toContain(says);
  expect(await muster('apply', '--dry-run')).not.toContain(' becomes ');
});
