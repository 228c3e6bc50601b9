/** `muster cluster adopt-kubeadm` through the command line and the socket. */
import fs from 'node:fs';
import path from 'node:path';
import { afterEach, expect, test } from 'vitest';
import { millis } from '../../../src/base/duration.ts';
import { newGeneration } from '../../../src/pki/issue.ts';
import { parseDocuments } from '../../../src/resources/document.ts';
import { run } from '../cli/run.ts';
import { openWorld, type World } from './world.ts';

let world: World;
afterEach(() => world?.close());

const at = (name: string) => path.join(world.directory, 'copied', name);
const muster = (...args: string[]) => run(args, { socket: world.socket });
const adopt = (...more: string[]) =>
  muster(
    ...['cluster', 'adopt-kubeadm', at(''), '--cluster', 'blue', '--control-planes', 'cp1', 'cp2', 'cp3'],
    ...more,
  );

const CONFIG = `apiVersion: kubeadm.k8s.io/v1beta4
kind: ClusterConfiguration
kubernetesVersion: v1.36.3
controlPlaneEndpoint: api.example:6443
clusterName: kubernetes
certificatesDir: /etc/kubernetes/pki
imageRepository: registry.k8s.io
networking: {podSubnet: 10.244.0.0/16, serviceSubnet: 10.96.0.0/12, dnsDomain: cluster.local}
apiServer:
  certSANs: [api.example]
  extraArgs: [{name: audit-log-path, value: /var/log/audit.log}]
etcd: {local: {dataDir: /var/lib/etcd}}
`;

/** What an operator copies off a control plane. */
async function copied(config = CONFIG): Promise<void> {
  world = await openWorld('');
  fs.mkdirSync(at('pki/etcd'), { recursive: true });
  fs.writeFileSync(at('kubeadm-config.yaml'), config);
  for (const [name, file] of [
    ['ca', 'ca'],
    ['etcd-ca', 'etcd/ca'],
    ['front-proxy-ca', 'front-proxy-ca'],
    ['sa', 'sa'],
  ] as const) {
    const made = await newGeneration(name, { now: millis(Date.now()), algorithm: 'RSA-2048' });
    fs.writeFileSync(at(`pki/${file}.key`), made.key.pem());
    if (made.certificate !== undefined) fs.writeFileSync(at(`pki/${file}.crt`), made.certificate);
  }
}

test('without --confirm the document and the differences are shown, and nothing changes', async () => {
  await copied();
  const { code, out, err } = await adopt();
  expect(code).toBe(0);
  const { documents, faults } = parseDocuments(out, 'blue.yaml');
  expect(faults).toEqual([]);
  expect(documents[0]!.document.spec).toEqual({
    kubernetes: {
      version: '1.36.3',
      endpoint: 'api.example',
      controlPlanes: ['cp1', 'cp2', 'cp3'],
      networks: { pods: ['10.244.0.0/16'], services: ['10.96.0.0/12'] },
      dnsDomain: 'cluster.local',
      sans: ['api.example'],
      encryptSecrets: false,
      cni: 'none',
    },
  });
  expect(err).toContain('apiServer.extraArgs is not translated');
  expect(err).toContain('nothing was changed');
  expect(err).not.toContain('dataDir');
  expect(await world.pki.isFounded('blue')).toBe(false);
});

test('with --confirm the keys are those of the cluster, it counts as founded, and a second time is refused', async () => {
  await copied();
  const { code, err } = await adopt('--confirm', 'blue', '-o', at('blue.yaml'));
  expect([code, err.includes('counts as founded')]).toEqual([0, true]);
  const keysets = await world.pki.keysets('blue');
  expect(keysets.get('ca')!.trusted[0]!.certificate).toBe(fs.readFileSync(at('pki/ca.crt'), 'utf8'));
  expect(keysets.get('sa')!.trusted[0]!.key.pem()).toBe(fs.readFileSync(at('pki/sa.key'), 'utf8'));
  const { record } = await world.deps.founding.status('blue');
  expect(record).toMatchObject({ cluster: 'blue', founded: { by: 'adopted from kubeadm' }, grants: {} });
  const again = await adopt('--confirm', 'blue');
  expect(again).toMatchObject({ code: 1, err: expect.stringContaining('E_CONFLICT') });
  // A key that it has of the cluster is one that only this host has now.
  expect((await muster('status')).out).toContain('cluster blue');
});

test('keys that do not belong together, missing files, and other configurations are refused', async () => {
  await copied();
  expect(await adopt('--confirm', 'red')).toMatchObject({ code: 2 });
  fs.copyFileSync(at('pki/ca.crt'), at('pki/front-proxy-ca.crt'));
  expect(await adopt()).toMatchObject({
    code: 1,
    err: expect.stringContaining('front-proxy-ca: key and certificate do not belong together'),
  });
  fs.rmSync(at('pki/etcd/ca.key'));
  expect(await adopt()).toMatchObject({ code: 1, err: expect.stringContaining('E_FILE_READ') });
  fs.writeFileSync(
    at('kubeadm-config.yaml'),
    `${CONFIG.replace('{local: {dataDir: /var/lib/etcd}}', '{external: {}}')}`,
  );
  expect((await adopt()).err).toContain('its etcd is external');
  fs.writeFileSync(at('kubeadm-config.yaml'), 'kind: ConfigMap\n');
  expect((await adopt()).err).toContain('no ClusterConfiguration');
  expect(await world.pki.isFounded('blue')).toBe(false);
});
