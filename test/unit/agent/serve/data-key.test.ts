/** Who gets the key of an encrypted data filesystem. */
import { expect, test } from 'vitest';
import { dataKey } from '../../../../src/agent/serve/data-key.ts';
import { readForm } from '../../../../src/agent/wire/form.ts';
import { ManualClock } from '../../../../src/base/clock.ts';
import { openDataKeys } from '../../../../src/pki/data-keys.ts';
import { newVaultKey, vaultFrom } from '../../../../src/pki/vault.ts';
import { openMemoryStore } from '../../../../src/store/memory.ts';

const UUID = '5eed0000-1111-4222-8333-444455556666';
const OWN = '10.77.0.11';

function world() {
  const recorded: { kind: string; subject: string; reason?: { code: string } }[] = [];
  const vault = vaultFrom(newVaultKey(), 'test');
  const deps = {
    pki: { dataKeys: openDataKeys({ store: openMemoryStore(), vault, clock: new ManualClock() }) },
    isAt: (machine: string, address: string) => address === (machine === 'cp1' ? OWN : '10.77.0.12'),
    keepsDataKey: (machine: string) => machine !== 'plain',
    events: { record: (event: never) => void recorded.push(event) },
  };
  const ask = (form: string, { machine = 'cp1', address = OWN } = {}) =>
    dataKey(deps, { machine, address, form: readForm(form) });
  return { recorded, ask };
}

test('a machine gets its key from its own address, and each answer is recorded without the key', async () => {
  const { recorded, ask } = world();
  const key = (await ask(`filesystem=${UUID}&make=yes`)).reveal();
  expect((await ask(`filesystem=${UUID}&make=no`)).reveal()).toBe(key);
  expect(recorded.map(({ kind, subject }) => `${kind} ${subject}`)).toEqual([
    'agent.data-key cp1',
    'agent.data-key cp1',
  ]);
  expect(JSON.stringify(recorded)).not.toContain(key);
});

test('with the certificate alone, from an address that is not the machine’s, nobody gets it', async () => {
  const { recorded, ask } = world();
  await ask(`filesystem=${UUID}&make=yes`);
  for (const address of ['10.77.0.12', '192.0.2.7', ''])
    await expect(ask(`filesystem=${UUID}&make=yes`, { address })).rejects.toMatchObject({
      code: 'E_DATA_KEY',
    });
  expect(recorded.filter(({ reason }) => reason?.code === 'foreign_address')).toHaveLength(3);
});

test('no key is made for a machine whose documents ask for no encryption', async () => {
  const { recorded, ask } = world();
  const plain = { machine: 'plain', address: '10.77.0.12' };
  await expect(ask(`filesystem=${UUID}&make=yes`, plain)).rejects.toMatchObject({ code: 'E_DATA_KEY' });
  expect(recorded).toMatchObject([{ subject: 'plain', reason: { code: 'not_asked_for' } }]);
});

test('another machine does not get it, and a machine that only opens its disk makes no key', async () => {
  const { ask } = world();
  await ask(`filesystem=${UUID}&make=yes`);
  const other = { machine: 'cp2', address: '10.77.0.12' };
  await expect(ask(`filesystem=${UUID}&make=no`, other)).rejects.toMatchObject({ code: 'E_DATA_KEY' });
  await expect(ask(`filesystem=${UUID.replace('5', '6')}&make=no`)).rejects.toMatchObject({
    code: 'E_DATA_KEY',
  });
});

test.each([
  '',
  'filesystem=',
  'filesystem=../x',
  `filesystem=${UUID}%2Fx`,
  `filesystem=${UUID.toUpperCase()}`,
])('the form "%s" names no filesystem', async (form) => {
  await expect(world().ask(form)).rejects.toMatchObject({ code: 'E_USAGE' });
});
