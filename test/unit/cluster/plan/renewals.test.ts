/** Certificates and keys that are replaced on order, and a life that the Cluster says. */
import { expect, test } from 'vitest';
import { duration } from '../../../../src/base/duration.ts';
import type { Pki } from '../../../../src/pki/pki.ts';
import { clusterDocument, rig, settle, TestMachine } from '../planner-kit.ts';

const leavesNow = async (pki: Pki) => {
  const newest = new Map(
    (await pki.issued('golden')).toSorted((a, b) => a.issuedAt - b.issuedAt).map((one) => [one.leaf, one]),
  );
  newest.delete('applier');
  return newest;
};

test('certificates that an operator renews are replaced for the same keys, those of one machine or of one kind alone', async () => {
  const { planner, pki, clock } = await rig();
  const machine = new TestMachine('cp1');
  await settle(planner, machine);
  const before = await leavesNow(pki);
  clock.advance(duration('10s'));
  await pki.renew('golden', { leaf: 'apiserver', newKeys: false });
  await pki.renew('golden', { machine: 'w1', newKeys: true });
  clock.advance(duration('10s'));
  await settle(planner, machine);
  const after = await leavesNow(pki);
  const changed = [...after].filter(([leaf, { serial }]) => before.get(leaf)!.serial !== serial);
  expect(changed.map(([leaf]) => leaf)).toEqual(['apiserver']);
  expect(after.get('apiserver')!.publicKey).toBe(before.get('apiserver')!.publicKey);
  await settle(planner, machine);
  expect((await leavesNow(pki)).get('apiserver')!.serial).toBe(after.get('apiserver')!.serial);
});

test('with new keys, each machine makes another key for every certificate, once', async () => {
  const { planner, pki, clock } = await rig();
  const machine = new TestMachine('cp1');
  await settle(planner, machine);
  const before = await leavesNow(pki);
  clock.advance(duration('10s'));
  await pki.renew('golden', { newKeys: true });
  clock.advance(duration('10s'));
  const plan = await settle(planner, machine);
  const after = await leavesNow(pki);
  for (const [leaf, { publicKey }] of after) expect(publicKey, leaf).not.toBe(before.get(leaf)!.publicKey);
  expect(plan.lines.filter((line) => line.do === 'request')).toEqual([]);
  await settle(planner, machine);
  expect(await leavesNow(pki)).toEqual(after);
});

test('leafLifetime of the Cluster counts for certificates of a year, and takes effect with the next poll', async () => {
  const { planner, pki, clock, known } = await rig();
  const machine = new TestMachine('cp1');
  await settle(planner, machine);
  known.put(clusterDocument({ pki: { leafLifetime: '30d' } }));
  clock.advance(duration('10s'));
  await settle(planner, machine);
  for (const [leaf, one] of await leavesNow(pki))
    expect(Math.round((one.notAfter - one.issuedAt) / duration('1d')), leaf).toBe(30);
  const settled = await leavesNow(pki);
  clock.advance(duration('15d'));
  await settle(planner, machine);
  expect(await leavesNow(pki)).toEqual(settled);
  clock.advance(duration('6d'));
  await settle(planner, machine);
  expect((await leavesNow(pki)).get('kubelet')!.serial).not.toBe(settled.get('kubelet')!.serial);
});
