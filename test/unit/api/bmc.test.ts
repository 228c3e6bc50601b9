/** Muster's own accounts on BMCs, through the command line, the API and roles. */
import { afterEach, beforeEach, expect, test } from 'vitest';
import { seconds, toMillis } from '../../../src/base/duration.ts';
import { readInventory } from '../../../src/machines/inventory.ts';
import { bmcsOf, MemoryBmc } from '../bmc/memory.ts';
import { run } from '../cli/run.ts';
import { DOCUMENTS, openWorld, operatorOf, type World } from './world.ts';

const machine = (n: number, profile: string) => `---
apiVersion: muster/v1
kind: Machine
metadata: {name: m${n}, labels: {rack: b}}
spec: {macs: ["52:54:00:bb:00:0${n}"], profile: ${profile}, bmc: {address: 10.78.0.${n}}}
`;
const profile = (name: string, more: string) => `---
apiVersion: muster/v1
kind: Profile
metadata: {name: ${name}}
spec: {image: small, bmc: {credentials: {user: root, password: {valueFrom: {secret: bmc, key: password}}${more}}}}
`;
const ALL = `${DOCUMENTS}${profile('managed', ', managed: alone')}${profile('given', '')}${machine(1, 'managed')}${machine(2, 'managed')}${machine(3, 'given')}`;

let world: World;
let bmcs: readonly MemoryBmc[];
let passing: NodeJS.Timeout;
beforeEach(async () => {
  bmcs = [new MemoryBmc(), new MemoryBmc(), new MemoryBmc()];
  const all = new Map(bmcs.map((bmc, n) => [`10.78.0.${n + 1}`, bmc]));
  world = await openWorld(ALL, { bmcs: bmcsOf(all), https: true });
  await world.client.call('PUT', '/v1/secrets/bmc/password', { body: 'right' });
  passing = setInterval(() => world.clock.advance(toMillis(seconds(1))), 5);
});
afterEach(async () => {
  clearInterval(passing);
  await world.close();
});
const muster = (...args: string[]) => run(args, { socket: world.socket });
const made = (...all: readonly MemoryBmc[]) =>
  expect.poll(() => all.every(({ own, off }) => own !== undefined && off.includes('root'))).toBe(true);

test('accounts are made without an order, where documents say so, and listed with their age', async () => {
  await made(bmcs[0]!, bmcs[1]!);
  expect(bmcs[2]!.own).toBeUndefined();
  const listed = await muster('bmc', 'ls');
  expect(listed.out).toMatch(/m1 +10\.78\.0\.1 redfish +muster +\S+ old/);
  expect(listed.out).toMatch(/m3 +10\.78\.0\.3 \w+ +root +the Secret's/);
  const events = world.deps.events.list({ subject: 'm1' }).filter(({ kind }) => kind === 'machine.bmc');
  expect(events.map(({ reason }) => reason?.code).sort()).toEqual(['account-made', 'log-in-off']);
});

test('an order replaces the passwords of a rack, and no answer has one', async () => {
  await made(bmcs[0]!, bmcs[1]!);
  const before = bmcs.map(({ own }) => own);
  const shown = await muster('bmc', 'rotate', 'm1', 'm2');
  expect([shown.code, shown.err]).toMatchObject([1, /Repeat it with --yes/]);
  expect(bmcs.map(({ own }) => own)).toEqual(before);
  const done = await muster('bmc', 'rotate', 'm1', 'm2', '--yes', '-o', 'json');
  expect(done.code).toBe(0);
  for (const n of [0, 1]) {
    expect(bmcs[n]!.own).not.toBe(before[n]);
    expect(done.out).not.toContain(bmcs[n]!.own);
  }
  expect((await muster('power', 'status', 'm1')).out).toMatch(/m1 +off/);
});

test('a BMC that refuses is named, and its machine keeps the password that works', async () => {
  await made(bmcs[0]!);
  bmcs[0]!.speaks = [];
  const failed = await muster('bmc', 'rotate', 'm1');
  expect(failed.code).toBe(1);
  expect(failed.out).toMatch(/m1 .*unreachable: nobody answers/);
  bmcs[0]!.speaks = ['redfish'];
  expect((await muster('power', 'status', 'm1')).out).toMatch(/m1 +off/);
});

test('a password of the operator is not replaced, and only administrators order it', async () => {
  const refused = await muster('bmc', 'rotate', 'm3');
  expect(refused.err).toContain('managed: beside');
  const ada = await operatorOf(world, 'ada', { role: 'operator' });
  await expect(
    ada.call('POST', '/v1/bmcs/rotate', { body: { json: { machines: ['m1'] } } }),
  ).rejects.toMatchObject({ code: 'E_FORBIDDEN' });
});

test('what machines report of their BMCs is listed beside their documents, with what to write', async () => {
  const reports = (name: string, address: string) =>
    world.inventories.take(name, readInventory(`cpu threads 4\nbmc ${address}\n`)!);
  await reports('m1', '10.78.0.1');
  await reports('m2', '10.78.0.99');
  await reports('node-1', '10.78.0.40');
  const found = await muster('bmc', 'find');
  expect(found.out).toMatch(/m1 +10\.78\.0\.1 .* names it/);
  expect(found.out).toMatch(/m2 +10\.78\.0\.99 .* names another/);
  expect(found.out).toMatch(/node-1 +10\.78\.0\.40 .* names none/);
  expect(found.out.split('\n\n')[1]).toBe('# in Machine node-1:\nspec:\n  bmc: {address: 10.78.0.40}\n');
  // It claims the BMC of another machine, so nobody is told to write that.
  await reports('node-1', '10.78.0.3');
  const claimed = await muster('bmc', 'find');
  expect(claimed.out).toMatch(/node-1 +10\.78\.0\.3 .* names none +m3/);
  expect(claimed.out).not.toContain('# in Machine');
  expect((await muster('bmc', 'find', '-l', 'rack=b')).out).not.toContain('node-1');
});
