/** Secrets that operators give: sealed at rest, told apart by tags that tell nothing. */
import { execFileSync } from 'node:child_process';
import { expect, test } from 'vitest';
import { ManualClock } from '../../../src/base/clock.ts';
import { silentLog } from '../../../src/base/log.ts';
import { MAX_SECRET_KEYS, MAX_SECRET_OCTETS, openGivenSecrets } from '../../../src/pki/given-secrets.ts';
import { newSalt, passwordHashIn, sha512Crypt } from '../../../src/pki/password-hash.ts';
import { openPki } from '../../../src/pki/pki.ts';
import { openSecrets } from '../../../src/pki/secrets.ts';
import { newVaultKey, type Vault, vaultFrom } from '../../../src/pki/vault.ts';
import { openMemoryStore } from '../../../src/store/memory.ts';
import type { Store } from '../../../src/store/store.ts';

const clock = new ManualClock();
const open = (store: Store, vault: Vault) =>
  openGivenSecrets({ store, vault, secrets: openSecrets({ store, vault }), clock, log: silentLog });
const WORD = 'correct horse battery staple';

test('a value is sealed in the store, is there again after a restart, and is replaced by the next', async () => {
  const [store, vault] = [openMemoryStore(), vaultFrom(newVaultKey(), 'test')];
  const given = await open(store, vault);
  await given.put('db', 'password', Buffer.from(WORD));
  await given.put('db', 'tls.key', Buffer.from([0, 255, 10]));
  const { records } = await store.list('');
  expect(JSON.stringify(records)).not.toContain(WORD);
  expect(JSON.stringify(records)).not.toContain(Buffer.from(WORD).toString('base64'));
  const again = await open(store, vault);
  expect(again.value('db', 'password')!.toString()).toBe(WORD);
  expect([...again.value('db', 'tls.key')!]).toEqual([0, 255, 10]);
  expect(again.list()).toEqual([
    {
      name: 'db',
      keys: [
        { key: 'password', octets: WORD.length, since: clock.now() },
        { key: 'tls.key', octets: 3, since: clock.now() },
      ],
    },
  ]);
  await again.put('db', 'password', Buffer.from('other'));
  expect((await open(store, vault)).value('db', 'password')!.toString()).toBe('other');
  await again.remove('db');
  expect((await open(store, vault)).list()).toEqual([]);
});

test('a tag is the same for the same value alone, and differs between machines, names and boot hosts', async () => {
  const [store, vault] = [openMemoryStore(), vaultFrom(newVaultKey(), 'test')];
  const given = await open(store, vault);
  await given.put('a', 'k', Buffer.from(WORD));
  await given.put('b', 'k', Buffer.from(WORD));
  const first = given.tag('m', 'a', 'k');
  expect(first).toMatch(/^[0-9a-f]{32}$/);
  expect((await open(store, vault)).tag('m', 'a', 'k')).toBe(first);
  const elsewhere = await open(openMemoryStore(), vault);
  await elsewhere.put('a', 'k', Buffer.from(WORD));
  const others = [given.tag('n', 'a', 'k'), given.tag('m', 'b', 'k'), elsewhere.tag('m', 'a', 'k')];
  await given.put('a', 'k', Buffer.from('new'));
  expect(new Set([first, ...others, given.tag('m', 'a', 'k')]).size).toBe(5);
  expect(given.tag('m', 'a', 'missing')).toBeUndefined();
});

test('a new vault key seals values again, and a record that was moved to another name does not open', async () => {
  const store = openMemoryStore();
  const [old, next] = [newVaultKey(), newVaultKey()];
  const given = await open(store, vaultFrom(old, 'test'));
  await given.put('a', 'k', Buffer.from(WORD));
  const both = vaultFrom(`${next}\n${old}`, 'test');
  expect(await openPki({ store, vault: both, clock }).rewrap()).toBeGreaterThan(0);
  const reopened = await open(store, vaultFrom(next, 'test'));
  expect(reopened.value('a', 'k')!.toString()).toBe(WORD);
  const moved = (await store.get('pki/_muster/given/a/k'))!;
  await store.commit([{ key: 'pki/_muster/given/b/k', put: moved.value }]);
  const after = await open(store, vaultFrom(next, 'test'));
  expect(after.value('b', 'k')).toBeUndefined();
  expect(after.value('a', 'k')!.toString()).toBe(WORD);
});

test.for([
  ['Name', 'k', 'x', /not a name/],
  ['../a', 'k', 'x', /not a name/],
  ['a', 'k/k', 'x', /not a key/],
  ['a', '..', 'x', /not a key/],
  ['a', 'k:k', 'x', /not a key/],
  ['a', 'k', '', /is empty/],
  ['a', 'k', 'x'.repeat(MAX_SECRET_OCTETS + 1), /longer than/],
] as const)('%s/%s is refused, and its value is in no message', async ([name, key, value, message]) => {
  const given = await open(openMemoryStore(), vaultFrom(newVaultKey(), 'test'));
  await expect(given.put(name, key, Buffer.from(value))).rejects.toMatchObject({
    code: 'E_SECRET',
    message: expect.stringMatching(message),
  });
  expect(given.list()).toEqual([]);
});

test('a Secret has a limit of keys, so that it is removed in one commit', async () => {
  const given = await open(openMemoryStore(), vaultFrom(newVaultKey(), 'test'));
  for (let n = 0; n < MAX_SECRET_KEYS; n++) await given.put('a', `k${n}`, Buffer.from('x'));
  await expect(given.put('a', 'more', Buffer.from('x'))).rejects.toMatchObject({ code: 'E_SECRET' });
  await given.put('a', 'k0', Buffer.from('y'));
  await given.remove('a');
  expect(given.list()).toEqual([]);
});

test('hashes are those of crypt(3), as openssl makes them', () => {
  for (const [password, salt] of [
    ['x', 'abc'],
    ['Hello world!', 'saltstring'],
    ['p'.repeat(70), '0123456789abcdef'],
    ['pässwörd €', './AZ'],
    ['correct-horse', newSalt()],
  ] as const) {
    const theirs = execFileSync('openssl', ['passwd', '-6', '-salt', salt, password]).toString().trim();
    expect(sha512Crypt(password, salt)).toBe(theirs);
    expect(passwordHashIn(Buffer.from(`${theirs}\n`))).toBe(theirs);
  }
  for (const text of ['hunter2', '$6$ab', '$6$abc$def:0', `${sha512Crypt('x', 'abc')}\nroot:x`])
    expect(passwordHashIn(Buffer.from(text))).toBeUndefined();
});
