/** Keys that rotate themselves when they have reached the age that their Cluster names. */
import fc from 'fast-check';
import { expect, test } from 'vitest';
import { duration, type Millis } from '../../../../src/base/duration.ts';
import { keysetsDue, rotateIfDue } from '../../../../src/cluster/change/rotation/by-age.ts';
import { ROTATED } from '../../../../src/cluster/change/rotation/order.ts';
import { allGenerations } from '../../../../src/pki/keyset.ts';
import { Cluster } from './rotation-kit.ts';

const MONTH = duration('30d');

async function ageing(rotateAfter?: string) {
  const cluster = await Cluster.open(rotateAfter === undefined ? {} : { pki: { rotateAfter } });
  const { pki, clock } = cluster.world;
  await cluster.settle();
  const windows: { closed: string | undefined } = { closed: undefined };
  /** Lets the time pass; then the boot host looks at the age of the keys. */
  const passes = async (span: Millis): Promise<void> => {
    clock.leap(span);
    const { changes, rotations } = cluster;
    const deps = { pki, clock, changes, rotations, serves: () => true, closed: () => windows.closed };
    await rotateIfDue(deps, cluster.spec);
  };
  return { cluster, passes, windows };
}

test('keys rotate themselves again and again, and nobody loses anybody', async () => {
  const { cluster, passes } = await ageing('30d');
  for (let n = 0; n < 2; n++) {
    const before = await cluster.world.pki.keysets('golden');
    await passes(duration('20d'));
    expect(cluster.changes.record('golden')?.ended === undefined).toBe(n === 0);
    await passes(duration('11d'));
    expect(cluster.changes.record('golden')).toMatchObject({ by: 'muster', route: 'forward' });
    await cluster.finish();
    expect(cluster.changes.record('golden')?.ended?.as).toBe('done');
    for (const [name, keyset] of await cluster.world.pki.keysets('golden')) {
      expect(allGenerations(keyset)).toHaveLength(1);
      expect(keyset.primary).not.toBe(before.get(name)?.primary);
    }
  }
  await cluster.changes.close();
});

test('after a rotation was rolled back the next one begins by itself only later', async () => {
  const { cluster, passes } = await ageing('30d');
  await passes(duration('31d'));
  const { id } = cluster.changes.record('golden')!;
  await cluster.rotations.rollBack('golden', 'root');
  await cluster.finish();
  await passes(duration('2d'));
  expect(cluster.changes.record('golden')).toMatchObject({ id, ended: { as: 'rolled-back' } });
  await passes(duration('2d'));
  expect(cluster.changes.record('golden')?.id).not.toBe(id);
  await cluster.changes.close();
});

test('keys that have reached their age wait for a maintenance window', async () => {
  const { cluster, passes, windows } = await ageing('30d');
  windows.closed = 'the maintenance window opens on Saturday';
  await passes(duration('31d'));
  expect(cluster.changes.record('golden')).toBeUndefined();
  windows.closed = undefined;
  await passes(duration('1m'));
  expect(cluster.changes.record('golden')).toMatchObject({ by: 'muster', kind: 'rotation' });
  await cluster.changes.close();
});

test('keys do not rotate by themselves unless the Cluster says so', async () => {
  const { cluster, passes } = await ageing();
  await passes(duration('3000d'));
  expect(cluster.changes.record('golden')).toBeUndefined();
  await cluster.changes.close();
});

test('keysets rotate together when one of them is due, and none that is young', () => {
  const births = fc.uniqueArray(fc.tuple(fc.constantFrom(...ROTATED), fc.nat({ max: 2 * MONTH })), {
    selector: ([name]) => name,
  });
  fc.assert(
    fc.property(births, (pairs) => {
      const now = 2 * MONTH;
      const due = keysetsDue(new Map(pairs), MONTH, now);
      const ages = new Map(pairs.map(([name, born]) => [name, now - born]));
      expect(due.length > 0).toBe([...ages.values()].some((age) => age >= MONTH));
      for (const [name, age] of ages) {
        if (age >= MONTH) expect(due.includes(name) || due.length === 0).toBe(true);
        if (age < MONTH * 0.9) expect(due).not.toContain(name);
      }
    }),
  );
});
