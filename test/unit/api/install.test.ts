/** Installing on a disk through the command line, with a virtual BMC that restarts the machine. */
import { afterEach, beforeEach, expect, test } from 'vitest';
import { seconds, toMillis } from '../../../src/base/duration.ts';
import { openRedfish } from '../../../src/bmc/redfish/client.socket.ts';
import {
  ImaginedMachine,
  startVirtualBmc,
  type VirtualBmc,
} from '../../../src/lab/bmc/virtual-bmc.server.ts';
import { orderInstall } from '../../../src/machines/install-order.ts';
import { run } from '../cli/run.ts';
import { DOCUMENTS, openWorld, type World } from './world.ts';

const HASH = 'a'.repeat(64);
const powered = (port: number) =>
  `, bmc: {address: 127.0.0.1, port: ${port}, protocol: redfish, credentials: {user: root, password: {valueFrom: {secret: bmc, key: password}}}}`;
const machine = (name: string, mac: number, more: string) => `---
apiVersion: muster/v1
kind: Machine
metadata: {name: ${name}}
spec: {macs: ["52:54:00:bb:00:0${mac}"], profile: installed${more}}
`;
const documents = (port: number) => `${DOCUMENTS}---
apiVersion: muster/v1
kind: Image
metadata: {name: server}
spec: {os: debian, arch: x86_64, kernel: {sha256: ${HASH}}, disk: {sha256: ${HASH}}, pieces: {sha256: ${HASH}}, configFormat: cloud-init, cloudInitVersion: '22.4'}
---
apiVersion: muster/v1
kind: Profile
metadata: {name: installed}
spec: {image: server, home: disk, installDisk: {choose: smallest}}
${machine('m1', 1, powered(port))}${machine('m2', 2, '')}`;

let world: World;
let hardware: ImaginedMachine;
let bmc: VirtualBmc;
let passing: NodeJS.Timeout;
beforeEach(async () => {
  hardware = new ImaginedMachine();
  const options = {
    protocol: 'redfish',
    address: '127.0.0.1',
    port: 0,
    user: 'root',
    password: 'right',
  } as const;
  bmc = await startVirtualBmc(options, hardware);
  const start = hardware.start.bind(hardware);
  hardware.start = async (...how) => {
    await start(...how);
    world.deps.events.record({ kind: 'dhcp.offer', subject: 'm1', fields: { stage: 'pxe' } });
  };
  const bmcs = { redfish: openRedfish, ipmi: () => Promise.reject(new Error('no IPMI here')) };
  world = await openWorld(documents(bmc.port), { bmcs });
  await world.client.call('PUT', '/v1/secrets/bmc/password', { body: 'right' });
  passing = setInterval(() => world.clock.advance(toMillis(seconds(1))), 5);
});
afterEach(async () => {
  clearInterval(passing);
  await world.close();
  await bmc.close();
});
const muster = (...args: string[]) => run(args, { socket: world.socket });
const install = (name: string, ...more: string[]) => muster('machine', 'install', name, ...more);
const ordered = (name: string) => world.roster.get(name)!.status.install;

test('a machine that runs is restarted from the network by its BMC, and its first packet proves it', async () => {
  hardware.on = true;
  const done = await install('m1', '--release', 'S4EVNF0M', '--restart');
  expect(done).toMatchObject({
    code: 0,
    out: 'machine/m1 installs its system on disk S4EVNF0M, whose data may go, now; its BMC restarts it, which `muster power status m1` shows\n',
  });
  expect(ordered('m1')).toMatchObject({ state: 'ordered', released: 'S4EVNF0M' });
  await expect
    .poll(async () => (await muster('power', 'status', 'm1')).out, { timeout: 20_000 })
    .toMatch(/m1 +on +\S+ ago +cycle from network: proved/);
  expect(bmc.controller.orders).toEqual(['cycle']);
  expect(bmc.controller.starts).toEqual(['network']);
});

test('without --restart no BMC is asked, and the machine installs when somebody starts it', async () => {
  expect((await install('m1')).out).toBe(
    'machine/m1 installs its system on a blank disk, at its next boot\n',
  );
  expect(ordered('m1')).toMatchObject({ state: 'ordered' });
  expect(world.deps.power.last('m1')).toBeUndefined();
});

test('a machine that cannot be restarted is refused before anything is ordered', async () => {
  expect((await install('m2', '--restart')).err).toContain('no document names a BMC of m2 (E_BMC)');
  expect(ordered('m2')).toBeUndefined();
  await muster('machine', 'take-out', 'm1', '--reason', 'its fan is broken');
  const out = await install('m1', '--restart');
  expect(out.err).toMatch(/m1 is taken-out, and installs nothing.*muster machine bring-back m1.*E_LIFE/);
  expect(ordered('m1')).toBeUndefined();
  expect(bmc.controller.orders).not.toContain('cycle');
});

test('a member whose cluster cannot do without it keeps its power', async () => {
  const restarted: string[] = [];
  const deps = {
    ...{ roster: world.roster, clock: world.clock, events: world.deps.events, homeOf: () => 'disk' },
    power: {
      has: () => true,
      needed: async () => 'etcd would lose its quorum',
      restart: async (name: string) => restarted.push(name),
    },
  };
  await expect(orderInstall(deps, 'm1', { restarts: true, by: 'ada' })).rejects.toMatchObject({
    code: 'E_LIFE',
    message: expect.stringContaining('its cluster needs it: etcd would lose its quorum'),
  });
  expect(ordered('m1')).toBeUndefined();
  await orderInstall(deps, 'm1', { restarts: false, by: 'ada' });
  expect([ordered('m1')?.state, restarted]).toEqual(['ordered', []]);
});
