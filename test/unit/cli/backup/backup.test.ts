/** Backups of the boot host: their archive, what is refused, and the units of the timer. */
import { createHash } from 'node:crypto';
import fs from 'node:fs';
import os from 'node:os';
import path from 'node:path';
import { afterEach, beforeEach, expect, test } from 'vitest';
import { systemClock } from '../../../../src/base/clock.ts';
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
import type { Assets } from '../../../../src/pxe/assets/assets.files.ts';
import { openLife } from '../../../../src/store/life.ts';
import { openSqliteStore } from '../../../../src/store/sqlite.files.ts';
import { hostArchive } from '../../../../src/wiring/backup.files.ts';

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

/** A backup as the server of this host writes it, with the octets that `change` makes of them. */
async function ofServer(signer: string | undefined, change: (archive: Buffer) => Buffer = (all) => all) {
  const vaultKey = `${newVaultKey()}\n`;
  fs.mkdirSync(at('server'), { recursive: true });
  fs.writeFileSync(at('server/vault.key'), vaultKey);
  fs.rmSync(at('server/muster.db'), { force: true });
  const vault = vaultFrom(vaultKey, 'test');
  const store = await open(at('server/muster.db'));
  await openSecrets({ store, vault }).key('revisions');
  const options = { state: at('server'), config: undefined, vaultKey: undefined, signer };
  const assets = { list: async () => [] } as unknown as Assets;
  const archive = hostArchive(options, { clock: systemClock }, { store, assets, vault });
  const parts: Uint8Array[] = [];
  for await (const piece of archive({ assets: false })) parts.push(piece);
  await store.close();
  const sealed: Uint8Array[] = [];
  const whole = change(Buffer.concat(parts));
  for await (const part of ageSeal(once(whole), { passphrase: PASSPHRASE }, 8)) sealed.push(part);
  fs.writeFileSync(at('host.age'), Buffer.concat(sealed));
  return { file: at('host.age'), signs: (await vault.signBackup('0'.repeat(64))).key };
}

test('the server signs its backups with a key that follows from the vault’s, and verify says whose key it was', async () => {
  const { file, signs } = await ofServer(undefined);
  const checked = io();
  await verify(file, key(), checked.io);
  expect(checked.said.join('')).toContain(`signed with key ${signs}`);
  const unsigned = io();
  await verify(await backup(), key(), unsigned.io);
  expect(unsigned.said.join('')).toContain('it is not signed: whoever can open it may have changed it');
});

test('a backup that was changed behind its signer’s back is refused', async () => {
  const other = Buffer.from('"version": "0.0.0"');
  const { file } = await ofServer(undefined, (all) => {
    const found = /"version": "[0-9.]+"/.exec(all.toString('latin1'))!;
    expect(found[0]).toHaveLength(other.length);
    other.copy(all, found.index);
    return all;
  });
  await expect(verify(file, key(), io().io)).rejects.toThrow(/not the one that was signed/);
});

test('with a signer the vault key is in no backup, which is verified and restored, and says so', async () => {
  const { file, signs } = await ofServer('/run/muster-signer/server.sock');
  const checked = io();
  await verify(file, key(), checked.io);
  expect(checked.said.join('')).toContain('no vault key, which the signer has');
  const restored = io();
  await restore(file, { ...key(), state: at('state') }, restored.io);
  expect(fs.readdirSync(at('state'))).not.toContain('vault.key');
  expect(restored.said.join('')).toMatch(/give the signer of this host its copy/);
  expect(restored.said.join('')).toContain(signs);
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
