/** Machines of clusters that are taken out of use: what is ordered, and what their plans say. */
import { expect, test } from 'vitest';
import { silentLog } from '../../../../src/base/log.ts';
import { createOutOfUse } from '../../../../src/cluster/change/out-of-use.ts';
import type { FoundingRecord, Leaving } from '../../../../src/cluster/etcd/founding.ts';
import type { Departure } from '../../../../src/cluster/etcd/leaving.ts';
import { ImpatientClock } from '../../clock.ts';

const machine = (name: string, ...roles: string[]) => ({ name, roles, addresses: ['10.0.0.1'] });
const LEAVING: Leaving = {
  stage: 'drain',
  since: 7,
  node: true,
  clear: false,
  drainUntil: 0,
  quarantine: true,
};

/** A founded cluster with these machines, and what was asked of its founder and its API. */
function opened(machines: ReturnType<typeof machine>[], more: { waits?: string; leaving?: Leaving } = {}) {
  const asked: string[] = [];
  const left: Departure[] = [];
  const out = new Map<string, number>();
  const record = {
    ...{ v: 1, id: 'f1', cluster: 'one' },
    ...(more.leaving && { leaving: { w1: more.leaving } }),
  } as unknown as FoundingRecord;
  const part = createOutOfUse({
    founder: {
      records: () => [record],
      leave: async (_cluster, _members, departures) => {
        left.push(...departures);
        return record;
      },
      released: async (cluster, name) => void asked.push(`released ${cluster} ${name}`),
      departing: () => undefined,
      gone: async (cluster, name) => void asked.push(`gone ${cluster} ${name}`),
    },
    clusters: { clusterOf: () => ({ resolved: { name: 'one', machines, etcd: {} } }) as never },
    departures: { go: (cluster) => void asked.push(`go ${cluster}`), waiting: () => ({}) },
    kubes: () => async (path, request) => {
      asked.push(`${request?.method ?? 'GET'} ${path}`);
      return { status: 200, body: path === '/readyz' ? 'ok' : { spec: { unschedulable: true } } } as never;
    },
    membersWait: () => more.waits,
    outSince: (name) => out.get(name),
    clock: new ImpatientClock(),
    log: silentLog,
  });
  return { part, asked, left, out };
}

const CLUSTER = [
  machine('cp1', 'control-plane', 'etcd'),
  machine('cp2', 'control-plane', 'etcd'),
  machine('w1', 'worker'),
];

test('a worker is drained and its Node deleted, its data stay, and it comes back by itself', async () => {
  const { part, left, asked } = opened(CLUSTER);
  expect(await part.leave('w1', true)).toBe('one');
  expect(left).toEqual([
    { machine: 'w1', node: true, clear: false, drainUntil: expect.any(Number), quarantine: true },
  ]);
  expect(left[0]!.drainUntil).toBeGreaterThan(0);
  await part.leave('w1', false);
  expect(left[1]!.drainUntil).toBe(0);
  expect(asked).toEqual(['go one', 'go one']);
});

test('the only control plane stays, and members of etcd wait for a change that is under way', async () => {
  const single = opened([machine('cp1', 'control-plane', 'etcd'), machine('w1', 'worker')]);
  await expect(single.part.leave('cp1', true)).rejects.toThrow(/only control plane.*muster power off cp1/);
  const changing = opened(CLUSTER, { waits: 'a roll is under way' });
  await expect(changing.part.leave('cp1', true)).rejects.toThrow('a roll is under way');
  expect(await changing.part.leave('w1', true)).toBe('one');
  expect([...single.left, ...changing.left].map((one) => one.machine)).toEqual(['w1']);
});

test('a machine that is brought back in the middle of its drain takes pods again', async () => {
  const { part, asked } = opened(CLUSTER, { leaving: LEAVING });
  expect(part.staysFor('w1')).toBe('it leaves one: drain');
  await part.comeBack('w1');
  expect(asked[0]).toBe('released one w1');
  expect(asked.at(-1)).toBe('PATCH /api/v1/nodes/w1');
});

test('a machine that is out of use runs nothing of its cluster, and its departure is kept until it is back', async () => {
  const { part, asked, out } = opened(CLUSTER);
  expect(part.planned.departing('w1', 'one')).toBeUndefined();
  out.set('w1', 7);
  expect(part.planned.departing('w1', 'one')).toEqual({
    ...{ cluster: 'one', id: 'f1' },
    leaving: { w1: { stage: 'down', since: 7, clear: false } },
  });
  expect(part.planned.departing('w1', undefined)).toBeUndefined();
  await part.planned.gone('one', 'w1');
  expect(asked).toEqual([]);
  out.clear();
  await part.planned.gone('one', 'w1');
  expect(asked).toEqual(['gone one w1']);
});
