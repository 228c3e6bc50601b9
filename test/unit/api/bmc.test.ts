/** Muster's own accounts on BMCs, through the command line, the API and roles. */
import { afterEach, beforeEach, expect, test } from 'vitest';
import { millis, seconds, toMillis } from '../../../src/base/duration.ts';
import { ipv4 } from '../../../src/base/ipv4.ts';
import type { Mac } from '../../../src/base/mac.ts';
import { readInventory } from '../../../src/machines/inventory.ts';
import type { Lease } from '../../../src/pxe/dhcp/lease.ts';
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
/** Whence services were searched for, and what answers. */
let searched: readonly string[];
const SERVICES = [
  { sender: '10.78.0.2', uuid: 'a', location: 'https://10.78.0.2/redfish/v1/' },
  { sender: '10.78.0.77', uuid: 'b', location: 'https://10.66.6.6/redfish/v1/', elsewhere: true },
] as const;
beforeEach(async () => {
  bmcs = [new MemoryBmc(), new MemoryBmc(), new MemoryBmc()];
  const all = new Map(bmcs.map((bmc, n) => [`10.78.0.${n + 1}`, bmc]));
  world = await openWorld(ALL, {
    bmcs: bmcsOf(all),
    https: true,
    searchRedfish: async (from) => {
      searched = from;
      return SERVICES;
    },
  });
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

test('a BMC is followed by its MAC address: to its lease, and to what its agent says', async () => {
  const mac = '52:54:00:cc:00:09' as Mac;
  const named = (sha256: string) => `---
apiVersion: muster/v1
kind: Machine
metadata: {name: m9}
spec: {macs: ["52:54:00:bb:00:09"], profile: given, bmc: {mac: "${mac}", certificate: {sha256: ${sha256}}}}
`;
  const apply = (body: string) => world.client.call('POST', '/v1/apply', { body });
  const status = async () => (await muster('power', 'status', 'm9')).out;
  await apply(named(bmcs[2]!.pin));
  expect(await status()).toMatch(/m9 +unknown .*nobody has a lease of 52:54:00:cc:00:09/);
  const now = world.clock.now();
  const leased = (state: Lease['state']) =>
    world.leases.write({
      ...{ kind: 'write', network: 'rack', address: ipv4('10.78.0.3'), writes: [] },
      lease: { v: 1, mac, state, since: now, expires: millis(now + 1e9) },
    });
  await leased('bound');
  expect(await status()).toMatch(/m9 +off/);
  // What the discovery system claims counts for nothing here, what the agent says does.
  await leased('released');
  await world.inventories.claim('m9', readInventory('cpu threads 4\nbmc 10.78.0.3\n')!);
  expect(await status()).toMatch(/m9 +unknown/);
  await world.inventories.take('m9', readInventory('cpu threads 4\nbmc 10.78.0.3\n')!);
  expect(await status()).toMatch(/m9 +off/);
  await apply(named('e'.repeat(64)));
  expect(await status()).toMatch(/m9 +unknown .*another certificate/);
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

test('a BMC that asked for an address is listed, beside the machine whose document names it', async () => {
  const [own, strange] = ['52:54:00:cc:00:02', '52:54:00:cc:00:77'] as Mac[];
  world.sightings.saw({ mac: own!, vendorClass: 'iDRAC' }, 'lan');
  world.sightings.saw({ mac: strange!, vendorClass: 'CPQRIB3' }, 'lan');
  world.sightings.saw({ mac: '52:54:00:cc:00:78' as Mac, vendorClass: 'dhcpcd-9.4.1' }, 'lan');
  const now = world.clock.now();
  await world.leases.write({
    ...{ kind: 'write', network: 'lan', address: ipv4('10.78.0.2'), writes: [] },
    lease: { v: 1, mac: own!, state: 'bound', since: now, expires: millis(now + 1e9) },
  });
  const { out } = await muster('bmc', 'find');
  expect(out).toMatch(/m2 +10\.78\.0\.2 +52:54:00:cc:00:02 +Dell iDRAC +DHCP, .* names it/);
  expect(out).toMatch(/52:54:00:cc:00:77 +HPE iLO +DHCP, .* no document/);
  expect(out).not.toContain('cc:00:78');
  // What the machine itself reports has the vendor beside it, and no line of its own.
  await world.inventories.take('m2', readInventory('cpu threads 4\nbmc 10.78.0.2\n')!);
  const reported = (await muster('bmc', 'find', '-o', 'json')).out;
  const about = JSON.parse(reported).items.filter(({ machine }: { machine?: string }) => machine === 'm2');
  expect(about).toMatchObject([{ from: 'agent', vendor: 'Dell iDRAC', mac: own }]);
});

test('a search asks the segments once for whoever orders it, and shows what answers', async () => {
  const { out } = await muster('bmc', 'find', '--search');
  expect(searched).toEqual(['10.77.0.1']);
  expect(out).toMatch(/m2 +10\.78\.0\.2 .*SSDP, .* names it .*https:\/\/10\.78\.0\.2\/redfish\/v1\//);
  expect(out).toMatch(/10\.78\.0\.77 .*SSDP, .* no document .*https:\/\/10\.66\.6\.6\/\S+ \(another host\)/);
  expect(out).not.toContain('# in Machine');
  expect((await muster('bmc', 'find', '--search', '-l', 'rack=b')).err).toContain('has no labels');
  const ada = await operatorOf(world, 'ada', { role: 'viewer' });
  await expect(ada.call('POST', '/v1/bmcs/search', {})).rejects.toMatchObject({ code: 'E_FORBIDDEN' });
});
