/** Which profile a machine boots, by the inventory that it reported, and when that may change. */
import { expect, test } from 'vitest';
import { acceptMachine } from '../../../../src/machines/accept.ts';
import { readInventory } from '../../../../src/machines/inventory.ts';
import { document, IMAGE, MAC1, machine, NETWORK, type World, world } from './world.ts';

const profile = (name: string, selector: object) => document('Profile', name, { image: 'debian', selector });
const FIRST = profile('first', { arch: 'x86_64' });
const BIG = profile('big', { arch: 'x86_64', inventory: { memory: { min: '64GiB' } } });
const DOCUMENTS = [NETWORK, IMAGE, BIG, machine('node-1', [MAC1])];
const memory = (gib: number) => readInventory(`cpu threads 8\nmemory ${gib * 2 ** 20}\n`)!;

const boots = async (w: World) => {
  const { decision } = await w.powerOn(MAC1);
  return decision.kind === 'script' ? decision.profile : `${decision.kind} ${decision.reason.code}`;
};
const step = (w: World, name: string) =>
  w.boot.explain({ machine: 'node-1' }).steps.find((one) => one.step === name)?.result;

test('a machine without inventory boots a profile that needs none, and then the one that its inventory selects', async () => {
  const w = await world([...DOCUMENTS, FIRST]);
  expect(await boots(w)).toBe('first');
  expect(step(w, 'inventory')).toBe('not reported yet; once it is, big may select the machine');
  await w.inventories.take('node-1', memory(64));
  expect(step(w, 'profile')).toBe('big (selected by arch=x86_64, inventory.memory.min=64GiB)');
  expect(w.ask({ mac: MAC1, stage: 'ipxe' }).decision).toMatchObject({ kind: 'script', profile: 'big' });
  expect(await boots(w)).toBe('big');
});

test('a machine that only an inventory could select is held until it reports one', async () => {
  const w = await world(DOCUMENTS);
  expect(await boots(w)).toBe('hold no_inventory');
  const { decision, remedy } = w.boot.explain({ machine: 'node-1' });
  expect(decision.reason.text).toContain('(big)');
  expect(remedy).toContain('muster machine accept node-1 --profile PROFILE');
  await w.inventories.take('node-1', memory(32));
  expect(await boots(w)).toBe('hold no_profile');
  await w.inventories.take('node-1', memory(64));
  expect(await boots(w)).toBe('big');
});

test('a machine that lost or won parts keeps its profile until it is accepted again', async () => {
  for (const [before, after, kept, next] of [
    [64, 32, 'big', 'first'],
    [32, 64, 'first', 'big'],
  ] as const) {
    const w = await world([...DOCUMENTS, FIRST]);
    await w.inventories.take('node-1', memory(before));
    expect(await boots(w)).toBe(kept);
    await w.inventories.take('node-1', memory(after));
    expect(await boots(w)).toBe(kept);
    const restarted = await w.restart();
    expect(await boots(restarted)).toBe(kept);
    expect(step(restarted, 'inventory')).toMatch(
      new RegExp(
        `when it booted; it changed at .*: by it the machine would have ${next}; .muster machine accept`,
      ),
    );
    await acceptMachine(restarted, 'node-1');
    expect(await boots(restarted)).toBe(next);
    expect(step(restarted, 'inventory')).toMatch(/^as reported at .*, when it booted$/);
  }
});

test('a profile that the document names is taken whatever the machine reports', async () => {
  const w = await world([...DOCUMENTS.slice(0, 3), FIRST, machine('node-1', [MAC1], { profile: 'first' })]);
  await w.inventories.take('node-1', memory(64));
  expect(await boots(w)).toBe('first');
  expect(step(w, 'inventory')).toBeUndefined();
});

test('the inventory of a machine without a document gets it nothing', async () => {
  const w = await world(DOCUMENTS.slice(0, 3));
  expect(await boots(w)).toBe('hold unknown_machine');
  await w.inventories.take('m-525400aa0001', memory(64));
  expect(await boots(w)).toBe('hold unknown_machine');
});
