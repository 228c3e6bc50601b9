/**
 * The keys that encrypt Secrets in etcd: the file that kube-apiserver reads, rotation, and the
 * sealed records.
 */
import { inspect } from 'node:util';
import { load } from 'js-yaml';
import { expect, test } from 'vitest';
import type { Millis } from '../../../src/base/duration.ts';
import {
  decodeEncryption,
  ENCRYPTION,
  type EncryptionKeyset,
  encodeEncryption,
  encryptionConfig,
  foundEncryption,
  newEncryptionKey,
} from '../../../src/pki/encryption.ts';
import { handout } from '../../../src/pki/handout.ts';
import type { Role } from '../../../src/pki/hierarchy.ts';
import { addTrusted, distrust, forget, promote } from '../../../src/pki/keyset.ts';
import { openPki } from '../../../src/pki/pki.ts';
import { newVaultKey, vaultFrom } from '../../../src/pki/vault.ts';
import { encryptionView, pkiStatusView } from '../../../src/pki/views.ts';
import { KEYS, MUSTER_SCOPE } from '../../../src/store/keys.ts';
import { world } from './kit.ts';

const NOW = 1_000_000 as Millis;

interface Provider {
  readonly identity?: object;
  readonly secretbox?: { readonly keys: readonly { readonly name: string; readonly secret: string }[] };
}

/** Providers in order: `plain`, or the names of the keys. */
function providers(keyset: EncryptionKeyset | undefined, encrypts: boolean): string[] {
  const config = load(encryptionConfig(keyset, encrypts)) as {
    kind: string;
    resources: { resources: string[]; providers: Provider[] }[];
  };
  expect(config.kind).toBe('EncryptionConfiguration');
  expect(config.resources.map(({ resources }) => resources)).toEqual([['secrets']]);
  return config.resources[0]!.providers.map(({ secretbox }) =>
    secretbox ? secretbox.keys.map(({ name }) => name).join() : 'plain',
  );
}

test('the primary key encrypts, and plain records can still be read', () => {
  const keyset = foundEncryption(NOW);
  expect(providers(keyset, true)).toEqual([keyset.primary, 'plain']);
});

test('when encryption is turned off, records are written plain and encrypted ones can still be read', () => {
  const keyset = foundEncryption(NOW);
  expect(providers(keyset, false)).toEqual(['plain', keyset.primary]);
});

test('a cluster that was founded without keys reads and writes plain records', () => {
  expect(providers(undefined, true)).toEqual(['plain']);
});

test('a rotation reads with the new key first, then writes with it, then drops the old one', () => {
  const first = foundEncryption(NOW);
  const next = newEncryptionKey(NOW);
  const both = addTrusted(first, next);
  expect(providers(both, true)).toEqual([`${first.primary},${next.id}`, 'plain']);
  const promoted = promote(both, next.id);
  expect(providers(promoted, true)).toEqual([`${next.id},${first.primary}`, 'plain']);
  const done = distrust(promoted, first.primary);
  expect(providers(done, true)).toEqual([next.id, 'plain']);
  // A backup of etcd is useless without the key of its time.
  expect(done.distrusted.map(({ id }) => id)).toEqual([first.primary]);
  expect(forget(done, first.primary).distrusted).toEqual([]);
});

test('a key has the 32 octets that secretbox takes', () => {
  const { key } = newEncryptionKey(NOW);
  expect(Buffer.from(key.reveal(), 'base64')).toHaveLength(32);
  expect(newEncryptionKey(NOW).key.reveal()).not.toBe(key.reveal());
});

test('a cluster that is founded twice concurrently encrypts with one key; Muster itself has none', async () => {
  const { store, clock } = await world();
  const pki = openPki({ store, clock, vault: vaultFrom(newVaultKey(), 't') });
  await Promise.all([pki.found('twice'), pki.found('twice')]);
  const { primary } = (await pki.encryption('twice'))!;
  await pki.found('twice');
  expect((await pki.encryption('twice'))?.primary).toBe(primary);
  expect(await pki.encryption(MUSTER_SCOPE)).toBeUndefined();
});

test('a cluster that was founded without an encryption key gets none later, because its apiservers would not agree', async () => {
  const { pki, store } = await world();
  await store.commit([{ key: KEYS.encryption.key('golden'), delete: true }]);
  await pki.found('golden');
  expect(await pki.encryption('golden')).toBeUndefined();
});

test('of two concurrent steps of a rotation, one must be repeated', async () => {
  const { pki, clock } = await world();
  const add = () =>
    pki.changeEncryption('golden', (keyset) => addTrusted(keyset, newEncryptionKey(clock.now())));
  const results = await Promise.allSettled([add(), add()]);
  expect(results.map(({ status }) => status).sort()).toEqual(['fulfilled', 'rejected']);
  expect(results.find((one) => one.status === 'rejected')?.reason).toMatchObject({ code: 'E_CONFLICT' });
  expect((await pki.encryption('golden'))?.trusted).toHaveLength(2);
});

test('keys are sealed in the store, bound to their record, and can be opened after a rotation of the vault key', async () => {
  const { store, clock } = await world();
  const [old, next] = [newVaultKey(), newVaultKey()];
  const pki = openPki({ store, clock, vault: vaultFrom(old, 'a') });
  await pki.found('sealed');
  const keyset = (await pki.encryption('sealed'))!;
  const secret = keyset.trusted[0]!.key.reveal();
  const stored = (await store.get(KEYS.encryption.key('sealed')))!.value;
  expect(stored).not.toContain(secret);
  const both = vaultFrom(`${next}\n${old}`, 'b');
  await expect(decodeEncryption('pki/other/encryption', stored, both)).rejects.toThrow(
    /belongs to another record/,
  );
  const rotated = openPki({ store, clock, vault: both });
  for (const { key } of (await store.list('pki/')).records)
    if (!key.startsWith('pki/sealed/')) await store.commit([{ key, delete: true }]);
  await rotated.rewrap();
  const after = openPki({ store, clock, vault: vaultFrom(next, 'c') });
  expect((await after.encryption('sealed'))?.trusted[0]?.key.reveal()).toBe(secret);
});

test('a record of another key, or an invalid one, is refused', async () => {
  const vault = vaultFrom(newVaultKey(), 'a');
  const record = 'pki/c/encryption';
  const { key } = newEncryptionKey(NOW);
  const keyset = foundEncryption(NOW);
  const forged = { ...keyset, trusted: [{ ...keyset.trusted[0]!, key }] };
  await expect(
    decodeEncryption(record, await encodeEncryption(record, forged, vault), vault),
  ).rejects.toThrow(/is another one/);
  const headless = { ...keyset, primary: 'none' };
  await expect(
    decodeEncryption(record, await encodeEncryption(record, headless, vault), vault),
  ).rejects.toThrow(/the primary is not trusted/);
  for (const odd of ['', '{}', 'null'])
    await expect(decodeEncryption(record, odd, vault)).rejects.toThrow(/version known/);
});

test.for([
  [['control-plane'], true],
  [['control-plane', 'etcd'], true],
  [['etcd'], false],
  [['worker'], false],
] as const)('roles %o get the file: %s', async ([roles, expected]) => {
  const { keysets, pki } = await world();
  const files = handout({
    roles: roles as readonly Role[],
    cluster: 'golden',
    user: 'x',
    keysets: await keysets(),
    leaves: new Map(),
    signing: await pki.handedOut('golden', 'x', await pki.keysets('golden')),
    encryption: { keyset: await pki.encryption('golden'), encrypts: true },
    servers: { endpoint: 'https://e:6443', local: 'https://l:6443' },
  });
  const found = files.filter(({ path }) => path === ENCRYPTION.path);
  expect(found.map(({ mode, content }) => [mode, content.kind])).toEqual(expected ? [[0o600, 'secret']] : []);
});

test('the view of a keyset lists its keys without their secrets', async () => {
  const keyset = addTrusted(foundEncryption(NOW), newEncryptionKey(NOW));
  expect(encryptionView(keyset)).toMatchObject({
    name: 'encryption',
    generations: [{ state: 'primary', id: keyset.primary }, { state: 'trusted' }],
  });
  const seen =
    JSON.stringify([
      pkiStatusView({ keysets: [], issued: [], standing: () => 'current', encryption: keyset }, NOW, NOW),
      keyset,
    ]) + inspect(keyset, { depth: 9 });
  for (const { key } of keyset.trusted) expect(seen).not.toContain(key.reveal());
});
