/**
 * A cluster that kubeadm itself made is taken over: its CAs sign what Muster issues. Needs
 * MUSTER_ARTIFACTS with bin/kubeadm.
 */
import { execFileSync } from 'node:child_process';
import fs from 'node:fs';
import os from 'node:os';
import path from 'node:path';
import { expect, test } from 'vitest';
import { ManualClock } from '../../src/base/clock.ts';
import { millis } from '../../src/base/duration.ts';
import { fromKubeadm } from '../../src/cli/cluster/kubeadm-config.ts';
import { foreignYaml } from '../../src/cli/import/inventory.ts';
import type { AdoptedKeys } from '../../src/pki/adopted.ts';
import { PrivateKey } from '../../src/pki/keys.ts';
import { ADOPTED } from '../../src/pki/keysets.ts';
import { openPki } from '../../src/pki/pki.ts';
import { newVaultKey, vaultFrom } from '../../src/pki/vault.ts';
import { validate } from '../../src/resources/document.ts';
import { openMemoryStore } from '../../src/store/memory.ts';
import { ARTIFACTS } from '../artifacts.ts';

const CONFIG = `apiVersion: kubeadm.k8s.io/v1beta4
kind: ClusterConfiguration
kubernetesVersion: v1.36.3
controlPlaneEndpoint: api.example:6443
networking: {podSubnet: 10.244.0.0/16, serviceSubnet: 10.96.0.0/12, dnsDomain: cluster.local}
`;
const FILES = { ca: 'ca', 'etcd-ca': 'etcd/ca', 'front-proxy-ca': 'front-proxy-ca', sa: 'sa' } as const;

test.skipIf(ARTIFACTS === undefined)(
  'the PKI that kubeadm made becomes keysets, and openssl accepts a certificate that they sign',
  async () => {
    const directory = fs.mkdtempSync(path.join(os.tmpdir(), 'muster-kubeadm-'));
    try {
      const config = path.join(directory, 'config.yaml');
      fs.writeFileSync(config, `${CONFIG}certificatesDir: ${directory}/pki\n`);
      execFileSync(
        path.join(ARTIFACTS!, 'bin/kubeadm'),
        ['init', 'phase', 'certs', 'all', '--config', config],
        {
          stdio: 'pipe',
        },
      );
      const read = (name: string) => fs.readFileSync(path.join(directory, 'pki', name), 'utf8');
      const pairs = ADOPTED.map((name) => [
        name,
        {
          key: read(`${FILES[name]}.key`),
          ...(name !== 'sa' && { certificate: read(`${FILES[name]}.crt`) }),
        },
      ]);
      const clock = new ManualClock(millis(Date.now()));
      const pki = openPki({ store: openMemoryStore(), clock, vault: vaultFrom(newVaultKey(), 'test') });
      await pki.adopt('blue', Object.fromEntries(pairs) as AdoptedKeys, []);
      const key = await PrivateKey.generate();
      const names = { dns: [], ips: [] };
      const { certificate } = await pki.issue('blue', {
        leaf: 'etcd-healthcheck-client',
        holder: { name: 'cp1', addresses: ['10.0.0.1'] },
        cluster: {
          name: 'blue',
          dnsDomain: 'cluster.local',
          serviceAddresses: ['10.96.0.1'],
          endpointNames: names,
        },
        publicKey: key.publicKey(),
      });
      fs.writeFileSync(path.join(directory, 'leaf.crt'), certificate);
      const verified = execFileSync(
        'openssl',
        ['verify', '-CAfile', path.join(directory, 'pki/etcd/ca.crt'), path.join(directory, 'leaf.crt')],
        { encoding: 'utf8' },
      );
      expect(verified).toContain('leaf.crt: OK');
      const { document } = fromKubeadm(foreignYaml(fs.readFileSync(config, 'utf8'), config), 'blue', {
        controlPlanes: ['cp1'],
        workers: [],
      });
      expect(validate(JSON.parse(JSON.stringify(document)))).toMatchObject({ ok: true });
    } finally {
      fs.rmSync(directory, { recursive: true });
    }
  },
);
