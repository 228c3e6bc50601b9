/** What a machine boots with by the inventory that it reported, and when that may change. */
import { expect, test } from 'vitest';
import { previewAgents } from '../../../../src/agent/serve/agents.ts';
import { AGENT_PATHS } from '../../../../src/agent/wire/plan.ts';
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

const CLUSTER = document('Cluster', 'blue', {
  dataDisk: { transport: 'nvme', choose: 'largest', encrypt: 'tpm' },
  kubernetes: { version: '1.36', endpoint: '10.77.0.210', controlPlanes: ['node-1'] },
});
const NAMED = machine('node-1', [MAC1], { profile: 'first', addresses: ['10.77.0.11'] });
const disks = (...sizes: readonly number[]) =>
  readInventory(
    sizes
      .map((gb, n) => `disk NAME="nvme${n}n1" SIZE="${gb}000000000" TRAN="nvme" SERIAL="S${n}"\n`)
      .join(''),
  )!;
const dataOf = (w: World) => {
  const { files = [] } = w.boot.render('node-1').merged;
  return /^data=(.*)$/m.exec(String(files.find((file) => file.path === AGENT_PATHS.settings)?.content))?.[1];
};

test('a data disk is chosen by inventory once, and stays although a better one appears, until the machine is accepted', async () => {
  const w = await world([NETWORK, IMAGE, FIRST, CLUSTER, NAMED], {
    agents: async (parts) => previewAgents(parts),
  });
  expect(await boots(w)).toBe('first');
  expect(dataOf(w)).toBe('serial=not-chosen-yet');
  expect(w.boot.undecidedDisk('node-1')).toBe('the machine has not reported its inventory yet');
  await w.inventories.take('node-1', memory(8));
  expect(w.boot.undecidedDisk('node-1')).toMatch(
    /^no disk of its inventory fits .*accept node-1. takes a later one$/,
  );
  expect(step(w, 'data disk')).toMatch(/^not chosen: no disk/);
  expect(await boots(w)).toBe('first');
  await w.inventories.take('node-1', disks(480, 960));
  expect(w.boot.undecidedDisk('node-1')).toBeUndefined();
  expect(dataOf(w)).toBe('serial=S1');
  expect(await boots(w)).toBe('first');
  await w.inventories.take('node-1', disks(480, 960, 1920));
  expect(dataOf(w)).toBe('serial=S1');
  expect(step(w, 'data disk')).toMatch(/^S1 \(chosen from the inventory of .*, where it is nvme1n1\)$/);
  await acceptMachine(w, 'node-1');
  expect(dataOf(w)).toBe('serial=S2');
});

test('a machine that has its data on a disk stays there, whatever it reports, also after it is accepted again', async () => {
  let has: string | undefined;
  const w = await world([NETWORK, IMAGE, FIRST, CLUSTER, NAMED], {
    agents: async (parts) => previewAgents(parts),
    dataDiskOf: () => has,
  });
  await w.inventories.take('node-1', disks(480, 960));
  await boots(w);
  has = 'serial=S0';
  expect(dataOf(w)).toBe('serial=S0');
  await acceptMachine(w, 'node-1');
  await w.inventories.take('node-1', disks(0));
  expect(dataOf(w)).toBe('serial=S0');
  expect(step(w, 'data disk')).toBe('S0 (it has the data of the machine)');
  // A machine reports the selector, and could write another setting in it.
  has = 'serial=S0\nserver=https://192.0.2.1';
  await w.inventories.take('node-1', disks(480, 960));
  expect(dataOf(w)).toBe('serial=S1');
});
