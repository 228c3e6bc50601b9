/** Draining a node like kubectl, with a fake API. */
import { expect, test } from 'vitest';
import { ManualClock } from '../../../../src/base/clock.ts';
import { millis } from '../../../../src/base/duration.ts';
import { silentLog } from '../../../../src/base/log.ts';
import { createDepartures } from '../../../../src/cluster/change/departures.ts';
import { deleteNode, drain } from '../../../../src/cluster/change/drain.ts';
import type { FoundingRecord, Leaving } from '../../../../src/cluster/etcd/founding.ts';
import { type Kube, type KubeCall, KubeRefusal } from '../../../../src/cluster/kube.ts';
import { completed } from '../kit.ts';

interface Pod {
  readonly metadata: Record<string, unknown>;
  readonly status?: unknown;
}
const pod = (name: string, more: Record<string, unknown> = {}, phase = 'Running'): Pod => ({
  metadata: { namespace: 'default', name, ...more },
  status: { phase },
});

/** An API with one node; `kept` are pods that a budget protects. */
class Played {
  pods: Pod[];
  ready = true;
  kept = new Set<string>();
  node = true;
  readonly calls: string[] = [];

  constructor(...pods: Pod[]) {
    this.pods = pods;
  }

  readonly kube: Kube = async (path, { method = 'GET' }: KubeCall = {}) => {
    const [where] = path.split('?');
    if (method !== 'GET') this.calls.push(`${method} ${where!.replace(/^.*\/(nodes|pods)\//, '')}`);
    if (where === '/readyz') return this.#answer({});
    if (where === '/api/v1/pods') return this.#answer({ items: this.pods });
    if (where!.startsWith('/api/v1/nodes/')) {
      if (!this.node) throw new KubeRefusal(404, 'nodes not found');
      if (method === 'DELETE') this.node = false;
      const conditions = [{ type: 'Ready', status: this.ready ? 'True' : 'Unknown' }];
      return this.#answer({ spec: {}, status: { conditions } });
    }
    const name = where!.split('/').at(-2)!;
    if (this.kept.has(name)) throw new KubeRefusal(429, 'budget');
    this.pods = this.pods.map((one) =>
      one.metadata.name === name ? pod(name, { deletionTimestamp: 'now' }) : one,
    );
    return this.#answer({});
  };

  #answer = (body: unknown) => ({ body, text: '', date: 0 });
}

test('pods of DaemonSets, static pods and finished pods stay; all others are evicted', async () => {
  const api = new Played(
    pod('web'),
    pod('proxy', { ownerReferences: [{ kind: 'DaemonSet', controller: true }] }),
    pod('etcd', { annotations: { 'kubernetes.io/config.mirror': 'x' } }),
    pod('job', {}, 'Succeeded'),
  );
  expect(await drain(api.kube, 'w1')).toEqual({ left: ['default/web'], kept: [] });
  expect(api.calls).toEqual(['PATCH w1', 'POST web/eviction']);
  api.pods = api.pods.slice(1);
  expect(await drain(api.kube, 'w1')).toEqual({ left: [], kept: [] });
});

test('pods that a budget protects are reported; on a node that does not answer, a terminating pod counts as gone', async () => {
  const api = new Played(pod('db'));
  api.kept.add('db');
  expect(await drain(api.kube, 'w1')).toEqual({ left: ['default/db'], kept: ['default/db'] });
  api.kept.clear();
  await drain(api.kube, 'w1');
  expect(await drain(api.kube, 'w1')).toEqual({ left: ['default/db'], kept: [] });
  api.ready = false;
  expect(await drain(api.kube, 'w1')).toEqual({ left: [], kept: [] });
});

test('a node that does not exist counts as drained and deleted', async () => {
  const api = new Played();
  await deleteNode(api.kube, 'w1');
  await deleteNode(api.kube, 'w1');
  expect(await drain(api.kube, 'w1')).toEqual({ left: [], kept: [] });
});

/** Departures over one record, and an API. */
function world(api: Played, leaving: Leaving, afterDrain: Leaving['stage'] = 'node') {
  const clock = new ManualClock();
  let record = { v: 1, cluster: 'golden', id: 'f', leaving: { w1: leaving } } as unknown as FoundingRecord;
  const passed: string[] = [];
  const reach = (stage: Leaving['stage']): void => {
    record = { ...record, leaving: { w1: { ...leaving, stage } } };
  };
  const departures = createDepartures({
    founder: {
      records: () => [record],
      passed: async (_, machine, stage) => {
        passed.push(`${machine} ${stage}`);
        reach(stage === 'drain' ? afterDrain : 'down');
      },
    },
    clusters: { get: () => completed() },
    kubes: () => api.kube,
    clock,
    log: silentLog,
  });
  return { clock, departures, passed, reach };
}
const settled = async (): Promise<void> => {
  for (let n = 0; n < 50; n++) await new Promise((next) => setImmediate(next));
};

test('a machine is drained until its pods are gone, then its Node is deleted; the status shows what it waits for', async () => {
  const api = new Played(pod('web'));
  api.kept.add('web');
  const { clock, departures, passed } = world(api, {
    stage: 'drain',
    since: 0,
    node: true,
    clear: false,
    drainUntil: new ManualClock().now() + 3000,
  });
  departures.go('golden');
  await settled();
  expect(departures.waiting('golden').w1).toBe(
    'pods are still there: default/web; kept by budgets: default/web',
  );
  clock.advance(millis(4000));
  await settled();
  clock.advance(millis(4000));
  await settled();
  expect(departures.waiting('golden').w1).toContain('the drain took too long: `remove-node --no-drain`');
  expect(passed).toEqual([]);
  api.pods = [];
  clock.advance(millis(2000));
  await settled();
  expect(passed).toEqual(['w1 drain', 'w1 node']);
  expect(api.node).toBe(false);
  await departures.close();
});

test('the Node of a member of etcd is deleted after the member is removed', async () => {
  const api = new Played();
  const { clock, departures, passed, reach } = world(
    api,
    { stage: 'drain', since: 0, member: 'w1', node: true, clear: false, drainUntil: 1 } as unknown as Leaving,
    'etcd',
  );
  departures.go('golden');
  await settled();
  expect(passed).toEqual(['w1 drain']);
  expect(departures.waiting('golden').w1).toBe('it is still a member of etcd');
  reach('node');
  clock.advance(millis(2000));
  await settled();
  expect(passed).toEqual(['w1 drain', 'w1 node']);
  expect(api.node).toBe(false);
  await departures.close();
});

test('without draining the only request to the API deletes the Node', async () => {
  const api = new Played(pod('web'));
  const { departures, passed } = world(api, {
    stage: 'drain',
    since: 0,
    node: true,
    clear: false,
    drainUntil: 0,
  });
  departures.go('golden');
  await settled();
  expect(passed).toEqual(['w1 drain', 'w1 node']);
  expect(api.calls).toEqual(['DELETE w1']);
  await departures.close();
});
