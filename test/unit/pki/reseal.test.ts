/** The store is sealed with another vault key: also when the call is killed, and under writes. */
import { expect, test } from 'vitest';
import { systemClock } from '../../../src/base/clock.ts';
import { openPki } from '../../../src/pki/pki.ts';
import { resealAll, vaultKeysOf } from '../../../src/pki/reseal.ts';
import { openSecrets } from '../../../src/pki/secrets.ts';
import { newVaultKey, vaultFrom } from '../../../src/pki/vault.ts';
import { MUSTER_SCOPE } from '../../../src/store/keys.ts';
import { openMemoryStore } from '../../../src/store/memory.ts';
import type { Store, Write } from '../../../src/store/store.ts';

async function sealed() {
  const [old, next] = [newVaultKey(), newVaultKey()];
  const store = openMemoryStore();
  const vault = vaultFrom(old, 'old');
  const pki = openPki({ store, clock: systemClock, vault });
  for (const scope of ['a', 'b', MUSTER_SCOPE]) await pki.found(scope);
  await openSecrets({ store, vault }).put('x', 'secret text');
  return { store, old: vault, both: vaultFrom(`${next}\n${old}\n`, 'both'), next: vaultFrom(next, 'next') };
}

/** The store, whose process dies at a commit. */
function dying(store: Store, after: number): Pick<Store, 'list' | 'get' | 'commit'> {
  let left = after;
  return {
    list: (prefix) => store.list(prefix),
    get: (key) => store.get(key),
    commit: (writes: readonly Write[]) => {
      if (left-- === 0) throw new Error('killed');
      return store.commit(writes);
    },
  };
}

test('a call that is killed after any record is finished by the next one, and then the old key is not needed', async () => {
  const total = await sealed().then(async ({ store, old }) => {
    const { records } = await vaultKeysOf({ store, vault: old });
    return records[(await old.keys()).primary]!;
  });
  expect(total).toBe(12);
  for (let after = 0; after < total; after++) {
    const { store, old, both, next } = await sealed();
    await expect(resealAll({ store: dying(store, after), vault: both })).rejects.toThrow('killed');
    const { records } = await vaultKeysOf({ store, vault: both });
    expect(records).toEqual({
      [(await both.keys()).primary]: after,
      [(await old.keys()).primary]: total - after,
    });
    expect(await resealAll({ store, vault: both })).toBe(total - after);
    const pki = openPki({ store, clock: systemClock, vault: next });
    for (const scope of ['a', 'b', MUSTER_SCOPE]) expect((await pki.keysets(scope)).size).toBeGreaterThan(0);
    expect(await pki.encryption('a')).toBeDefined();
    expect(await openSecrets({ store, vault: next }).get('x')).toBe('secret text');
    expect(await pki.vaultKeys()).toEqual({
      primary: (await next.keys()).primary,
      records: { [(await next.keys()).primary]: total },
    });
  }
});

test('a record that a rotation writes meanwhile keeps what the rotation wrote', async () => {
  const { store, both, next } = await sealed();
  const pki = openPki({ store, clock: systemClock, vault: both });
  let made = '';
  const racing: Pick<Store, 'list' | 'get' | 'commit'> = {
    list: (prefix) => store.list(prefix),
    get: (key) => store.get(key),
    async commit(writes) {
      if (made === '' && writes[0]!.key.endsWith('a/keyset/ca'))
        made = (await pki.transition('a', 'ca', { do: 'make' })).generation;
      return store.commit(writes);
    },
  };
  await resealAll({ store: racing, vault: both });
  const after = await openPki({ store, clock: systemClock, vault: next }).keysets('a');
  expect(after.get('ca')!.made.map(({ id }) => id)).toEqual([made]);
});
