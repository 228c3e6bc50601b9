/**
 * What the boot host does at a cluster's API, with real Kubernetes: it observes, drains and deletes
 * a node, makes probe pods and reads their results. There is no kubelet; the test writes the pods'
 * status. Needs MUSTER_ARTIFACTS: test/artifacts.ts.
 */
import { type ChildProcess, execFileSync, spawn } from 'node:child_process';
import fs from 'node:fs';
import os from 'node:os';
import path from 'node:path';
import { load } from 'js-yaml';
import { afterAll, beforeAll, describe, expect, test } from 'vitest';
import { systemClock } from '../../src/base/clock.ts';
import { silentLog } from '../../src/base/log.ts';
import { deleteNode, drain } from '../../src/cluster/change/drain.ts';
import { type ApiSeen, observeKubernetes } from '../../src/cluster/health/observe.ts';
import { probe, probePod } from '../../src/cluster/health/probe.ts';
import { startQuarantineKeeper } from '../../src/cluster/joining/quarantine-keeper.ts';
import { createKubes } from '../../src/cluster/kube.socket.ts';
import type { Kube } from '../../src/cluster/kube.ts';
import { PrivateKey } from '../../src/pki/keys.ts';
import type { Pki } from '../../src/pki/pki.ts';
import { NO_CLUSTER } from '../../src/pki/server-certificate.ts';
import { ARTIFACTS } from '../artifacts.ts';
import { resolved } from '../unit/cluster/kit.ts';
import { rig, settle, TestMachine } from '../unit/cluster/planner-kit.ts';
import { until } from './etcd/rack.ts';
import { placePair } from './placed-pair.ts';

const ADDRESS = '10.0.0.11';
const FOUNDING = { state: 'new', token: 'one', members: [{ name: 'cp1', address: ADDRESS }] } as const;
const SPEC = { endpoint: ADDRESS, controlPlanes: ['cp1'], workers: ['w1', 'w2'], sans: [] };

describe.skipIf(ARTIFACTS === undefined)('with the binaries of Kubernetes', () => {
  const bin = path.join(ARTIFACTS ?? '', 'bin');
  const root = fs.mkdtempSync(path.join(os.tmpdir(), 'muster-operate-'));
  const env = { ...process.env, PATH: `${bin}:${process.env.PATH}` };
  const running: ChildProcess[] = [];
  const stop = new AbortController();
  const inside = (file: string): string => path.join(root, file);
  /** A text whose paths are below the machine's root. */
  const placed = (text: string): string => text.replace(/(?<![\w.])\/(etc|var|run)\/(?!ssl)/g, `${root}/$1/`);
  let kube: Kube;
  let pki: Pki;

  const kubectl = (...args: readonly string[]): string =>
    execFileSync(path.join(bin, 'kubectl'), ['--kubeconfig', inside('/run/muster/applier.conf'), ...args], {
      env,
      encoding: 'utf8',
      stdio: ['ignore', 'pipe', 'pipe'],
    });
  const apply = (value: object): void => {
    fs.writeFileSync(inside('/value.json'), JSON.stringify(value));
    kubectl('apply', '--server-side', '-f', inside('/value.json'));
  };
  const node = (name: string): void => apply({ apiVersion: 'v1', kind: 'Node', metadata: { name } });
  const pod = (name: string, metadata: object = {}): object => ({
    apiVersion: 'v1',
    kind: 'Pod',
    metadata: { name, namespace: 'default', labels: { app: name }, ...metadata },
    spec: { nodeName: 'w1', containers: [{ name: 'c', image: 'i' }], automountServiceAccountToken: false },
  });

  /** Runs the program of a static pod. */
  function start(name: string): void {
    // biome-ignore lint/suspicious/noExplicitAny: a parsed manifest
    const manifest = load(fs.readFileSync(inside(`/etc/kubernetes/manifests/${name}.yaml`), 'utf8')) as any;
    const [program, ...flags] = manifest.spec.containers[0].command as string[];
    const log = fs.openSync(inside(`/${name}.log`), 'a');
    running.push(spawn(path.join(bin, program!), flags, { env, stdio: ['ignore', log, log] }));
    fs.closeSync(log);
  }

  beforeAll(async () => {
    execFileSync('ip', ['address', 'replace', `${ADDRESS}/24`, 'dev', 'lo']);
    const made = await rig({ spec: SPEC, etcd: async () => ({ lines: [], founding: FOUNDING }) });
    const { planner } = made;
    pki = made.pki;
    const machine = new TestMachine('cp1');
    for (const line of (await settle(planner, machine)).lines) {
      if (line.do === 'put-pair') placePair(root, line, machine);
      if (line.do !== 'put' && line.do !== 'put-with-key') continue;
      if (!('text' in line.content)) continue;
      const key = line.do === 'put-with-key' ? machine.keys.get(line.leaf)!.pem() : '';
      const base64 = line.do === 'put-with-key' && line.append === 'base64';
      const appended = base64 ? `${Buffer.from(key).toString('base64')}\n` : key;
      fs.mkdirSync(path.dirname(inside(line.path)), { recursive: true });
      fs.writeFileSync(inside(line.path), placed(line.content.text) + appended, { mode: line.mode });
    }
    fs.mkdirSync(inside('/var/lib/etcd'), { recursive: true, mode: 0o700 });
    start('etcd');
    start('kube-apiserver');
    kube = createKubes({ pki, clock: systemClock, signal: stop.signal })('golden', ADDRESS);
    await until('the API answers', () => kubectl('get', '--raw', '/readyz') === 'ok', undefined, 110);
    // Until now nothing gives the group of admins any permission.
    await expect(kube('/api/v1/nodes')).rejects.toThrow('forbidden');
    for (const name of ['cp1', 'w1']) node(name);
    // Objects that kube-controller-manager would make.
    for (const namespace of ['default', 'kube-system'])
      apply({ apiVersion: 'v1', kind: 'ServiceAccount', metadata: { name: 'default', namespace } });
    const script = inside('/etc/muster/objects/apply.sh');
    // The script deletes its credential when it is done; the test still needs it.
    const text = fs
      .readFileSync(script, 'utf8')
      .replaceAll('/run/muster/applier.conf', '/run/muster/applier-1.conf');
    fs.copyFileSync(inside('/run/muster/applier.conf'), inside('/run/muster/applier-1.conf'));
    execFileSync('sh', ['-c', text], { env, stdio: 'ignore' });
  });

  afterAll(async () => {
    stop.abort();
    const ended = running.map((child) =>
      child.exitCode === null ? new Promise((resolve) => child.once('exit', resolve)) : undefined,
    );
    for (const child of running) child.kill('SIGKILL');
    await Promise.all(ended);
    fs.rmSync(root, { recursive: true, force: true });
  });

  test('with a certificate of an hour the boot host sees API servers, nodes, leases and requests', async () => {
    const renewTime = new Date().toISOString().replace('Z', '000Z');
    for (const [namespace, name] of [
      ['kube-system', 'kube-scheduler'],
      ['kube-node-lease', 'w1'],
    ])
      apply({
        apiVersion: 'coordination.k8s.io/v1',
        kind: 'Lease',
        metadata: { name, namespace },
        spec: { holderIdentity: 'cp1_x', renewTime },
      });
    const seen = await observeKubernetes(resolved(SPEC), () => kube);
    expect(seen.apiservers).toEqual([
      { machine: 'cp1', ready: true, version: expect.stringMatching(/^v1\.\d+\./) },
    ]);
    expect(seen.api).toMatchObject({
      by: 'cp1',
      nodes: [
        { name: 'cp1', ready: false },
        { name: 'w1', leaseAge: expect.any(Number) },
      ],
      leaders: [{ name: 'kube-scheduler', holder: 'cp1' }],
      pending: [],
    });
    const { leaseAge } = (seen.api as ApiSeen).nodes[1]!;
    expect(Math.abs(leaseAge!)).toBeLessThan(60_000);
  });

  test('the API accepts a probe pod; its result is read, and the pod is deleted', async () => {
    const status = {
      phase: 'Succeeded',
      containerStatuses: [
        {
          name: 'probe',
          image: 'i',
          imageID: '',
          ready: false,
          restartCount: 0,
          state: { terminated: { exitCode: 0, message: 'dns=ok\nservice=ok\n' } },
        },
      ],
    };
    // A pod that an earlier probe could not delete.
    const left = { resolved: resolved(SPEC), image: 'i', id: 'left' };
    await kube('/api/v1/namespaces/kube-system/pods', { method: 'POST', body: probePod(left, 'w1', 0) });
    kubectl(
      ...['patch', 'pod', '-n', 'kube-system', 'muster-probe-left-0', '--subresource=status'],
      ...['--type=merge', '-p', '{"status": {"phase": "Failed"}}'],
    );
    const probing = probe({
      resolved: resolved(SPEC),
      kube,
      clock: systemClock,
      nodes: ['w1'],
      image: 'i',
      id: 'test',
      signal: stop.signal,
    });
    await expect
      .poll(() => kubectl('get', 'pods', '-n', 'kube-system', '-o', 'name'), { timeout: 30_000 })
      .toContain('pod/muster-probe-test-0');
    kubectl(
      ...['patch', 'pod', '-n', 'kube-system', 'muster-probe-test-0', '--subresource=status'],
      ...['--type=merge', '-p', JSON.stringify({ status })],
    );
    expect(await probing).toEqual([{ node: 'w1', dns: 'ok', service: 'ok' }]);
    expect(kubectl('get', 'pods', '-n', 'kube-system', '-o', 'name')).not.toContain('muster-probe');
  });

  test('a node is cordoned, its pods are evicted except those that a budget protects, and the node is deleted', async () => {
    const owner = { apiVersion: 'apps/v1', kind: 'DaemonSet', name: 'd', uid: 'u', controller: true };
    apply(pod('web'));
    apply(pod('proxy', { ownerReferences: [owner] }));
    apply({
      apiVersion: 'policy/v1',
      kind: 'PodDisruptionBudget',
      metadata: { name: 'db', namespace: 'default' },
      spec: { minAvailable: 1, selector: { matchLabels: { app: 'db' } } },
    });
    apply(pod('db'));
    // A pod must be ready for the budget to protect it.
    const ready = { phase: 'Running', conditions: [{ type: 'Ready', status: 'True' }] };
    kubectl(
      'patch',
      'pod',
      'db',
      '--subresource=status',
      '--type=merge',
      '-p',
      JSON.stringify({ status: ready }),
    );
    const first = await drain(kube, 'w1');
    expect(first).toEqual({ left: ['default/db', 'default/web'], kept: ['default/db'] });
    expect(kubectl('get', 'node', 'w1', '-o', 'jsonpath={.spec.unschedulable}')).toBe('true');
    kubectl('delete', 'pdb', 'db');
    await drain(kube, 'w1');
    // The node does not answer, so terminating pods count as gone.
    expect(await drain(kube, 'w1')).toEqual({ left: [], kept: [] });
    expect(kubectl('get', 'pod', 'proxy', '-o', 'jsonpath={.metadata.deletionTimestamp}')).toBe('');
    await deleteNode(kube, 'w1');
    expect(kubectl('get', 'nodes', '-o', 'name').trim()).toBe('node/cp1');
    await deleteNode(kube, 'w1');
  });

  /** Runs kubectl with a certificate of the kubelet of `name`. Resolves with what it printed. */
  async function asKubelet(name: string, ...args: readonly string[]): Promise<string> {
    const [certificate, key] = [inside(`/${name}.crt`), inside(`/${name}.key`)];
    if (!fs.existsSync(certificate)) {
      const made = await PrivateKey.generate();
      const order = { leaf: 'kubelet', holder: { name, addresses: [] }, cluster: NO_CLUSTER } as const;
      const issued = await pki.issue('golden', { ...order, publicKey: made.publicKey() });
      fs.writeFileSync(certificate, issued.certificate);
      fs.writeFileSync(key, made.pem(), { mode: 0o600 });
    }
    const applier = load(fs.readFileSync(inside('/run/muster/applier.conf'), 'utf8')) as {
      readonly clusters: readonly { readonly cluster: object }[];
    };
    const config = inside(`/${name}.conf`);
    const user = { 'client-certificate': certificate, 'client-key': key };
    fs.writeFileSync(
      config,
      JSON.stringify({
        apiVersion: 'v1',
        kind: 'Config',
        clusters: [{ name: 'c', cluster: applier.clusters[0]!.cluster }],
        users: [{ name: 'u', user }],
        contexts: [{ name: 'x', context: { cluster: 'c', user: 'u' } }],
        'current-context': 'x',
      }),
    );
    return String(
      execFileSync(path.join(bin, 'kubectl'), ['--kubeconfig', config, ...args], {
        env,
        encoding: 'utf8',
        stdio: ['ignore', 'pipe', 'pipe'],
      }),
    );
  }

  test('in quarantine a node is cordoned, its pods are deleted, and its kubelet writes and reads nothing; a release undoes it', async () => {
    for (const name of ['w1', 'w2']) node(name);
    apply({ apiVersion: 'v1', kind: 'Secret', metadata: { name: 'password', namespace: 'default' } });
    const reads = { volumes: [{ name: 's', secret: { secretName: 'password' } }] };
    apply({ ...pod('reader'), spec: { ...(pod('reader') as { spec: object }).spec, ...reads } });
    apply({
      ...pod('other'),
      spec: { ...(pod('other') as { spec: object }).spec, nodeName: 'w2' },
    });
    const held = new Map<string, { readonly deletePods: boolean }>();
    const keeper = startQuarantineKeeper({
      founder: { records: () => [{ cluster: 'golden', id: 'f', founded: { at: 1, by: 'cp1' } } as never] },
      clusters: { get: () => ({ resolved: resolved(SPEC), faults: [] }) as never },
      kubes: () => kube,
      quarantined: (machine) => held.get(machine),
      clock: systemClock,
      log: silentLog,
    });
    const label = (name: string, value: string) =>
      asKubelet(name, 'annotate', 'node', name, '--overwrite', `seen=${value}`);
    try {
      await label('w1', 'before');
      await label('w2', 'before');
      // The Node authorizer learns of the pod after a moment.
      await expect
        .poll(() => asKubelet('w1', 'get', 'secret', 'password', '-o', 'name').catch(String), {
          timeout: 30_000,
        })
        .toContain('secret/password');

      held.set('w1', { deletePods: true });
      await expect
        .poll(() => kubectl('get', 'node', 'w1', '-o', 'jsonpath={.spec.unschedulable}'), { timeout: 30_000 })
        .toBe('true');
      await expect.poll(() => kubectl('get', 'pods', '-o', 'name'), { timeout: 30_000 }).toBe('pod/other\n');
      await expect
        .poll(() => label('w1', 'held').catch(String), { timeout: 30_000 })
        .toContain('the machine of this node is in quarantine');
      for (const words of [
        ['create', '-f', inside('/lease.json')],
        [
          'patch',
          'node',
          'w1',
          '--subresource=status',
          '--type=merge',
          '-p',
          '{"status": {"phase": "Running"}}',
        ],
        ['delete', 'node', 'w1'],
      ]) {
        fs.writeFileSync(
          inside('/lease.json'),
          JSON.stringify({
            apiVersion: 'coordination.k8s.io/v1',
            kind: 'Lease',
            metadata: { name: 'w1', namespace: 'kube-node-lease' },
          }),
        );
        await expect(asKubelet('w1', ...words), words.join(' ')).rejects.toThrow(/quarantine|forbidden/i);
      }
      await expect
        .poll(() => asKubelet('w1', 'get', 'secret', 'password').catch(String), { timeout: 30_000 })
        .toMatch(/forbidden/i);
      await label('w2', 'meanwhile');

      held.clear();
      await expect
        .poll(() => label('w1', 'released').catch(String), { timeout: 30_000 })
        .toContain('annotated');
      await expect
        .poll(() => kubectl('get', 'node', 'w1', '-o', 'jsonpath={.spec.unschedulable}'), { timeout: 30_000 })
        .toBe('');
      expect(kubectl('get', 'validatingadmissionpolicies', '-o', 'name')).not.toContain('muster-quarantine');
    } finally {
      await keeper.close();
    }
  });
});
