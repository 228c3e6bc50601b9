/** The member of etcd of a machine in quarantine: its orders, and what a release undoes. */
import { expect, test } from 'vitest';
import type { EtcdView, FoundingRecord, Known } from '../../../../src/cluster/etcd/founding.ts';
import {
  gone,
  nextRemoval,
  orderLeaving,
  released,
  withStage,
} from '../../../../src/cluster/etcd/leaving.ts';
import { decodeFounding, encodeFounding } from '../../../../src/cluster/etcd/record.ts';

const NAMES = ['cp1', 'cp2', 'cp3'];
const members = NAMES.map((name, n) => ({ name, address: `10.0.0.1${n + 1}` }));
const RECORD: FoundingRecord = {
  v: 1,
  id: 'f1',
  cluster: 'blue',
  openedAt: 0,
  openedBy: 'all-asked',
  members,
  grants: {},
  joined: Object.fromEntries(NAMES.map((name) => [name, `fs-${name}`])),
  lists: {},
  founded: { at: 1, by: 'cp1' },
};

const view = (...healthy: string[]): EtcdView =>
  ({
    members: members.map(({ name, address }, n) => ({
      id: `${n}`,
      name,
      peerUrls: [`https://${address}:2380`],
      learner: false,
      healthy: healthy.includes(name),
    })),
  }) as unknown as EtcdView;
const known = (record: FoundingRecord, ...healthy: string[]): Known =>
  ({ cluster: 'blue', record, members, view: view(...healthy), life: {} }) as unknown as Known;

const QUARANTINE = { machine: 'cp2', node: false, clear: false, drainUntil: 0, quarantine: true } as const;
const REMOVAL = { machine: 'cp2', node: true, clear: false, drainUntil: 0 } as const;

/** The record after an order that is taken. */
function ordered(record: FoundingRecord, departure: typeof QUARANTINE | typeof REMOVAL, healthy = NAMES) {
  const result = orderLeaving(known(record, ...healthy), [departure], 5);
  if (!result.ok) throw new Error(JSON.stringify(result));
  return result.record;
}

test('a member in quarantine is removed from etcd, and the record says why it leaves', () => {
  const record = ordered(RECORD, QUARANTINE);
  expect(record.leaving!.cp2).toMatchObject({ stage: 'drain', node: false, quarantine: true });
  expect(nextRemoval(withStage(record, 'cp2', 'etcd'), view(...NAMES), [])).toEqual({
    do: 'remove',
    id: '1',
  });
  expect(decodeFounding('founding/blue', encodeFounding(record))).toEqual(record);
});

test.each([
  ['two of three answer, without it one', ['cp1', 'cp2'], false],
  ['two of three answer, and it does not', ['cp1', 'cp3'], true],
  ['all answer', NAMES, true],
])('where %s, the order depends on the quorum', (_, healthy, ok) => {
  const result = orderLeaving(known(RECORD, ...healthy), [QUARANTINE], 5);
  expect(result.ok).toBe(ok);
  if (!result.ok) expect(JSON.stringify(result)).toContain('etcd would have no quorum');
});

test('a release before it left leaves everything as it was', () => {
  const record = ordered(RECORD, QUARANTINE);
  expect(released(record, 'cp2')).toEqual(RECORD);
  expect(released(withStage(record, 'cp2', 'etcd'), 'cp2')).toEqual(RECORD);
});

test('a release after it left makes the machine clear its disk, after which nothing of the order is left', () => {
  const left = withStage(ordered(RECORD, QUARANTINE), 'cp2', 'down');
  const after = released(left, 'cp2')!;
  expect(after.leaving!.cp2).toMatchObject({ stage: 'down', clear: true });
  expect(after.leaving!.cp2).not.toHaveProperty('quarantine');
  expect(gone(after, 'cp2')!.leaving).toBeUndefined();
});

test('a release undoes no removal that an operator ordered', () => {
  const removed = ordered(RECORD, REMOVAL);
  expect(released(removed, 'cp2')).toBeUndefined();
  expect(released(RECORD, 'cp2')).toBeUndefined();
  expect(ordered(removed, QUARANTINE)).toEqual(removed);
  // A removal that is ordered later makes the quarantine's departure one for good, with its Node.
  const later = ordered(withStage(ordered(RECORD, QUARANTINE), 'cp2', 'down'), REMOVAL);
  expect(later.leaving!.cp2).toMatchObject({ stage: 'node', node: true });
  expect(released(later, 'cp2')).toBeUndefined();
});

test('a worker that is brought back clears nothing, and a member that etcd removed clears its disk', () => {
  const worker = { machine: 'w1', node: true, clear: false, drainUntil: 9, quarantine: true } as const;
  const out = orderLeaving(known(RECORD, ...NAMES), [worker], 5);
  if (!out.ok) throw new Error(JSON.stringify(out));
  for (const stage of ['drain', 'node', 'down'] as const)
    expect(released(withStage(out.record, 'w1', stage), 'w1')!.leaving).toBeUndefined();
  const control = { ...worker, machine: 'cp2' };
  const leaves = orderLeaving(known(RECORD, ...NAMES), [control], 5);
  if (!leaves.ok) throw new Error(JSON.stringify(leaves));
  expect(released(withStage(leaves.record, 'cp2', 'node'), 'cp2')!.leaving!.cp2).toMatchObject({
    stage: 'down',
    clear: true,
  });
  // Repeated without a drain, the order ends the one that is under way.
  const again = orderLeaving(known(leaves.record, ...NAMES), [{ ...control, drainUntil: 0 }], 6);
  if (!again.ok) throw new Error(JSON.stringify(again));
  expect(again.record.leaving!.cp2).toMatchObject({ stage: 'drain', since: 5, drainUntil: 0 });
});
