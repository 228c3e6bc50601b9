/** Examples of clusters are applied, and the plans of their machines have what each is about. */
import { copyFileSync, mkdtempSync, rmSync } from 'node:fs';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { expect, test } from 'vitest';
import { millis } from '../../../src/base/duration.ts';
import { openLocal } from '../../../src/cli/documents/local.ts';
import { previewText } from '../../../src/cluster/plan/preview.ts';
import { followClusters } from '../../../src/cluster/resolve/resolved-clusters.ts';
import { followMemberships } from '../../../src/machines/membership.ts';

/** The plans of the machines of an example, by their names. */
async function plansOf(file: string): Promise<ReadonlyMap<string, string>> {
  const directory = mkdtempSync(join(tmpdir(), 'muster-example-'));
  copyFileSync(join('examples', file), join(directory, file));
  try {
    const world = await openLocal({ directory, now: millis(1_750_000_000_000) });
    const { resolved, faults } = followClusters(world.catalog, followMemberships(world.catalog)).get('blue')!;
    await world.close();
    expect(faults).toEqual([]);
    return new Map(resolved!.machines.map((machine) => [machine.name, previewText(resolved!, machine)]));
  } finally {
    rmSync(directory, { recursive: true });
  }
}

test.for([
  [
    'audit.yaml',
    'cp1',
    ['webhooks/audit.conf', 'tokenFile:', '--audit-webhook-batch-max-wait=5s', 'omitStages'],
  ],
  ['oidc.yaml', 'cp2', ['kind: AuthenticationConfiguration', 'idp.blue.example', '--authentication-config=']],
  ['converged.yaml', 'n1.blue.example', ['registerWithTaints: []', '--hostname-override=n1.blue.example']],
  ['cis.yaml', 'cp3', ['--anonymous-auth=false', 'DenyServiceExternalIPs', 'seccompDefault: true']],
  ['cis.yaml', 'w1', ['muster/health.pem', 'podPidsLimit: 4096']],
] as const)('%s: the plan of %s has %j', async ([file, machine, parts]) => {
  const plan = (await plansOf(file)).get(machine);
  for (const part of parts) expect(plan).toContain(part);
});
