/** What the watch of etcd records, measures and holds, and when its routine defragments. */
import { afterEach, expect, test, vi } from 'vitest';
import { ManualClock } from '../../../../src/base/clock.ts';
import { duration } from '../../../../src/base/duration.ts';
import { silentLog } from '../../../../src/base/log.ts';
import { createEtcdLooks } from '../../../../src/cluster/health/etcd-looks.ts';
import { startEtcdWatch } from '../../../../src/cluster/health/etcd-watch.ts';
import type { NewEvent } from '../../../../src/events/event.ts';
import { KEYS } from '../../../../src/store/keys.ts';
import { openMemoryStore } from '../../../../src/store/memory.ts';
import { FullEtcd, MEMBERS, MIB } from '../etcd/full-etcd.ts';
import { resolved } from '../kit.ts';

const ROUND = duration('15s');
const machines = resolved().machines.slice(0, 3);
const one = {
  ...resolved(),
  name: 'one',
  machines: machines.map((machine, n) => ({ ...machine, name: MEMBERS[n]!.name })),
};
let close: () => Promise<void> = async () => {};
afterEach(() => close());

async function world(etcd: FullEtcd, store = openMemoryStore()) {
  const clock = new ManualClock();
  const events: NewEvent[] = [];
  const gauges = new Map<string, number>();
  const state = { busy: undefined as string | undefined, goingDown: [] as string[] };
  const clusters = { get: () => ({ resolved: one }) as never };
  const looks = createEtcdLooks({ clusters, gateway: () => etcd });
  const started = startEtcdWatch({
    looks,
    founder: { records: () => [{ cluster: 'one', id: 'f', founded: { at: 0, by: 'm1' } } as never] },
    clusters,
    gateway: () => etcd,
    metrics: { set: (name, { trouble }, value) => void gauges.set(`${name} ${trouble ?? ''}`.trim(), value) },
    events: { record: (event) => void events.push(event) },
    ...{ clock, store },
    log: silentLog,
    busy: () => state.busy,
    goingDown: () => state.goingDown,
    closed: () => undefined,
  });
  const watch = { ...looks, ...started };
  close = () => watch.close();
  const pass = async (rounds = 1): Promise<void> => {
    for (let n = 0; n < rounds; n++) {
      clock.advance(ROUND);
      for (let turn = 0; turn < 3; turn++) await new Promise((done) => setImmediate(done));
    }
  };
  await pass();
  return { clock, events, gauges, state, watch, pass };
}
const codes = (events: readonly NewEvent[]) => events.map(({ reason }) => reason?.code);

test('an alarm is recorded once, measured, and holds changes until it is disarmed', async () => {
  const etcd = FullEtcd.full();
  const { events, gauges, watch, pass } = await world(etcd);
  await pass(3);
  expect(events).toEqual([
    expect.objectContaining({
      kind: 'cluster.etcd',
      subject: 'Cluster/one',
      reason: { code: 'nospace', text: expect.stringContaining('muster cluster reclaim-space one') },
    }),
  ]);
  expect(gauges.get('muster_cluster_etcd_troubles nospace')).toBe(1);
  expect(gauges.get('muster_cluster_etcd_database_bytes')).toBe(2048 * MIB);
  expect(watch.holds('one')).toMatchObject({ code: 'E_ETCD_SPACE' });
  expect([watch.reads('one', 'm1'), watch.reads('one', 'm9')]).toEqual([true, false]);
  etcd.alarms = [];
  for (const { name } of MEMBERS) etcd.octets.set(name, 10 * MIB);
  await pass(2);
  expect(codes(events)).toEqual(['nospace', 'cleared']);
  expect(watch.holds('one')).toBeUndefined();
});

test('a member that lags is recorded only when it still does at the next look', async () => {
  const etcd = new FullEtcd(10 * MIB);
  etcd.applied.set('m2', 1_000_000);
  const { events, pass } = await world(etcd);
  expect(codes(events)).toEqual([]);
  await pass();
  expect(codes(events)).toEqual(['behind', 'behind']);
});

test('the routine defragments one member at a time, ten minutes apart, the leader last, and not during a change', async () => {
  const etcd = new FullEtcd(500 * MIB, 50 * MIB);
  const { clock, state, pass } = await world(etcd);
  expect(etcd.calls).toEqual(['defragment m2']);
  await pass(10);
  expect(etcd.calls).toHaveLength(1);
  state.busy = 'a change of the cluster is under way';
  clock.advance(duration('10m'));
  await pass(2);
  expect(etcd.calls).toHaveLength(1);
  state.busy = undefined;
  await pass(2);
  expect(etcd.calls).toEqual(['defragment m2', 'defragment m3']);
  clock.advance(duration('10m'));
  await pass(2);
  expect(etcd.calls).toEqual(['defragment m2', 'defragment m3', 'defragment m1']);
});

test('nothing is defragmented while a member may restart', async () => {
  const etcd = FullEtcd.full();
  const { clock, state, watch, pass } = await world(etcd);
  state.goingDown = ['m3'];
  await expect(watch.reclaim('one')).rejects.toThrow('m3 may restart at any moment');
  etcd.alarms = [];
  for (const { name } of MEMBERS) etcd.inUse.set(name, 50 * MIB);
  clock.advance(duration('10m'));
  await pass(3);
  expect(etcd.calls).toEqual([]);
  state.goingDown = ['w1'];
  await pass();
  expect(etcd.calls).toEqual(['defragment m2']);
  expect([...watch.mute('one')]).toEqual([]);
});

test('a server that starts goes on with an order, and an order that has ended is forgotten', async () => {
  const etcd = FullEtcd.full();
  const store = openMemoryStore();
  const before = await world(etcd, store);
  const defragment = etcd.defragment.bind(etcd);
  etcd.defragment = () => Promise.reject(new Error('the connection was cut'));
  await before.watch.reclaim('one');
  await before.watch.close();
  etcd.defragment = defragment;
  const next = await world(etcd, store);
  await next.watch.resume();
  await expect(next.watch.reclaim('one')).rejects.toThrow('is being reclaimed already');
  next.clock.advance(ROUND);
  await vi.waitFor(async () => {
    next.clock.advance(duration('1s'));
    expect((await next.watch.space('one')).order).toMatchObject({ ended: 'reclaimed' });
  }, 20_000);
  await vi.waitFor(
    async () => expect((await store.list(KEYS.etcdSpace.prefix())).records).toEqual([]),
    20_000,
  );
  expect(etcd.alarms).toEqual([]);
});

test('an order to reclaim space ends with its steps, and is refused while a change is under way', async () => {
  const etcd = FullEtcd.full();
  const { clock, state, watch } = await world(etcd);
  await watch.reclaim('one');
  await expect(watch.reclaim('one')).rejects.toThrow('is being reclaimed already');
  await vi.waitFor(async () => {
    clock.advance(duration('1s'));
    expect((await watch.space('one')).order).toMatchObject({ ended: 'reclaimed' });
  }, 20_000);
  expect(etcd.alarms).toEqual([]);
  state.busy = 'a change of the cluster is under way';
  await expect(watch.reclaim('one')).rejects.toMatchObject({ code: 'E_ETCD_SPACE' });
});
