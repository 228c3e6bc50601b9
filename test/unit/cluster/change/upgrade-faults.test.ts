/** What goes wrong during an upgrade: each fault holds its step with a reason and a remedy. */
import { expect, test } from 'vitest';
import type { AgentFacts } from '../../../../src/agent/wire/facts.ts';
import { duration, type Millis } from '../../../../src/base/duration.ts';
import { silentLog } from '../../../../src/base/log.ts';
import { advance, SILENT_AFTER, STALLED_AFTER } from '../../../../src/cluster/change/engine.ts';
import { begin } from '../../../../src/cluster/change/orders.ts';
import type { ChangeRecord } from '../../../../src/cluster/change/record.ts';
import type { MachineSeen } from '../../../../src/cluster/change/step.ts';
import { followDocuments } from '../../../../src/cluster/change/upgrade/follow.ts';
import {
  NOTHING_SEEN,
  type UpgradeOrder,
  type UpgradeSeen,
} from '../../../../src/cluster/change/upgrade/order.ts';
import { UPGRADE } from '../../../../src/cluster/change/upgrade/table.ts';
import { releaseOf } from '../../../../src/cluster/resolve/release.ts';
import type { NewEvent } from '../../../../src/events/event.ts';
import { resolved } from '../kit.ts';
import { catalogOf, clusterDocument } from '../planner-kit.ts';

const at = (version: string) => releaseOf(resolved({ version }));
const ORDER: UpgradeOrder = { from: at('1.35.6'), to: at('1.36.3'), maxUnavailable: 1, canary: 'w1' };
const NOW = 1_000_000;

function recordAt(step: string, turns: readonly string[] = []): ChangeRecord<UpgradeOrder> {
  const change = { cluster: 'golden', id: 'x', kind: 'upgrade', order: ORDER, pauseBefore: [], without: [] };
  const { record } = begin(change, UPGRADE, undefined, { by: 'root', now: NOW });
  return { ...record, step, turns: [...turns], acted: true };
}

const healthy = { etcd: { health: 'serving' }, apiserver: { health: 'ready' } };
const machine = (name: string, facts: object, more: Partial<MachineSeen> = {}): MachineSeen => ({
  name,
  roles: name.startsWith('cp') ? ['control-plane', 'etcd'] : ['worker'],
  facts: { ...healthy, ...facts } as unknown as AgentFacts,
  applied: true,
  settled: true,
  silentFor: 0 as Millis,
  ...more,
});

/** What holds the upgrade at a step. */
function holding(
  step: string,
  machines: readonly MachineSeen[],
  cluster: Partial<UpgradeSeen> = {},
  age = 0,
): object | undefined {
  const observed = { machines, cluster: { ...NOTHING_SEEN, ...cluster }, age: age as Millis };
  const record = recordAt(step, [machines[0]!.name]);
  const move = advance(record, UPGRADE, observed, NOW + age);
  return move.do === 'write' ? move.record.holding : undefined;
}

test('an image that a machine cannot get holds the upgrade before anything is changed', () => {
  const facts = {
    prefetched: { list: 'abc', fault: 'registry.k8s.io/kube-apiserver:v1.36.3 cannot be pulled' },
  };
  expect(holding('prefetch', [machine('cp1', facts)], { lists: { cp1: 'abc' } })).toMatchObject({
    code: 'image-missing',
    text: 'cp1 has not all images: registry.k8s.io/kube-apiserver:v1.36.3 cannot be pulled.',
    remedy: expect.stringContaining('muster artifacts pull'),
  });
  // The report about an earlier list says nothing.
  expect(holding('prefetch', [machine('cp1', facts)], { lists: { cp1: 'def' } })).toBeUndefined();
});

test('a snapshot that cannot be taken holds the upgrade', () => {
  const snapshot = { state: 'failed', text: 'cp1: /var/lib/muster has no room' } as const;
  expect(holding('snapshot', [machine('cp1', {})], { snapshot })).toMatchObject({
    code: 'snapshot',
    text: 'cp1: /var/lib/muster has no room.',
  });
});

test('a machine that dies in its turn holds the upgrade, and no other machine gets a turn', () => {
  const machines = [machine('cp1', {}, { silentFor: SILENT_AFTER }), machine('cp2', {})];
  expect(holding('apiservers', machines)).toMatchObject({
    code: 'machine-silent',
    text: 'cp1 does not report.',
  });
  const observed = { machines, cluster: NOTHING_SEEN, age: 0 as Millis };
  const move = advance(recordAt('apiservers', ['cp1']), UPGRADE, observed, NOW);
  expect(move).toMatchObject({ do: 'write', record: { turns: ['cp1'] } });
});

test('an API server that does not come back, or keeps its version, holds the upgrade and says which', () => {
  const down = machine('cp1', { runs: { 'kube-apiserver': '1.36.3' }, apiserver: { health: 'alive' } });
  expect(holding('apiservers', [down])).toBeUndefined();
  expect(holding('apiservers', [down], {}, STALLED_AFTER)).toMatchObject({
    code: 'machine-stalled',
    text: 'cp1 has shown nothing new for 15 minutes: its API server is not ready.',
    remedy: expect.stringContaining('muster explain cp1'),
  });
  const damaged = machine('cp1', {
    runs: { 'kube-apiserver': '1.35.6' },
    hold: { code: 'wrong-hash', text: 'the file is not what the plan names' },
  });
  expect(holding('apiservers', [damaged], {}, STALLED_AFTER)).toMatchObject({
    text: expect.stringContaining('it waits (wrong-hash): the file is not what the plan names'),
  });
});

test('what a machine ran when it was last heard is not called what it runs', () => {
  const old = { runs: { 'kube-apiserver': '1.35.6' } };
  const waits = (silentFor: Millis) => {
    const machines = [machine('cp1', old, { silentFor })];
    const observed = { machines, cluster: NOTHING_SEEN, age: 0 as Millis };
    const move = advance(recordAt('apiservers', ['cp1']), UPGRADE, observed, NOW);
    return move.do === 'wait' ? move.waiting : move;
  };
  expect(waits(0 as Millis)).toMatchObject({ cp1: 'its kube-apiserver is still 1.35.6' });
  expect(waits(duration('50s'))).toMatchObject({
    cp1: 'it has not reported for 50s; its kube-apiserver was 1.35.6 then',
  });
});

test('a budget that never allows an eviction holds the upgrade, and names the budget’s pods', () => {
  const nodes = { w1: { drained: false, back: false, kept: 'budgets keep shop/db-0' } };
  expect(holding('workers', [machine('w1', {})], { nodes })).toMatchObject({
    code: 'budget',
    text: 'w1 cannot be drained: budgets keep shop/db-0.',
    remedy: expect.stringContaining('PodDisruptionBudget'),
  });
});

test('a document that is changed again while an upgrade runs moves nothing, and operators hear what to do', async () => {
  const events: NewEvent[] = [];
  const { catalog, put } = catalogOf([clusterDocument({ version: '1.35.6' })]);
  let version = '1.35.6';
  const end = followDocuments({
    catalog,
    clusters: { get: () => ({ resolved: resolved({ version }), faults: [] }) as never },
    running: { of: () => ({ release: ORDER.from, machines: new Map() }) } as never,
    orders: { begin: () => Promise.reject(new Error('not asked')) },
    underWay: () => recordAt('apiservers'),
    events: { record: (event) => void events.push(event) },
    log: silentLog,
  });
  const edit = (to: string): void => {
    version = to;
    put(clusterDocument({ version: to }));
  };
  // What it was ordered with, and what a rollback writes.
  edit('1.36.3');
  edit('1.35.6');
  expect(events).toEqual([]);
  edit('1.36.2');
  await expect.poll(() => events).toHaveLength(1);
  expect(events[0]).toMatchObject({
    subject: 'Cluster/golden',
    reason: {
      code: 'upgrade-refused',
      text: 'The upgrade to 1.36.3 continues, although the document asks for 1.36.2 now. When it has ended, `muster cluster upgrade golden` goes there; `muster change golden roll-back` takes it back first.',
    },
  });
  end();
});
