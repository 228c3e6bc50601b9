/** What the boot host does to a node during an upgrade, and what it checks before. */
import { expect, test } from 'vitest';
import { CORDONED, drainRound, takeBack } from '../../../../src/cluster/change/nodes.ts';
import { type Preflight, preflightFaults } from '../../../../src/cluster/change/upgrade/preflight.ts';
import { type Kube, type KubeCall, KubeRefusal } from '../../../../src/cluster/kube.ts';
import { fixedOf, type RunningMachine, releaseOf } from '../../../../src/cluster/spec/release.ts';
import { resolved } from '../kit.ts';

/** An API with the node w1. */
class Played {
  spec: Record<string, unknown> = {};
  annotations: Record<string, unknown> = {};
  ready = 'True';
  kubelet = 'v1.35.6';
  pods: { name: string; daemon?: true; ready?: string }[] = [];
  budget = false;

  readonly kube: Kube = async (path, { method = 'GET', body }: KubeCall = {}) => {
    const answer = (of: unknown) => ({ body: of, text: '', date: 0 });
    if (path.includes('/eviction')) {
      if (this.budget) throw new KubeRefusal(429, 'budget');
      this.pods = this.pods.filter(({ name }) => !path.includes(`/${name}/`));
      return answer({});
    }
    if (path.startsWith('/api/v1/pods'))
      return answer({
        items: this.pods.map(({ name, daemon, ready = 'True' }) => ({
          metadata: {
            ...{ name, namespace: 'default' },
            ...(daemon && { ownerReferences: [{ kind: 'DaemonSet', controller: true }] }),
          },
          status: { phase: 'Running', conditions: [{ type: 'Ready', status: ready }] },
        })),
      });
    if (path !== '/api/v1/nodes/w1') throw new KubeRefusal(404, 'not found');
    if (method === 'PATCH') {
      const { spec = {}, metadata } = body as { spec?: object; metadata?: { annotations: object } };
      Object.assign(this.spec, spec);
      Object.assign(this.annotations, metadata?.annotations ?? {});
    }
    return answer({
      metadata: { annotations: this.annotations[CORDONED] === null ? {} : this.annotations },
      spec: this.spec,
      status: {
        conditions: [{ type: 'Ready', status: this.ready }],
        nodeInfo: { kubeletVersion: this.kubelet },
      },
    });
  };
}

test('a node is marked, cordoned and drained, and taken back when it is Ready with the kubelet', async () => {
  const api = new Played();
  api.pods = [{ name: 'web' }, { name: 'proxy', daemon: true }];
  expect(await drainRound(api.kube, 'w1', 'u1')).toMatchObject({ drained: false });
  expect(api.spec).toEqual({ unschedulable: true });
  expect(api.annotations).toEqual({ [CORDONED]: 'u1' });
  expect(await drainRound(api.kube, 'w1', 'u1')).toMatchObject({ drained: true, back: false });

  expect(await takeBack(api.kube, 'w1', { kubelet: '1.36.3' })).toMatchObject({
    back: false,
    text: /v1\.35\.6/,
  });
  api.kubelet = 'v1.36.3+vendor';
  api.ready = 'Unknown';
  expect(await takeBack(api.kube, 'w1', { kubelet: '1.36.3' })).toMatchObject({
    back: false,
    text: /not Ready/,
  });
  api.ready = 'True';
  api.pods[0]!.ready = 'False';
  expect(await takeBack(api.kube, 'w1', { kubelet: '1.36.3' })).toMatchObject({
    back: false,
    text: /default\/proxy/,
  });
  api.pods[0]!.ready = 'True';
  expect(await takeBack(api.kube, 'w1', { kubelet: '1.36.3' })).toEqual({ drained: true, back: true });
  expect(api.spec.unschedulable).toBeNull();
});

test('a budget is named, and a node that an operator made unschedulable stays so', async () => {
  const api = new Played();
  api.pods = [{ name: 'db' }];
  api.budget = true;
  expect(await drainRound(api.kube, 'w1', 'u1')).toMatchObject({ drained: false, kept: /default\/db/ });
  const cordoned = new Played();
  cordoned.spec = { unschedulable: true };
  cordoned.kubelet = 'v1.36.3';
  expect(await drainRound(cordoned.kube, 'w1', 'u1')).toMatchObject({ drained: true });
  expect(await takeBack(cordoned.kube, 'w1', { kubelet: '1.36.3' })).toMatchObject({ back: true });
  expect(cordoned.spec).toEqual({ unschedulable: true });
});

test('a machine without a node has nothing to drain', async () => {
  expect(await drainRound(new Played().kube, 'w9', 'u1')).toMatchObject({ drained: true, back: false });
});

const FROM = resolved({ version: '1.35.6' });
const TO = resolved({ version: '1.36.3' });
const VERSIONS = { etcd: '3.6.6', 'kube-apiserver': '1.35.6', kubelet: '1.35.6' };

function texts(changes: Partial<Preflight> = {}): string[] {
  const machines = FROM.machines.map(({ name }): [string, RunningMachine] => [
    name,
    { serves: false, versions: VERSIONS },
  ]);
  const input: Preflight = {
    ...{ from: FROM, to: TO, roles: ['control-plane', 'etcd', 'worker'], without: [] },
    running: { release: releaseOf(FROM), fixed: fixedOf(FROM), machines: new Map(machines) },
    health: { cluster: 'golden', ok: true, at: '', scope: 'all', findings: [] },
    has: () => true,
    metrics: '',
    ...changes,
  };
  return preflightFaults(input).map(({ message }) => message);
}

test('a healthy cluster with everything at hand has no fault', () => {
  expect(texts()).toEqual([]);
});

test('failing checks, silent machines, missing files and removed APIs are named, left-out workers are not', () => {
  const finding = { check: 'node', subject: 'w1', ok: false, says: 'it is NotReady', fix: 'look' } as const;
  const health = { cluster: 'golden', ok: false, at: '', scope: 'all', findings: [finding] };
  expect(texts({ health })).toEqual(['node w1: it is NotReady; look']);
  expect(texts({ health, without: ['w1'] })).toEqual([]);

  const silent = { release: releaseOf(FROM), fixed: fixedOf(FROM), machines: new Map() };
  expect(texts({ running: silent })).toHaveLength(5);
  expect(texts({ running: silent, roles: ['etcd'] })).toHaveLength(3);

  const lacks = texts({ has: (one) => one.kind !== 'image' || !one.reference.includes('v1.36.3') });
  expect(lacks).toContain(
    'registry.k8s.io/kube-apiserver:v1.36.3 is not on this boot host; `muster artifacts pull golden` or `muster artifacts import` brings it',
  );
  // Where this boot host supplies nothing, machines get it elsewhere, apart from kubelet.
  expect(texts({ has: () => false })).toEqual([expect.stringMatching(/^kubelet 1\.36\.3 is not/)]);

  const metrics = [
    'apiserver_requested_deprecated_apis{group="flowcontrol.apiserver.k8s.io",removed_release="1.36",resource="flowschemas",subresource="",version="v1beta3"} 1',
    'apiserver_requested_deprecated_apis{group="x",removed_release="1.40",resource="ys",subresource="",version="v1"} 1',
    'apiserver_request_total{group="x"} 1',
  ].join('\n');
  expect(texts({ metrics })).toEqual([
    'flowcontrol.apiserver.k8s.io/v1beta3/flowschemas is in use, and Kubernetes 1.36 does not serve it; move its users to the newer API first',
  ]);
});
