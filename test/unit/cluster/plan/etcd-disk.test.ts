/** The plan of a member of etcd that has a disk for etcd's data alone. */
import { expect, test } from 'vitest';
import { encodePlan } from '../../../../src/agent/wire/encode-plan.ts';
import type { AgentFacts, DataDisk, Marker } from '../../../../src/agent/wire/facts.ts';
import type { PlanLine } from '../../../../src/agent/wire/plan.ts';
import { createEtcdPlanner } from '../../../../src/cluster/etcd/etcd-plan.ts';
import type { MemberFacts } from '../../../../src/cluster/etcd/founding.ts';
import { checkLines } from '../../../../src/cluster/plan/checks.ts';
import { dataPart } from '../../../../src/cluster/plan/data.ts';
import { FOUNDING, resolved } from '../kit.ts';

const CLUSTER = resolved();
const machine = (name: string) => CLUSTER.machines.find((one) => one.name === name)!;
const ours = (filesystem: string, mounted = true): DataDisk => ({
  state: 'ours',
  device: '/dev/vdb',
  filesystem,
  mounted,
});
const ELSEWHERE: Marker = { cluster: 'golden', founding: 'none', member: '_etcd-disk', machine: 'cp1' };
const MEMBER: Marker = { cluster: 'golden', founding: 'f1', member: 'cp1', machine: 'cp1' };
const facts = (more: Partial<AgentFacts>): AgentFacts => ({
  agent: '5',
  bootId: 'b',
  machineId: 'm',
  clock: 0,
  disk: ours('data'),
  etcd: { wal: 'absent', health: 'down' },
  pins: new Map(),
  requests: new Map(),
  ...more,
});
const partOf = (more: Partial<AgentFacts>, name = 'cp1') => {
  const { state, lines } = dataPart(CLUSTER, machine(name), facts(more), () => 'new');
  const text = encodePlan({ lines, pollSeconds: 0 }).text.split('\n').slice(1, -1);
  return { state, text, lines };
};

test('the etcd disk is made only after the data filesystem says that etcd’s data are elsewhere', () => {
  const blank = { disk: { state: 'blank', device: '/dev/vdc', encrypt: 'tpm' } } as const;
  expect(partOf({ disk: { state: 'blank', device: '/dev/vdb' }, etcdDisk: blank }).text).toEqual([
    'create-data /dev/vdb new',
  ]);
  expect(partOf({ etcdDisk: blank })).toMatchObject({
    state: 'coming',
    text: ['mount-data data', 'marker golden none _etcd-disk cp1', 'create-etcd /dev/vdc new tpm'],
  });
  expect(partOf({ etcdDisk: { disk: ours('etcd', false) }, marker: ELSEWHERE })).toMatchObject({
    state: 'coming',
    text: ['mount-data data', 'marker golden none _etcd-disk cp1', 'mount-etcd etcd'],
  });
});

test('etcd’s directory is mounted from its disk, and its speed is measured there', () => {
  const { state, text, lines } = partOf({ etcdDisk: { disk: ours('etcd') }, marker: ELSEWHERE });
  expect(state).toBe('there');
  expect(text).toContain('bind-etcd etcd /var/lib/etcd');
  expect(text).toContain('bind kubelet /var/lib/kubelet');
  const fsync = (data: readonly PlanLine[]) =>
    checkLines(CLUSTER, machine('cp1'), data).find((line) => line.do === 'check' && line.check === 'fsync');
  expect(fsync(lines)).toMatchObject({ of: ['/var/lib/muster-etcd/etcd', '100'] });
  expect(fsync(partOf({}).lines)).toMatchObject({ of: ['/var/lib/muster/etcd', '100'] });
});

test('a member that has its data on the data disk keeps them there, and a worker uses no etcd disk', () => {
  const etcdDisk = { disk: { state: 'blank', device: '/dev/vdc' } } as const;
  const { state, text } = partOf({ marker: MEMBER, etcdDisk });
  expect(state).toBe('there');
  expect(text).toContain('bind etcd /var/lib/etcd');
  expect(partOf({ etcdDisk }, 'w1').text.join('\n')).not.toContain('etcd');
});

test.for([
  ['no-etcd-disk', { disk: { state: 'none', detail: 'serial=E' } }],
  ['no-etcd-disk', { disk: { state: 'several', detail: '/dev/vdc /dev/vdd' } }],
  ['foreign-disk', { disk: { state: 'foreign', device: '/dev/vdc', detail: 'ext4' } }],
  ['data-not-encrypted', { disk: { ...ours('etcd'), encrypt: 'tpm' } }],
  ['no-etcd-disk', undefined],
] as const)('a member is held with %s when its etcd disk is %o', ([code, etcdDisk]) => {
  const { state, lines } = partOf({ marker: ELSEWHERE, ...(etcdDisk && { etcdDisk: etcdDisk as never }) });
  expect(state).toBe('held');
  expect(lines).toMatchObject([{ do: 'hold', code }]);
});

test('the founding is granted to the etcd disk’s filesystem, whose marker counts and is written there', async () => {
  const asked: MemberFacts[] = [];
  const planner = createEtcdPlanner({
    ask: async (_cluster: string, _members: unknown, known: MemberFacts) => {
      asked.push(known);
      return { do: 'found', founding: FOUNDING, filesystem: known.filesystem };
    },
  } as never);
  const part = await planner(
    CLUSTER,
    machine('cp1'),
    facts({ marker: ELSEWHERE, etcdDisk: { disk: ours('etcd') } }),
  );
  expect(asked).toMatchObject([{ filesystem: 'etcd' }]);
  expect(asked[0]).not.toHaveProperty('marker');
  expect(part.lines.map((line) => line.do)).toEqual(['marker-etcd', 'guard-new', 'guard-left']);
  const again = { disk: ours('etcd'), marker: MEMBER };
  await planner(CLUSTER, machine('cp1'), facts({ marker: ELSEWHERE, etcdDisk: again }));
  expect(asked[1]).toMatchObject({ filesystem: 'etcd', marker: MEMBER });
  const former = await planner(CLUSTER, machine('cp1'), facts({ marker: MEMBER, etcdDisk: again }));
  expect(asked[2]).toMatchObject({ filesystem: 'data', marker: MEMBER });
  expect(former.lines[0]).toMatchObject({ do: 'marker' });
});
