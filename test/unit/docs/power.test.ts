/**
 * Checks that docs/power.md is true: its documents and commands lead from a virtual BMC with a
 * factory password to a machine that Muster powers, follows and recovers. The commands are run as
 * they are written, for one machine; those that are not are listed here.
 */
import fs from 'node:fs';
import { dump, loadAll } from 'js-yaml';
import { afterAll, beforeAll, expect, test } from 'vitest';
import { seconds, toMillis } from '../../../src/base/duration.ts';
import { openRedfish } from '../../../src/bmc/redfish/client.socket.ts';
import {
  ImaginedMachine,
  startVirtualBmc,
  type VirtualBmc,
} from '../../../src/lab/bmc/virtual-bmc.server.ts';
import { openWorld, type World } from '../api/world.ts';
import { type Ran, run } from '../cli/run.ts';

const PAGE = fs.readFileSync('docs/power.md', 'utf8');
const MACHINE = 'node-1';

/** The commands of the page that are not run, each with the reason. */
const NOT_RUN: Readonly<Record<string, string>> = {
  'muster validate': 'test/unit/resources says what it refuses',
  'muster machine approve --all --from-console': 'needs a key that waits; test/unit/api/bmc-console.test.ts',
  'muster pending ls': 'needs a site that asks for a second person; test/unit/api/power.test.ts',
};

/** All commands of the page: in code, or on lines of their own. */
const COMMANDS = [...PAGE.matchAll(/`(muster\s[^`]+)`/g), ...PAGE.matchAll(/^ {4,}(muster .+)$/gm)].map(
  ([, text]) => text!.replace(/\s+/g, ' '),
);

/** What a placeholder stands for here. */
const filled = (command: string): string =>
  command.replace(/ \[NAME…\]| NAME…/, '').replaceAll('NAME', MACHINE);

/** The documents of the YAML on the page that has this text; some are parts of a Profile. */
function documentsWith(text: string): Record<string, never>[] {
  const blocks = [...PAGE.matchAll(/^( *)```yaml\n([\s\S]*?)^\1```/gm)].map(([, indent, body]) =>
    body!.replaceAll(new RegExp(`^${indent}`, 'gm'), ''),
  );
  const found = blocks.filter((body) => body.includes(text));
  expect(found, text).toHaveLength(1);
  return loadAll(found[0]!) as Record<string, never>[];
}

let world: World;
let hardware: ImaginedMachine;
let bmc: VirtualBmc;
let passing: NodeJS.Timeout;
/** Whether the system of the machine runs, and its agent is heard. */
let isAlive = false;
const ran = new Set<string>();

/** Says what firmware and system of the machine would send, when the BMC starts it. */
function boots(): void {
  const member = world.roster.get(MACHINE)!;
  world.deps.events.record({ kind: 'dhcp.offer', subject: MACHINE, fields: { stage: 'pxe' } });
  const agent = { since: world.clock.now(), bootId: 'b', version: '1' };
  world.roster.move(member, 'booted');
  world.roster.move(member, 'ready', { agent });
  isAlive = true;
}

/** What the agent sends. Nothing is at this address, so nothing answers there when it is silent. */
const beats = (): void => {
  const address = '255.255.255.255';
  if (isAlive) world.roster.heartbeats.beat(MACHINE, { bootId: `b${bmc.controller.starts.length}`, address });
};

beforeAll(async () => {
  hardware = new ImaginedMachine();
  const login = { user: 'root', password: 'factory', traits: { console: 'openbmc' } } as const;
  bmc = await startVirtualBmc({ protocol: 'redfish', address: '127.0.0.1', port: 0, ...login }, hardware);
  const start = hardware.start.bind(hardware);
  hardware.start = async (...how) => {
    await start(...how);
    boots();
  };
  hardware.cut = async () => {
    hardware.on = false;
    isAlive = false;
  };
  hardware.shutDown = hardware.cut;
  const bmcs = { redfish: openRedfish, ipmi: () => Promise.reject(new Error('no IPMI here')) };
  const NETWORK = `apiVersion: muster/v1
kind: Network
metadata: {name: lan}
spec: {subnet: 10.77.0.0/24, dhcp: {mode: server, pools: [{start: 10.77.0.100, end: 10.77.0.199}]}}
---
apiVersion: muster/v1
kind: Image
metadata: {name: debian-13}
spec: {os: debian, arch: x86_64, kernel: {sha256: ${'a'.repeat(64)}}, configFormat: cloud-init}
`;
  world = await openWorld(NETWORK, { bmcs });
  passing = setInterval(() => {
    beats();
    world.clock.advance(toMillis(seconds(1)));
  }, 5);
});
afterAll(async () => {
  clearInterval(passing);
  await world.close();
  await bmc.close();
});

const within = { timeout: 60_000 };

/** Runs a command of the page. */
async function command(text: string, ...more: string[]): Promise<Ran> {
  expect(COMMANDS, `docs/power.md shows ${text}`).toContain(text);
  ran.add(text);
  const words = [...filled(text).split(' ').slice(1), ...more];
  return run(words, { socket: world.socket });
}
const done = async (text: string, ...more: string[]): Promise<string> => {
  const { code, out, err } = await command(text, ...more);
  expect(code, `${text}: ${out}${err}`).toBe(0);
  return out;
};

const apply = (documents: readonly object[]) =>
  world.client.call('POST', '/v1/apply', { body: documents.map((one) => dump(one)).join('---\n') });

/** The documents of the page so far; the BMC of the test listens at another address. */
const site: { profile: Record<string, never>; machine: Record<string, never> } = {} as never;
type Spec = { spec: Record<string, object> };
async function applied(more: Readonly<Record<string, object>> = {}): Promise<void> {
  const { spec } = site.profile as unknown as Spec;
  for (const [key, value] of Object.entries(more)) spec[key] = { ...spec[key], ...value };
  const machine = structuredClone(site.machine) as unknown as Spec;
  expect(machine.spec.bmc).toEqual({ address: '10.78.0.10' });
  machine.spec.bmc = { address: '127.0.0.1', port: bmc.port, protocol: 'redfish' };
  await apply([site.profile, machine]);
}
const logsIn = async (user: string, password: string): Promise<boolean> => {
  const login = { address: '127.0.0.1', port: bmc.port, user, password, trust: {} };
  const client = await openRedfish(login).catch(() => undefined);
  await client?.close();
  return client !== undefined;
};

test('1: a BMC is named with the log-in of its factory, and asked', async () => {
  // The page's Secret is read from standard input.
  expect(COMMANDS).toContain('muster secret put bmc password');
  ran.add('muster secret put bmc password');
  await world.client.call('PUT', '/v1/secrets/bmc/password', { body: 'factory\n' });
  const [profile, machine] = documentsWith('kind: Machine');
  Object.assign(site, { profile, machine });
  const { spec } = profile as unknown as { spec: { bmc: { credentials: { user: string } } } };
  spec.bmc.credentials.user = 'root';
  await applied();
  expect(await done('muster power status node-1')).toMatch(/node-1 +off/);
  expect(await done('muster power status -o wide')).toMatch(/node-1 .*[0-9a-f]{16}/);
  expect(await done('muster bmc find')).toBeDefined();
});

test('1: Muster makes an account of its own, and switches that of the factory off', async () => {
  const [fragment] = documentsWith('managed: alone') as unknown as [{ bmc: object }];
  await applied({ bmc: fragment.bmc });
  await expect.poll(() => done('muster bmc ls'), within).toMatch(/node-1 .* muster /);
  await expect.poll(() => logsIn('root', 'factory'), within).toBe(false);
  const own = bmc.controller.accounts.find(({ name }) => name === 'muster')!;
  expect(own.password).toHaveLength(16);
  expect(await logsIn('muster', own.password)).toBe(true);
});

test('2: the machine is switched on until it is ready, off, restarted, and boots once from elsewhere', async () => {
  expect(await done('muster power on NAME --boot network --wait ready')).toContain('proved');
  expect(bmc.controller.starts).toEqual(['network']);
  await expect.poll(() => done('muster get machines -o wide'), within).toMatch(/node-1 .* on /);
  await done('muster power off NAME');
  expect(hardware.on).toBe(false);
  await done('muster power on NAME');
  await done('muster power off NAME --now');
  await done('muster power on NAME');
  await done('muster power cycle NAME');
  await done('muster power reset NAME');
  expect(bmc.controller.orders).toEqual(['on', 'shut-down', 'on', 'off', 'on', 'cycle', 'reset']);
  await done('muster machine boot NAME --once network');
  expect(bmc.controller.boot.target).toBe('network');
  await done('muster machine identify NAME');
  expect(bmc.controller.lit).toBe(true);
  expect(await done('muster power status --last')).toMatch(/node-1 +on/);
  expect(await done('muster power status [NAME…]')).toMatch(/node-1 +on/);
});

test('3: the console is followed from the first line of the firmware, and typed into', async () => {
  // This BMC has a websocket; IPMI's is seen in test/unit/api/bmc-console.test.ts.
  expect(PAGE).toContain('| `redfish` | a websocket');
  await applied({ bmc: { console: 'redfish' } });
  const shown = () => command('muster machine console NAME --bmc');
  await expect.poll(async () => (await shown()).err, within).toContain('is open since');
  await done('muster power cycle NAME');
  await expect.poll(async () => (await shown()).out, within).toContain('BIOS (network)');
  await done('muster machine console NAME --bmc --type root');
  await expect.poll(() => hardware.typed, within).toBe('root\r');
  const following = new AbortController();
  const words = filled('muster machine console NAME --bmc --follow').split(' ').slice(1);
  ran.add('muster machine console NAME --bmc --follow');
  const onOut = (out: string): void => {
    if (out.includes('kernel panic')) following.abort();
  };
  const seen = run(words, { socket: world.socket, signal: following.signal, onOut });
  // It may begin to follow before or after the line.
  const saying = setInterval(() => hardware.say('kernel panic\r\n'), 100);
  await seen.finally(() => clearInterval(saying));
  expect(await done('muster bmc show NAME')).toContain('Muster Lab');
  expect(await done('muster bmc show NAME --sensors')).toContain('CPU Temp');
  expect(await done('muster bmc show NAME --log')).toContain('power: cycle');
});

test('4: a machine that hangs is switched off and on again, and an order that fails is named', async () => {
  const [fragment] = documentsWith('recover:') as unknown as [{ power: object }];
  await applied({ power: fragment.power });
  const before = bmc.controller.orders.length;
  isAlive = false;
  await expect.poll(() => bmc.controller.orders.slice(before), within).toEqual(['cycle']);
  await expect.poll(() => done('muster power status [NAME…]'), within).toMatch(/node-1 .*cycle: proved/);
  const restarts = world.deps.events
    .list({ subject: MACHINE })
    .filter(({ kind }) => kind === 'machine.recovery');
  expect(restarts.map(({ reason }) => reason?.code)).toContain('restarted');
  const start = hardware.start.bind(hardware);
  hardware.start = async () => {
    hardware.on = true;
    isAlive = false;
  };
  const failed = await command('muster power reset NAME', '--patience', '10s');
  expect(failed).toMatchObject({ code: 1, out: expect.stringContaining('post-stuck') });
  hardware.start = start;
  expect((await command('muster explain NAME')).out).toContain('post-stuck');
  expect(PAGE).toContain('(diagnosis.md#post-stuck)');
});

test("5: its password is replaced, and Muster's CA signs its certificate", async () => {
  const password = () => bmc.controller.accounts.find(({ name }) => name === 'muster')!.password;
  const before = password();
  await done('muster bmc rotate NAME');
  expect(await logsIn('muster', before)).toBe(false);
  expect(await logsIn('muster', password())).toBe(true);
  expect(PAGE).toContain('`managedCertificate: true` in `bmc`');
  await applied({ bmc: { managedCertificate: true } as never });
  await expect.poll(() => command('muster bmc ca').then(({ out }) => out), within).toContain('CERTIFICATE');
  await expect.poll(() => done('muster bmc ls'), within).toMatch(/node-1 .* 20\d\d-/);
  expect(await done('muster pki status')).toContain('bmcs');
  await done('muster bmc rotate NAME --certificate');
  const authority = () => command('muster bmc ca').then(({ out }) => out);
  const first = await authority();
  await done('muster bmc ca --replace');
  await expect.poll(async () => (await authority()).includes(first), within).toBe(false);
  // A board that was replaced has another certificate, and waits for a person. A connection that is
  // used just then keeps the one before.
  await expect
    .poll(async () => {
      await bmc.changeCertificate();
      return (await command('muster power status [NAME…]')).out;
    }, within)
    .toContain('another certificate');
  await done('muster power forget node-1');
  await done('muster power forget NAME');
  await expect.poll(() => done('muster power status [NAME…]'), within).toMatch(/node-1 +on/);
});

test('every command of the page was run, or is listed as one that is not', () => {
  // `muster bmc rotate` without a name stands for the command itself.
  ran.add('muster bmc rotate');
  expect([...new Set(COMMANDS)].filter((one) => !ran.has(one) && !Object.hasOwn(NOT_RUN, one))).toEqual([]);
  for (const one of Object.keys(NOT_RUN)) expect(COMMANDS).toContain(one);
});
