/** `muster cluster adopt-kubeadm` through the command line and the socket. */
import fs from 'node:fs';
import path from 'node:path';
import { afterEach, expect, test } from 'vitest';
import { duration, millis } from '../../../src/base/duration.ts';
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
  // The command line and the server judge the CAs by the present time.
  world.clock.leap(millis(Date.now() - world.clock.now()));
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
    trust: 'approved',
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
  expect(err).toContain('apiServer.extraArgs.audit-log-path is not translated; the audit log ends');
  expect(err).toContain('nothing was changed');
  expect(err).not.toContain('dataDir');
  expect(await world.pki.isFounded('blue')).toBe(false);
});

test('with --confirm the keys are those of the cluster, it counts as founded, and a second time is refused', async () => {
  await copied();
  const { code, err } = await adopt('--confirm', 'blue', '-o', at('blue.yaml'));
  expect([code, err]).toEqual([0, expect.stringContaining('counts as founded')]);
  const keysets = await world.pki.keysets('blue');
  expect(keysets.get('ca')!.trusted[0]!.certificate).toBe(fs.readFileSync(at('pki/ca.crt'), 'utf8'));
  const given = await world.pki.handedOut('blue', 'cp1', keysets);
  expect(given.get('sa')!.reveal()).toBe(fs.readFileSync(at('pki/sa.key'), 'utf8'));
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
    err: expect.stringContaining('front-proxy-ca.crt: the key is not that of the certificate'),
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

test('what `pki import` and `apply` would refuse is refused before the keys are taken, with the file', async () => {
  await copied();
  const refused = async (file: string, text: string, why: string) => {
    const former = fs.readFileSync(at(file), 'utf8');
    fs.writeFileSync(at(file), text);
    // Without --confirm the verdict is the same.
    for (const more of [[], ['--confirm', 'blue']]) {
      const { code, err } = await adopt(...more);
      expect([code === 0, err]).toEqual([false, expect.stringContaining(why)]);
      expect(err).not.toContain('backup of the store');
      expect(await world.pki.isFounded('blue')).toBe(false);
    }
    fs.writeFileSync(at(file), former);
  };
  const own = (name: string) => fs.readFileSync(at(name), 'utf8');
  const long = duration('3650d');
  const past = await newGeneration('ca', {
    now: millis(Date.now() - 2 * long),
    algorithm: 'RSA-2048',
  });
  fs.writeFileSync(at('old.key'), past.key.pem());
  const { ca } = { ca: own('pki/ca.key') };
  fs.writeFileSync(at('pki/ca.key'), past.key.pem());
  await refused('pki/ca.crt', past.certificate!, 'pki/ca.crt: the CA ended at');
  fs.writeFileSync(at('pki/ca.key'), ca);
  await refused('pki/ca.crt', `${past.certificate}${own('pki/ca.crt')}`, 'ca.crt: the file holds several');
  const locked = '-----BEGIN ENCRYPTED PRIVATE KEY-----\nMIIB\n-----END ENCRYPTED PRIVATE KEY-----\n';
  await refused('pki/etcd/ca.key', locked, 'etcd/ca.key: the key: a private key that is encrypted');
  await refused('pki/sa.key', locked, 'pki/sa.key: a private key that is encrypted');
  await refused(
    'kubeadm-config.yaml',
    CONFIG.replace('1.36.3', '1.29.4'),
    'Muster does not know Kubernetes 1.29.4',
  );
  for (const args of ['[{name: encryption-provider-config, value: /e}]', '{encryption-provider-config: /e}'])
    await refused(
      'kubeadm-config.yaml',
      CONFIG.replace(/extraArgs: .*/, `extraArgs: ${args}`),
      'its Secrets are encrypted by keys that Muster does not have',
    );
});

test('a second key of service accounts and another issuer are said, in both forms of extraArgs', async () => {
  for (const args of [
    '[{name: service-account-issuer, value: "https://old.example"}]',
    '{service-account-issuer: "https://old.example"}',
  ]) {
    await copied(CONFIG.replace(/extraArgs: .*/, `extraArgs: ${args}`));
    const [one, other] = await Promise.all([
      newGeneration('sa', { now: millis(Date.now()), algorithm: 'RSA-2048' }),
      newGeneration('sa', { now: millis(Date.now()), algorithm: 'RSA-2048' }),
    ]);
    fs.writeFileSync(at('pki/sa.key'), one.key.pem());
    fs.writeFileSync(at('pki/sa.pub'), other.publicKey.pem() + one.publicKey.pem());
    const { code, err } = await adopt();
    expect(code).toBe(0);
    expect(err).toContain('refuse those of https://old.example; keep it with overrides.flags.kube-apiserver');
    expect(err).toContain('sa.pub has 2 keys, and only that of sa.key is taken over');
    fs.writeFileSync(at('pki/sa.pub'), other.publicKey.pem());
    expect((await adopt()).err).toContain('sa.pub: it does not have the public key of sa.key');
    await world.close();
  }
});
