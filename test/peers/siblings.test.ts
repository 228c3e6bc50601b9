/**
 * Files of images go from one boot host to the others by themselves: processes of `muster serve` on
 * a real member of etcd, each with its own state directory.
 */
import { execFileSync } from 'node:child_process';
import { createHash, randomBytes } from 'node:crypto';
import fs from 'node:fs';
import https from 'node:https';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { afterAll, beforeAll, expect, test } from 'vitest';
import { join as joinHost } from '../../src/cli/host/join.files.ts';
import type { Io } from '../../src/cli/io.ts';
import { readCode, writeCode } from '../../src/pxe/siblings/code.ts';
import { callApi } from './etcd/api.ts';
import { type StoreMembers, startMembers } from './etcd-members.ts';
import { freePort, MUSTER, READY, type ServerProcess, STANDS_BY, startServer } from './server-process.ts';

const home = fs.mkdtempSync(join(tmpdir(), 'muster-siblings-'));
const ADDRESS = '10.78.0.1';
const CONFIG = join(home, 'config');
const SMALL = join(home, 'host3');
const MACHINE =
  'apiVersion: muster/v1\nkind: Machine\nmetadata: {name: m1}\nspec: {macs: ["52:54:00:00:00:01"]}\n';
const running: ServerProcess[] = [];
const ports = new Map<string, number>();
let members: StoreMembers;

beforeAll(async () => {
  for (const words of [
    ['link', 'add', 'siblings0', 'type', 'veth', 'peer', 'name', 'siblings1'],
    ['link', 'set', 'siblings1', 'up'],
    ['addr', 'add', `${ADDRESS}/24`, 'dev', 'siblings0'],
    ['link', 'set', 'siblings0', 'up'],
  ])
    execFileSync('ip', words);
  fs.mkdirSync(SMALL);
  fs.mkdirSync(join(CONFIG, 'rack'), { recursive: true });
  fs.writeFileSync(join(CONFIG, 'rack/m1.yaml'), MACHINE);
  execFileSync('mount', ['-t', 'tmpfs', '-o', 'size=12m', 'tmpfs', SMALL]);
  members = await startMembers(1);
});
afterAll(async () => {
  for (const server of running) await server.end('SIGKILL');
  await members?.end();
  execFileSync('umount', [SMALL]);
  fs.rmSync(home, { recursive: true });
});

const stateOf = (name: string): string => join(home, name);
const socketOf = (name: string): string => join(home, `${name}.sock`);
const fileOf = (name: string, sha256: string): string => join(stateOf(name), 'assets/sha256', sha256);

async function host(name: string, until: string): Promise<ServerProcess> {
  fs.mkdirSync(stateOf(name), { recursive: true });
  const key = join(home, 'vault.key');
  if (fs.existsSync(key)) fs.copyFileSync(key, join(stateOf(name), 'vault.key'));
  const port = freePort();
  ports.set(name, port);
  const server = await startServer(
    [
      ...['--state', stateOf(name), '--socket', socketOf(name), '--host-name', name],
      ...['--http-port', `${freePort()}`, '--agent-port', `${freePort()}`],
      ...['--sibling-port', `${port}`, '--config', CONFIG],
      ...['--store', members.url('siblings'), ...members.options],
    ],
    undefined,
    until,
  );
  running.push(server);
  if (!fs.existsSync(key)) fs.copyFileSync(join(stateOf(name), 'vault.key'), key);
  return server;
}

async function ask<T>(at: string, method: string, path: string, body?: string | Buffer): Promise<T> {
  const { status, text } = await callApi(socketOf(at), method, path, body);
  if (status >= 300) throw new Error(text);
  return JSON.parse(text) as T;
}

interface HostItem {
  readonly name: string;
  readonly files?: { readonly lacking: number; readonly octets: number; readonly trouble?: string };
}
const filesOf = async (at: string, name: string): Promise<HostItem['files']> =>
  (await ask<{ items: readonly HostItem[] }>(at, 'GET', '/v1/hosts')).items.find((one) => one.name === name)
    ?.files;
const holders = async (at: string, sha256: string): Promise<readonly string[] | undefined> =>
  (
    await ask<{ items: readonly { sha256: string; hosts: readonly string[] }[] }>(at, 'GET', '/v1/assets')
  ).items.find((one) => one.sha256 === sha256)?.hosts;

/** Uploads a file of random octets, and applies an Image that has it as its kernel. */
async function image(at: string, name: string, octets: number): Promise<string> {
  const file = randomBytes(octets);
  const sha256 = createHash('sha256').update(file).digest('hex');
  await ask(at, 'PUT', `/v1/assets/${sha256}`, file);
  const spec = { os: 'debian', arch: 'x86_64', configFormat: 'cloud-init', kernel: { sha256 } };
  const document = { apiVersion: 'muster/v1', kind: 'Image', metadata: { name }, spec };
  await ask(at, 'POST', '/v1/apply', JSON.stringify(document));
  return sha256;
}

const hashOf = (path: string): string => createHash('sha256').update(fs.readFileSync(path)).digest('hex');
const WAIT = { timeout: 120_000, interval: 200 };
const MIB = 2 ** 20;

/** What a client gets from the listener for boot hosts. */
const knock = (port: number, path: string, pair: object): Promise<string> =>
  new Promise((resolve) => {
    const asked = https.request({ host: ADDRESS, port, path, rejectUnauthorized: false, ...pair }, (answer) =>
      resolve(`${answer.statusCode}`),
    );
    asked.once('error', ({ message }) => resolve(message));
    asked.end();
  });

test('a host that stands by fetches the files of images, continues what was interrupted, and gives them back', async () => {
  const first = await host('host1', READY);
  const kernel = await image('host1', 'one', 8 * MIB);
  expect(await holders('host1', kernel)).toEqual(['host1']);
  // A part of it is there, as after a kill.
  fs.mkdirSync(join(stateOf('host2'), 'assets/partial'), { recursive: true });
  const part = fs.readFileSync(fileOf('host1', kernel)).subarray(0, 3 * MIB);
  fs.writeFileSync(join(stateOf('host2'), 'assets/partial', kernel), part);
  const second = await host('host2', STANDS_BY);
  await expect.poll(() => holders('host1', kernel), WAIT).toEqual(['host1', 'host2']);
  expect(hashOf(fileOf('host2', kernel))).toBe(kernel);
  expect(second.log()).toContain(`"octets":${5 * MIB},"resumed":true`);
  expect(await filesOf('host1', 'host2')).toEqual({ lacking: 0, octets: 0 });

  // Nobody else gets as far as an answer, with a certificate that etcd takes or without one.
  const { cert, key } = members.files;
  const pair = { cert: fs.readFileSync(cert), key: fs.readFileSync(key) };
  for (const shown of [{}, pair])
    expect(await knock(ports.get('host1')!, `/file/${kernel}`, shown)).toMatch(/socket|ECONN/);

  // What the first host loses comes back from the one that took over.
  await first.end('SIGKILL');
  await second.wrote(READY);
  fs.rmSync(fileOf('host1', kernel));
  await Promise.all([host('host1', STANDS_BY), host('host3', STANDS_BY)]);
  await expect.poll(() => holders('host2', kernel), WAIT).toEqual(['host2', 'host1', 'host3']);
  expect(hashOf(fileOf('host1', kernel))).toBe(kernel);
}, 240_000);

test('a host whose disk is full is named, and what an operator removes is removed everywhere', async () => {
  const kernel = await image('host2', 'two', 14 * MIB);
  await expect.poll(() => filesOf('host2', 'host3'), WAIT).toMatchObject({ lacking: 1, trouble: 'full' });
  const { checks } = await ask<{ checks: readonly { name: string; ok: boolean; detail: string }[] }>(
    'host2',
    'GET',
    '/v1/status',
  );
  expect(checks.find(({ name }) => name === 'boot hosts')).toMatchObject({
    ok: false,
    detail: expect.stringMatching(/host3 lacks 1 file of images or artifacts \(14 MiB\): its disk is full/),
  });
  await expect.poll(() => holders('host2', kernel), WAIT).toEqual(['host2', 'host1']);

  await ask('host2', 'POST', '/v1/delete', JSON.stringify({ documents: [{ kind: 'Image', name: 'two' }] }));
  await ask('host2', 'DELETE', `/v1/assets/${kernel}`);
  await expect.poll(() => fs.existsSync(fileOf('host1', kernel)), WAIT).toBe(false);
  await expect.poll(() => filesOf('host2', 'host3'), WAIT).toEqual({ lacking: 0, octets: 0 });
}, 240_000);

/** Runs `muster host join` in this process, with the code at its standard input. */
async function joinBy(code: string, at: string): Promise<string> {
  let said = '';
  const io = {
    ...{ out: (text: string) => (said += text), ask: async () => code },
    signal: new AbortController().signal,
  } as unknown as Io;
  const place = (name: string): string => join(home, at, name);
  fs.mkdirSync(place(''), { recursive: true });
  const places = { state: place('state'), config: place('config'), storeFiles: place('store') };
  await joinHost({ ...places, settings: place('settings') }, io);
  return said;
}

test('a host joins by a code, which counts once, and stands by with what it got', async () => {
  const invite = async (name: string): Promise<string> => {
    const body = JSON.stringify({ host: name, shareCertificate: true });
    return (await ask<{ code: string }>('host2', 'POST', '/v1/hosts/invitations', body)).code;
  };
  const wrong = readCode(await invite('host4'));
  await ask('host2', 'DELETE', '/v1/hosts/invitations/host4');
  // Nobody is invited: the request is not even read.
  await expect(joinBy(writeCode(wrong), 'off')).rejects.toMatchObject({ code: 'E_UNREACHABLE' });
  const code = await invite('host4');
  await expect(joinBy(writeCode(wrong), 'old')).rejects.toMatchObject({ code: 'E_JOIN' });
  const other = { ...readCode(code), fingerprint: '0'.repeat(64) };
  await expect(joinBy(writeCode(other), 'imposter')).rejects.toThrow('another certificate');
  expect(fs.readdirSync(join(home, 'old/state'))).toEqual([]);

  expect(await joinBy(code, 'host4')).toContain('this host is host4');
  await expect(joinBy(code, 'again')).rejects.toMatchObject({ code: 'E_UNREACHABLE' });
  await expect(joinBy(code, 'host4')).rejects.toThrow('has served already');
  const at = join(home, 'host4');
  const key = join(at, 'state/vault.key');
  expect(fs.readFileSync(key, 'utf8')).toBe(fs.readFileSync(join(home, 'vault.key'), 'utf8'));
  expect(fs.statSync(key).mode & 0o777).toBe(0o600);
  expect(fs.readFileSync(join(at, 'config/rack/m1.yaml'), 'utf8')).toBe(MACHINE);
  const { items } = await ask<{ items: readonly { kind: string; fields: Record<string, string> }[] }>(
    'host2',
    'GET',
    '/v1/events',
  );
  expect(items.filter(({ kind }) => kind === 'host.join-refused')).toHaveLength(1);
  expect(items.find(({ kind }) => kind === 'host.joined')?.fields).toEqual({
    host: 'host4',
    address: ADDRESS,
  });

  const env = Object.fromEntries(
    fs
      .readFileSync(join(at, 'settings'), 'utf8')
      .trim()
      .split('\n')
      .map((line) => line.split(/=(.*)/s).slice(0, 2) as [string, string]),
  );
  expect(env.MUSTER_HOST_NAME).toBe('host4');
  const words = [
    ...['--state', join(at, 'state'), '--socket', socketOf('host4'), '--config', join(at, 'config')],
    ...['--http-port', `${freePort()}`, '--agent-port', `${freePort()}`, '--sibling-port', `${freePort()}`],
  ];
  running.push(
    await startServer(
      words,
      ['env', ...Object.entries(env).map((one) => one.join('=')), process.execPath, MUSTER],
      STANDS_BY,
    ),
  );
  expect(env.MUSTER_STORE).toBe(members.url('siblings'));
  const kernel = (await ask<{ items: readonly { sha256: string }[] }>('host2', 'GET', '/v1/assets'))
    .items[0]!;
  await expect.poll(() => holders('host2', kernel.sha256), WAIT).toContain('host4');
}, 240_000);
