/** Keys that rotate themselves when they have reached the age that their Cluster names. */
import fc from 'fast-check';
import { expect, test } from 'vitest';
import { duration, type Millis } from '../../../../src/base/duration.ts';
import { keysetsDue, rotateIfDue } from '../../../../src/cluster/change/rotation/by-age.ts';
import { allGenerations } from '../../../../src/pki/keyset.ts';
import { ROTATED } from '../../../../src/pki/keysets.ts';
import { world } from '../../pki/kit.ts';
import { Cluster } from './rotation-kit.ts';

const MONTH = duration('30d');

/** `lives`: how long each CA of the cluster lives. */
async function ageing(rotateAfter?: string, lives?: Millis) {
  const made = await world(undefined, undefined, lives);
  const cluster = await Cluster.open(rotateAfter === undefined ? {} : { pki: { rotateAfter } }, made);
  const { pki, clock } = cluster.world;
  await cluster.settle();
  const windows: { closed: string | undefined } = { closed: undefined };
  /** Lets the time pass; then the boot host looks at the age of the keys. */
  const passes = async (span: Millis): Promise<void> => {
    clock.leap(span);
    const { orders } = cluster;
    const deps = { pki, clock, orders, serves: () => true, closed: () => windows.closed };
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

test('CAs that would end before the age of the Cluster rotate themselves after half of their life', async () => {
  const { cluster, passes } = await ageing('365d', duration('100d'));
  const before = await cluster.world.pki.keysets('golden');
  await passes(duration('49d'));
  expect(cluster.changes.record('golden')).toBeUndefined();
  await passes(duration('2d'));
  await cluster.finish();
  expect(cluster.changes.record('golden')).toMatchObject({ by: 'muster', ended: { as: 'done' } });
  const after = await cluster.world.pki.keysets('golden');
  const rotated = [...after].filter(([name, { primary }]) => primary !== before.get(name)!.primary);
  expect(rotated.map(([name]) => name).sort()).toEqual(['ca', 'etcd-ca', 'front-proxy-ca']);
  await passes(duration('49d'));
  expect(cluster.changes.record('golden')?.ended?.as).toBe('done');
  await cluster.changes.close();
});

test('after a rotation was rolled back the next one begins by itself only later', async () => {
  const { cluster, passes } = await ageing('30d');
  await passes(duration('31d'));
  const { id } = cluster.changes.record('golden')!;
  await cluster.orders.rollBack('golden', { by: 'root' });
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
  const age = fc.record({ born: fc.nat({ max: 2 * MONTH }), due: fc.constantFrom(MONTH, duration('60d')) });
  const ages = fc.uniqueArray(fc.tuple(fc.constantFrom(...ROTATED), age), { selector: ([name]) => name });
  fc.assert(
    fc.property(ages, (pairs) => {
      const now = 2 * MONTH;
      const chosen = keysetsDue(new Map(pairs), now);
      const parts = pairs.map(([name, { born, due }]) => [name, (now - born) / due] as const);
      expect(chosen.length > 0).toBe(parts.some(([, part]) => part >= 1));
      for (const [name, part] of parts) {
        if (part >= 1) expect(chosen).toContain(name);
        if (part < 0.9) expect(chosen).not.toContain(name);
      }
    }),
  );
});
