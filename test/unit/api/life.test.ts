/** The life of a machine through the command line: out of use, back, retired. */
import { afterEach, beforeEach, expect, test, vi } from 'vitest';
import { seconds, toMillis } from '../../../src/base/duration.ts';
import { bmcsOf, MemoryBmc } from '../bmc/memory.ts';
import { run } from '../cli/run.ts';
import { DOCUMENTS, openWorld, type World } from './world.ts';

const FILESYSTEM = '8a2b6f8e-0000-4000-8000-000000000001';
const ALL = `${DOCUMENTS}---
apiVersion: muster/v1
kind: Machine
metadata: {name: m1}
spec:
  macs: ["52:54:00:bb:00:01"]
  profile: worker
  bmc: {address: 10.78.0.1, credentials: {user: muster, password: {valueFrom: {secret: bmc, key: password}}}}
`;

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
  await vi.waitFor(() => expect(bmc.did).toEqual(['shut-down']));
  await vi.waitFor(() => expect(world.roster.get('m1')!.status.life).not.toHaveProperty('leaving'));
  expect((await muster('get', 'machine', 'm1')).out).toMatch(/\bout\b.*TAKEN-OUT/);
  const explained = (await muster('explain', 'm1')).out;
  expect(explained).toMatch(/script +waits\n.*It is taken-out: fan.* is broken \[not_in_use\]/);
  expect(explained).toMatch(/next: muster machine bring-back m1/);
  expect(explained).not.toContain('\u001b');
  expect((await muster('machine', 'life', 'm1')).out).toMatch(
    /m1 is taken-out\.[\s\S]*allows +take-out, bring-back, wipe, retire/,
  );
  expect((await muster('events', 'm1')).out).toMatch(/machine\.life/);

  expect((await muster('machine', 'bring-back', 'm1')).code).toBe(0);
  expect((await muster('machine', 'life', 'm1')).out).toMatch(/m1 is in-use\./);
  expect((await muster('explain', 'm1')).out).not.toMatch(/not_in_use/);
  const again = await muster('machine', 'bring-back', 'm1');
  expect(again.err).toMatch(/m1 is in-use, which allows take-out, not bring-back.*\(E_LIFE\)/);
});

test('a machine without a BMC is held as well, and a person is told to switch it off', async () => {
  expect((await takeOut('node-1')).code).toBe(0);
  await vi.waitFor(async () =>
    expect((await muster('machine', 'life', 'node-1')).out).toMatch(/switch it off by hand/),
  );
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
