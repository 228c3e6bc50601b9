/** What the boot host does to a node during an upgrade, and what it checks before. */
import { expect, test } from 'vitest';
import { type Clock, ManualClock } from '../../../../src/base/clock.ts';
import { duration, type Millis } from '../../../../src/base/duration.ts';
import type { Hooks } from '../../../../src/cluster/change/hooks/hooks.ts';
import { anyKind } from '../../../../src/cluster/change/kind.ts';
import { drainRound, fullNodes, takeBack } from '../../../../src/cluster/change/nodes.ts';
import type { ChangeRecord } from '../../../../src/cluster/change/record.ts';
import { endsSoon, objectsThatEnd } from '../../../../src/cluster/change/upgrade/ending.ts';
import type { UpgradeOrder } from '../../../../src/cluster/change/upgrade/order.ts';
import { type Preflight, preflightFaults } from '../../../../src/cluster/change/upgrade/preflight.ts';
import { upgrade } from '../../../../src/cluster/change/upgrade/upgrade.ts';
import { CORDONED } from '../../../../src/cluster/health/observe.ts';
import { type Kube, type KubeCall, KubeRefusal } from '../../../../src/cluster/kube.ts';
import { NO_SUPPLIES } from '../../../../src/cluster/plan/supplies.ts';
import { fixedOf, type RunningMachine, releaseOf } from '../../../../src/cluster/resolve/release.ts';
import { resolved } from '../kit.ts';
import { hook, NO_HOOKS, PlayedHooks } from './hooks-kit.ts';
import { NOT_ORDERED } from './not-ordered.ts';

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
    if (path === '/readyz') return answer({});
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
    text: expect.stringMatching(/v1\.35\.6/),
  });
  api.kubelet = 'v1.36.3+vendor';
  api.ready = 'Unknown';
  expect(await takeBack(api.kube, 'w1', { kubelet: '1.36.3' })).toMatchObject({
    back: false,
    text: expect.stringMatching(/not Ready/),
  });
  api.ready = 'True';
  api.pods[0]!.ready = 'False';
  expect(await takeBack(api.kube, 'w1', { kubelet: '1.36.3' })).toMatchObject({
    back: false,
    text: expect.stringMatching(/default\/proxy/),
  });
  api.pods[0]!.ready = 'True';
  expect(await takeBack(api.kube, 'w1', { kubelet: '1.36.3' })).toEqual({ drained: true, back: true });
  expect(api.spec.unschedulable).toBeNull();
});

test('a budget is named, and a node that an operator made unschedulable stays so', async () => {
  const api = new Played();
  api.pods = [{ name: 'db' }];
  api.budget = true;
  expect(await drainRound(api.kube, 'w1', 'u1')).toMatchObject({
    drained: false,
    kept: expect.stringMatching(/default\/db/),
  });
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

test('nodes whose kubelet reports a full disk are found', async () => {
  const disk = (name: string, status: string) => ({
    metadata: { name },
    status: {
      conditions: [
        { type: 'Ready', status: 'True' },
        { type: 'DiskPressure', status },
      ],
    },
  });
  const items = [disk('cp1', 'False'), disk('w1', 'True'), { metadata: { name: 'new' } }];
  expect(await fullNodes(async () => ({ body: { items }, text: '', date: 0 }))).toEqual(['w1']);
});

const FROM = resolved({ version: '1.35.6' });
const TO = resolved({ version: '1.36.3' });
const VERSIONS = { etcd: '3.6.6', 'kube-apiserver': '1.35.6', kubelet: '1.35.6' };

/** An upgrade that has come to its workers, of which w1 is the first. */
class AtWorkers {
  readonly api = new Played();
  readonly kind;
  readonly upgrading;
  record: ChangeRecord<UpgradeOrder>;
  closed: string | undefined;
  kubelet = '1.35.6';

  constructor(more: Partial<UpgradeOrder> = {}, hooks: Hooks = NO_HOOKS) {
    const machines = () => new Map([['w1', { serves: false, versions: { kubelet: this.kubelet } }]]);
    this.upgrading = upgrade({
      clusters: { get: () => ({ resolved: FROM, faults: [] }) as never, at: () => TO },
      kubes: () => this.api.kube,
      releases: {
        of: () => ({ release: releaseOf(FROM), fixed: fixedOf(FROM), machines: machines() }),
      } as never,
      snapshots: {} as never,
      supplies: () => NO_SUPPLIES,
      down: async () => new Map(),
      closed: (_cluster, _who, now) => (now ? undefined : this.closed),
      hooks,
      record: () => this.record,
      clock: new ManualClock(),
      health: { look: async () => ({ findings: [] }) as never },
      catalog: {} as never,
      etcd: () => ({ storage: async () => ({}), lower: async () => {} }),
    });
    this.kind = anyKind({ ...this.upgrading, ...NOT_ORDERED }, hooks);
    const order = { from: releaseOf(FROM), to: releaseOf(TO), maxUnavailable: 1, canary: 'w1', ...more };
    const change = { cluster: 'golden', kind: 'upgrade', order, pauseBefore: [], without: [] };
    const begun = this.kind.begin({ ...change, id: 'u1' }, undefined, { by: 'test', now: 0 });
    this.record = { ...begun.record, step: 'canary', acted: true } as ChangeRecord<UpgradeOrder>;
  }

  /** The boot host looks once. Resolves with what w1 waits for. */
  async look(): Promise<string | undefined> {
    const facts = { runs: { kubelet: this.kubelet }, etcd: {} } as never;
    const seen = { name: 'w1', roles: ['worker'], facts, applied: true, settled: true } as const;
    const move = await this.kind.move(this.record, [seen], duration('1h'), duration('1h'));
    if (move.do === 'write') this.record = move.record as ChangeRecord<UpgradeOrder>;
    return move.do === 'wait' ? move.waiting.w1 : undefined;
  }
}

test('a worker whose window closes before it is drained takes pods again, and is drained in the next one', async () => {
  const at = new AtWorkers();
  at.closed = 'the maintenance window opens on Saturday';
  expect(await at.look()).toBe(at.closed);
  expect(at.record.turns).toEqual([]);
  at.closed = undefined;
  await at.look();
  expect(at.record.turns).toEqual(['w1']);
  at.api.pods = [{ name: 'db' }];
  at.api.budget = true;
  await at.look();
  expect(at.api.spec).toEqual({ unschedulable: true });
  at.closed = 'the maintenance window opens on Saturday';
  await at.look();
  expect(at.api.spec).toEqual({ unschedulable: null });
  expect(at.record).toMatchObject({ turns: [] });
  expect(at.record.holding).toBeUndefined();
  expect(await at.look()).toBe(at.closed);
});

test('a worker that was drained when its window closed gets its kubelet and finishes', async () => {
  const at = new AtWorkers();
  await at.look();
  await at.look();
  expect(at.upgrading.mayBegin('golden', 'w1')).toBe(true);
  at.closed = 'the maintenance window opens on Saturday';
  await at.look();
  expect(at.record.turns).toEqual(['w1']);
  at.kubelet = '1.36.3';
  at.api.kubelet = 'v1.36.3';
  await at.look();
  expect(at.record.past.at(-1)).toMatchObject({ step: 'canary' });
  expect(at.api.spec).toEqual({ unschedulable: null });
});

test('windows hold the steps that interrupt workers or servers, each for itself, and never the way back', () => {
  const asked: string[] = [];
  const at = new AtWorkers();
  const order = at.record.order;
  const closedIn = (step: string, back = false) =>
    upgrade({
      ...{ clusters: {}, kubes: {}, releases: {}, snapshots: {}, record: () => at.record },
      closed: (_: string, who: string) => {
        asked.push(who);
        return who;
      },
    } as never).closed?.({ cluster: 'golden', step, back, order, without: [] }, 0);
  const steps = (route: 'forward' | 'back') => at.kind.steps({ ...at.record, route }).map(({ name }) => name);
  expect(Object.fromEntries(steps('forward').map((step) => [step, closedIn(step)]))).toEqual({
    ...{ snapshot: undefined, prefetch: undefined, addons: undefined, settle: undefined },
    ...{ etcd: 'servers', apiservers: 'servers', managers: 'servers', 'control-planes': 'servers' },
    ...{ canary: 'workers', workers: 'workers' },
  });
  expect(steps('back').map((step) => closedIn(step, true))).toEqual(steps('back').map(() => undefined));
});

test('an upgrade that was ordered with --now waits for no window', async () => {
  const at = new AtWorkers({ now: true });
  at.closed = 'the maintenance window opens on Saturday';
  await at.look();
  expect(at.record.turns).toEqual(['w1']);
});

/** The clock of a server whose time the test sets. */
const clockAt = (time: { now: number }): Clock => ({
  now: () => time.now as Millis,
  monotonic: () => time.now as Millis,
  doubt: () => undefined,
  after: () => () => undefined,
});

test('a worker is not drained and gets no kubelet before its hook passes, and its turn ends with the hook after it', async () => {
  const time = { now: 0 };
  const played = new PlayedHooks(hook('ceph'), hook('smoke', { when: 'after' }));
  played.says = 'wait';
  const at = new AtWorkers({}, await played.start(clockAt(time)));
  const looks = async (count: number) => {
    let text: string | undefined;
    for (let n = 0; n < count; n++) {
      text = await at.look();
      time.now += 10_000;
    }
    return text;
  };
  at.api.pods = [{ name: 'web' }];
  expect(await looks(10)).toContain('the hook ceph lets it wait: ceph says wait');
  expect(at.api.spec).toEqual({});
  expect(at.upgrading.mayBegin('golden', 'w1')).toBe(false);
  played.saysOf.ceph = 'pass';
  await looks(5);
  expect(at.api.spec).toEqual({ unschedulable: true });
  expect(at.upgrading.mayBegin('golden', 'w1')).toBe(true);
  at.kubelet = '1.36.3';
  at.api.kubelet = 'v1.36.3';
  expect(await looks(5)).toContain('the hook smoke lets it wait');
  expect(at.record.step).toBe('canary');
  expect(at.upgrading.mayBegin('golden', 'w1')).toBe(true);
  played.says = 'pass';
  await looks(5);
  expect(at.record.past.map(({ step }) => step)).toContain('canary');
});

test('an API server keeps its version until its hook passes, and then also while the upgrade is paused', async () => {
  const time = { now: 0 };
  const played = new PlayedHooks(hook('ceph'), hook('smoke', { when: 'after' }));
  played.says = 'fail';
  const at = new AtWorkers({}, await played.start(clockAt(time)));
  at.record = { ...at.record, step: 'apiservers' };
  const name = FROM.machines.find(({ roles }) => roles.includes('control-plane'))!.name;
  const seen = (version: string) => ({
    ...{ name, roles: ['control-plane'] as const, applied: true, settled: true },
    facts: { runs: { 'kube-apiserver': version }, etcd: {}, apiserver: { health: 'ready' } } as never,
  });
  const look = async (version: string) => {
    for (let n = 0; n < 8; n++) {
      const move = await at.kind.move(at.record, [seen(version)], duration('1h'), time.now);
      if (move.do === 'write') at.record = move.record as ChangeRecord<UpgradeOrder>;
      time.now += 20_000;
    }
  };
  await look('1.35.6');
  expect(at.record).toMatchObject({ turns: [name], holding: { code: 'hook-failed' } });
  expect(at.upgrading.mayBegin('golden', name)).toBe(false);
  at.record = { ...at.record, paused: { at: 0, by: 'test' } };
  await look('1.35.6');
  const { paused: _, ...resumed } = at.record;
  at.record = resumed;
  played.says = 'pass';
  await look('1.35.6');
  expect(at.upgrading.mayBegin('golden', name)).toBe(true);
  // Its API server is new now, and the hook after it fails: nothing takes the version back.
  played.says = 'fail';
  await look('1.36.3');
  expect(at.record.holding?.text).toContain(`The hook smoke does not let the turn of ${name} end`);
  expect(at.upgrading.mayBegin('golden', name)).toBe(true);
  at.record = { ...at.record, paused: { at: 0, by: 'test' } };
  await look('1.36.3');
  expect(at.upgrading.mayBegin('golden', name)).toBe(true);
});

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
    metrics: [],
    ending: [],
    full: [],
    ...changes,
  };
  return preflightFaults(input).map(({ message }) => message);
}

test('a healthy cluster with everything at hand has no fault', () => {
  expect(texts()).toEqual([]);
});

test('failing checks, silent machines, missing files, removed APIs and full disks are named, left-out workers are not', () => {
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

  const full = ['w1', 'cp1'];
  expect(texts({ full, without: ['w1'] })).toEqual([
    'cp1: its disk is almost full (DiskPressure), so that kubelet would remove the images of the new version; free space on it',
  ]);

  const metrics = [
    'apiserver_requested_deprecated_apis{group="flowcontrol.apiserver.k8s.io",removed_release="1.36",resource="flowschemas",subresource="",version="v1beta3"} 1',
    'apiserver_requested_deprecated_apis{group="x",removed_release="1.40",resource="ys",subresource="",version="v1"} 1',
    'apiserver_request_total{group="x"} 1',
  ].join('\n');
  const at = (machine: string, text: string | undefined) => ({ machine, text });
  expect(texts({ metrics: [at('cp1', ''), at('cp2', undefined)] })).toEqual([
    'cp2: its API server does not say which deprecated APIs its clients use; `muster cluster status` shows whether it is ready',
  ]);
  // Each server counts its own clients alone, and two may count the same.
  const all = [at('cp1', ''), at('cp2', metrics), at('cp3', metrics)];
  expect(texts({ metrics: all })).toEqual([
    'flowcontrol.apiserver.k8s.io/v1beta3/flowschemas is in use, and Kubernetes 1.36 does not serve it; move its users to the newer API first',
  ]);
});

/** API servers of 1.36 that serve these APIs, with one object of each resource. */
const servingApis =
  (apis: Readonly<Record<string, readonly string[]>>): Kube =>
  async (path) => {
    const [, api = '', name] = /^\/apis\/([^/]+\/[^/?]+)(?:\/(\w+)\?limit=1)?$/.exec(path) ?? [];
    const names = apis[api];
    if (names === undefined) throw new KubeRefusal(404, 'not found');
    const resources = names.map((one) => ({ name: one, verbs: ['get', 'list'] }));
    return { body: name === undefined ? { resources } : { items: [{}] }, text: '', date: 0 };
  };

test('objects are named that no API of the next minor version serves, and those that it serves otherwise are not', async () => {
  const ending = { 'scheduling.k8s.io/v1': ['priorityclasses'], 'scheduling.k8s.io/v1alpha2': ['workloads'] };
  expect(await objectsThatEnd(servingApis(ending), '1.36.3', '1.37.1')).toEqual([
    'scheduling.k8s.io/v1alpha2/workloads',
  ]);
  expect(texts({ ending: ['scheduling.k8s.io/v1alpha2/workloads'] })).toEqual([
    'there are objects of scheduling.k8s.io/v1alpha2/workloads, which Kubernetes 1.36 can neither serve nor read; delete them first',
  ]);
  // Served in a version that stays.
  const moved = { 'scheduling.k8s.io/v1beta1': ['workloads'], 'scheduling.k8s.io/v1alpha2': ['workloads'] };
  expect(await objectsThatEnd(servingApis(moved), '1.36.3', '1.37.1')).toEqual([]);
  expect(await objectsThatEnd(servingApis({}), '1.36.3', '1.37.1')).toEqual([]);
});

test('what the minor version after the next one needs is told of each machine', () => {
  const machine = (containerd: string): RunningMachine => ({ serves: false, versions: { containerd } });
  const machines = new Map([
    ['w1', machine('1.7.24')],
    ['w2', machine('2.1.4')],
  ]);
  expect(endsSoon(machines, '1.37.1')).toEqual({
    w1: 'containerd 1.7.24 runs, and Kubernetes 1.38 needs containerd 2',
  });
  expect(endsSoon(machines, '1.36.3')).toEqual({});
});

test('a soak ends when its time is over and all is well, and is held while something is not', async () => {
  const clock = new ManualClock();
  let findings: readonly unknown[] = [];
  const work = upgrade({
    ...{ clusters: { get: () => ({ resolved: FROM }) }, clock },
    health: { look: async () => ({ findings }) },
  } as never);
  const from = { from: releaseOf(FROM), to: releaseOf(TO), maxUnavailable: 1, soak: duration('24h') };
  const at = { cluster: 'golden', step: 'soak', back: false, without: [] };
  const order = await work.act({ ...at, order: from });
  expect(order.soakFrom).toBe(clock.now());
  const step = work.forward(order).find(({ name }) => name === 'soak')!;
  const verdict = async () => {
    const cluster = await work.look({ ...at, order }, []);
    return step.whole!({ order, machines: [], cluster, age: duration('1m') });
  };
  expect(await verdict()).toEqual({ is: 'waiting', text: '24h are left' });
  findings = [{ ok: false, check: 'node', subject: 'w1', says: 'it is NotReady' }];
  clock.advance(duration('12h'));
  expect(await verdict()).toMatchObject({
    is: 'held',
    hold: { code: 'soak-unwell', text: 'node w1: it is NotReady.' },
  });
  findings = [{ ok: false, check: 'change', subject: 'golden', says: 'it is held' }];
  clock.advance(duration('12h'));
  expect(await verdict()).toEqual({ is: 'done', evidence: 'all was well at the end of 24h' });
  // The boot host's part may be done again, and the soak begins once.
  expect((await work.act({ ...at, order })).soakFrom).toBe(order.soakFrom);
});
