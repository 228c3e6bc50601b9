/**
 * A control plane's plan with real Kubernetes: etcd and kube-apiserver run by their manifests, and
 * the script of the plan applies the in-cluster objects, three times in parallel. Needs
 * MUSTER_ARTIFACTS: test/artifacts.ts.
 */
import { type ChildProcess, execFileSync, spawn } from 'node:child_process';
import fs from 'node:fs';
import { load } from 'js-yaml';
import { afterAll, beforeAll, describe, expect, test } from 'vitest';
import { ARTIFACTS } from '../artifacts.ts';
import { rig, settle, TestMachine } from '../unit/cluster/planner-kit.ts';
import { PlacedPlan } from './placed-plan.ts';

const ADDRESS = '10.0.0.11';
const FOUNDING = { state: 'new', token: 'one', members: [{ name: 'cp1', address: ADDRESS }] } as const;

describe.skipIf(ARTIFACTS === undefined)('with the binaries of Kubernetes', () => {
  const placed = new PlacedPlan();
  const { env } = placed;
  const inside = (file: string): string => placed.inside(file);
  const run = (program: string, ...args: readonly string[]): string => placed.run(program, ...args);
  /** The running scripts of {@link applyAs}. */
  const running: ChildProcess[] = [];

  const kubectl = (...args: readonly string[]): string =>
    run('kubectl', '--kubeconfig', inside('/etc/kubernetes/admin.conf'), ...args);

  /**
   * Runs the plan's script in its own directory with its own credential, as one of three control
   * planes.
   */
  function applyAs(n: number): Promise<{ code: number | null; output: string }> {
    const credential = inside(`/run/muster/applier-${n}.conf`);
    fs.copyFileSync(inside('/run/muster/applier.conf'), credential);
    const script = fs
      .readFileSync(inside('/etc/muster/objects/apply.sh'), 'utf8')
      .replaceAll(inside('/run/muster/applier.conf'), credential);
    const child = spawn('sh', ['-c', script], { env, stdio: ['ignore', 'pipe', 'pipe'] });
    running.push(child);
    let output = '';
    for (const stream of [child.stdout, child.stderr]) stream.on('data', (text) => (output += String(text)));
    return new Promise((resolve) => child.on('close', (code) => resolve({ code, output })));
  }

  beforeAll(async () => {
    execFileSync('ip', ['address', 'replace', `${ADDRESS}/24`, 'dev', 'lo']);
    const { planner } = await rig({
      spec: { endpoint: ADDRESS, controlPlanes: ['cp1'], workers: [], sans: [] },
      etcd: async () => ({ lines: [], founding: FOUNDING }),
    });
    const machine = new TestMachine('cp1');
    placed.put(await settle(planner, machine), machine);
    fs.mkdirSync(inside('/var/lib/etcd'), { recursive: true, mode: 0o700 });
    placed.start('etcd');
    placed.start('kube-apiserver');
  });

  afterAll(async () => {
    const ended = running.map((child) =>
      child.exitCode === null && child.signalCode === null
        ? new Promise((resolve) => child.once('exit', resolve))
        : undefined,
    );
    for (const child of running) child.kill('SIGKILL');
    await Promise.all(ended);
    await placed.close();
  });

  test('three control planes apply the in-cluster objects concurrently, and all objects exist', async () => {
    const applier = inside('/run/muster/applier.conf');
    const node = { apiVersion: 'v1', kind: 'Node', metadata: { name: 'cp1' } };
    fs.writeFileSync(inside('/node.json'), JSON.stringify(node));
    const all = [1, 2, 3].map(applyAs);
    // kubelet registers when the API answers; until then the scripts fail and are restarted.
    await expect
      .poll(() => run('kubectl', '--kubeconfig', applier, 'apply', '-f', inside('/node.json')), {
        timeout: 100_000,
        interval: 500,
      })
      .toContain('node/cp1');
    const first = await Promise.all(all);
    const again = await Promise.all(
      first.map(({ code }, n) => (code === 0 ? { code, output: '' } : applyAs(n + 1))),
    );
    expect(again.filter(({ code }) => code !== 0)).toEqual([]);
    expect(kubectl('get', 'node', 'cp1', '--show-labels')).toContain('control-plane');
    expect(
      kubectl('get', '-n', 'kube-system', 'deploy/coredns', 'ds/kube-proxy', '-o', 'name').split('\n'),
    ).toContain('deployment.apps/coredns');
    expect(kubectl('get', '-n', 'kube-flannel', 'ds', '-o', 'name').trim()).toBe(
      'daemonset.apps/kube-flannel-ds',
    );
    expect(fs.existsSync(inside('/run/muster/applier-1.conf'))).toBe(false);
  });

  test('applying the in-cluster objects again changes nothing', () => {
    const versions = () =>
      kubectl(
        'get',
        'cm,ds,deploy,svc,role,rolebinding',
        '-A',
        '-o',
        'jsonpath={.items[*].metadata.resourceVersion}',
      );
    const before = versions();
    const file = inside('/etc/muster/objects/applied.yaml');
    kubectl('apply', '--server-side', '--force-conflicts', '--field-manager=muster', '-f', file);
    expect(versions()).toBe(before);
  });

  test('a Corefile that a person changed stays as it is', async () => {
    kubectl('patch', '-n', 'kube-system', 'configmap/coredns', '-p', '{"data":{"Corefile":"mine"}}');
    expect((await applyAs(1)).code).toBe(0);
    expect(kubectl('get', '-n', 'kube-system', 'cm/coredns', '-o', 'jsonpath={.data.Corefile}')).toBe('mine');
  });

  test('CoreDNS has two replicas until an operator sets another number, which applying again keeps', async () => {
    const replicas = () =>
      kubectl('get', '-n', 'kube-system', 'deploy/coredns', '-o', 'jsonpath={.spec.replicas}');
    expect(replicas()).toBe('2');
    kubectl('scale', '-n', 'kube-system', 'deploy/coredns', '--replicas=5');
    expect((await applyAs(1)).code).toBe(0);
    expect(replicas()).toBe('5');
  });

  test('anonymous clients may read cluster-info and nothing else', () => {
    const anonymous = (url: string) =>
      execFileSync(
        'curl',
        ['-s', '--cacert', inside('/etc/kubernetes/pki/ca-bundle.crt'), `https://127.0.0.1:6443${url}`],
        {
          encoding: 'utf8',
        },
      );
    expect(anonymous('/api/v1/namespaces/kube-public/configmaps/cluster-info')).toContain(
      'certificate-authority-data',
    );
    expect(anonymous('/api/v1/namespaces/kube-system/configmaps/kubeadm-config')).toContain('Forbidden');
  });

  test('kubeadm makes tokens, reads its configuration, and finds every certificate valid', () => {
    const admin = inside('/etc/kubernetes/admin.conf');
    expect(run('kubeadm', 'token', 'create', '--kubeconfig', admin)).toMatch(/^[a-z0-9]{6}\.[a-z0-9]{16}$/m);
    expect(run('kubeadm', 'config', 'images', 'list', '--kubernetes-version', 'v1.36.3')).toContain(
      'kube-apiserver',
    );
    const configuration = inside('/configuration.yaml');
    fs.writeFileSync(
      configuration,
      kubectl('get', '-n', 'kube-system', 'cm/kubeadm-config', '-o', 'jsonpath={.data.ClusterConfiguration}'),
    );
    expect(run('kubeadm', 'config', 'validate', '--config', configuration)).toContain('ok');
    // Mirror pods, as kubelet makes them; kubeadm reads addresses from their annotations.
    for (const pod of ['etcd', 'kube-apiserver']) {
      // biome-ignore lint/suspicious/noExplicitAny: a parsed manifest
      const manifest = load(fs.readFileSync(inside(`/etc/kubernetes/manifests/${pod}.yaml`), 'utf8')) as any;
      manifest.metadata.name += '-cp1';
      manifest.metadata.annotations['kubernetes.io/config.mirror'] = 'x';
      manifest.spec.nodeName = 'cp1';
      fs.writeFileSync(inside('/pod.json'), JSON.stringify(manifest));
      run('kubectl', '--kubeconfig', admin, 'create', '-f', inside('/pod.json'));
    }
    // kubeadm looks for kubeconfigs only in /etc/kubernetes, so this namespace has its own /etc.
    for (const name of ['upper', 'work']) fs.mkdirSync(inside(name));
    const options = `lowerdir=/etc,upperdir=${inside('upper')},workdir=${inside('work')}`;
    execFileSync('mount', ['-t', 'overlay', 'overlay', '-o', options, '/etc']);
    try {
      fs.symlinkSync(inside('/etc/kubernetes'), '/etc/kubernetes');
      const listed = run('kubeadm', 'certs', 'check-expiration');
      expect(listed).not.toContain('Error');
      // This certificate is made on demand for operators, and is on no machine.
      expect(listed.match(/MISSING! .*/g)?.map((line) => line.trim())).toEqual(['MISSING! super-admin.conf']);
    } finally {
      execFileSync('umount', ['/etc']);
    }
  });
});
