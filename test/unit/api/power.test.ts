/** Power through the command line, the API and roles. */
import { afterEach, beforeEach, expect, test } from 'vitest';
import { seconds, toMillis } from '../../../src/base/duration.ts';
import { bmcsOf, MemoryBmc } from '../bmc/memory.ts';
import { run } from '../cli/run.ts';
import { DOCUMENTS, openWorld, operatorOf, type World } from './world.ts';

const machine = (n: number, more = '') => `---
apiVersion: muster/v1
kind: Machine
metadata: {name: m${n}, labels: {rack: b}}
spec: {macs: ["52:54:00:bb:00:0${n}"], profile: powered, bmc: {address: 10.78.0.${n}}${more}}
`;
const ALL = `${DOCUMENTS}---
apiVersion: muster/v1
kind: Profile
metadata: {name: powered}
spec: {image: small, bmc: {credentials: {user: muster, password: {valueFrom: {secret: bmc, key: password}}}}}
${machine(1, ', pool: spare')}${machine(2)}`;

let world: World;
let bmcs: readonly [MemoryBmc, MemoryBmc];
let passing: NodeJS.Timeout;
beforeEach(async () => {
  bmcs = [new MemoryBmc(), new MemoryBmc()];
  const all = new Map(bmcs.map((bmc, n) => [`10.78.0.${n + 1}`, bmc]));
  world = await openWorld(ALL, { bmcs: bmcsOf(all), https: true, second: true });
  await world.client.call('PUT', '/v1/secrets/bmc/password', { body: 'right' });
  for (const [n, bmc] of bmcs.entries())
    bmc.after = () =>
      world.deps.events.record({ kind: 'dhcp.offer', subject: `m${n + 1}`, fields: { stage: 'pxe' } });
  passing = setInterval(() => world.clock.advance(toMillis(seconds(1))), 5);
});
afterEach(async () => {
  clearInterval(passing);
  await world.close();
});
const muster = (...args: string[]) => run(args, { socket: world.socket });

test('a machine is switched on and followed to the proof, and its status is shown', async () => {
  const done = await muster('power', 'on', 'm1', '--boot', 'network');
  expect(done).toMatchObject({
    code: 0,
    out: 'machine/m1 on: proved: its firmware asked for a boot after the order\n',
  });
  const status = await muster('power', 'status');
  expect(status.out).toMatch(/m1 +on +\S+ ago +on from network: proved +10\.78\.0\.1 redfish/);
  expect(status.out).toMatch(/m2 +off/);
  expect(status.out).not.toMatch(/node-1/);
  expect((await muster('get', 'machine', 'm1', '-o', 'wide')).out).toMatch(/POWER[\s\S]*\bon\b/);
});

test('more than one machine is shown first, and only --yes orders it', async () => {
  const shown = await muster('power', 'cycle', '-l', 'rack=b');
  expect(shown.code).toBe(1);
  expect(shown.out).toMatch(/m1[\s\S]*m2/);
  expect(shown.err).toContain('Nothing was ordered');
  expect(bmcs.map(({ did }) => did)).toEqual([[], []]);
  expect((await muster('power', 'cycle', '-l', 'rack=b', '--dry-run')).code).toBe(0);
  const done = await muster('power', 'cycle', '-l', 'rack=b', '--yes', '--stagger', '2s', '--at-once', '1');
  expect(done.code).toBe(0);
  expect(bmcs.map(({ did }) => did)).toEqual([['on'], ['on']]);
});

test('a machine is shut down, or loses its power at once', async () => {
  bmcs[0].power = 'on';
  expect((await muster('power', 'off', 'm1')).code).toBe(0);
  bmcs[0].power = 'on';
  expect((await muster('power', 'off', 'm1', '--now')).code).toBe(0);
  expect(bmcs[0].did).toEqual(['shut-down', 'off']);
});

test('the next boot comes from somewhere else, and the lamp is lit', async () => {
  expect((await muster('machine', 'boot', 'm2', '--once', 'setup')).out).toContain(
    'its next boot comes from setup',
  );
  const rehearsed = await world.client.call('POST', '/v1/machines/m2/identify', {
    query: { dryRun: 'true' },
    body: { json: {} },
  });
  expect(rehearsed).toMatchObject({ changes: ['light the lamp of m2'] });
  expect((await muster('machine', 'identify', 'm2', '--seconds', '9')).code).toBe(0);
  expect(bmcs[1].did).toEqual(['boot setup', 'lamp 9']);
});

test('what a BMC says of its machine is read when somebody asks', async () => {
  expect((await muster('bmc', 'show', 'm1')).out).toMatch(
    /Manufacturer: +Maker\nModel: +-\nSerial number: +S-1\nFirmware of BMC: +1\.0\n/,
  );
  expect((await muster('bmc', 'show', 'm1', '--sensors')).out).toMatch(/CPU +temperature +47 °C +ok/);
  expect((await muster('bmc', 'show', 'm1', '--log')).out).toMatch(/2023-11-14.* +power: on/);
  expect((await muster('bmc', 'show', 'm1', '--log', '--sensors')).err).toContain('E_USAGE');
  expect((await muster('bmc', 'show', 'node-1')).err).toContain('no document names a BMC of node-1');
});

test('an order that does not work is named, with an exit code, and explained', async () => {
  bmcs[0].password = 'other';
  const failed = await muster('power', 'on', 'm1');
  expect(failed.code).toBe(1);
  expect(failed.out).toContain('m1 on: bmc-locked-out:');
  const explained = await muster('explain', 'm1');
  expect(explained.out).toContain('The BMC refuses the log-in');
  await muster('power', 'on', 'm1');
  expect((await muster('power', 'status', 'm1')).out).toContain('Muster does not try it again');
  bmcs[0].password = 'right';
  expect((await muster('power', 'forget', 'm1')).code).toBe(0);
  expect((await muster('power', 'on', 'm1')).code).toBe(0);
});

test('a machine without a BMC says so', async () => {
  const refused = await muster('power', 'on', 'node-1');
  expect(refused.err).toContain('no document names a BMC of node-1 (E_BMC)');
  const body = { json: { order: 'off', machines: ['m1'] } };
  await expect(world.client.call('POST', '/v1/power', { body })).rejects.toMatchObject({ code: 'E_USAGE' });
});

test('roles limit who powers what, and a cut of power waits for a second person', async () => {
  const viewer = await operatorOf(world, 'vic', { role: 'viewer' });
  const on = (machines: string[], order = 'on', cut = false) => ({
    body: { json: { order, machines, cut } },
  });
  await expect(viewer.call('POST', '/v1/power', on(['m1']))).rejects.toMatchObject({ code: 'E_FORBIDDEN' });
  const spare = await operatorOf(world, 'sue', { role: 'operator', pools: ['spare'] });
  await expect(spare.call('POST', '/v1/power', on(['m2']))).rejects.toMatchObject({ code: 'E_FORBIDDEN' });
  const mine = await spare.call<{ items: object[] }>('GET', '/v1/power');
  expect(mine.items).toMatchObject([{ machine: 'm1' }]);
  await spare.call('POST', '/v1/power', on(['m1']));
  const ada = await operatorOf(world, 'ada', { role: 'operator' });
  await ada.call('POST', '/v1/power', on(['m2'], 'off', true)).catch(() => {});
  const waiting = await world.client.call<{ items: object[] }>('GET', '/v1/pending');
  expect(waiting.items).toHaveLength(1);
  await expect(ada.call('DELETE', '/v1/machines/m1/bmc')).rejects.toMatchObject({ code: 'E_FORBIDDEN' });
});
