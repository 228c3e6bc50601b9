/** How Muster reaches BMCs: protocol, trust, log-ins that are refused, one at a time. */
import { beforeEach, expect, test } from 'vitest';
import { ManualClock, systemClock } from '../../../src/base/clock.ts';
import { duration } from '../../../src/base/duration.ts';
import { silentLog } from '../../../src/base/log.ts';
import type { Mac } from '../../../src/base/mac.ts';
import { type Bmc, BmcFault } from '../../../src/bmc/bmc.ts';
import { type ConnectDeps, openConnections } from '../../../src/bmc/connect.ts';
import { type Around, type Reach, reachOf } from '../../../src/bmc/reach.ts';
import { openMemoryStore } from '../../../src/store/memory.ts';
import { bmcsOf, MemoryBmc, memoryVault } from './memory.ts';

let store: ReturnType<typeof openMemoryStore>;
let vault: ReturnType<typeof memoryVault>;
let bmc: MemoryBmc;
let bmcs: ReturnType<typeof bmcsOf>;
/** The value of each Secret by `secret/key`. */
let secrets: Map<string, { readonly value: Buffer; readonly since: number }>;

beforeEach(() => {
  store = openMemoryStore();
  vault = memoryVault();
  bmc = new MemoryBmc();
  bmcs = bmcsOf(new Map([['10.78.0.10', bmc]]));
  secrets = new Map([['bmc/password', { value: Buffer.from('right\n'), since: 1 }]]);
});

const credentials = { user: 'muster', password: { valueFrom: { secret: 'bmc', key: 'password' } } };
const reach = (more: Partial<Reach> = {}): Reach => ({
  ...{ address: '10.78.0.10', protocol: 'auto', credentials },
  ...more,
});
const open = (clock: ConnectDeps['clock'] = systemClock) => {
  const deps: ConnectDeps = {
    ...{ store, protocols: bmcs, log: silentLog, vault, clock },
    secret: (name, key) => secrets.get(`${name}/${key}`),
  };
  return openConnections(deps);
};
const read = (one: Bmc) => one.power();

const sha256 = 'b'.repeat(64);
const MAC = '52:54:00:cc:00:01' as Mac;

test('a Machine wins over its Profile, and that over the Network of the BMC', () => {
  const profile = { bmc: { protocol: 'redfish' as const, certificate: { sha256 } } };
  const network = { bmc: { credentials, protocol: 'ipmi' as const } };
  const around: Around = {
    profile,
    addressOf: () => undefined,
    networkOf: (address) => (address.startsWith('10.78.0.') ? network : undefined),
  };
  expect(reachOf({ bmc: { address: '10.78.0.10' } }, around)).toEqual({
    ...{ address: '10.78.0.10', credentials, protocol: 'redfish', certificate: { sha256 } },
  });
  const own = { address: '10.78.0.11', protocol: 'ipmi' as const, port: 6230 };
  expect(reachOf({ bmc: own }, around)).toMatchObject(own);
  expect(reachOf({ bmc: { address: '10.79.0.10' } }, around)).not.toHaveProperty('credentials');
  expect(reachOf({}, around)).toBeUndefined();
});

test('a BMC that is named by its MAC address is where that is now, and keeps what was learnt of it', async () => {
  let at: string | undefined;
  const around: Around = {
    profile: { bmc: { credentials } },
    addressOf: () => at,
    networkOf: () => undefined,
  };
  const certificate = { sha256: bmc.pin };
  const found = () => reachOf({ bmc: { mac: MAC, certificate } }, around)!;
  const connections = await open();
  await expect(connections.with('node-1', found(), read)).rejects.toThrow(`nobody has a lease of ${MAC}`);
  expect(bmcs.tried).toEqual([]);
  at = '10.78.0.10';
  expect(await connections.with('node-1', found(), read)).toBe('off');
  secrets.set('bmc/password', { value: Buffer.from('wrong'), since: 2 });
  const refused = { code: 'password' };
  for (let n = 0; n < 2; n++)
    await expect(connections.with('node-1', found(), read)).rejects.toMatchObject(refused);
  bmcs = bmcsOf(new Map([['10.78.0.44', bmc]]));
  at = '10.78.0.44';
  await expect((await open()).with('node-1', found(), read)).rejects.toMatchObject(refused);
  expect(bmcs.tried).toEqual([]);
});

test('whoever takes the lease of a BMC gets no password, neither by Redfish nor by IPMI', async () => {
  const connections = await open();
  const byMac = (more: Partial<Reach> = {}) => reach({ mac: MAC, ...more });
  const asked = (to: Reach) => connections.with('node-1', to, read);
  await expect(asked(byMac())).rejects.toThrow('name its `certificate`');
  await expect(asked(byMac({ certificate: { sha256 } }))).rejects.toMatchObject({ code: 'pin-changed' });
  await expect(asked(byMac({ certificate: { sha256 }, protocol: 'ipmi' }))).rejects.toThrow(
    'IPMI shows no certificate',
  );
  await expect(connections.hold('node-1', byMac({ certificate: { sha256 } }))).rejects.toThrow(
    'IPMI shows no certificate',
  );
  bmc.speaks = ['ipmi'];
  await expect(asked(byMac({ certificate: { sha256: bmc.pin } }))).rejects.toMatchObject({
    code: 'unreachable',
  });
  expect(bmcs.tried.filter((one) => one.startsWith('ipmi'))).toEqual([]);
});

test('Redfish is tried first, then IPMI, and what worked is remembered, also by the next server', async () => {
  bmc.speaks = ['ipmi'];
  const connections = await open();
  expect(await connections.with('node-1', reach(), read)).toBe('off');
  await (await open()).with('node-1', reach(), read);
  expect(bmcs.tried).toEqual([
    'redfish 10.78.0.10: muster',
    'ipmi 10.78.0.10: muster',
    'ipmi 10.78.0.10: muster',
  ]);
  // Another BMC was not tried yet.
  await expect(connections.with('node-1', reach({ address: '10.78.0.99' }), read)).rejects.toThrow('nobody');
  expect(bmcs.tried.at(-2)).toBe('redfish 10.78.0.99: muster');
});

test('a document may name protocol, port and system', async () => {
  await (await open()).with('node-1', reach({ protocol: 'redfish', port: 8443, system: 'node1' }), read);
  expect(bmcs.tried).toEqual(['redfish 10.78.0.10:8443 muster', 'system node1']);
});

test('a BMC with several machines is asked for none by IPMI, which cannot name one', async () => {
  bmc.systems = 2;
  const connections = await open();
  await expect(connections.with('node-1', reach(), read)).rejects.toThrow('2 systems');
  await expect(
    connections.with('node-1', reach({ system: 'b', address: '10.78.0.99' }), read),
  ).rejects.toThrow();
  expect(bmcs.tried.filter((one) => one.startsWith('ipmi'))).toEqual([]);
});

test('the first certificate counts from then on, and another one only after somebody said so', async () => {
  const connections = await open();
  await connections.with('node-1', reach(), read);
  expect(connections.known('node-1')?.pin).toBe(bmc.pin);
  bmc.pin = 'c'.repeat(64);
  const again = await open();
  await expect(again.with('node-1', reach(), read)).rejects.toMatchObject({ code: 'pin-changed' });
  await again.forget('node-1');
  expect(await again.with('node-1', reach(), read)).toBe('off');
});

test('a document may name the SHA-256 of the certificate, or the CA of it', async () => {
  const connections = await open();
  const wrong = reach({ certificate: { sha256: 'd'.repeat(64) } });
  await expect(connections.with('node-1', wrong, read)).rejects.toMatchObject({ code: 'pin-changed' });
  const ca = reach({ certificate: { ca: '-----BEGIN CERTIFICATE-----' } });
  expect(await connections.with('node-1', ca, read)).toBe('off');
});

test('a refused log-in is tried twice and then no more, until the Secret has another value', async () => {
  secrets.set('bmc/password', { value: Buffer.from('wrong'), since: 1 });
  for (let n = 0; n < 5; n++)
    await expect((await open()).with('node-1', reach(), read)).rejects.toMatchObject({ code: 'password' });
  expect(bmcs.tried).toHaveLength(2);
  secrets.set('bmc/password', { value: Buffer.from('right'), since: 2 });
  expect(await (await open()).with('node-1', reach(), read)).toBe('off');
});

test('the record of a BMC holds no password', async () => {
  await (await open()).with('node-1', reach(), read);
  expect(JSON.stringify(await store.list(''))).not.toContain('right');
});

test('without a Secret, or without credentials, nobody is asked', async () => {
  secrets.clear();
  const connections = await open();
  await expect(connections.with('node-1', reach(), read)).rejects.toThrow('muster secret put bmc password');
  const { credentials: _, ...without } = reach();
  await expect(connections.with('node-1', without, read)).rejects.toThrow('write spec.bmc.credentials');
  expect(bmcs.tried).toEqual([]);
});

test('one part of Muster at a time speaks with a BMC, and each session is closed', async () => {
  const connections = await open();
  let most = 0;
  const work = async (one: Bmc) => {
    most = Math.max(most, bmc.sessions);
    return await one.power();
  };
  bmc.fault = undefined;
  await Promise.all(
    ['node-1', 'node-2', 'node-3'].map((machine) => connections.with(machine, reach(), work)),
  );
  await expect(
    connections.with('node-1', reach(), () => Promise.reject(new Error('broken'))),
  ).rejects.toThrow('broken');
  expect([most, bmc.sessions]).toEqual([1, 0]);
});

test('a session of Redfish stays open for the next question, and is ended when nobody asks', async () => {
  const clock = new ManualClock();
  const connections = await open(clock);
  for (let n = 0; n < 3; n++) {
    await connections.with('node-1', reach(), read);
    clock.advance(duration('30s'));
  }
  expect([bmcs.tried.length, bmc.sessions]).toEqual([1, 1]);
  clock.advance(duration('2m'));
  await expect.poll(() => bmc.sessions).toBe(0);
  await connections.with('node-1', reach(), read);
  await connections.close();
  expect(bmc.sessions).toBe(0);
  bmc.speaks = ['ipmi'];
  await connections.with('node-1', reach({ protocol: 'ipmi' }), read);
  expect(bmc.sessions).toBe(0);
});

test('a session that a BMC ended is opened again once, and what refuses that is counted', async () => {
  const connections = await open();
  await connections.with('node-1', reach(), read);
  bmc.fault = new BmcFault('password', 'there is no valid session');
  expect(await connections.with('node-1', reach(), read)).toBe('off');
  expect([bmcs.tried.length, bmc.sessions]).toEqual([2, 1]);
  bmc.password = 'another';
  bmc.fault = new BmcFault('password', 'there is no valid session');
  for (let n = 0; n < 5; n++)
    await expect(connections.with('node-1', reach(), read)).rejects.toMatchObject({ code: 'password' });
  expect([bmcs.tried.length, bmc.sessions]).toEqual([4, 0]);
});

test('a session that stays open serves no other machine, document or password', async () => {
  const connections = await open();
  await connections.with('node-1', reach(), read);
  await connections.with('node-2', reach(), read);
  await connections.with('node-2', reach({ certificate: { sha256: bmc.pin } }), read);
  secrets.set('bmc/password', { value: Buffer.from('wrong'), since: 2 });
  const last = connections.with('node-2', reach({ certificate: { sha256: bmc.pin } }), read);
  await expect(last).rejects.toMatchObject({ code: 'password' });
  expect([bmcs.tried.length, bmc.sessions]).toEqual([4, 0]);
  secrets.set('bmc/password', { value: Buffer.from('right'), since: 3 });
  await connections.with('node-1', reach(), read);
  await connections.forget('node-1');
  expect(bmc.sessions).toBe(0);
});
