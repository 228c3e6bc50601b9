/**
 * What the boot host does and sees at the API during a rotation of all keys, with real Kubernetes:
 * kube-root-ca.crt, the trust of aggregated API servers, Secrets that are written again, and the
 * search for what depends on the old keys. One control plane without kubelet; the test restarts its
 * programs as kubelet would. Needs MUSTER_ARTIFACTS: test/artifacts.ts.
 */
import { type ChildProcess, execFileSync, spawn } from 'node:child_process';
import fs from 'node:fs';
import os from 'node:os';
import path from 'node:path';
import { load } from 'js-yaml';
import { afterAll, beforeAll, describe, expect, test } from 'vitest';
import { systemClock } from '../../src/base/clock.ts';
import type { Millis } from '../../src/base/duration.ts';
import type { AtStep } from '../../src/cluster/change/kind.ts';
import type { RotationOrder, RotationSeen } from '../../src/cluster/change/rotation/order.ts';
import { countedIn, sampleOf, watched } from '../../src/cluster/change/rotation/rehearsal.ts';
import { rotation } from '../../src/cluster/change/rotation/rotation.ts';
import { createStoredValues } from '../../src/cluster/change/rotation/stored-values.socket.ts';
import { type Preflight, preflightFaults } from '../../src/cluster/change/upgrade/preflight.ts';
import { createKubes } from '../../src/cluster/kube.socket.ts';
import { fixedOf, releaseOf } from '../../src/cluster/resolve/release.ts';
import { ARTIFACTS } from '../artifacts.ts';
import { resolved } from '../unit/cluster/kit.ts';
import { rig, settle, TestMachine } from '../unit/cluster/planner-kit.ts';
import { until } from './etcd/rack.ts';
import { placePair } from './placed-pair.ts';
import { unpacked } from './unpacked.ts';

const ADDRESS = '10.0.0.11';
const FOUNDING = { state: 'new', token: 'one', members: [{ name: 'cp1', address: ADDRESS }] } as const;
const SPEC = {
  endpoint: ADDRESS,
  controlPlanes: ['cp1'],
  workers: [],
  sans: [],
  overrides: {
    versions: { etcd: '3.5.24-0' },
    // Deprecated, and so off unless it is asked for; Kubernetes 1.37 does not have it.
    flags: { 'kube-apiserver': { 'runtime-config': 'storage.k8s.io/v1beta1=true' } },
  },
};
const PROGRAMS = ['etcd', 'kube-apiserver', 'kube-controller-manager'] as const;
const GOLDEN = resolved(SPEC);
/** An upgrade to Kubernetes 1.37 against which nothing speaks but APIs that clients use. */
const PREFLIGHT: Preflight = {
  from: GOLDEN,
  to: { ...GOLDEN, versions: { ...GOLDEN.versions, 'kube-apiserver': '1.37.0' } },
  running: { release: releaseOf(GOLDEN), fixed: fixedOf(GOLDEN), machines: new Map() },
  health: { cluster: 'golden', ok: true, at: '', scope: 'all', findings: [] },
  ...{ roles: [], without: [], has: () => true, metrics: [], ending: [], full: [] },
};

/** A workload with one container, with more fields of the container and of its pod. */
const workload = (kind: string, name: string, container: object, pod: object): string =>
  JSON.stringify({
    ...{ apiVersion: 'apps/v1', kind, metadata: { name, namespace: 'default' } },
    spec: {
      selector: { matchLabels: { app: name } },
      template: {
        metadata: { labels: { app: name } },
        spec: { containers: [{ name, image: `example.test/${name}:1`, ...container }], ...pod },
      },
    },
  });

/** What uses that certificate where only a search of all objects finds it. */
const USERS = (
  certificate: string,
): string => `${workload('Deployment', 'exporter', { env: [{ name: 'CA', value: certificate }] }, {})}
---
${workload('DaemonSet', 'mounter', {}, { volumes: [{ name: 'ca', csi: { driver: 'example.test', volumeAttributes: { ca: certificate } } }] })}
---
apiVersion: v1
kind: ConfigMap
metadata: {name: noted, namespace: default, annotations: {example.test/ca: ${JSON.stringify(certificate)}}}
---
apiVersion: example.test/v1
kind: Issuer
metadata: {name: own, namespace: default}
spec: {caBundle: ${Buffer.from(certificate).toString('base64')}}
`;

const DEFINITION = `apiVersion: apiextensions.k8s.io/v1
kind: CustomResourceDefinition
metadata: {name: issuers.example.test}
spec:
  group: example.test
  names: {plural: issuers, singular: issuer, kind: Issuer}
  scope: Namespaced
  versions:
  - name: v1
    served: true
    storage: true
    schema: {openAPIV3Schema: {type: object, x-kubernetes-preserve-unknown-fields: true}}
`;

describe.skipIf(ARTIFACTS === undefined)('with the binaries of Kubernetes', () => {
  const bin = path.join(ARTIFACTS ?? '', 'bin');
  const root = fs.mkdtempSync(path.join(os.tmpdir(), 'muster-rotation-'));
  const running = new Map<string, ChildProcess>();
  const stop = new AbortController();
  const inside = (file: string): string => path.join(root, file);
  /** A text whose paths are below the machine's root. */
  const placed = (text: string): string => text.replace(/(?<![\w.])\/(etc|var|run)\/(?!ssl)/g, `${root}/$1/`);
  const machine = new TestMachine('cp1');
  let world: Awaited<ReturnType<typeof rig>>;
  let kind: ReturnType<typeof rotation>;
  let kubes: ReturnType<typeof createKubes>;
  let order: RotationOrder;

  const kubectlWith = (input: string, ...args: readonly string[]): string =>
    execFileSync(path.join(bin, 'kubectl'), ['--kubeconfig', inside('/run/muster/applier.conf'), ...args], {
      encoding: 'utf8',
      input,
      stdio: 'pipe',
    });
  const kubectl = (...args: readonly string[]): string => kubectlWith('', ...args);

  /** Makes objects that use the certificate; one of them belongs to another. */
  async function makesUsersOf(certificate: string): Promise<void> {
    kubectlWith(DEFINITION, 'apply', '-f', '-');
    kubectl('wait', '--for=condition=Established', 'crd/issuers.example.test', '--timeout=60s');
    kubectlWith(USERS(certificate), 'apply', '-f', '-');
    const uid = kubectl('get', 'issuer', 'own', '-o', 'jsonpath={.metadata.uid}');
    const owner = { apiVersion: 'example.test/v1', kind: 'Issuer', name: 'own', uid };
    kubectl('create', 'configmap', 'owned', `--from-literal=ca.crt=${certificate}`);
    kubectl('patch', 'configmap', 'owned', '-p', JSON.stringify({ metadata: { ownerReferences: [owner] } }));
  }

  /** Puts the machine's files in place, as its agent would. */
  async function putFiles(): Promise<void> {
    for (const line of (await settle(world.planner, machine)).lines) {
      if (line.do === 'link' && line.path.startsWith('/etc/kubernetes')) {
        fs.mkdirSync(path.dirname(inside(line.path)), { recursive: true });
        fs.rmSync(inside(line.path), { force: true });
        fs.symlinkSync(placed(line.to), inside(line.path));
      }
      if (line.do === 'put-pair') placePair(root, line, machine);
      if (line.do !== 'put' && line.do !== 'put-with-key') continue;
      if (!('text' in line.content)) continue;
      const key = line.do === 'put-with-key' ? machine.keys.get(line.leaf)!.pem() : '';
      const base64 = line.do === 'put-with-key' && line.append === 'base64';
      const appended = base64 ? `${Buffer.from(key).toString('base64')}\n` : key;
      fs.mkdirSync(path.dirname(inside(line.path)), { recursive: true });
      fs.writeFileSync(`${inside(line.path)}.new`, placed(line.content.text) + appended, { mode: line.mode });
      fs.renameSync(`${inside(line.path)}.new`, inside(line.path));
    }
  }

  async function end(name: string): Promise<void> {
    const child = running.get(name);
    if (child === undefined || child.exitCode !== null) return;
    const ended = new Promise((resolve) => child.once('exit', resolve));
    child.kill('SIGKILL');
    await ended;
  }

  /** Ends the programs of static pods, and starts them with the files that are there. */
  async function restart(): Promise<void> {
    for (const name of [...PROGRAMS].reverse()) await end(name);
    for (const name of PROGRAMS) {
      const file = inside(`/etc/kubernetes/manifests/${name}.yaml`);
      // biome-ignore lint/suspicious/noExplicitAny: a parsed manifest
      const manifest = load(fs.readFileSync(file, 'utf8')) as any;
      const [program, ...flags] = manifest.spec.containers[0].command as string[];
      const own =
        name === 'etcd' ? unpacked('etcd-server-trixie', 'usr/bin/etcd').command : path.join(bin, program!);
      const log = fs.openSync(inside(`/${name}.log`), 'a');
      running.set(name, spawn(own, flags, { stdio: ['ignore', log, log] }));
      fs.closeSync(log);
    }
    await until('the API answers', () => kubectl('get', '--raw', '/readyz') === 'ok', logs, 110);
  }

  const logs = (): string =>
    PROGRAMS.map(
      (name) => `--- ${name}\n${fs.readFileSync(inside(`/${name}.log`), 'utf8').slice(-1500)}`,
    ).join('\n');

  const at = (step: string): AtStep<RotationOrder> => ({
    cluster: 'golden',
    step,
    back: false,
    order,
    without: [],
  });
  const act = async (step: string): Promise<void> => {
    order = await kind.act(at(step));
  };

  /** Waits until what the boot host sees at a step is as wanted. */
  const sees = (step: string, what: string, wanted: (seen: RotationSeen) => boolean): Promise<RotationSeen> =>
    until(what, async () => {
      const seen = await kind.look(at(step), []);
      if (wanted(seen)) return seen;
      throw new Error(JSON.stringify({ ...seen, keysets: undefined, issuers: undefined, behind: undefined }));
    });

  /** The counters by which a rehearsal sees that clients fail. */
  async function countsWhatItRefuses(oldClient: string): Promise<void> {
    const api = kubes('golden', ADDRESS);
    const sample = async () => sampleOf((await api('/metrics')).text)!;
    const before = await sample();
    expect(before.startedAt * 1000).toBeLessThan(Date.now());
    fs.writeFileSync(
      inside('/old.conf'),
      oldClient.replaceAll(/certificate-authority-data: .*/g, 'insecure-skip-tls-verify: true'),
    );
    const old = ['--kubeconfig', inside('/old.conf'), 'get', 'namespaces'];
    expect(() => execFileSync(path.join(bin, 'kubectl'), old, { stdio: 'pipe' })).toThrow(
      /Unauthorized|logged in/,
    );
    // This client does not trust the server.
    expect(() => execFileSync('curl', ['-sS', `https://${ADDRESS}:6443/`], { stdio: 'pipe' })).toThrow();
    const counted = countedIn(
      watched(watched(undefined, 'cp1', before, 0 as Millis), 'cp1', await sample(), 1 as Millis),
    );
    expect(counted.refusals).toBeGreaterThan(0);
    expect(counted.handshakes).toBeGreaterThan(0);
  }

  beforeAll(async () => {
    execFileSync('ip', ['address', 'replace', `${ADDRESS}/24`, 'dev', 'lo']);
    const etcd = async () => ({ lines: [], founding: FOUNDING });
    world = await rig({ spec: SPEC, etcd });
    const deps = { pki: world.pki, clock: systemClock, signal: stop.signal };
    kubes = createKubes(deps);
    kind = rotation({
      pki: world.pki,
      clock: systemClock,
      clusters: { get: () => ({ resolved: GOLDEN, faults: [] }) as never },
      kubes,
      storedValues: createStoredValues(deps),
    });
    await putFiles();
    fs.mkdirSync(inside('/var/lib/etcd'), { recursive: true, mode: 0o700 });
    await restart();
    const admins = ['create', 'clusterrolebinding', 'admins', '--clusterrole=cluster-admin'];
    kubectl(...admins, '--group=kubeadm:cluster-admins');
  });

  afterAll(async () => {
    stop.abort();
    for (const name of PROGRAMS) await end(name);
    fs.rmSync(root, { recursive: true, force: true });
  });

  test('all keys are replaced, and the API holds nothing of the old ones', { timeout: 600_000 }, async () => {
    const names = ['ca', 'etcd-ca', 'front-proxy-ca', 'sa', 'encryption'] as const;
    const keysets = await world.pki.keysets('golden');
    const encryption = (await world.pki.encryption('golden'))!;
    order = {
      leave: [],
      keysets: names.map((name) => {
        const { primary } = name === 'encryption' ? encryption : keysets.get(name)!;
        return {
          name,
          from: primary,
          known: [primary],
          bridged: name === 'etcd-ca' || name === 'front-proxy-ca',
        };
      }),
    };
    const oldCa = keysets.get('ca')!.trusted[0]!.certificate!;
    kubectl('create', 'secret', 'generic', 'word', '--from-literal=word=hush');
    kubectl('create', 'configmap', 'trust', `--from-literal=ca.crt=${oldCa}`);
    await makesUsersOf(oldCa);
    await until('the Deployment has its pod', () =>
      kubectl('get', 'pods', '-l', 'app=exporter', '-o', 'name'),
    );
    const oldClient = fs.readFileSync(inside('/etc/kubernetes/admin.conf'), 'utf8');
    await act('generate');

    await act('trust');
    world.clock.advance(6000 as never);
    await putFiles();
    await restart();
    await sees('trust', 'every namespace has both CAs', ({ rootCa }) => rootCa?.length === 0);

    await act('issue');
    world.clock.advance(6000 as never);
    await putFiles();
    await restart();
    await sees('rewrite', 'Secrets still name the old key', ({ secrets }) => (secrets ?? 0) > 0);
    await act('rewrite');
    await sees('rewrite', 'every Secret names the new key', ({ secrets }) => secrets === 0);
    expect(kubectl('get', 'secret', 'word', '-o', 'jsonpath={.data.word}')).toBe(
      Buffer.from('hush').toString('base64'),
    );
    const { leftovers } = await sees('search', 'the search is over', (seen) => seen.leftovers !== undefined);
    expect(leftovers).toEqual([
      { name: 'configmap/default/noted', text: 'contains the old ca' },
      { name: 'configmap/default/owned', text: 'contains the old ca, of Issuer own' },
      { name: 'configmap/default/trust', text: 'contains the old ca' },
      // Not its ReplicaSet and its pod.
      { name: 'deployment/default/exporter', text: 'contains the old ca' },
      { name: 'daemonset/default/mounter', text: 'contains the old ca' },
      { name: 'issuers.example.test/default/own', text: 'contains the old ca' },
    ]);

    await act('distrust');
    world.clock.advance(6000 as never);
    await putFiles();
    await restart();
    await countsWhatItRefuses(oldClient);
    await sees('distrust', 'every namespace has the new CA alone', ({ rootCa }) => rootCa?.length === 0);
    // API servers only add to what aggregated API servers trust.
    await sees('publish', 'the old CA is still published', ({ published }) => published === false);
    await act('publish');
    await sees('publish', 'the new CA alone is published', ({ published }) => published === true);
    await act('forget');
    expect(kubectl('get', 'secret', 'word', '-o', 'name')).toBe('secret/word\n');
  });

  test('a deprecated API that a client asks for is named before the version without it', async () => {
    const api = kubes('golden', ADDRESS);
    const faults = async () => {
      const texts = (await api('/metrics')).text;
      return preflightFaults({ ...PREFLIGHT, metrics: [{ machine: 'cp1', text: texts }] });
    };
    expect(await faults()).toEqual([]);
    kubectl('get', '--raw', '/apis/storage.k8s.io/v1beta1/volumeattributesclasses');
    expect((await faults()).map(({ message }) => message)).toEqual([
      expect.stringContaining(
        'storage.k8s.io/v1beta1/volumeattributesclasses is in use, and Kubernetes 1.37',
      ),
    ]);
  });
});
