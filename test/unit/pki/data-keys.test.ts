/** The keys of encrypted data filesystems: sealed at rest, one for each filesystem of a machine. */
import { expect, test } from 'vitest';
import { ManualClock } from '../../../src/base/clock.ts';
import { MAX_DATA_KEYS, openDataKeys } from '../../../src/pki/data-keys.ts';
import { exportScope, generationsOf, openExports } from '../../../src/pki/exported.ts';
import { openPki } from '../../../src/pki/pki.ts';
import { newVaultKey, vaultFrom } from '../../../src/pki/vault.ts';
import { KEYS, MUSTER_SCOPE } from '../../../src/store/keys.ts';
import { openMemoryStore } from '../../../src/store/memory.ts';

const uuid = (n: number): string => `5eed0000-1111-4222-8333-${String(n).padStart(12, '0')}`;

function world() {
  const [store, clock] = [openMemoryStore(), new ManualClock()];
  const vault = vaultFrom(newVaultKey(), 'test');
  return { store, clock, vault, keys: openDataKeys({ store, vault, clock }) };
}

test('a filesystem keeps its key, and no machine gets the key of another', async () => {
  const { store, keys } = world();
  expect(await keys.get('cp1', uuid(1))).toBeUndefined();
  const key = (await keys.getOrMake('cp1', uuid(1))).reveal();
  expect(key).toMatch(/^[A-Za-z0-9+/]{43}=$/);
  expect((await keys.getOrMake('cp1', uuid(1))).reveal()).toBe(key);
  expect((await keys.get('cp1', uuid(1)))!.reveal()).toBe(key);
  expect(await keys.get('cp2', uuid(1))).toBeUndefined();
  expect((await keys.getOrMake('cp2', uuid(1))).reveal()).not.toBe(key);
  expect((await keys.getOrMake('cp1', uuid(2))).reveal()).not.toBe(key);
  expect(JSON.stringify((await store.list('')).records)).not.toContain(key);
});

test('two requests at once get one key', async () => {
  const { keys } = world();
  const both = await Promise.all([keys.getOrMake('cp1', uuid(1)), keys.getOrMake('cp1', uuid(1))]);
  expect(both[0]!.reveal()).toBe(both[1]!.reveal());
});

test('however many filesystems a machine names, no key that exists is lost, and another machine gets its own', async () => {
  const { keys } = world();
  const first = (await keys.getOrMake('cp1', uuid(0))).reveal();
  for (let n = 1; n < MAX_DATA_KEYS; n++) await keys.getOrMake('cp1', uuid(n));
  for (let n = 0; n < 5; n++)
    await expect(keys.getOrMake('cp1', uuid(100 + n))).rejects.toMatchObject({ code: 'E_DATA_KEY' });
  expect((await keys.getOrMake('cp1', uuid(0))).reveal()).toBe(first);
  expect(await keys.of('cp1')).toHaveLength(MAX_DATA_KEYS);
  await keys.getOrMake('cp2', uuid(0));
  // An operator makes room by removing one that no disk uses.
  expect(await keys.remove('cp1', uuid(5))).toBe(true);
  expect(await keys.remove('cp1', uuid(5))).toBe(false);
  await keys.getOrMake('cp1', uuid(100));
});

test('a new vault key seals them again', async () => {
  const { store, clock } = world();
  const [old, next] = [newVaultKey(), newVaultKey()];
  const key = await openDataKeys({ store, clock, vault: vaultFrom(old, 'test') }).getOrMake('cp1', uuid(1));
  expect(await openPki({ store, clock, vault: vaultFrom(`${next}\n${old}`, 'test') }).rewrap()).toBe(1);
  const after = openDataKeys({ store, clock, vault: vaultFrom(next, 'test') });
  expect((await after.get('cp1', uuid(1)))!.reveal()).toBe(key.reveal());
});

test('an export holds them, and a key that came after it brings the warning back', async () => {
  const { store, clock, vault } = world();
  const pki = openPki({ store, clock, vault });
  await pki.found(MUSTER_SCOPE);
  const exports = openExports({ store, pki, clock });
  const key = await pki.dataKeys.getOrMake('cp1', uuid(1));
  const copy = async () => {
    const exported = await exportScope(pki, MUSTER_SCOPE);
    await exports.copied([{ scope: MUSTER_SCOPE, generations: generationsOf(exported) }]);
    return exported;
  };
  const { keysets } = await copy();
  expect(keysets.find(({ name }) => name === 'data-keys')!.generations).toEqual([
    { id: `cp1/${uuid(1)}`, createdAt: clock.now(), key: key.reveal() },
  ]);
  expect(await exports.warnings()).toEqual([]);
  await pki.dataKeys.getOrMake('cp1', uuid(2));
  expect(await exports.warnings()).toHaveLength(1);
  await copy();
  expect(await exports.warnings()).toEqual([]);
});

test('a record of another version is a fault that names it', async () => {
  const { store, keys } = world();
  await store.commit([{ key: KEYS.dataKey.key('cp1', uuid(1)), put: '{"v":2}' }]);
  await expect(keys.get('cp1', uuid(1))).rejects.toMatchObject({ code: 'E_PKI' });
});
