/** Labels and taints of registered nodes, with a fake API. */

import fc from 'fast-check';
import { expect, test, vi } from 'vitest';
import { ManualClock } from '../../../../src/base/clock.ts';
import { duration } from '../../../../src/base/duration.ts';
import { silentLog } from '../../../../src/base/log.ts';
import { taintText } from '../../../../src/cluster/components/nodes.ts';
import type { FoundingRecord } from '../../../../src/cluster/etcd/founding.ts';
import { startNodeKeeper } from '../../../../src/cluster/joining/node-keeper.ts';
import { nodeChange, sameSettings } from '../../../../src/cluster/joining/node-settings.ts';
import { type Kube, type KubeCall, KubeRefusal } from '../../../../src/cluster/kube.ts';
import type { NodeTaint } from '../../../../src/cluster/model/resolved-cluster.ts';
import type { NewEvent } from '../../../../src/events/event.ts';
import type { KubernetesSpec } from '../../../../src/resources/kinds.ts';
import { openMemoryStore } from '../../../../src/store/memory.ts';
import { completed } from '../kit.ts';

const EVERY = duration('20s');
type Groups = NonNullable<KubernetesSpec['nodes']>;

interface Node {
  readonly metadata: { readonly resourceVersion: string; readonly labels?: Readonly<Record<string, string>> };
  readonly spec: { readonly taints?: readonly NodeTaint[] };
}
const node = (labels: Readonly<Record<string, string>> = {}, ...taints: readonly NodeTaint[]): Node => ({
  metadata: { resourceVersion: '1', labels },
  spec: { ...(taints.length > 0 && { taints }) },
});

/** RFC 7396, as the API server applies it. */
function merged(there: unknown, patch: unknown): unknown {
  if (typeof patch !== 'object' || patch === null || Array.isArray(patch)) return patch;
  const out: Record<string, unknown> = { ...(there as object) };
  for (const [key, value] of Object.entries(patch))
    if (value === null) delete out[key];
    else out[key] = merged(out[key] ?? {}, value);
  return out;
}

class Played {
  readonly nodes = new Map<string, Node>();
  readonly asked: string[] = [];
  down = false;
  refusal: string | undefined;
  /** The control planes have not given Muster its permissions yet. */
  roleless = false;
  /** Somebody writes to every node between our read and our write. */
  busy = false;

  readonly kubes =
    (_: string, address: string): Kube =>
    async (path, { method = 'GET', body, contentType }: KubeCall = {}) => {
      if (this.down || address !== '10.0.0.12') throw new Error('no route to host');
      const answer = (found: unknown) => ({ body: found, text: '', date: 0 });
      if (path === '/readyz') return answer({});
      const name = path.replace('/api/v1/nodes/', '');
      this.asked.push(`${method} ${name}`);
      if (this.roleless) throw new KubeRefusal(403, 'User "muster" cannot get resource "nodes"');
      const there = this.nodes.get(name);
      if (there === undefined) throw new KubeRefusal(404, 'not found');
      if (method === 'GET') {
        if (this.busy) this.touch(name);
        return answer(there);
      }
      expect([method, contentType]).toEqual(['PATCH', 'application/merge-patch+json']);
      if (this.refusal !== undefined) throw new KubeRefusal(422, this.refusal);
      const { resourceVersion } = (body as Node).metadata;
      if (resourceVersion !== there.metadata.resourceVersion) throw new KubeRefusal(409, 'modified');
      this.nodes.set(name, merged(there, body) as Node);
      this.touch(name);
      return answer({});
    };

  touch(name: string): void {
    const there = this.nodes.get(name)!;
    const resourceVersion = String(Number(there.metadata.resourceVersion) + 1);
    this.nodes.set(name, { ...there, metadata: { ...there.metadata, resourceVersion } });
  }
}

function world(api: Played, nodes: Groups, store = openMemoryStore()) {
  const clock = new ManualClock();
  const events: NewEvent[] = [];
  const state = { nodes, workers: ['w1', 'w2'], founding: 'f', facts: {} as Record<string, string> };
  // The same one while the documents are the same, as followClusters has it.
  const complete = { of: '', is: completed() };
  const latest = () => {
    const { nodes: groups, workers } = state;
    const of = JSON.stringify([groups, workers]);
    if (complete.of !== of) Object.assign(complete, { of, is: completed({ nodes: groups, workers }) });
    return complete.is;
  };
  const keeper = startNodeKeeper({
    founder: {
      records: () => [
        {
          v: 1,
          cluster: 'golden',
          id: state.founding,
          founded: { at: 1, by: 'cp1' },
        } as unknown as FoundingRecord,
      ],
    },
    clusters: { get: latest },
    kubes: api.kubes,
    store,
    events: { record: (event) => void events.push(event) },
    factOf: (machine, fact) => state.facts[`${machine} ${fact}`],
    clock,
    log: silentLog,
  });
  const settled = async (): Promise<void> => {
    for (let n = 0; n < 200; n++) await new Promise((next) => setImmediate(next));
  };
  const round = async (): Promise<void> => {
    clock.advance(EVERY);
    await settled();
  };
  const said = () => events.map(({ subject, reason }) => `${subject}: ${reason?.text}`);
  return { keeper, store, state, settled, round, said, events };
}

const GPU: Groups = [
  {
    machines: ['w1'],
    labels: { gpu: 'yes', 'node-role.kubernetes.io/gpu': '' },
    taints: ['gpu=yes:NoSchedule'],
  },
];
const TAINT: NodeTaint = { key: 'gpu', value: 'yes', effect: 'NoSchedule' };
const NOT_READY: NodeTaint = { key: 'node.kubernetes.io/not-ready', effect: 'NoExecute' };

test('a registered node gets labels that a kubelet may not set, once; labels that it has are not written', async () => {
  const api = new Played();
  api.nodes.set('w1', node({ gpu: 'yes' }, NOT_READY, TAINT));
  const { keeper, settled, round, said } = world(api, GPU);
  await settled();
  expect(api.nodes.get('w1')).toEqual({
    metadata: { resourceVersion: '2', labels: { gpu: 'yes', 'node-role.kubernetes.io/gpu': '' } },
    spec: { taints: [NOT_READY, TAINT] },
  });
  expect(said()).toEqual(['w1: node-role.kubernetes.io/gpu=']);
  await round();
  expect(api.asked).toEqual(['GET w1', 'PATCH w1']);
  await keeper.close();
});

test('labels from facts are written when the machine has told them, and again when they change', async () => {
  const api = new Played();
  api.nodes.set('w1', node());
  const { keeper, state, settled, round, said } = world(api, [
    { machines: ['w1'], labels: { rack: 'r7' }, labelsFromFacts: { 'lab.example/switch': 'switch' } },
  ]);
  await settled();
  expect(api.nodes.get('w1')!.metadata.labels).toEqual({ rack: 'r7' });
  state.facts['w1 switch'] = 'leaf-1';
  await round();
  expect(api.nodes.get('w1')!.metadata.labels).toEqual({ rack: 'r7', 'lab.example/switch': 'leaf-1' });
  state.facts['w1 switch'] = 'leaf-2';
  await round();
  expect(api.nodes.get('w1')!.metadata.labels).toEqual({ rack: 'r7', 'lab.example/switch': 'leaf-2' });
  const asked = api.asked.length;
  await round();
  expect(api.asked).toHaveLength(asked);
  expect(said()).toEqual(['w1: rack=r7', 'w1: lab.example/switch=leaf-1', 'w1: lab.example/switch=leaf-2']);
  await keeper.close();
});

test('a machine that registers later is read until it has registered; a machine without settings is never read', async () => {
  const api = new Played();
  api.nodes.set('w2', node());
  const { keeper, settled, round, said } = world(api, GPU);
  await settled();
  await round();
  expect(api.asked).toEqual(['GET w1', 'GET w1']);
  api.nodes.set('w1', node());
  await round();
  expect(said()).toEqual(['w1: gpu=yes, node-role.kubernetes.io/gpu=, taint gpu=yes:NoSchedule']);
  await keeper.close();
});

test('settings removed from the document are removed from the node, changes by others stay, also after a restart of the server', async () => {
  const api = new Played();
  api.nodes.set('w1', node({ own: 'x' }));
  const first = world(api, [
    { machines: ['w1'], labels: { gpu: 'yes', rack: 'r7' }, taints: ['gpu=yes:NoSchedule', 'old:NoExecute'] },
  ]);
  await first.settled();
  await first.keeper.close();
  const given = api.nodes.get('w1')!;
  const labels = { ...given.metadata.labels, rack: 'r9' };
  api.nodes.set('w1', {
    metadata: { ...given.metadata, labels },
    spec: { taints: [NOT_READY, ...given.spec.taints!] },
  });
  const second = world(api, [{ machines: ['w1'], taints: ['gpu=no:NoSchedule'] }], first.store);
  await second.settled();
  expect(api.nodes.get('w1')).toMatchObject({
    metadata: { labels: { own: 'x', rack: 'r9' } },
    spec: { taints: [NOT_READY, { key: 'gpu', value: 'no', effect: 'NoSchedule' }] },
  });
  expect(api.nodes.get('w1')!.metadata.labels).not.toHaveProperty('gpu');
  expect(second.said()).toEqual(['w1: -gpu, -taint old:NoExecute, taint gpu=no:NoSchedule']);
  await second.keeper.close();
});

test('a control plane that becomes a worker too loses the taint and the label of control planes, and gets them back', async () => {
  const role: NodeTaint = { key: 'node-role.kubernetes.io/control-plane', effect: 'NoSchedule' };
  const label = 'node.kubernetes.io/exclude-from-external-load-balancers';
  const api = new Played();
  api.nodes.set('cp1', node({ [label]: '', zone: 'a' }, NOT_READY, role));
  const { keeper, state, settled, round, said } = world(api, []);
  await settled();
  expect(said()).toEqual([]);
  state.workers = ['w1', 'cp1'];
  await round();
  expect(api.nodes.get('cp1')).toMatchObject({ spec: { taints: [NOT_READY] } });
  expect(api.nodes.get('cp1')!.metadata.labels).toEqual({ zone: 'a' });
  state.workers = ['w1'];
  await round();
  expect(api.nodes.get('cp1')).toMatchObject({ spec: { taints: [NOT_READY, role] } });
  expect(api.nodes.get('cp1')!.metadata.labels).toEqual({ zone: 'a', [label]: '' });
  await keeper.close();
});

test('between two documents labels and taints are everybody’s', async () => {
  const api = new Played();
  api.nodes.set('w1', node());
  const { keeper, settled, round } = world(api, GPU);
  await settled();
  api.nodes.set('w1', node({ gpu: 'no' }));
  await round();
  expect(api.nodes.get('w1')).toEqual(node({ gpu: 'no' }));
  await keeper.close();
});

test('a concurrent change is not overwritten; the settings are written in a later round', async () => {
  const api = new Played();
  api.nodes.set('w1', node());
  api.busy = true;
  const { keeper, settled, round, said } = world(api, GPU);
  await settled();
  expect(api.nodes.get('w1')!.metadata.labels).toEqual({});
  api.busy = false;
  await round();
  expect(api.nodes.get('w1')!.metadata.labels).toMatchObject({ gpu: 'yes' });
  expect(said()).toHaveLength(1);
  await keeper.close();
});

test('a refusal is told once in the API’s words, and tried on', async () => {
  const api = new Played();
  api.nodes.set('w1', node());
  api.refusal = 'admission webhook "x" denied the request';
  const { keeper, settled, round, said, events } = world(api, GPU);
  await settled();
  await round();
  expect(said()).toEqual([
    'w1: the API refuses its labels and taints: admission webhook "x" denied the request',
  ]);
  expect(events[0]).toMatchObject({ kind: 'cluster.node-settings', reason: { code: 'refused' } });
  api.refusal = undefined;
  await round();
  expect(events[1]).toMatchObject({ reason: { code: 'document' } });
  await keeper.close();
});

test('an API in which Muster has no role yet is no refusal of what the document says', async () => {
  const api = new Played();
  api.nodes.set('w1', node());
  api.roleless = true;
  const { keeper, settled, round, said } = world(api, GPU);
  await settled();
  expect([api.asked, said()]).toEqual([['GET w1'], []]);
  api.roleless = false;
  await round();
  expect(api.nodes.get('w1')!.metadata.labels).toMatchObject({ gpu: 'yes' });
  expect(said()).toHaveLength(1);
  await keeper.close();
});

test('with no API nothing is lost, and a node of another founding is given all of it again', async () => {
  const api = new Played();
  api.nodes.set('w1', node());
  api.down = true;
  const { keeper, settled, round, state } = world(api, GPU);
  await settled();
  expect(api.asked).toEqual([]);
  api.down = false;
  await round();
  expect(api.nodes.get('w1')!.metadata.labels).toMatchObject({ gpu: 'yes' });
  await round();
  state.founding = 'g';
  api.nodes.set('w1', node());
  await round();
  expect(api.nodes.get('w1')!.metadata.labels).toMatchObject({ gpu: 'yes' });
  await keeper.close();
});

test('what is kept of a machine goes with its place in the cluster', async () => {
  const api = new Played();
  api.nodes.set('w1', node());
  const { keeper, store, settled, round, state } = world(api, GPU);
  await settled();
  const kept = async () => (await store.list('nodes/')).records.map(({ key }) => key);
  expect(await kept()).toEqual(['nodes/golden/w1']);
  state.workers = ['w2'];
  await round();
  expect(await kept()).toEqual([]);
  await keeper.close();
});

test('of a cluster where nothing is left to do, nothing is read', async () => {
  const api = new Played();
  api.nodes.set('w1', node());
  const store = openMemoryStore();
  const list = vi.spyOn(store, 'list');
  const { keeper, settled, round, state } = world(api, GPU, store);
  await settled();
  // It sees that all is as it shall be, and looks no more.
  for (let n = 0; n < 4; n++) await round();
  expect(list).toHaveBeenCalledTimes(2);
  state.nodes = [];
  await round();
  expect(list).toHaveBeenCalledTimes(3);
  expect(api.nodes.get('w1')!.metadata.labels).toEqual({});
  await keeper.close();
});

const key = fc.constantFrom('a', 'b', 'c');
const taint: fc.Arbitrary<NodeTaint> = fc
  .record({
    key,
    value: fc.constantFrom(undefined, '1', '2'),
    effect: fc.constantFrom('NoSchedule', 'NoExecute'),
  })
  .map(({ value, ...rest }) => ({ ...rest, ...(value && { value }) }));
const taints = fc.uniqueArray(taint, { selector: ({ key, effect }) => `${key}:${effect}` });
const labels = fc.dictionary(key, fc.constantFrom('1', '2'));
const settings = fc.record({ labels, taints });

test('whatever a node has and was given, it has all that is wanted afterwards, and nobody else’s is touched', () => {
  fc.assert(
    fc.property(settings, settings, settings, (there, before, wanted) => {
      const was = node(there.labels, ...there.taints);
      const change = nodeChange(was, before, wanted);
      const is = (change ? merged(was, change.patch) : was) as Node;
      expect(is.metadata.labels).toMatchObject(wanted.labels);
      const texts = (is.spec.taints ?? []).map(taintText);
      expect(texts).toEqual(expect.arrayContaining(wanted.taints.map(taintText)));
      const places = (is.spec.taints ?? []).map(({ key, effect }) => `${key}:${effect}`);
      expect(new Set(places).size).toBe(places.length);
      for (const [name, value] of Object.entries(there.labels))
        if (!(name in wanted.labels))
          expect(is.metadata.labels![name]).toBe(before.labels[name] === value ? undefined : value);
      for (const one of there.taints)
        if (!wanted.taints.some(({ key, effect }) => key === one.key && effect === one.effect))
          expect(texts.includes(taintText(one))).toBe(!before.taints.map(taintText).includes(taintText(one)));
      // Nothing is written where the settings are already right.
      expect(nodeChange(is, wanted, wanted)).toBeUndefined();
      expect(sameSettings(wanted, { labels: wanted.labels, taints: [...wanted.taints].reverse() })).toBe(
        true,
      );
    }),
  );
});
