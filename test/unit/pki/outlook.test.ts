/** When certificates are renewed and end, what is an alarm, and what depends on a generation. */
import fc from 'fast-check';
import { expect, test } from 'vitest';
import { duration, type Millis } from '../../../src/base/duration.ts';
import { LEAF_NAMES, type LeafName } from '../../../src/pki/hierarchy.ts';
import {
  alarmOf,
  dependentsOf,
  endingsOf,
  firstWithoutBootHost,
  forecast,
  renewerOf,
  supersededSerials,
} from '../../../src/pki/outlook.ts';
import type { IssuedCertificate } from '../../../src/pki/records.ts';
import { lifeOf, renewsAt } from '../../../src/pki/renewal-time.ts';
import { world } from './kit.ts';

const NOW = Date.UTC(2026, 10, 26) as Millis;
const DAY = duration('1d');

const issued = (leaf: LeafName, serial: string, to = 'cp1', life: Millis = duration('365d')) =>
  ({
    leaf,
    serial,
    to,
    issuedAt: NOW,
    notAfter: (NOW + life) as Millis,
    issuer: { generation: 'g' },
  }) as unknown as IssuedCertificate;

test('a leaf is renewed in the twelfth of its life before two thirds of it, an agent’s before the half, each at its own time', () => {
  fc.assert(
    fc.property(fc.uuid(), fc.integer({ min: 60_000, max: 4e11 }), (serial, life) => {
      const kubelet = issued('kubelet', serial, 'w1', life as Millis);
      const agent = issued('agent', serial, 'w1', life as Millis);
      const part = (one: IssuedCertificate) => (renewsAt(one) - one.issuedAt) / lifeOf(one);
      expect(part(kubelet)).toBeLessThanOrEqual(2 / 3);
      expect(part(kubelet)).toBeGreaterThan(2 / 3 - 1 / 12 - 0.001);
      expect(part(agent)).toBeLessThanOrEqual(1 / 2);
      expect(renewsAt(kubelet)).toBe(renewsAt({ ...kubelet }));
    }),
    { seed: 3, numRuns: 200 },
  );
  // A hundred machines that booted together: no day has more than a fifth of the renewals.
  const days = new Map<number, number>();
  for (let n = 0; n < 100; n++) {
    const day = Math.floor(renewsAt(issued('kubelet', `s${n}`)) / DAY);
    days.set(day, (days.get(day) ?? 0) + 1);
  }
  expect(Math.max(...days.values())).toBeLessThan(20);
});

test('a certificate is never an alarm before it should have been renewed', () => {
  fc.assert(
    fc.property(fc.uuid(), fc.integer({ min: 60_000, max: 4e11 }), (serial, life) => {
      const one = issued('kubelet', serial, 'w1', life as Millis);
      const [ending] = endingsOf({ keysets: [], issued: [one], standing: () => 'current' });
      expect(alarmOf(ending!, renewsAt(one))).toBeUndefined();
      expect(alarmOf(ending!, one.notAfter)).toBe('urgent');
    }),
    { seed: 4, numRuns: 200 },
  );
});

test('every leaf has somebody who renews it, or says that it is made again on demand', () => {
  const by = Object.groupBy(LEAF_NAMES, (leaf) => renewerOf(leaf, 'current'));
  expect(by.demand!.toSorted()).toEqual([
    'applier',
    'etcd-probe',
    'front-proxy-probe',
    'muster-admin',
    'probe',
  ]);
  expect(by.person!.toSorted()).toEqual(['etcd-person', 'person', 'super-admin']);
  expect(by.muster!.toSorted()).toEqual(['bmc', 'muster-etcd-client', 'muster-server']);
  expect(by.kubelet).toEqual(['kubelet']);
  expect(by.nobody).toBeUndefined();
  expect(renewerOf('apiserver', 'removed')).toBe('nobody');
});

test('the certificate of a machine that was issued last counts, whatever its dates say, and all of a person', () => {
  const old = { ...issued('apiserver', 'a'), issuedAt: (NOW + 400 * DAY) as Millis };
  const next = { ...issued('apiserver', 'b'), issuedAt: (NOW + DAY) as Millis };
  const people = [issued('person', 'p', 'jane'), issued('person', 'q', 'jane')];
  for (const all of [
    [old, next, ...people],
    [...people, old, next],
  ])
    expect([...supersededSerials(all)]).toEqual(['a']);
});

test('the outlook of a cluster says what depends on a CA, what is due, and how long it can do without the boot host', async () => {
  const of = await world();
  await of.leaves();
  const all = await of.pki.issued('golden');
  const now = of.clock.now();
  const keyset = (await of.pki.keysets('golden')).get('ca')!;
  const keys = {
    keysets: (await of.pki.keysets('golden')).values(),
    issued: all,
    standing: () => 'current' as const,
  };
  const { holders, until } = dependentsOf(keyset.trusted[0]!, keys, now);
  expect(holders).toMatchObject({ kubelet: ['cp1'], apiserver: ['cp1'], person: ['cp1'] });
  expect(holders.probe).toBeUndefined();
  expect(until! - now).toBeGreaterThan(364 * DAY);
  const endings = endingsOf(keys);
  const soon = forecast(endings, now, duration('90d'));
  expect(new Set(soon.map(({ ending }) => ending.what))).toEqual(
    new Set(['certificate person', 'certificate etcd-person', 'certificate muster-etcd-client']),
  );
  const year = forecast(endings, now, duration('365d'));
  expect(year.find(({ ending }) => ending.what === 'certificate kubelet')).toMatchObject({ does: 'renewed' });
  // A tenth of a second may be lost: certificates count whole seconds.
  const first = firstWithoutBootHost(endings)!;
  expect(first.what).toMatch(/^certificate (apiserver|etcd|front|contr|sched|kubelet-serving)/);
  expect(Math.round((first.ends - now) / DAY)).toBe(365);
  // After ten years less a month, the CAs themselves are an alarm.
  const late = (now + duration('3621d')) as Millis;
  const ca = endings.find(({ what }) => what === 'CA etcd-ca')!;
  expect([alarmOf(ca, late), alarmOf(ca, now)]).toEqual(['soon', undefined]);
  // A certificate of a machine that has left depends on nothing any more.
  const gone = { ...keys, standing: () => 'removed' as const };
  expect(dependentsOf(keyset.trusted[0]!, gone, now)).toEqual({ generation: keyset.primary, holders: {} });
});
