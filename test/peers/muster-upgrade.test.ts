/**
 * What docs/compatibility.md promises of stores, backups and documents. An upgrade of Muster is
 * rolled back, as docs/install.md says: the version before refuses a store of a newer format, until
 * the backup from before the upgrade is restored. The newer version is played by its mark in the
 * store. The backups of releases are kept in `releases` (scripts/freeze-backup.ts).
 */
import { execFile, execFileSync } from 'node:child_process';
import fs from 'node:fs';
import os from 'node:os';
import path from 'node:path';
import { DatabaseSync } from 'node:sqlite';
import { promisify } from 'node:util';
import { afterEach, beforeEach, expect, test } from 'vitest';
import type { Shown } from '../../src/api/shown.ts';
import { connectApi } from '../../src/cli/client.socket.ts';
import { FORMAT } from '../../src/store/sqlite-format.ts';
import { freePort, MUSTER, type ServerProcess, startServer } from './server-process.ts';

const PROFILE = 'apiVersion: muster/v1\nkind: Profile\nmetadata: {name: kept}\nspec: {boot: hold}\n';

let dir: string;
let state: string;
let socket: string;
let server: ServerProcess | undefined;

beforeEach(() => {
  dir = fs.mkdtempSync(path.join(os.tmpdir(), 'muster-versions-'));
  state = path.join(dir, 'state');
  socket = path.join(dir, 'muster.sock');
  fs.mkdirSync(state);
});

afterEach(async () => {
  await server?.end();
  fs.rmSync(dir, { recursive: true, force: true });
});

async function serve(...more: readonly string[]): Promise<void> {
  server = await startServer([
    ...more,
    ...['--state', state, '--socket', socket],
    ...['--http-port', String(freePort()), '--loaders', dir],
  ]);
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
  await server?.end();

  // The newer version converts the store, and is rolled back.
  const db = new DatabaseSync(path.join(state, 'muster.db'));
  db.exec(`PRAGMA user_version = ${FORMAT + 1}`);
  db.close();
  const refused = await serve().catch(String);
  expect(refused).toContain('E_STORE_NEWER');
  expect(refused).toContain(`has format ${FORMAT + 1}; this version knows formats up to ${FORMAT}`);

  fs.renameSync(state, path.join(dir, 'newer'));
  await muster('backup', 'restore', backup, '--identity', key, '--state', state);
  await serve();
  expect(await names('profiles')).toEqual(['kept']);
  await muster('backup', 'accept', '--confirm');
  await server?.end();
  await serve();
}, 180_000);

const RELEASES = path.join(import.meta.dirname, 'releases');
const released = fs
  .readdirSync(RELEASES)
  .filter((file) => file.endsWith('.age'))
  .map((file) => path.basename(file, '.age'));

test.each(released)(
  'a backup of %s is restored with its documents, machines, cluster, keys and operators, and goes on',
  async (version) => {
    const config = path.join(dir, 'config');
    const [backup, key] = ['age', 'txt'].map((kind) => path.join(RELEASES, `${version}.${kind}`));
    await muster('backup', 'restore', backup!, '--identity', key!, '--state', state, '--config', config);
    const { stdout } = await muster('validate', config);
    expect(stdout).toMatch(/valid/);
    await serve('--config', config);
    expect([...(await names('profiles'))].sort()).toEqual(['kept', 'node']);
    const machines = await names('machines');
    expect([...machines].sort()).toEqual(['cp1', 'cp2', 'cp3', 'worker-1']);
    await muster('backup', 'accept', '--confirm');
    await server?.end();
    await serve('--config', config);
    const shown = async (...words: string[]) => (await muster(...words)).stdout;
    expect(await shown('cluster', 'founding', 'rack')).toMatch(/founded/);
    expect(await shown('pki', 'status', 'rack')).toMatch(/rack +etcd-peer +cp1 /);
    expect(await shown('operator', 'ls')).toMatch(/ada +admin/);
    expect(await shown('get', 'machines')).toMatch(/cp1 +\S+ +node +10\.92\.64\.1/);
  },
);
