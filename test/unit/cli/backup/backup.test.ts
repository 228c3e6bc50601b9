/** Backups of the boot host: their archive, what is refused, and the units of the timer. */
import { createHash } from 'node:crypto';
import fs from 'node:fs';
import os from 'node:os';
import path from 'node:path';
import { afterEach, beforeEach, expect, test } from 'vitest';
import { silentLog } from '../../../../src/base/log.ts';
import { createMetrics } from '../../../../src/base/metrics.ts';
import {
  archived,
  type BackupDescription,
  isBackupName,
  readArchive,
  readDescription,
  TAR_END,
} from '../../../../src/cli/backup/archive.ts';
import { restore, verify } from '../../../../src/cli/backup/restore.files.ts';
import { unitsOf } from '../../../../src/cli/backup/schedule.files.ts';
import { ageSeal } from '../../../../src/pki/age.ts';
import { openSecrets } from '../../../../src/pki/secrets.ts';
import { newVaultKey, vaultFrom } from '../../../../src/pki/vault.ts';
import { openLife } from '../../../../src/store/life.ts';
import { openSqliteStore } from '../../../../src/store/sqlite.files.ts';

const PASSPHRASE = 'correct horse battery';
const ASSET = 'the kernel';
const HASH = createHash('sha256').update(ASSET).digest('hex');

let directory: string;
beforeEach(() => {
  directory = fs.mkdtempSync(path.join(os.tmpdir(), 'muster-backup-'));
  fs.writeFileSync(at('passphrase'), `${PASSPHRASE}\n`);
});
afterEach(() => fs.rmSync(directory, { recursive: true }));
const at = (name: string): string => path.join(directory, name);

async function* once(octets: Uint8Array | string): AsyncGenerator<Uint8Array> {
  yield Buffer.from(octets as string);
}

const open = (file: string) => openSqliteStore({ path: file, log: silentLog, metrics: createMetrics() });

/** Writes a backup; files that are undefined are left out. */
async function backup(changes: Record<string, string | Uint8Array | undefined> = {}): Promise<string> {
  const vaultKey = newVaultKey();
  const store = await open(at('source.db'));
  await openSecrets({ store, vault: vaultFrom(vaultKey, 'test') }).key('revisions');
  await store.commit([{ key: 'document/Machine/m1', put: 'x' }]);
  await store.copyTo(at('copy.db'));
  await store.close();
  const description: BackupDescription = {
    v: 1,
    createdAt: 1000,
    version: '1.2.3',
    assets: [{ sha256: HASH, size: ASSET.length }],
    withAssets: true,
  };
  const files = {
    'backup.json': JSON.stringify(description),
    'vault.key': `${vaultKey}\n`,
    'muster.db': fs.readFileSync(at('copy.db')),
    'config/machines/m1.yaml': 'kind: Machine\n',
    [`assets/${HASH}`]: ASSET,
    ...changes,
  };
  const archive = async function* () {
    for (const [name, content] of Object.entries(files))
      if (content !== undefined) yield* archived(name, content.length, once(content));
    yield TAR_END;
  };
  const parts: Uint8Array[] = [];
  for await (const part of ageSeal(archive(), { passphrase: PASSPHRASE }, 8)) parts.push(part);
  fs.writeFileSync(at('host.age'), Buffer.concat(parts));
  fs.rmSync(at('copy.db'));
  fs.rmSync(at('source.db'));
  return at('host.age');
}

function io() {
  const said: string[] = [];
  return { said, io: { out: (text: string) => said.push(text) } as never };
}

const key = () => ({ passphraseFile: at('passphrase') });

test('a backup is verified, and restored as another life of the store', async () => {
  const file = await backup();
  const checked = io();
  await verify(file, key(), checked.io);
  expect(checked.said.join('')).toContain('1 of 1 files of images and artifacts');
  const restored = io();
  await restore(file, { ...key(), state: at('state'), config: at('config') }, restored.io);
  expect(fs.readFileSync(at(`state/assets/sha256/${HASH}`), 'utf8')).toBe(ASSET);
  expect(fs.readFileSync(at('config/machines/m1.yaml'), 'utf8')).toBe('kind: Machine\n');
  expect(fs.statSync(at('state/vault.key')).mode & 0o777).toBe(0o600);
  expect(restored.said.join('')).toContain('life 1');
  const store = await open(at('state/muster.db'));
  expect((await store.get('document/Machine/m1'))?.value).toBe('x');
  const life = await openLife({ store, clock: { now: () => 0 as never }, log: silentLog });
  expect(life).toMatchObject({ number: 1, state: 'restored' });
  await store.close();
  await expect(restore(file, { ...key(), state: at('state') }, io().io)).rejects.toMatchObject({
    code: 'E_USAGE',
  });
});

test('a wrong passphrase, a damaged file and a backup that lacks something are refused, and no store is left', async () => {
  const refused = async (file: string, code: string): Promise<void> => {
    const state = at(`state-${Math.random()}`);
    await expect(verify(file, key(), io().io)).rejects.toMatchObject({ code });
    await expect(restore(file, { ...key(), state }, io().io)).rejects.toMatchObject({ code });
    expect(fs.existsSync(path.join(state, 'muster.db'))).toBe(false);
  };
  const file = await backup();
  const whole = fs.readFileSync(file);
  fs.writeFileSync(at('other'), 'another passphrase\n');
  await expect(verify(file, { passphraseFile: at('other') }, io().io)).rejects.toMatchObject({
    code: 'E_EXPORT',
  });
  fs.writeFileSync(file, whole.subarray(0, -100));
  await refused(file, 'E_EXPORT');
  await refused(await backup({ 'vault.key': undefined }), 'E_BACKUP');
  await refused(await backup({ 'backup.json': '{"v": 2}' }), 'E_BACKUP');
  await refused(await backup({ 'backup.json': undefined }), 'E_BACKUP');
});

test('a backup whose vault key does not open its keys is refused', async () => {
  const file = await backup({ 'vault.key': `${newVaultKey()}\n` });
  await expect(verify(file, key(), io().io)).rejects.toMatchObject({ code: 'E_VAULT_KEY' });
});

test('an asset that does not have its hash is not restored', async () => {
  const file = await backup({ [`assets/${HASH}`]: 'tthe kerne' });
  await expect(restore(file, { ...key(), state: at('state') }, io().io)).rejects.toMatchObject({
    code: 'E_BACKUP',
  });
});

test('no name of an archive leads out of the directory', () => {
  for (const name of ['../x', 'config/../x', '/etc/passwd', 'config/.hidden', 'config/', 'assets/x', 'other'])
    expect(isBackupName(name), name).toBe(false);
  for (const name of ['muster.db', 'config/a.yaml', 'config/a/b-c.yaml', `assets/${HASH}`])
    expect(isBackupName(name), name).toBe(true);
});

test('an archive in any pieces gives the same files', async () => {
  const archive: Uint8Array[] = [];
  const text = JSON.stringify({ v: 1, createdAt: 1, version: 'x', assets: [], withAssets: false });
  for await (const part of archived('backup.json', text.length, once(text))) archive.push(part);
  for await (const part of archived('config/a', 700, once(Buffer.alloc(700, 7)))) archive.push(part);
  archive.push(TAR_END);
  const whole = Buffer.concat(archive);
  for (const size of [1, 511, 512, 513, whole.length]) {
    const names: string[] = [];
    const pieces = async function* () {
      for (let from = 0; from < whole.length; from += size) yield whole.subarray(from, from + size);
    };
    for await (const one of readArchive(pieces())) {
      names.push(`${one.name} ${one.size}`);
      if (one.name === 'backup.json') expect((await readDescription(one)).version).toBe('x');
    }
    expect(names).toEqual([`backup.json ${text.length}`, 'config/a 700']);
  }
});

test('the timer makes backups for a recipient, and takes no value that a unit would misread', () => {
  const recipient = ['age1zvkyg2lqzraa2lnjvqej32nkuu0ues2s82hzrye869xeexvn73equnujwj'];
  const { service, timer } = unitsOf({ to: '/srv/b', recipient, every: 'daily', keep: '30' });
  expect(service).toContain(
    `ExecStart=muster backup create -o /srv/b --recipient ${recipient[0]} --keep 30\n`,
  );
  expect(timer).toContain('OnCalendar=daily\n');
  expect(() => unitsOf({ to: '/srv/b; rm', recipient, every: 'daily', keep: '30' })).toThrow('--to');
  expect(() => unitsOf({ to: '/b', recipient: ['age1'], every: 'daily', keep: '30' })).toThrow('recipient');
  expect(() => unitsOf({ to: '/b', recipient, every: 'daily\nExecStart=x', keep: '30' })).toThrow('--every');
});
