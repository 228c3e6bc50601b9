/** The condition of an etcd is read from real answers, and each fault is named with its cure. */
import fc from 'fast-check';
import { expect, test } from 'vitest';
import { type Clock, systemClock } from '../../../../src/base/clock.ts';
import {
  dueForDefragmentation,
  type EtcdCondition,
  quotaOf,
  readCondition,
  troublesIn,
  whyAlarmed,
} from '../../../../src/cluster/etcd/condition.ts';
import { refusalOf } from '../../../../src/cluster/etcd/gateway.socket.ts';
import { type ReclaimStep, reclaim } from '../../../../src/cluster/etcd/reclaim.ts';
import { FullEtcd, MEMBERS, MIB } from './full-etcd.ts';

/** The answer of etcd 3.4.23 under NOSPACE, of 3.5.16 without a leader, and of 3.6.5. */
const ETCD_34 = {
  header: { cluster_id: '123', member_id: '15234267791480422566', revision: '171', raft_term: '2' },
  version: '3.4.23',
  dbSize: '16990208',
  leader: '15234267791480422566',
  raftIndex: '201',
  raftTerm: '2',
  raftAppliedIndex: '201',
  errors: ['memberID:15234267791480422566 alarm:NOSPACE '],
  dbSizeInUse: '16969728',
};
const ETCD_35 = {
  header: { cluster_id: '123', member_id: '77', raft_term: '4' },
  version: '3.5.16',
  dbSize: '20480',
  raftIndex: '9',
  raftAppliedIndex: '9',
  errors: ['etcdserver: no leader'],
  dbSizeInUse: '16384',
};
const ETCD_36 = {
  ...ETCD_34,
  version: '3.6.5',
  storageVersion: '3.6.0',
  dbSizeQuota: '8589934592',
  downgradeInfo: {},
  errors: ['memberID:15234267791480422566  alarm:CORRUPT'],
};
const m1 = MEMBERS[0]!;
const conditionOf = (...answers: object[]): EtcdCondition => ({
  members: answers.map((answer, n) => readCondition(MEMBERS[n]!, answer, true)),
  silent: [],
  quota: quotaOf(undefined),
});

test('answers of etcd 3.4, 3.5 and 3.6 are read', () => {
  expect(readCondition(m1, ETCD_34, true)).toEqual({
    ...m1,
    id: '15234267791480422566',
    leader: '15234267791480422566',
    learner: false,
    octets: 16990208,
    inUse: 16969728,
    applied: 201,
    revision: '171',
    alarms: [{ member: '15234267791480422566', name: 'NOSPACE' }],
    reads: true,
  });
  const mute = readCondition(m1, ETCD_35, false);
  expect(mute).toMatchObject({ alarms: [], revision: '0', reads: false });
  expect(mute.leader).toBeUndefined();
  expect(readCondition(m1, ETCD_36, true)).toMatchObject({
    quota: 8589934592,
    alarms: [{ member: '15234267791480422566', name: 'CORRUPT' }],
  });
  expect(readCondition(m1, 'nothing', false)).toMatchObject({ octets: 0, alarms: [] });
});

test('a refusal is understood from the gateways of etcd 3.4, 3.5 and 3.6', () => {
  const text = 'etcdserver: mvcc: required revision has been compacted';
  expect(refusalOf(`{"error":"${text}","code":11,"message":"${text}"}`)).toBe(text);
  expect(refusalOf(`{"code":11, "message":"${text}"}`)).toBe(text);
  expect(refusalOf('<html>')).toBeUndefined();
});

test('the quota is the flag, 2 GiB without it, and none where it is negative', () => {
  expect([undefined, '', '0', '16777216', '-1'].map(quotaOf)).toEqual([
    2 ** 31,
    2 ** 31,
    2 ** 31,
    16 * MIB,
    Number.POSITIVE_INFINITY,
  ]);
});

test('each trouble names the member and the command that ends it, and alarms hold changes', async () => {
  const texts = (condition: EtcdCondition) =>
    troublesIn('one', condition).map(({ code, subject, fix }) => `${code} ${subject}: ${fix}`);
  expect(texts(conditionOf(ETCD_34))[0]).toMatch(/^nospace m1: muster cluster reclaim-space one /);
  expect(texts(conditionOf(ETCD_36))[0]).toMatch(/^corrupt m1: .*remove-node one m1 --clear/);
  expect(texts(conditionOf(ETCD_35))[0]).toMatch(/^no_leader m1: /);
  expect(whyAlarmed('one', conditionOf(ETCD_34))).toContain('alarm NOSPACE');
  expect(whyAlarmed('one', conditionOf(ETCD_36))).toContain('alarm CORRUPT');
  expect(whyAlarmed('one', conditionOf(ETCD_35))).toBeUndefined();
  const near = new FullEtcd(1640 * MIB, 100 * MIB);
  near.applied.set('m3', 1000 + 5000);
  const found = troublesIn('one', await near.condition());
  expect(found.map(({ code, subject }) => `${code} ${subject}`)).toEqual([
    'near_quota one',
    'behind m1',
    'behind m2',
  ]);
});

/** Orders the cure; resolves with its steps, or the reason why it failed. */
async function reclaimed(
  etcd: FullEtcd,
  goingDown: () => readonly string[] = () => [],
  mute = new Set<string>(),
): Promise<readonly string[]> {
  const steps: ReclaimStep[] = [];
  // Time passes at once.
  const clock: Clock = {
    ...systemClock,
    after(_, then) {
      queueMicrotask(then);
      return () => {};
    },
  };
  const { signal } = new AbortController();
  const rest = { cluster: 'one', members: MEMBERS, quota: etcd.quota, etcd, clock, signal, goingDown, mute };
  const failed = await reclaim({ ...rest, note: (step) => steps.push(step) }).then(
    () => [],
    (error: Error) => [error.message],
  );
  return [...steps.map(({ code }) => code), ...failed];
}

test('the cure compacts, defragments with the leader last, disarms, and ends with a write', async () => {
  const etcd = FullEtcd.full();
  const steps = await reclaimed(etcd);
  expect(steps).toEqual([
    'compacted',
    ...['defragmented', 'defragmented', 'defragmented'],
    'disarmed',
    'reclaimed',
  ]);
  expect(etcd.calls).toEqual([
    'compact 700',
    ...['defragment m2', 'defragment m3', 'defragment m1'],
    'disarm id-m2 NOSPACE',
    'write',
  ]);
});

test('where objects fill the quota, the cure names that and leaves the alarm', async () => {
  const etcd = FullEtcd.full();
  etcd.live = etcd.quota;
  expect((await reclaimed(etcd)).at(-1)).toMatch(/still at its quota.*raise quota-backend-bytes/);
  expect(etcd.alarms).toHaveLength(1);
});

test('the cure does not begin while a member does not answer, or data are corrupt', async () => {
  const silent = FullEtcd.full();
  silent.silent.add('m3');
  expect(await reclaimed(silent)).toEqual([expect.stringMatching(/^m3 does not answer a read/)]);
  const corrupt = FullEtcd.full();
  corrupt.alarms.push({ member: 'id-m3', name: 'CORRUPT' });
  expect(await reclaimed(corrupt)).toEqual([expect.stringMatching(/^m3: alarm CORRUPT/)]);
  expect([...silent.calls, ...corrupt.calls]).toEqual([]);
});

test('the cure waits for members that may restart, and names the one that does not answer meanwhile', async () => {
  const etcd = FullEtcd.full();
  const mute = new Set<string>();
  const seen: string[] = [];
  const defragment = etcd.defragment.bind(etcd);
  etcd.defragment = async (member) => {
    seen.push([...mute].join());
    await defragment(member);
  };
  let waits = 20;
  const goingDown = () => {
    expect(mute.size).toBe(0);
    return waits-- > 0 ? ['m3', 'w7'] : [];
  };
  expect((await reclaimed(etcd, goingDown, mute)).at(-1)).toBe('reclaimed');
  expect(waits).toBeLessThan(0);
  expect(seen).toEqual(['m2', 'm3', 'm1']);
  expect(mute.size).toBe(0);
});

test('the routine chooses one member that holds much free space, never while anything else is wrong', () =>
  fc.assert(
    fc.asyncProperty(
      fc.record({
        octets: fc.array(fc.integer({ min: 0, max: 2048 }), { minLength: 3, maxLength: 3 }),
        used: fc.array(fc.double({ min: 0, max: 1, noNaN: true }), { minLength: 3, maxLength: 3 }),
        leader: fc.constantFrom('m1', 'm2', 'm3'),
        wrong: fc.constantFrom('', 'silent', 'mute', 'alarm', 'behind'),
        rests: fc.subarray(['m1', 'm2', 'm3']),
      }),
      async ({ octets, used, leader, wrong, rests }) => {
        const etcd = new FullEtcd(0);
        for (const [n, { name }] of MEMBERS.entries()) {
          etcd.octets.set(name, octets[n]! * MIB);
          etcd.inUse.set(name, octets[n]! * MIB * used[n]!);
        }
        etcd.leader = leader;
        if (wrong === 'silent') etcd.silent.add('m2');
        if (wrong === 'mute') etcd.mute.add('m2');
        if (wrong === 'alarm') etcd.alarms = [{ member: 'id-m2', name: 'NOSPACE' }];
        if (wrong === 'behind') etcd.applied.set('m2', 1_000_000);
        const due = dueForDefragmentation('one', await etcd.condition(), (name) => rests.includes(name));
        const none = (): void => {
          expect(due).toBeUndefined();
        };
        if (wrong !== '') return none();
        const worth = MEMBERS.filter(({ name }, n) => {
          const large = octets[n]! >= 100 && 1 - used[n]! >= 0.45;
          const near = octets[n]! >= 0.8 * 2048 && 1 - used[n]! >= 0.2;
          return !rests.includes(name) && (large || near);
        }).map(({ name }) => name);
        if (worth.length === 0) return none();
        expect(worth).toContain(due?.name);
        if (worth.some((name) => name !== leader)) expect(due?.name).not.toBe(leader);
      },
    ),
  ));
