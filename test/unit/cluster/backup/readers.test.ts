/** Keys of a snapshot that is older than a rotation. */
import { expect, test } from 'vitest';
import { keysBrought, trustKeysOf } from '../../../../src/cluster/backup/readers.ts';
import { encryptionConfig } from '../../../../src/pki/encryption.ts';
import { world } from '../../pki/kit.ts';

test('after a restore API servers read what an ended key encrypted, and still write with the present one', async () => {
  const { pki } = await world();
  const old = (await pki.encryption('golden'))!.primary;
  const { generation: present } = await pki.transition('golden', 'encryption', { do: 'make' });
  for (const change of [
    { do: 'trust', generation: present },
    { do: 'promote', generation: present },
    { do: 'distrust', generation: old },
  ] as const)
    await pki.transition('golden', 'encryption', change);
  const names = async (): Promise<readonly string[]> =>
    [...encryptionConfig(await pki.encryption('golden'), true).matchAll(/name: "?([0-9a-f]{16})/g)].map(
      ([, name]) => name!,
    );
  expect(await names()).toEqual([present]);

  expect(await trustKeysOf(pki, { cluster: 'golden', encryption: [present] })).toEqual([]);
  expect(await names()).toEqual([present]);
  // What a restore would bring is known before it is ordered.
  expect(keysBrought(await pki.encryption('golden'), { encryption: [present] })).toEqual([]);
  expect(keysBrought(await pki.encryption('golden'), { encryption: [old] })).toEqual([old]);
  expect(await names()).toEqual([present]);
  for (const _ of [1, 2]) {
    expect(await trustKeysOf(pki, { cluster: 'golden', encryption: [old] })).toEqual([old]);
    expect(await names()).toEqual([present, old]);
  }
});

test('a cluster without keys for Secrets restores without any', async () => {
  const { pki } = await world();
  expect(await trustKeysOf(pki, { cluster: 'unknown', encryption: [] })).toEqual([]);
});
