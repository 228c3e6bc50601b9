/**
 * The line of the in-cluster objects in the status: what the planner and machines did.
 */

import { expect, test } from 'vitest';
import { duration, millis } from '../../../../src/base/duration.ts';
import { silentLog } from '../../../../src/base/log.ts';
import { createHealth } from '../../../../src/cluster/health/health.ts';
import { judgeObjects } from '../../../../src/cluster/health/judge-objects.ts';
import {
  type ApplierStatus,
  type ObjectsStatus,
  objectsStatus,
} from '../../../../src/cluster/health/objects-status.ts';
import { openAppliedObjects } from '../../../../src/cluster/objects/applied.ts';
import { openPresentObjects } from '../../../../src/cluster/plan/desired-objects.ts';
import { releaseOf } from '../../../../src/cluster/resolve/release.ts';
import { followClusters } from '../../../../src/cluster/resolve/resolved-clusters.ts';
import { followMemberships } from '../../../../src/machines/membership.ts';
import { trustBundle } from '../../../../src/pki/keyset.ts';
import { resolved } from '../kit.ts';
import { clusterDocument, rig, settle, TestMachine } from '../planner-kit.ts';
import { QUIET_HEALTH } from '../quiet.ts';

const NOW = millis(1_000_000_000);
const PATIENCE = duration('5m');
const judged = (
  appliers: readonly Partial<ApplierStatus>[],
  more: { readonly served?: boolean; readonly patience?: typeof PATIENCE; readonly lacking?: string } = {},
) => {
  const standing: ObjectsStatus = {
    appliers: appliers.map((one, n) => ({ machine: `cp${n + 1}`, state: 'unasked', ...one })),
    lacking: more.lacking,
  };
  const { ok, says, fix } = judgeObjects('golden', standing, {
    served: more.served ?? true,
    now: NOW,
    patience: more.patience ?? PATIENCE,
  });
  return `${ok ? 'ok' : 'FAIL'} ${says}${fix === undefined ? '' : `; ${fix}`}`;
};
const given = (minutes: number, says?: string): Partial<ApplierStatus> => ({
  state: 'given',
  since: NOW - minutes * 60_000,
  ...(says !== undefined && { says }),
});

test('one control plane that has applied the present objects is enough, whatever the API servers do now', () => {
  expect(judged([{ state: 'applied' }, { state: 'applied' }])).toBe(
    'ok cp1, cp2 applied the current objects',
  );
  expect(judged([given(60, 'Error'), { state: 'applied' }, {}], { served: false })).toBe(
    'ok cp2 applied the current objects; not yet cp1, cp3',
  );
});

test('objects that the API refuses are a fault after five minutes, with kubectl’s message', () => {
  expect(judged([given(4, 'Error from server'), given(1)])).toBe(
    'ok the current objects are not applied: cp1, cp2 applying for 4m; cp1 says: Error from server',
  );
  expect(judged([given(2), given(7, 'Error from server: no')])).toBe(
    'FAIL the current objects are not applied: cp1, cp2 applying for 7m; cp2 says: Error from server: no; correct what it names, in the Cluster (add-ons: their files, objects and patches) or in the API; it is retried automatically; on cp2: journalctl -u muster-objects',
  );
  expect(judged([given(7, 'x'.repeat(500))])).toContain(` ${'x'.repeat(240)};`);
});

test('without a message of kubectl the line names the journal of its machine, or a machine that never asked', () => {
  expect(judged([{}, given(7)])).toContain('; on cp2: journalctl -u muster-objects');
  expect(judged([{}, {}])).toBe(
    'ok the current objects are not applied: no control plane has asked for them yet',
  );
  expect(judged([{}, {}], { patience: duration('0s') })).toContain(
    'polls every 30 seconds; if nothing changes: muster explain cp1',
  );
});

test('verify allows no time for applying the objects', () => {
  expect(judged([given(0)], { patience: duration('0s') })).toMatch(/^FAIL .* cp1 applying for 0s/);
});

test('while no API server is ready, the line says only that; a missing add-on is still reported', () => {
  expect(judged([given(60, 'refused')], { served: false })).toContain(
    'no API server is ready; see the lines',
  );
  expect(judged([{ state: 'applied' }], { lacking: 'The add-on x is not applied.' })).toBe(
    'FAIL The add-on x is not applied; muster addon ls golden',
  );
});

test('the report has the line: status gives the objects five minutes, verify none', async () => {
  const { planner, known, pki, clock, store } = await rig();
  await settle(planner, new TestMachine('cp1'));
  const health = createHealth({
    ...QUIET_HEALTH,
    clusters: followClusters(known.catalog, followMemberships(known.catalog)),
    founding: async () => ({ cluster: 'golden', members: [] }),
    condition: async () => ({ members: [], silent: [], quota: 1 }),
    kubes: () => async () => ({ body: { items: [] }, text: '', date: clock.now() }),
    pki,
    objects: {
      present: openPresentObjects(undefined, () => 'F'),
      applied: openAppliedObjects({ store, log: silentLog, clock }),
    },
    roster: { get: () => undefined, heartbeats: { alive: () => undefined } as never },
    certificateState: () => 'valid',
    clock,
    newId: () => 'probe',
  });
  const line = async (probed: boolean) => {
    const probe = { probe: { signal: new AbortController().signal } };
    const { findings } = await health.look('golden', { etcdOnly: false, ...(probed && probe) });
    return findings.filter(({ check }) => check === 'objects').map(({ ok }) => ok);
  };
  expect([await line(false), await line(true)]).toEqual([[true], [false]]);
  clock.advance(duration('5m'));
  expect(await line(false)).toEqual([false]);
});

test('an edited version is no fault of machines that have not been upgraded yet', async () => {
  const { planner, known, pki, clock, store } = await rig();
  await settle(planner, new TestMachine('cp1'));
  const runs = releaseOf(resolved({ version: '1.35.6' }));
  const health = createHealth({
    ...QUIET_HEALTH,
    clusters: followClusters(known.catalog, followMemberships(known.catalog)),
    running: { of: () => ({ release: runs, machines: new Map() }) as never },
    founding: async () => ({ cluster: 'golden', members: [] }),
    condition: async () => ({ members: [], silent: [], quota: 1 }),
    kubes: () => async (path) => ({
      body: path === '/version' ? { gitVersion: 'v1.35.6' } : { items: [] },
      text: '',
      date: clock.now(),
    }),
    pki,
    objects: {
      present: openPresentObjects(undefined, () => 'F'),
      applied: openAppliedObjects({ store, log: silentLog, clock }),
    },
    roster: { get: () => undefined, heartbeats: { alive: () => undefined } as never },
    certificateState: () => 'valid',
    clock,
    newId: () => 'probe',
  });
  known.put(clusterDocument({ version: '1.36.3' }));
  const { findings } = await health.look('golden', { etcdOnly: false });
  const servers = findings.filter(({ check }) => check === 'apiserver');
  expect(servers.map(({ says }) => says)).toEqual(servers.map(() => 'ready, v1.35.6'));
  expect(servers.length).toBeGreaterThan(0);
});

test('planner and health mean the same objects: given, refused, applied, and new ones after the document changed', async () => {
  const { planner, known, pki, clock, store } = await rig();
  const machine = new TestMachine('cp1');
  const clusters = followClusters(known.catalog, followMemberships(known.catalog));
  const applied = openAppliedObjects({ store, log: silentLog, clock });
  const standing = async () => {
    const { appliers } = await objectsStatus(
      { present: openPresentObjects(undefined, () => 'F'), applied },
      clusters.get('golden')!.resolved!,
      trustBundle((await pki.keysets('golden')).get('ca')!),
      (of) => ({ resolved: of }),
    );
    return appliers[0];
  };
  await settle(planner, machine);
  const since = clock.now();
  clock.advance(duration('90s'));
  expect(await standing()).toEqual({ machine: 'cp1', state: 'given', since });
  const says = 'Error from server (Forbidden)';
  const identity = { machine: 'cp1', serial: '1', address: '10.0.0.1' };
  await planner.plan(identity, machine.facts({ clock: clock.now(), objects: says }));
  expect(await standing()).toEqual({ machine: 'cp1', state: 'given', since, says });
  machine.keys.delete('applier');
  await settle(planner, machine);
  expect(await standing()).toEqual({ machine: 'cp1', state: 'applied', since });
  known.put(clusterDocument({ dnsDomain: 'other.local' }));
  expect(await standing()).toEqual({ machine: 'cp1', state: 'unasked' });
});
