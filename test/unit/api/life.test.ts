/** The life of a machine through the command line: out of use, back, retired. */
import fs from 'node:fs';
import path from 'node:path';
import { afterEach, beforeEach, expect, test, vi } from 'vitest';
import { millis, seconds, toMillis } from '../../../src/base/duration.ts';
import { parseIpv4 } from '../../../src/base/ipv4.ts';
import type { Mac } from '../../../src/base/mac.ts';
import type { Lease } from '../../../src/pxe/dhcp/lease.ts';
import { bmcsOf, MemoryBmc } from '../bmc/memory.ts';
import { run } from '../cli/run.ts';
import { DOCUMENTS, openWorld, type World } from './world.ts';

const FILESYSTEM = '8a2b6f8e-0000-4000-8000-000000000001';
const KEY = 'ssh-ed25519 AAAAC3NzaC1lZDI1NTE5AAAAIIcNAMZZfRiAAhyBYI15Jz0+Zzx28DEptsF4c2liEcP2';
const ALL = `${DOCUMENTS.replace('  subnet:', '  discovery: {image: small}\n  subnet:')}---
apiVersion: muster/v1
kind: Machine
metadata: {name: m1}
spec:
  macs: ["52:54:00:bb:00:01"]
  profile: worker
  bmc: {address: 10.78.0.1, credentials: {user: muster, password: {valueFrom: {secret: bmc, key: password}}}}
`;

const M2 = {
  apiVersion: 'muster/v1',
  kind: 'Machine',
  metadata: { name: 'm2' },
  spec: {
    macs: ['52:54:00:bb:00:02'],
    uuid: '11111111-2222-4333-8444-555555555555',
    serial: 'OLD-1',
    profile: 'worker',
    addresses: ['10.77.0.12'],
  },
};
let world: World;
let bmc: MemoryBmc;
let passing: NodeJS.Timeout;
beforeEach(async () => {
  bmc = new MemoryBmc();
  bmc.power = 'on';
  world = await openWorld(ALL, { bmcs: bmcsOf(new Map([['10.78.0.1', bmc]])) });
  await world.client.call('PUT', '/v1/secrets/bmc/password', { body: 'right' });
  passing = setInterval(() => world.clock.advance(toMillis(seconds(1))), 5);
});
afterEach(async () => {
  clearInterval(passing);
  await world.close();
});
const muster = (...args: string[]) => run(args, { socket: world.socket });
const takeOut = (name: string) => muster('machine', 'take-out', name, '--reason', 'fan\u001b[31m is broken');

test('a machine that is taken out is switched off by its BMC, held at its boot, and shown as that', async () => {
  expect(await takeOut('m1')).toMatchObject({ code: 0, out: 'machine/m1 is taken out\n' });
  await vi.waitFor(() => expect(bmc.did).toEqual(['shut-down']), 20_000);
  await vi.waitFor(() => expect(world.roster.get('m1')!.status.life).not.toHaveProperty('leaving'), 20_000);
  expect((await muster('get', 'machine', 'm1')).out).toMatch(/\bout\b.*TAKEN-OUT/);
  const explained = (await muster('explain', 'm1')).out;
  expect(explained).toMatch(/script +waits\n.*It is taken-out: fan.* is broken \[not_in_use\]/);
  expect(explained).toMatch(/next: muster machine bring-back m1/);
  expect(explained).not.toContain('\u001b');
  expect((await muster('machine', 'life', 'm1')).out).toMatch(
    /m1 is taken-out\.[\s\S]*allows +take-out, bring-back, rescue, replace, wipe, test, retire/,
  );
  expect((await muster('events', 'm1')).out).toMatch(/machine\.life/);

  expect((await muster('machine', 'bring-back', 'm1')).code).toBe(0);
  expect((await muster('machine', 'life', 'm1')).out).toMatch(/m1 is in-use\./);
  expect((await muster('explain', 'm1')).out).not.toMatch(/not_in_use/);
  const again = await muster('machine', 'bring-back', 'm1');
  expect(again.err).toMatch(
    /m1 is in-use, which allows take-out, rescue, replace, not bring-back.*\(E_LIFE\)/,
  );
});

test('a machine without a BMC is held as well, and a person is told to switch it off', async () => {
  expect((await takeOut('node-1')).code).toBe(0);
  await vi.waitFor(
    async () => expect((await muster('machine', 'life', 'node-1')).out).toMatch(/switch it off by hand/),
    20_000,
  );
});

test('a machine that is silent is rescued by its BMC, with one key; one that runs is refused', async () => {
  const key = path.join(world.directory, 'key.pub');
  fs.writeFileSync(key, `${KEY}\n`);
  const rescue = (...more: string[]) =>
    muster('machine', 'rescue', 'm1', '--reason', 'dead', '--key', key, ...more);
  expect((await rescue('--for', '40h')).err).toMatch(/at most 24h/);
  expect((await rescue()).out).toBe('machine/m1 boots the rescue system\n');
  await vi.waitFor(() => expect(bmc.did).toContain('cycle'), 20_000);
  expect((await muster('machine', 'life', 'm1')).out).toMatch(
    /m1 is rescue\.[\s\S]*rescue +until .*; it has not begun yet[\s\S]*allows +rescue, call-off/,
  );
  expect((await muster('machine', 'call-off', 'm1')).out).toBe('machine/m1 is in-use\n');
  fs.writeFileSync(key, 'no key\n');
  expect((await rescue()).err).toMatch(/the key: not an OpenSSH public key/);
  fs.writeFileSync(key, KEY);
  world.roster.heartbeats.beat('m1', { bootId: 'b', address: '10.77.0.11' });
  expect((await rescue()).err).toMatch(/its agent was heard moments ago.*E_LIFE/);
});

test('a machine that is taken out is tested by its BMC, and one with work is refused', async () => {
  const order = (...more: string[]) => muster('machine', 'test', 'm1', ...more);
  expect((await order()).err).toMatch(/m1 is in-use, which allows .*, not test.*E_LIFE/);
  await takeOut('m1');
  await vi.waitFor(() => expect(world.roster.get('m1')!.status.life).not.toHaveProperty('leaving'), 20_000);
  expect((await order('--for', '1s')).err).toMatch(/5s to 24h for each part.*E_USAGE/);
  expect((await order('--for', '8h')).out).toBe('machine/m1 is to be tested\n');
  await vi.waitFor(() => expect(bmc.did.slice(1)).toEqual(['boot network', 'on']), 20_000);
  expect(world.roster.get('m1')!.status.life).toMatchObject({ state: 'testing', test: { seconds: 28_800 } });
  expect((await muster('machine', 'call-off', 'm1')).out).toBe('machine/m1 is taken-out\n');
  expect(world.roster.get('m1')!.status.life).not.toHaveProperty('test');
});

test('the reports of tests are printed, and faults of the newest are an error', async () => {
  const print = () => muster('machine', 'test', 'm1', '--report');
  expect(await print()).toMatchObject({ code: 0, err: 'No test of m1 has ended.\n' });
  const put = (id: string, at: number, faults: readonly string[]) =>
    world.store.commit([
      {
        key: `test/m1/${id}`,
        put: JSON.stringify({
          ...{ v: 1, id, machine: 'm1', reason: 'burn-in', by: 'ada', orderedAt: 0, at, seconds: 60, faults },
          memory: { code: 'tested', octets: 1_000_000, ms: 60_000, errors: 0 },
          disks: [
            {
              ...{
                name: 'sda',
                code: 'read',
                octets: 5_000_000,
                read: 4_000_000,
                ms: 1000,
                health: 'passed',
              },
              ...{ selfTest: 'none', serial: 'S1', wwn: '', model: 'X' },
            },
          ],
          network: {
            card: 'eth0',
            code: 'fetched',
            octets: 90_000_000,
            ms: 1000,
            sent: 200,
            lost: 1,
            errors: 0,
          },
        }),
      },
    ]);
  await put('a', 1000, []);
  const good = await print();
  expect(good.code).toBe(0);
  expect(good.out).toMatch(
    /Test a: passed[\s\S]*sda, .* 4000000 of 5000000 octets at 4\.0 MB\/s; health passed/,
  );
  expect(good.out).toMatch(/eth0: 90\.0 MB\/s from the boot host, 1 of 200 packets lost/);
  await put('b', 2000, ['sda: read-error after 5 octets']);
  const bad = await print();
  expect(bad.code).toBe(1);
  expect(bad.out).toMatch(/^Test b: FAILED\n {2}fault {4}sda: read-error[\s\S]*Test a: passed/);
});

/** A machine that boots for the first time. */
const seen = (mac: string, uuid: string) =>
  world.roster.discover({ bootMac: mac as Mac, macs: [mac as Mac], uuid, serial: 'NEW-7' })!.name;

test('a machine gets the hardware of another one: it keeps name and place, and the old one is a stranger', async () => {
  await world.client.call('POST', '/v1/apply', {
    body: JSON.stringify(M2),
  });
  const [mac, address] = ['52:54:00:bb:00:02' as Mac, parseIpv4('10.77.0.12')!];
  const now = world.clock.now();
  const lease: Lease = { v: 1, mac, state: 'bound', since: now, expires: millis(now + 3_600_000) };
  await world.leases.write({ kind: 'write', network: 'lan', address, lease, writes: [] });
  expect(world.leases.addressOf(mac)).toBe(address);
  const old = world.roster.get('m2')!;
  world.roster.change(old, {
    install: { at: world.clock.now(), state: 'installed', disk: 'D' },
    bootsWithoutReady: 5,
  });
  const by = seen('52:54:00:bb:00:09', '7a3f6c1e-2b4d-4e5f-8a9b-0c1d2e3f4a5b');
  const replace = (...more: string[]) => muster('machine', 'replace', 'm2', by, ...more);
  expect((await replace()).err).toMatch(/repeat its name/);
  expect((await muster('machine', 'replace', 'm2', 'm1', '--confirm', 'm2')).err).toMatch(
    /m1 has a document of its own.*E_CONFLICT/,
  );
  world.roster.heartbeats.beat('m2', { bootId: 'b', address: '10.77.0.12' });
  expect((await replace('--confirm', 'm2')).err).toMatch(/its agent was heard moments ago.*E_LIFE/);
  world.roster.heartbeats.forget('m2');
  const kept = await replace('--keep-disks', '--confirm', 'm2');
  expect(kept).toMatchObject({ code: 0, out: `machine/m2 has the hardware of ${by}\n` });
  expect(world.roster.get('m2')).toMatchObject({
    entry: {
      document: {
        spec: { macs: ['52:54:00:bb:00:09'], serial: 'NEW-7', profile: 'worker', addresses: ['10.77.0.12'] },
      },
    },
    status: { bootsWithoutReady: 0, install: { state: 'installed' } },
  });
  expect(world.roster.get(by)).toBeUndefined();
  // Its address is free for the new hardware at once.
  expect(world.leases.addressOf(mac)).toBeUndefined();
  expect(world.roster.byMac('52:54:00:bb:00:02' as Mac)).toBeUndefined();
  expect((await muster('events', 'm2')).out).toMatch(/machine\.replaced/);
  // Without its disks, what was installed there is gone.
  const another = seen('52:54:00:bb:00:0a', '7a3f6c1e-2b4d-4e5f-8a9b-0c1d2e3f4a5c');
  expect((await muster('machine', 'replace', 'm2', another, '--confirm', 'm2')).code).toBe(0);
  expect(world.roster.get('m2')!.status).not.toHaveProperty('install');
});

test('retiring needs the name and a word about the disks, and ends the keys of its disks', async () => {
  await world.pki.dataKeys.getOrMake('m1', FILESYSTEM);
  const retire = (...more: string[]) => muster('machine', 'retire', 'm1', '--reason', 'sold', ...more);
  expect((await retire('--confirm', 'm1', '--unwiped')).err).toMatch(/m1 is in-use.*E_LIFE/);
  await takeOut('m1');
  expect((await retire('--unwiped')).err).toMatch(/repeat its name/);
  expect((await retire('--confirm', 'm1')).err).toMatch(/were not wiped/);
  expect(await world.pki.dataKeys.of('m1')).toHaveLength(1);
  expect((await retire('--confirm', 'm1', '--unwiped')).out).toBe('machine/m1 is retired\n');
  expect(await world.pki.dataKeys.of('m1')).toEqual([]);
  expect((await muster('explain', 'm1')).out).toMatch(/It is retired: sold \[not_in_use\]/);
  expect((await muster('machine', 'bring-back', 'm1')).err).toMatch(/which allows no order/);
});

test('the certificate of a wipe is printed, also when the document is gone, and a failed one is an error', async () => {
  const none = await muster('machine', 'wipes', 'gone');
  expect(none).toMatchObject({ code: 0, err: 'No wipe of gone has ended.\n' });
  const disk = { name: 'sda', result: 'done', code: 'done', octets: 1000, canaries: 64, left: 0, zeros: 64 };
  const of = { machine: 'gone', level: 'overwrite', reason: 'sold', by: 'ada', orderedAt: 0 };
  const put = (id: string, at: number, more: object) =>
    world.store.commit([
      {
        key: `wipe/gone/${id}`,
        put: JSON.stringify({
          v: 1,
          id,
          at,
          ...of,
          ...more,
          disks: [{ ...disk, serial: 'S1', wwn: '', model: 'X' }],
        }),
      },
    ]);
  await put('w1', 1, {});
  const shown = await muster('machine', 'wipes', 'gone');
  expect(shown.code).toBe(0);
  expect(shown.out).toMatch(
    /Wipe w1: proved\n[\s\S]*ordered +by ada at 1970\S+: sold\n[\s\S]*sda, serial number S1, X, 1000 octets: wiped; of 64 sectors written before, 0 are left and 64 read as zeros/,
  );
  await put('w2', 2, { failed: 'sda: write-error' });
  const failed = await muster('machine', 'wipes', 'gone');
  expect(failed.code).toBe(1);
  expect(failed.out).toMatch(/^Wipe w2: FAILED, sda: write-error\n[\s\S]*Wipe w1: proved/);
});
