/**
 * An upgrade of Muster is rolled back, as docs/install.md says: the version before refuses a store
 * of a newer format, until the backup from before the upgrade is restored. The newer version is
 * played by its mark in the store.
 */
import { type ChildProcess, execFile, execFileSync, spawn } from 'node:child_process';
import { once } from 'node:events';
import fs from 'node:fs';
import net from 'node:net';
import os from 'node:os';
import path from 'node:path';
import { DatabaseSync } from 'node:sqlite';
import { promisify } from 'node:util';
import { afterEach, beforeEach, expect, test, vi } from 'vitest';
import type { Shown } from '../../src/api/shown.ts';
import { connectApi } from '../../src/cli/client.socket.ts';
import { FORMAT } from '../../src/store/sqlite-format.ts';

const ROOT = path.join(import.meta.dirname, '../..');
const MUSTER = path.join(ROOT, 'src/cli/main.ts');
const PROFILE = 'apiVersion: muster/v1\nkind: Profile\nmetadata: {name: kept}\nspec: {boot: hold}\n';

let dir: string;
let state: string;
let socket: string;
let server: ChildProcess | undefined;
let log: string;

beforeEach(() => {
  dir = fs.mkdtempSync(path.join(os.tmpdir(), 'muster-versions-'));
  state = path.join(dir, 'state');
  socket = path.join(dir, 'muster.sock');
  fs.mkdirSync(state);
});

afterEach(async () => {
  await stop();
  fs.rmSync(dir, { recursive: true, force: true });
});

const freePort = (): Promise<number> =>
  new Promise((resolve) => {
    const probe = net.createServer().listen(0, '127.0.0.1', () => {
      const { port } = probe.address() as net.AddressInfo;
      probe.close(() => resolve(port));
    });
  });

/** Starts the server; resolves when it is ready or has ended. */
async function serve(): Promise<void> {
  log = '';
  const child = spawn(
    process.execPath,
    [
      ...[MUSTER, 'serve', '--state', state, '--socket', socket],
      ...['--http-port', String(await freePort()), '--loaders', dir],
    ],
    { stdio: ['ignore', 'pipe', 'pipe'] },
  );
  server = child;
  for (const stream of [child.stdout!, child.stderr!]) stream.on('data', (text) => (log += text));
  await vi.waitFor(() => expect(log.includes('"ready:') || child.exitCode !== null).toBe(true), {
    timeout: 60_000,
  });
}

async function stop(): Promise<void> {
  if (server === undefined || server.exitCode !== null) return;
  const ended = once(server, 'exit');
  server.kill('SIGTERM');
  await ended;
}

const muster = (...args: readonly string[]) =>
  promisify(execFile)(process.execPath, [MUSTER, ...args], {
    env: { ...process.env, MUSTER_SOCKET: socket },
  });

const names = async (kind: string): Promise<readonly string[]> => {
  const { items } = await connectApi(socket).call<{ readonly items: readonly Shown[] }>('GET', `/v1/${kind}`);
  return items.map(({ metadata }) => metadata.name);
};

test('the version before refuses a newer store and says so, and works again with the backup from before the upgrade', async () => {
  await serve();
  const file = path.join(dir, 'kept.yaml');
  fs.writeFileSync(file, PROFILE);
  await muster('apply', '-f', file);
  const key = path.join(dir, 'key.txt');
  execFileSync('age-keygen', ['-o', key], { stdio: 'ignore' });
  const recipient = String(execFileSync('age-keygen', ['-y', key])).trim();
  const backup = path.join(dir, 'host.age');
  await muster('backup', 'create', '-o', backup, '--recipient', recipient);
  await stop();

  // The newer version converts the store, and is rolled back.
  const db = new DatabaseSync(path.join(state, 'muster.db'));
  db.exec(`PRAGMA user_version = ${FORMAT + 1}`);
  db.close();
  await serve();
  expect(server!.exitCode).not.toBe(0);
  expect(log).toContain('E_STORE_NEWER');
  expect(log).toContain(`has format ${FORMAT + 1}; this version knows formats up to ${FORMAT}`);

  fs.renameSync(state, path.join(dir, 'newer'));
  await muster('backup', 'restore', backup, '--identity', key, '--state', state);
  await serve();
  expect(await names('profiles')).toEqual(['kept']);
  await muster('backup', 'accept', '--confirm');
  await stop();
  await serve();
  expect(log).toContain('"ready:');
}, 180_000);
