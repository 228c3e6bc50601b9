/** `muster status` answers whether all is well: what needs an operator, the worst first. */
import fc from 'fast-check';
import { expect, test } from 'vitest';
import { type ConcernDeps, overviewOf, watchConcerns } from '../../../src/api/concern-watch.ts';
import { CONCERNS, type ConcernFacts, concernsOf } from '../../../src/api/concerns.ts';
import { ManualClock } from '../../../src/base/clock.ts';
import { duration } from '../../../src/base/duration.ts';
import { silentLog } from '../../../src/base/log.ts';
import { createMetrics } from '../../../src/base/metrics.ts';
import { CLUSTER_CONDITIONS, clusterConditionOf } from '../../../src/cluster/health/condition.ts';
import { bad, good } from '../../../src/cluster/health/finding.ts';
import { watchHealth } from '../../../src/cluster/health/health-watch.ts';
import { endOfSupport } from '../../../src/cluster/model/versions.ts';
import { CONDITIONS, type ConditionWord } from '../../../src/machines/condition.ts';

const WELL: ConcernFacts = {
  checks: [{ name: 'store', ok: true }],
  faults: [],
  warnings: [],
  incompleteImages: [],
  machines: [{ name: 'm1', condition: { word: 'ready' } }],
  clusters: [],
  waiting: 0,
  names: [],
  lost: [],
  space: { free: 9e12, reserve: 2 ** 28 },
};
const health = (...findings: ReturnType<typeof bad>[]) => ({
  cluster: 'blue',
  ok: false,
  at: '2026-01-01T00:00:00.000Z',
  scope: 'all',
  findings,
});
const cluster = (...findings: ReturnType<typeof bad>[]) => ({
  name: 'blue',
  condition: { word: 'ready' } as const,
  health: health(...findings),
  late: undefined,
});
const NOSPACE = bad('etcd', 'm1', 'it raised NOSPACE', 'muster cluster reclaim-space blue');
const codes = (facts: Partial<ConcernFacts>): string[] =>
  concernsOf({ ...WELL, ...facts }).map(({ code }) => code);

test('where everything is well there is no concern', () => {
  expect(codes({})).toEqual([]);
  expect(codes({ clusters: [cluster(good('etcd', 'blue', '3 of 3 voters answer'))] })).toEqual([]);
});

test('a founded cluster that was not looked at lately is not well', () => {
  const unseen = {
    name: 'blue',
    condition: { word: 'unchecked' },
    health: undefined,
    late: undefined,
  } as const;
  expect(codes({ clusters: [unseen] })).toEqual(['cluster-unchecked']);
});

test('a cluster whose minor version Kubernetes ends is told to move, 60 days before', () => {
  const at = (day: string) => endOfSupport('1.34.9', Date.parse(day));
  expect(at('2026-08-01')).toBeUndefined();
  expect(at('2026-10-20T12:00:00Z')).toBe('Kubernetes 1.34 gets fixes until 2026-10-27, for 8 more days');
  expect(at('2026-10-27T23:00:00Z')).toBe('Kubernetes 1.34 gets fixes until 2026-10-27, which is today');
  expect(at('2026-10-28')).toBe('Kubernetes 1.34 gets no fixes any more since 2026-10-27');
  expect(endOfSupport('1.33.1', Date.parse('2030-01-01'))).toBeUndefined();
  const ending = { ...cluster(good('etcd', 'blue', 'well')), ends: at('2026-10-28') };
  expect(concernsOf({ ...WELL, clusters: [ending] })).toEqual([
    expect.objectContaining({ code: 'version-ends', level: 'soon', subject: 'Cluster/blue' }),
  ]);
});

test('the worst comes first, each with its next step', () => {
  const found = concernsOf({
    ...WELL,
    checks: [{ name: 'store', ok: false, detail: 'the disk is full' }],
    warnings: [{ code: 'E_NOT_EXPORTED', message: 'only this host has the keys' }],
    incompleteImages: ['small'],
    clusters: [
      {
        ...cluster(bad('node', 'm2', 'not ready', 'muster explain m2'), NOSPACE),
        late: 'snapshots are asked for every 1h: it has none',
      },
    ],
    machines: [{ name: 'm1', condition: { word: 'silent' }, full: { '/var/lib/muster': '97' } }],
    waiting: 2,
    space: { free: 300 * 2 ** 20, reserve: 2 ** 28 },
  });
  expect(found.map(({ code, level, subject }) => `${level} ${code} ${subject}`)).toEqual([
    'urgent boot-host boot host',
    'urgent cluster-fails Cluster/blue',
    'urgent machine-silent m1',
    'urgent snapshot-late Cluster/blue',
    'soon space-low boot host',
    'soon space-low m1',
    'soon cluster-check Cluster/blue',
    'soon image-incomplete Image/small',
    'soon warning boot host',
    'soon order-waits boot host',
  ]);
  expect(found.every(({ fix }) => fix.length > 5)).toBe(true);
  expect(found[1]).toMatchObject({ text: 'etcd m1: it raised NOSPACE', fix: NOSPACE.fix });
});

test('a machine that is not well is told once, and many of one kind together', () => {
  const silent = (name: string) => ({ name, condition: { word: 'silent' } as const });
  const machine = bad('machine', 'm1', 'its agent is not heard', 'power it on');
  expect(codes({ clusters: [cluster(machine)], machines: [silent('m1')] })).toEqual(['machine-silent']);
  expect(
    codes({ clusters: [cluster(machine)], machines: [{ name: 'm1', condition: { word: 'registered' } }] }),
  ).toEqual(['cluster-check']);
  const [told, ...others] = concernsOf({
    ...WELL,
    machines: Array.from({ length: 1000 }, (_, n) => silent(`n${n}`)),
  });
  expect(others).toEqual([]);
  expect(told).toMatchObject({ subject: '1000 machines', text: expect.stringContaining('and 995 more') });
});

test('every machine of a bad or waiting condition is a concern, and no other', () => {
  const word = fc.constantFrom(...(Object.keys(CONDITIONS) as ConditionWord[]));
  fc.assert(
    fc.property(word, (one) => {
      const { tone } = CONDITIONS[one];
      const found = codes({ machines: [{ name: 'm1', condition: { word: one } }] });
      expect(found).toEqual(tone === 'bad' || tone === 'warn' ? [`machine-${one}`] : []);
      expect(found.every((code) => code in CONCERNS)).toBe(true);
    }),
  );
});

const FOUNDED = { cluster: 'blue', id: 'f', founded: { at: 1, by: 'm1' } } as never;
test.each([
  ['failing', FOUNDED, health(NOSPACE, bad('change', 'blue', 'it waits', 'resume it'))],
  ['held', FOUNDED, health(bad('change', 'blue', 'it waits', 'resume it'))],
  ['changing', FOUNDED, health(good('change', 'blue', 'the upgrade restarts m1'))],
  ['changing', { ...(FOUNDED as object), leaving: { m1: {} } } as never, health()],
  ['ready', FOUNDED, health(good('etcd', 'blue', '3 of 3'))],
  ['unchecked', FOUNDED, undefined],
  ['founding', { cluster: 'blue', id: 'f' } as never, health()],
  ['reset', { cluster: 'blue', id: 'f', reset: { at: 1 } } as never, health()],
  ['not-founded', undefined, undefined],
] as const)(
  'a cluster is %s by its record and its last look, not because it was founded once',
  (word, record, seen) => {
    expect(clusterConditionOf(true, record, seen).word).toBe(word);
    if (CLUSTER_CONDITIONS[word].tone === 'good') expect(seen).toBeDefined();
  },
);

test('a cluster is looked at every minute, and a look of more than three minutes ago counts no more', async () => {
  const clock = new ManualClock();
  let answers = true;
  const watch = watchHealth({
    founder: { records: () => [FOUNDED] },
    clusters: { get: () => ({ resolved: { name: 'blue', machines: [] } }) as never },
    clock,
    log: silentLog,
    health: { look: () => (answers ? Promise.resolve(health()) : Promise.reject(new Error('no'))) },
  });
  const turns = () => new Promise((done) => setImmediate(done));
  await turns();
  expect(watch.recent('blue')?.cluster).toBe('blue');
  expect(watch.recent('green')).toBeUndefined();
  answers = false;
  for (let minute = 0; minute < 3; minute++) {
    clock.advance(duration('1m'));
    await turns();
  }
  expect(watch.recent('blue')).toBeDefined();
  clock.advance(duration('1m'));
  expect(watch.recent('blue')).toBeUndefined();
  await watch.close();
});

test('what begins and ends is an event and a number, once', async () => {
  const clock = new ManualClock();
  const metrics = createMetrics();
  const recorded: string[] = [];
  let found: readonly ReturnType<typeof concernsOf>[0][] = [];
  const end = watchConcerns({
    overview: async () => ({
      ...{ concerns: found, warnings: [], incompleteImages: [], checked: { machines: 0, clusters: [] } },
    }),
    events: {
      record: ({ subject, reason, fields }) =>
        void recorded.push(`${fields?.state} ${reason?.code} ${subject}`),
    },
    ...{ clock, metrics, log: silentLog },
  });
  const look = async () => {
    await new Promise((done) => setImmediate(done));
    clock.advance(duration('15s'));
    await new Promise((done) => setImmediate(done));
  };
  await look();
  found = concernsOf({ ...WELL, clusters: [cluster(NOSPACE)] });
  await look();
  await look();
  expect(recorded).toEqual(['began cluster-fails Cluster/blue']);
  expect(await metrics.text()).toContain('muster_concerns{concern="cluster-fails",level="urgent"} 1');
  found = [];
  await look();
  expect(recorded[1]).toBe('ended cluster-fails Cluster/blue');
  end();
});

test('a lost machine that no spare replaces is urgent, with the command if only a person is missing', () => {
  const lost = [
    { machine: 'm1', text: 'no BMC can prove it', command: 'muster cluster heal blue m1 --off m1' },
    { machine: 'm2', text: 'there is no spare that fits' },
  ];
  expect(concernsOf({ ...WELL, lost })).toEqual([
    expect.objectContaining({ code: 'machine-lost', level: 'urgent', fix: lost[0]!.command }),
    expect.objectContaining({ subject: 'm2', fix: 'muster explain m2' }),
  ]);
});

test('what cannot be looked at is no reason to call nothing', async () => {
  const deps = {
    daemon: { readiness: () => ({ ready: true, checks: [] }) },
    catalog: { list: () => [], faults: () => [], warnings: () => [] },
    roster: { list: () => [], heartbeats: {} },
    exports: { warnings: async () => [] },
    endings: { warnings: () => [] },
    laterKeys: { warnings: () => [] },
    clock: new ManualClock(),
    names: { behind: () => [] },
    waiting: () => 1,
    lost: () => [],
    space: () => Promise.reject(new Error('no statfs')),
  } as unknown as ConcernDeps;
  expect((await overviewOf(deps)).concerns.map(({ code }) => code)).toEqual(['order-waits']);
});
