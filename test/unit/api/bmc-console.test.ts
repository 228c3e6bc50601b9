/** Serial consoles that the boot host holds through BMCs: kept, typed into, and believed. */
import { afterEach, beforeEach, expect, test } from 'vitest';
import { duration, seconds, toMillis } from '../../../src/base/duration.ts';
import { openRedfish } from '../../../src/bmc/redfish/client.socket.ts';
import { ImaginedMachine, startVirtualBmc } from '../../../src/lab/bmc/virtual-bmc.server.ts';
import { bmcsOf, MemoryBmc } from '../bmc/memory.ts';
import { run } from '../cli/run.ts';
import { DOCUMENTS, openWorld, operatorOf, type World } from './world.ts';

const machine = (more: string) => `---
apiVersion: muster/v1
kind: Machine
metadata: {name: m1}
spec:
  macs: ["52:54:00:bb:00:01"]
  profile: worker
  bmc: {address: 10.78.0.1, credentials: {user: muster, password: {valueFrom: {secret: bmc, key: password}}}${more}}
`;

let world: World;
let bmc: MemoryBmc;
beforeEach(async () => {
  bmc = new MemoryBmc();
  world = await openWorld(DOCUMENTS, { bmcs: bmcsOf(new Map([['10.78.0.1', bmc]])), https: true });
  await world.client.call('PUT', '/v1/secrets/bmc/password', { body: 'right' });
});
afterEach(() => world.close());

const muster = (...args: string[]) => run(args, { socket: world.socket });
const apply = (more: string) => world.client.call('POST', '/v1/apply', { body: machine(more) });
const opened = async (): Promise<void> => {
  await apply(', console: sol');
  await expect.poll(() => bmc.console).toBeDefined();
};
const prints = (text: string): void => {
  bmc.console!.printed(Buffer.from(text));
  world.clock.advance(toMillis(seconds(2)));
};
/** The system restarts. Files of its next boot are newer by more than file systems tell apart. */
async function restarts(text: string): Promise<void> {
  prints(`${text}[ 9.9] reboot: Restarting system\r\n`);
  await expect.poll(() => shown()).toContain('Restarting system');
  await new Promise((done) => setTimeout(done, 20));
}
const shown = async (...more: string[]) => (await muster('machine', 'console', 'm1', '--bmc', ...more)).out;

test('what a machine prints is kept from the first line of its firmware, and shown', async () => {
  await opened();
  prints(
    'SeaBIOS (version 1)\r\nBooting from ROM..\r\n\u001b[1miPXE\u001b[0m initialising\r\nmuster.url=http://x/boot/s3cret\r\n',
  );
  await expect
    .poll(() => shown())
    .toBe('SeaBIOS (version 1)\nBooting from ROM..\niPXE initialising\nmuster.url=[hidden]\n');
  const { err } = await muster('machine', 'console', 'm1', '--bmc');
  expect(err).toMatch(/^The console of m1 is open since /);
});

test('a restart begins another boot, and the one before stays', async () => {
  await opened();
  await restarts('first boot\r\n');
  prints('SeaBIOS\r\n');
  await expect.poll(() => shown()).toBe('SeaBIOS\n');
  expect(await shown('--boot', '-1')).toContain('first boot');
});

test('the console is given back when its document does not ask for it any more', async () => {
  await opened();
  await apply('');
  await expect.poll(() => bmc.console).toBeUndefined();
  expect(bmc.sessions).toBe(0);
  expect((await muster('machine', 'console', 'm1', '--bmc')).err).toContain('E_BMC');
});

test('a console by Redfish is kept and typed into, as one of serial over LAN is', async () => {
  const hardware = new ImaginedMachine();
  const login = { user: 'muster', password: 'right', address: '127.0.0.1', port: 0 };
  const options = { protocol: 'redfish', ...login, traits: { console: 'openbmc' } } as const;
  const virtual = await startVirtualBmc(options, hardware);
  const bmcs = { redfish: openRedfish, ipmi: () => Promise.reject(new Error('no IPMI here')) };
  const other = await openWorld(DOCUMENTS, { bmcs });
  const command = (...args: string[]) => run(args, { socket: other.socket });
  const console = (...more: string[]) => command('machine', 'console', 'm1', '--bmc', ...more);
  const within = { timeout: 60_000 };
  try {
    await other.client.call('PUT', '/v1/secrets/bmc/password', { body: 'right' });
    const where = `address: 127.0.0.1, port: ${virtual.port}, protocol: redfish, console: redfish`;
    await other.client.call('POST', '/v1/apply', { body: machine('').replace('address: 10.78.0.1', where) });
    await expect.poll(async () => (await console()).err, within).toContain('is open since');
    await hardware.start('network', { hang: false });
    expect((await console('--type', 'root')).code).toBe(0);
    await expect.poll(() => hardware.typed, within).toBe('root\r');
    await expect
      .poll(async () => {
        other.clock.advance(toMillis(seconds(2)));
        return (await console()).out;
      }, within)
      .toContain('BIOS (network)\nlogin: root');
  } finally {
    await other.close();
    await virtual.close();
  }
});

test('a console that another one has, or that ends, is opened again', async () => {
  bmc.console = { printed: () => {}, ended: () => {} };
  await apply(', console: sol');
  await expect
    .poll(async () => (await muster('machine', 'console', 'm1', '--bmc')).err)
    .toContain('is not open: busy: another session has the console');
  bmc.console = undefined;
  world.clock.advance(duration('1m'));
  await expect.poll(() => bmc.console).toBeDefined();
  bmc.console!.ended();
  await expect.poll(() => bmc.console).toBeUndefined();
  world.clock.advance(duration('1m'));
  await expect.poll(() => bmc.console).toBeDefined();
});

test('a BMC with several machines gives no console, which might be that of another one', async () => {
  await expect(apply(', system: "1", console: sol')).rejects.toThrow('names no system');
  await apply(', system: "1"');
  const profile = `---
apiVersion: muster/v1
kind: Profile
metadata: {name: consoles}
spec: {image: small, bmc: {console: sol}}
`;
  const body = profile + machine(', system: "1"').replace('profile: worker', 'profile: consoles');
  await world.client.call('POST', '/v1/apply', { body });
  await expect
    .poll(async () => (await muster('machine', 'console', 'm1', '--bmc')).err)
    .toContain('its BMC has several machines');
  expect(bmc.console).toBeUndefined();
});

test('a refused password is not tried again and again', async () => {
  bmc.password = 'other';
  await apply(', console: sol');
  for (let n = 0; n < 20; n++) {
    world.clock.advance(duration('10m'));
    await new Promise(setImmediate);
  }
  expect((await muster('machine', 'console', 'm1', '--bmc')).err).toContain('does not try it again');
});

test('an operator types into it, and a viewer does not', async () => {
  await opened();
  expect((await muster('machine', 'console', 'm1', '--bmc', '--type', 'root')).code).toBe(0);
  expect(bmc.typed).toBe('root\r');
  const rehearsed = await world.client.call('POST', '/v1/machines/m1/console', {
    query: { dryRun: 'true' },
    body: { json: { text: 'reboot\r' } },
  });
  expect(rehearsed).toMatchObject({ changes: ['type into the console of m1'] });
  const viewer = await operatorOf(world, 'vic', { role: 'viewer' });
  await expect(
    viewer.call('POST', '/v1/machines/m1/console', { body: { json: { text: 'x' } } }),
  ).rejects.toMatchObject({ code: 'E_FORBIDDEN' });
  expect(bmc.typed).toBe('root\r');
});

test('a code is taken from the console alone, of this boot, and for this machine', async () => {
  await opened();
  const approve = async () => (await muster('machine', 'approve', 'm1', '--from-console')).err;
  expect(await approve()).toContain('has shown no code in this boot');
  prints('      muster machine approve m2 7QK-3FD\r\n');
  expect(await approve()).toContain('has shown no code in this boot');
  prints('      muster machine approve m1 7QK-3FD\r\n');
  // The code is read; there is no key yet that it could be of.
  await expect.poll(approve).not.toContain('has shown no code');
  await restarts('');
  prints('SeaBIOS\r\n');
  await expect.poll(approve).toContain('has shown no code in this boot');
});

test('operators watch it live, viewers do not, and what is secret is hidden', async () => {
  await opened();
  bmc.console!.printed(Buffer.from('\u001b[2Jlogin: muster.url=http://x/boot/s3cret '));
  world.clock.advance(toMillis(seconds(1)));
  const live = () => world.client.call('GET', '/v1/machines/m1/console/live');
  expect(await live()).toMatchObject({ pieces: [{ text: '\u001b[2Jlogin: muster.url=[hidden] ' }] });
  await expect(world.client.call('GET', '/v1/machines/node-1/console/live')).rejects.toThrow('no document');
  const viewer = await operatorOf(world, 'vic', { role: 'viewer' });
  await expect(viewer.call('GET', '/v1/machines/m1/console/live')).rejects.toMatchObject({
    code: 'E_FORBIDDEN',
  });
});
