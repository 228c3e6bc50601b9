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
import { callApi } from './etcd/api.ts';
import { type StoreMembers, startMembers } from './etcd-members.ts';
import { freePort, READY, type ServerProcess, STANDS_BY, startServer } from './server-process.ts';

const home = fs.mkdtempSync(join(tmpdir(), 'muster-siblings-'));
const ADDRESS = '10.78.0.1';
const SMALL = join(home, 'host3');
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
const partOf = (name: string, sha256: string): string => join(stateOf(name), 'assets/partial', sha256);

async function host(name: string, until: string, rate = '1000'): Promise<ServerProcess> {
  fs.mkdirSync(stateOf(name), { recursive: true });
  const key = join(home, 'vault.key');
  if (fs.existsSync(key)) fs.copyFileSync(key, join(stateOf(name), 'vault.key'));
  const port = freePort();
  ports.set(name, port);
  const server = await startServer(
    [
      ...['--state', stateOf(name), '--socket', socketOf(name), '--host-name', name],
      ...['--http-port', `${freePort()}`, '--agent-port', `${freePort()}`],
      ...['--sibling-port', `${port}`, '--copy-rate', rate],
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

test('a host that stands by fetches the files of images, continues after a kill, and gives them back', async () => {
  const first = await host('host1', READY);
  const kernel = await image('host1', 'one', 8 * MIB);
  // So slow that it is killed in the middle.
  const slow = await host('host2', STANDS_BY, '1');
  await expect.poll(() => fs.existsSync(partOf('host2', kernel)), WAIT).toBe(true);
  await expect.poll(() => fs.statSync(partOf('host2', kernel)).size, WAIT).toBeGreaterThan(MIB / 2);
  expect(await holders('host1', kernel)).toEqual(['host1']);
  await slow.end('SIGKILL');
  expect(fs.existsSync(fileOf('host2', kernel))).toBe(false);

  const second = await host('host2', STANDS_BY);
  await expect.poll(() => holders('host1', kernel), WAIT).toEqual(['host1', 'host2']);
  expect(hashOf(fileOf('host2', kernel))).toBe(kernel);
  expect(second.log()).toMatch(/"resumed":true.*a file was fetched|a file was fetched.*"resumed":true/);
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
