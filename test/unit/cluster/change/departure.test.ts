/** The plan of a leaving machine, and how the Cluster's document is edited. */
import { expect, test } from 'vitest';
import { encodePlan } from '../../../../src/agent/wire/encode-plan.ts';
import type { AgentFacts } from '../../../../src/agent/wire/facts.ts';
import { edited } from '../../../../src/cluster/change/membership.ts';
import type { FoundingRecord, Leaving } from '../../../../src/cluster/etcd/founding.ts';
import { departurePlan } from '../../../../src/cluster/plan/departure.ts';
import { SHORT } from '../kit.ts';

const LEAVING: Leaving = { stage: 'down', since: 7, node: true, clear: true, drainUntil: 0 };
const record = (change: Partial<FoundingRecord>) =>
  ({ v: 1, cluster: 'one', id: 'f1', ...change }) as FoundingRecord;
const MARKER = { cluster: 'one', founding: 'f1', member: 'm1', machine: 'm1' };
const FACTS = {
  disk: { state: 'ours', device: '/dev/vda', filesystem: 'F', mounted: true },
  marker: MARKER,
  etcd: { wal: 'present', health: 'serving' },
} as AgentFacts;
const words = (facts: AgentFacts, change: Partial<FoundingRecord>) => {
  const { lines, pollSeconds, gone } = departurePlan(record(change), 'm1', facts);
  return { text: encodePlan({ lines, pollSeconds }).text, gone };
};

test('until the machine is out of etcd, everything on it keeps running', () => {
  const { text, gone } = words(FACTS, { leaving: { m1: { ...LEAVING, stage: 'etcd' } } });
  expect(text.split('\n').slice(1)).toEqual([expect.stringMatching(/^hold leaving /), '']);
  expect(gone).toBe(false);
});

test('then everything stops: kubelet before its pods, pods before their runtime; the disk is cleared last', () => {
  const { text } = words(FACTS, { leaving: { m1: LEAVING } });
  const verbs = text.split('\n').filter((line) => /^(stop|clear|step)/.test(line));
  expect(verbs).toEqual([
    'stop muster-objects.service',
    'stop kubelet.service',
    'stop kubepods.slice',
    'stop muster-etcd.service',
    'stop muster-address.service',
    'stop muster-balancer.service',
    'stop containerd.service',
    'stop crio.service',
    'clear one f1 m1 m1',
    'step left-7',
  ]);
});

test('an etcd disk is mounted and cleared before the data disk, and the machine is gone only when both are', () => {
  const facts = { ...FACTS, marker: { ...MARKER, founding: 'none', member: '_etcd-disk' } };
  const disk = { state: 'ours', device: '/dev/vdb', filesystem: 'E', mounted: false } as const;
  const verbs = (etcdDisk: NonNullable<AgentFacts['etcdDisk']>) =>
    words({ ...facts, etcdDisk }, { leaving: { m1: LEAVING } })
      .text.split('\n')
      .filter((line) => /^(mount|clear)/.test(line));
  const data = 'clear one none _etcd-disk m1';
  expect(verbs({ disk })).toEqual(['mount-etcd E', data]);
  expect(verbs({ disk: { ...disk, mounted: true }, marker: MARKER })).toEqual([
    'clear-etcd one f1 m1 m1',
    data,
  ]);
  const done = { ...FACTS, marker: undefined, step: 'left-7', etcd: { ...FACTS.etcd, wal: 'absent' } };
  const gone = (etcdDisk: NonNullable<AgentFacts['etcdDisk']>) =>
    words({ ...(done as unknown as AgentFacts), etcdDisk }, { leaving: { m1: LEAVING } }).gone;
  expect([gone({ disk, marker: MARKER }), gone({ disk })]).toEqual([false, true]);
  expect(
    words(
      { ...facts, etcdDisk: { disk, marker: { ...MARKER, cluster: 'two' } } },
      { leaving: { m1: LEAVING } },
    ).text,
  ).toContain('hold foreign-marker The disk belongs to m1 in cluster two.');
});

test('without the order to clear, no line touches the disk', () => {
  const { text } = words(FACTS, { leaving: { m1: { ...LEAVING, clear: false } } });
  expect(text).not.toMatch(/^clear/m);
  expect(text).toMatch(/^stop kubelet/m);
});

test('the disk of a worker, which belongs to no founding, is cleared by its own marker', () => {
  const { text } = words(
    { ...FACTS, marker: { ...MARKER, founding: 'none', member: 'none' } },
    { leaving: { m1: LEAVING } },
  );
  expect(text).toMatch(/^clear one none none m1$/m);
});

test('a disk of another machine, cluster or founding is not cleared', () => {
  for (const other of [{ machine: 'm2' }, { cluster: 'two' }, { founding: 'f0' }]) {
    const { text } = words({ ...FACTS, marker: { ...MARKER, ...other } }, { reset: { at: 1, cleared: [] } });
    expect(text.split('\n')[1]).toMatch(/^hold foreign-marker/);
  }
});

test('the machine is gone when it reports that this order is done; the report of an earlier order does not count', () => {
  const { marker: _, ...empty } = { ...FACTS, etcd: { wal: 'absent', health: 'down' } as const };
  const left = { leaving: { m1: LEAVING } };
  expect(words({ ...empty, step: 'left-7' }, left).gone).toBe(true);
  expect(words({ ...empty, step: 'left-6' }, left).gone).toBe(false);
  expect(words({ ...FACTS, step: 'left-7' }, left).gone).toBe(false);
  expect(words({ ...empty, step: 'left-9' }, { reset: { at: 9, cleared: [] } }).gone).toBe(true);
});

test('the document is edited as an operator would: names are removed, exchanged in place, or appended', () => {
  const exchange = new Map([
    ['cp2', 'cp9'],
    ['w1', undefined],
  ]);
  expect(edited(SHORT, exchange)).toEqual({
    ...SHORT,
    controlPlanes: ['cp1', 'cp9', 'cp3'],
    workers: ['w2'],
  });
  expect(edited(SHORT, new Map(), ['w3', 'w1'])).toEqual({ ...SHORT, workers: ['w1', 'w2', 'w3'] });
  const groups = (...machines: string[][]) =>
    machines.map((names) => ({ machines: names, labels: { a: 'b' } }));
  const labelled = { ...SHORT, nodes: groups(['w1', 'w2'], ['w2'], ['cp1']) };
  expect(
    edited(
      labelled,
      new Map([
        ['w2', undefined],
        ['cp1', 'cp4'],
      ]),
    ).nodes,
  ).toEqual(groups(['w1'], ['cp4']));
  expect(JSON.stringify(edited(labelled, new Map()))).toBe(JSON.stringify(labelled));
  const { workers: _, ...none } = SHORT;
  expect(edited(none, new Map(), ['cp4', 'cp5'], 'control-plane')).toEqual({
    ...none,
    controlPlanes: ['cp1', 'cp2', 'cp3', 'cp4', 'cp5'],
  });
});
