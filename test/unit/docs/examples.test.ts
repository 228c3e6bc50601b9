/** Every file in examples/ is applied: its machines are rendered, and its clusters planned. */
import { copyFileSync, mkdtempSync, readdirSync, rmSync } from 'node:fs';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { describe, expect, test } from 'vitest';
import { millis } from '../../../src/base/duration.ts';
import { openLocal } from '../../../src/cli/documents/local.ts';
import { previewText } from '../../../src/cluster/plan/preview.ts';
import { followClusters } from '../../../src/cluster/resolve/resolved-clusters.ts';
import { followMemberships } from '../../../src/machines/membership.ts';

/** What machines of an example get: their first configuration, and the plan of their cluster. */
interface Got {
  readonly warnings: readonly string[];
  readonly configurations: ReadonlyMap<string, Readonly<Partial<Record<string, string>>>>;
  readonly plans: ReadonlyMap<string, string>;
}

async function apply(file: string): Promise<Got> {
  const directory = mkdtempSync(join(tmpdir(), 'muster-example-'));
  copyFileSync(join('examples', file), join(directory, file));
  const world = await openLocal({ directory, now: millis(1_750_000_000_000) });
  try {
    const clusters = followClusters(world.catalog, followMemberships(world.catalog));
    const found = world.catalog.list('Cluster').flatMap(({ document }) => {
      const { resolved, faults } = clusters.get(document.metadata.name)!;
      expect(faults).toEqual([]);
      return resolved ? [resolved] : [];
    });
    const configurations = world.catalog
      .list('Machine')
      .map(({ document: { metadata } }) => [metadata.name, world.boot.render(metadata.name).files] as const);
    return {
      warnings: world.suppositions,
      configurations: new Map(configurations),
      plans: new Map(
        found.flatMap((resolved) =>
          resolved.machines.map((machine) => [machine.name, previewText(resolved, machine)] as const),
        ),
      ),
    };
  } finally {
    await world.close();
    rmSync(directory, { recursive: true });
  }
}

describe('the example', () => {
  test.each(readdirSync('examples').filter((name) => name.endsWith('.yaml')))(
    '%s is taken, and each of its machines gets a configuration and a plan',
    async (file) => {
      const { warnings, configurations, plans } = await apply(file);
      expect(warnings).toEqual([]);
      expect(configurations.size).toBeGreaterThan(0);
      for (const files of configurations.values())
        expect(Object.values(files).join('').length).toBeGreaterThan(1000);
      for (const plan of plans.values()) expect(plan).toContain('kubelet.service');
    },
  );

  test('with bonded workers writes the bond and its VLAN for them, and for no control plane', async () => {
    const { configurations } = await apply('bonded-workers.yaml');
    const files = (machine: string) => configurations.get(machine)?.['user-data'] ?? '';
    for (const worker of ['w1', 'w2']) {
      expect(files(worker)).toMatch(/\[Bond\]\\?n?[\s\S]*Mode=802\.3ad/);
      expect(files(worker)).toMatch(/\[VLAN\]\\?n?[\s\S]*Id=20/);
    }
    expect(files('w2')).toContain('10.77.0.22/24');
    expect(files('cp1')).not.toContain('802.3ad');
  });

  test('without internet asks no registry but the mirrors, with a login that no document holds', async () => {
    const { plans } = await apply('air-gapped-registry.yaml');
    for (const plan of plans.values()) {
      for (const registry of ['docker.io', 'ghcr.io', 'registry.k8s.io'])
        expect(plan).toMatch(
          new RegExp(
            `certs\\.d/${registry.replaceAll('.', '\\.')}/hosts\\.toml\\n    server = "https://harbor\\.example/v2/`,
          ),
        );
      expect(plan).toContain('put 0600 /etc/containerd/config.toml');
      expect(plan).toContain('put 0644 /etc/muster/registries/harbor.example.crt');
    }
  });

  test('with OIDC names the issuer to API servers, which answer for their health to everybody', async () => {
    const { plans } = await apply('oidc.yaml');
    for (const name of ['cp1', 'cp2', 'cp3']) {
      const plan = plans.get(name)!;
      expect(plan).toContain('put 0600 /etc/kubernetes/apiserver/authentication.yaml');
      expect(plan).toContain('url: "https://idp.blue.example/realms/people"');
      expect(plan).toContain('--authentication-config=/etc/kubernetes/apiserver/authentication.yaml');
      expect(plan).toMatch(/anonymous:[\s\S]{0,80}path: \/livez/);
    }
    expect(plans.get('w1')).not.toContain('idp.blue.example');
  });

  test('with an audit log has its policy, and sends events with a token that no document holds', async () => {
    const { plans } = await apply('audit.yaml');
    const plan = plans.get('cp1')!;
    expect(plan).toMatch(/audit-policy\.yaml\n[\s\S]*level: RequestResponse/);
    expect(plan).toContain('--audit-webhook-config-file=/etc/kubernetes/apiserver/webhooks/audit.conf');
    expect(plan).toContain('--audit-webhook-batch-max-wait=5s');
    expect(plan).toContain('tokenFile: /etc/kubernetes/apiserver/webhooks/audit-0.token');
    expect(plans.get('w1')).not.toContain('audit.blue.example');
  });

  test('of three converged nodes lets pods run on all of them, by their full names', async () => {
    const { plans } = await apply('converged.yaml');
    expect([...plans.keys()]).toEqual(['n1.blue.example', 'n2.blue.example', 'n3.blue.example']);
    for (const [name, plan] of plans) {
      expect(plan).toContain('registerWithTaints: []');
      expect(plan).toContain(`--hostname-override=${name} `);
      expect(plan).toMatch(/replicas: 3\n/);
    }
  });
});
