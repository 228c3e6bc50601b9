/** The vault encrypts private keys in the store. */
import fs from 'node:fs';
import path from 'node:path';
import fc from 'fast-check';
import { expect, test } from 'vitest';
import { systemClock } from '../../../src/base/clock.ts';
import { openPki } from '../../../src/pki/pki.ts';
import { sealerFrom } from '../../../src/pki/sealer.ts';
import { openSecrets } from '../../../src/pki/secrets.ts';
import { newVaultKey, vaultFrom } from '../../../src/pki/vault.ts';
import {
  createVaultKey,
  openSealer,
  startSealer,
  VAULT_CREDENTIAL,
  VAULT_KEY_FILE,
} from '../../../src/pki/vault-key.files.ts';
import { openMemoryStore } from '../../../src/store/memory.ts';
import { anyText } from '../texts.ts';
import { temporary } from './kit.ts';

const vault = sealerFrom(newVaultKey(), 'a');

test('a sealed text can be opened only for the record that it was sealed for', () => {
  fc.assert(
    fc.property(fc.string(), fc.string(), anyText(), (name, other, text) => {
      const whole = text.toWellFormed();
      const envelope = vault.seal(name, whole);
      expect(vault.open(name, envelope)).toBe(whole);
      if (other !== name) expect(() => vault.open(other, envelope)).toThrow(/belongs to another record/);
    }),
    { seed: 3, numRuns: 200 },
  );
});

test('a sealed text does not show its content, and is different each time', () => {
  const [a, b] = [vault.seal('r', 'very secret'), vault.seal('r', 'very secret')];
  expect(JSON.stringify(a)).not.toContain('very');
  expect(a.ct).not.toBe(b.ct);
});

test('an envelope with any change cannot be opened', () => {
  const envelope = vault.seal('r', 'x'.repeat(100));
  for (const field of ['iv', 'ct'] as const) {
    const octets = Buffer.from(envelope[field], 'base64');
    for (let n = 0; n < octets.length; n++) {
      const changed = Buffer.from(octets);
      changed[n]! ^= 1;
      const forged = { ...envelope, [field]: changed.toString('base64') };
      expect(() => vault.open('r', forged)).toThrow(/E_VAULT_RECORD|was changed/);
    }
  }
  for (const cut of [0, 4, 12, 15]) {
    const ct = Buffer.from(envelope.ct, 'base64').subarray(0, cut).toString('base64');
    expect(() => vault.open('r', { ...envelope, ct })).toThrow();
  }
  for (const odd of [null, {}, [], 'x', { ...envelope, v: 2 }, { ...envelope, more: 1 }])
    expect(() => vault.open('r', odd)).toThrow(/version known here/);
});

test('the error for a wrong vault key names both ids', () => {
  const other = sealerFrom(newVaultKey(), '/etc/muster/vault.key');
  expect(() => other.open('pki/c/keyset/ca/1', vault.seal('pki/c/keyset/ca/1', 'x'))).toThrow(
    `pki/c/keyset/ca/1 is sealed with vault key ${vault.primary}; /etc/muster/vault.key has ${other.primary}`,
  );
});

test('the new first line seals, the old line still opens, and is not needed after rewrapping', async () => {
  const [first, second] = [newVaultKey(), newVaultKey()];
  const store = openMemoryStore();
  const clock = systemClock;
  const before = openPki({ store, clock, vault: vaultFrom(first, 'f') });
  const made = await before.found('c');
  const both = openPki({ store, clock, vault: vaultFrom(`# two\n${second}\n${first}\n`, 'f') });
  expect(await both.rewrap()).toBe(5);
  expect(await both.rewrap()).toBe(0);
  const after = await openPki({ store, clock, vault: vaultFrom(second, 'f') }).keysets('c');
  expect([...after.values()].map(({ primary }) => primary).sort()).toEqual(
    [...made.values()].map(({ primary }) => primary).sort(),
  );
  await expect(before.handedOut('c', 'cp1', after)).rejects.toMatchObject({ code: 'E_VAULT_KEY' });
});

test('a key file is made once, readable only by its owner', () => {
  using directory = temporary();
  const file = path.join(directory.path, 'vault.key');
  expect(createVaultKey(file)).toBe(true);
  const text = fs.readFileSync(file, 'utf8');
  expect(fs.statSync(file).mode & 0o777).toBe(0o600);
  expect(createVaultKey(file)).toBe(false);
  expect(fs.readFileSync(file, 'utf8')).toBe(text);
  expect(openSealer({ file }).primary).toBe(sealerFrom(text, 'x').primary);
});

test('a key file that others can read or that has no key is refused', () => {
  using directory = temporary();
  const file = directory.write('vault.key', `${newVaultKey()}\n`);
  fs.chmodSync(file, 0o640);
  expect(() => openSealer({ file })).toThrow(/others than its owner can read/);
  expect(() => openSealer({ file: directory.write('empty', '\n') })).toThrow(/no vault key/);
  expect(() => openSealer({ file: path.join(directory.path, 'none') })).toThrow(/cannot be read: ENOENT/);
  const wrong = directory.write('wrong', 'muster-vault-1:tooshort\n');
  expect(() => openSealer({ file: wrong })).toThrow(/:1 is not a vault key/);
  expect(() => openSealer({ file: wrong })).not.toThrow(/tooshort/);
});

test('a systemd credential is preferred to the file', () => {
  using directory = temporary();
  const [mine, theirs] = [newVaultKey(), newVaultKey()];
  const file = directory.write('vault.key', mine);
  expect(openSealer({ file, credentialsDirectory: directory.path }).primary).toBe(
    sealerFrom(mine, '').primary,
  );
  directory.write(VAULT_CREDENTIAL, theirs);
  expect(openSealer({ file, credentialsDirectory: directory.path }).primary).toBe(
    sealerFrom(theirs, '').primary,
  );
});

const started = (state: string, more: Partial<Parameters<typeof startSealer>[0]> = {}) => {
  const warnings: string[] = [];
  const vault = startSealer({
    file: undefined,
    credentialsDirectory: undefined,
    state,
    sealed: false,
    warn: (text) => warnings.push(text),
    ...more,
  });
  return { vault, warnings };
};

test('the first start without a vault key makes one, readable only by its owner, and says so once', () => {
  using directory = temporary();
  const first = started(directory.path);
  const file = path.join(directory.path, VAULT_KEY_FILE);
  expect(fs.statSync(file).mode & 0o777).toBe(0o600);
  expect(first.warnings).toEqual([
    expect.stringContaining('encrypts the private keys in the same directory'),
  ]);
  const second = started(directory.path, { sealed: true });
  expect(second.warnings).toEqual([]);
  expect(second.vault.primary).toBe(first.vault.primary);
});

test('no new vault key is made when the store has keys that were sealed with another one', () => {
  using directory = temporary();
  expect(() => started(directory.path, { sealed: true })).toThrow(/and there is none/);
  expect(fs.readdirSync(directory.path)).toEqual([]);
});

test('a named vault key must exist; a credential is preferred to the key in the state directory', () => {
  using directory = temporary();
  expect(() => started(directory.path, { file: path.join(directory.path, 'gone') })).toThrow(
    /E_VAULT_KEY|ENOENT/,
  );
  const own = started(directory.path).vault.primary;
  directory.write(VAULT_CREDENTIAL, `${newVaultKey()}\n`);
  const credential = started(directory.path, { credentialsDirectory: directory.path }).vault;
  expect(credential.primary).not.toBe(own);
  fs.chmodSync(path.join(directory.path, VAULT_KEY_FILE), 0o640);
  expect(() => started(directory.path)).toThrow(/others than its owner can read/);
});

test('a secret text is made once, sealed, and can be opened after a rotation of the vault key', async () => {
  const store = openMemoryStore();
  const [old, next] = [newVaultKey(), newVaultKey()];
  const secrets = openSecrets({ store, vault: vaultFrom(old, 'a') });
  const [one, other] = await Promise.all([secrets.key('tickets'), secrets.key('tickets')]);
  expect(one).toEqual(other);
  expect(JSON.stringify((await store.list('')).records)).not.toContain(one.toString('base64'));
  const both = vaultFrom(`${next}\n${old}`, 'b');
  expect(await openPki({ store, vault: both, clock: systemClock }).rewrap()).toBe(1);
  const rotated = openSecrets({ store, vault: vaultFrom(next, 'c') });
  expect(await rotated.key('tickets')).toEqual(one);
});
