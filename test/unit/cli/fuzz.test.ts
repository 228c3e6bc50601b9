/** Damaged backups, tables and inventories are read or refused with a code, within their limits. */
import { expect, test } from 'vitest';
import {
  archived,
  isBackupName,
  readArchive,
  readDescription,
  TAR_END,
} from '../../../src/cli/backup/archive.ts';
import { machinesFromCsv } from '../../../src/cli/import/csv.ts';
import { readInventory } from '../../../src/cli/import/inventory.ts';
import { fromKubespray } from '../../../src/cli/import/kubespray.ts';
import { damagedOctets, damagedTexts, INPUTS, unless } from '../fuzzing.ts';

async function* once(octets: Uint8Array): AsyncGenerator<Uint8Array> {
  yield octets;
}

test('damaged archives of backups: files with proper names, or E_BACKUP', async () => {
  const description = Buffer.from(
    JSON.stringify({ v: 1, createdAt: 1, version: 'x', assets: [], withAssets: false }),
  );
  const parts: Uint8Array[] = [];
  for await (const part of archived('backup.json', description.length, once(description))) parts.push(part);
  for await (const part of archived('config/a.yaml', 5, once(Buffer.from('a: b\n')))) parts.push(part);
  parts.push(TAR_END);
  let files = 0;
  await damagedOctets('archives of backups', [Buffer.concat(parts)], async (octets) => {
    try {
      for await (const one of readArchive(once(octets))) {
        files++;
        if (!isBackupName(one.name)) throw new Error('a name that no archive has');
        if (one.name === 'backup.json') await readDescription(one);
      }
    } catch (error) {
      if ((error as { code?: string }).code !== 'E_BACKUP') throw error;
    }
  });
  expect(files).toBeGreaterThan(INPUTS / 200);
});

test('damaged tables are Machines or E_USAGE', async () => {
  const table = 'name,mac,labels\nnode-1,52:54:00:00:00:01,rack=1\n"node ""2""","a b",\n';
  let made = 0;
  await damagedTexts('tables', [table], (text) => {
    made += unless(['E_USAGE'], () => machinesFromCsv(text))?.length ?? 0;
  });
  expect(made).toBeGreaterThan(INPUTS / 200);
});

test('damaged inventories are documents, E_USAGE or E_YAML', async () => {
  const ini =
    '[all]\nn[1:3] ip=10.0.0.1\n[kube_control_plane]\nn[1:3]\n[k8s_cluster:children]\nkube_control_plane\n';
  const yaml = 'all: {hosts: {a: {ip: 10.0.0.1}}, children: {kube_control_plane: {hosts: {a: }}}}\n';
  let made = 0;
  await damagedTexts('inventories', [ini, yaml], (text) => {
    const read = unless(['E_USAGE', 'E_YAML'], () => readInventory(text, 'hosts'));
    if (read === undefined) return;
    if (unless(['E_USAGE'], () => fromKubespray(read, { cluster: 'blue', trust: 'segment' }))) made++;
  });
  expect(made).toBeGreaterThan(INPUTS / 200);
});
