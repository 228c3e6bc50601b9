/** Groups of workers: how many of each may be down at the same time. */
import fc from 'fast-check';
import { expect, test } from 'vitest';
import type { Millis } from '../../../../src/base/duration.ts';
import { createFindDown } from '../../../../src/cluster/change/down.ts';
import {
  limitsOf,
  limitsText,
  nextTurns,
  roundsOf,
  type WorkerGroup,
  whyGroupIsFull,
} from '../../../../src/cluster/change/groups.ts';
import type { MachineSeen } from '../../../../src/cluster/change/step.ts';
import { REBOOTS_WITHIN, whyStays } from '../../../../src/cluster/change/turn.ts';
import { CORDONED } from '../../../../src/cluster/health/observe.ts';
import type { Kube } from '../../../../src/cluster/kube.ts';
import { faults, resolved } from '../kit.ts';

const MACHINES = ['cp1', 'cp2', 'cp3', 'w1', 'w2', 'w3', 'w4', 'w5'].map((name, n) => ({
  name,
  addresses: [`10.0.0.${n + 1}`],
}));
const WORKERS = ['w1', 'w2', 'w3', 'w4', 'w5'];
const clusterOf = (nodes: object[]) => resolved({ workers: WORKERS, nodes } as never, MACHINES);
const GROUPED = [
  { machines: ['cp1', 'w1', 'w2'], labels: { disk: 'ssd' }, maxUnavailable: 1 },
  { machines: ['w3', 'w4'], taints: ['gpu=yes:NoSchedule'], maxUnavailable: 5 },
  { machines: ['w5'], labels: { rack: 'r1' } },
];
const SSD = { name: 'nodes[0] (disk=ssd)', machines: ['w1', 'w2'], atOnce: 1 };
const GPU = { name: 'nodes[1] (gpu=yes:NoSchedule)', machines: ['w3', 'w4'], atOnce: 5 };

test('an order without a number takes what the groups allow together, and one of the others', () => {
  const { machines } = clusterOf(GROUPED);
  expect(limitsOf(machines)).toEqual({
    maxUnavailable: 4,
    groups: [SSD, GPU, { name: 'the other workers', atOnce: 1 }],
  });
  expect(limitsText(limitsOf(machines))).toBe(
    '4 at a time, at most 1 of nodes[0] (disk=ssd), at most 5 of nodes[1] (gpu=yes:NoSchedule), at most 1 of the other workers',
  );
});

test('an order with a number keeps to it, and to the groups', () => {
  const { machines } = clusterOf(GROUPED);
  expect(limitsOf(machines, 2)).toEqual({ maxUnavailable: 2, groups: [SSD, GPU] });
  expect(limitsOf(clusterOf([]).machines)).toEqual({ maxUnavailable: 1 });
  expect(limitsOf(clusterOf([]).machines, 7)).toEqual({ maxUnavailable: 7 });
});

test('a worker that joins during a change counts among the workers in no group', () => {
  const { groups } = limitsOf(clusterOf(GROUPED).machines);
  expect(whyGroupIsFull('w6', groups, ['w1', 'w3'])).toBeUndefined();
  expect(whyGroupIsFull('w6', groups, ['w5'])).toBe('at most 1 of the other workers may be down, and w5 is');
  expect(whyGroupIsFull('w6', [SSD, GPU], ['w5', 'w1'])).toBeUndefined();
});

test('a machine in several groups has to have a place in each, and does not count itself', () => {
  const groups = [SSD, { name: 'nodes[3]', machines: ['w2', 'w4', 'w5'], atOnce: 2 }];
  expect(whyGroupIsFull('w2', groups, ['w2', 'w4'])).toBeUndefined();
  expect(whyGroupIsFull('w2', groups, ['w4', 'w5'])).toBe(
    'at most 2 of nodes[3] may be down, and w4, w5 are',
  );
  expect(whyGroupIsFull('w2', groups, ['w1'])).toContain('nodes[0] (disk=ssd)');
});

test('whatever the groups are, turns keep to them and to the number, in rounds that end', () => {
  const names = WORKERS.concat('w6', 'w7');
  const group = fc.record({
    name: fc.constantFrom('a', 'b', 'c'),
    machines: fc.option(fc.subarray(names), { nil: undefined }),
    atOnce: fc.integer({ min: 1, max: 3 }),
  });
  fc.assert(
    fc.property(
      fc.uniqueArray(group, { selector: ({ name }) => name, maxLength: 3 }),
      fc.subarray(names),
      fc.integer({ min: 1, max: 5 }),
      (groups: WorkerGroup[], lacking, atOnce) => {
        const turns = nextTurns([], lacking, atOnce, (name, others) => whyGroupIsFull(name, groups, others));
        expect(turns.length).toBeLessThanOrEqual(atOnce);
        for (const { machines, atOnce: most } of groups)
          if (machines)
            expect(turns.filter((one) => machines.includes(one)).length).toBeLessThanOrEqual(most);
        if (lacking.length > 0) expect(turns[0]).toBe(lacking[0]);
        expect(roundsOf(lacking, atOnce, groups)).toBeGreaterThanOrEqual(Math.ceil(lacking.length / atOnce));
        expect(roundsOf(lacking, atOnce, groups)).toBeLessThanOrEqual(lacking.length);
      },
    ),
  );
});

test('a worker does not reboot while others of its group reboot or were not heard', () => {
  const peer = (name: string, more: object = {}) => ({
    ...{ name, has: [], pods: {}, given: {}, turned: false, at: 1_000_000 as Millis },
    ...more,
  });
  const stays = (name: string, ...peers: ReturnType<typeof peer>[]) =>
    whyStays({ name, has: [] }, peers, {
      now: 1_000_000 as Millis,
      limits: { maxUnavailable: 3, groups: [SSD, GPU] },
    });
  expect(stays('w1', peer('w2'))).toBeUndefined();
  const full = 'In its group at most 1 of nodes[0] (disk=ssd) may be down, and w2 is.';
  expect(stays('w1', peer('w2', { rebootsAt: 999_999 }))).toBe(full);
  expect(stays('w1', peer('w2', { at: 1_000_000 - 45_000 }))).toBe(full);
  expect(stays('w1', peer('w2', { at: undefined }))).toBe(full);
  expect(stays('w3', peer('w2', { rebootsAt: 999_999 }))).toBeUndefined();
  // It has booted, and its agent reports again.
  expect(stays('w1', peer('w2', { rebootsAt: 1_000_000 - REBOOTS_WITHIN }))).toBeUndefined();
});

/** What counts as down, by what the API and the agents show. */
function finding() {
  const spec = clusterOf(GROUPED);
  const nodes = new Map<string, { ready: boolean; by?: string; unschedulable?: boolean }>();
  for (const { name } of spec.machines) nodes.set(name, { ready: true });
  const state = { now: 0, rebooting: [] as string[], answers: true, asked: 0 };
  const shown = (name: string) => {
    const { ready, by, unschedulable = by !== undefined } = nodes.get(name)!;
    return {
      metadata: { name, annotations: by === undefined ? {} : { [CORDONED]: by } },
      spec: { unschedulable },
      status: { conditions: [{ type: 'Ready', status: ready ? 'True' : 'Unknown' }] },
    };
  };
  const kube: Kube = async (path, call = {}) => {
    if (!state.answers) throw new Error('connect ECONNREFUSED');
    const name = path.split('/')[4];
    if (path === '/api/v1/nodes') state.asked++;
    if (call.method === 'PATCH') nodes.set(name!, { ready: nodes.get(name!)!.ready });
    const body = name ? shown(name) : { items: [...nodes.keys()].map(shown) };
    return { body, text: '', date: 0 };
  };
  const find = createFindDown({
    clusters: { get: () => ({ resolved: spec, faults: [] }) as never },
    kubes: () => kube,
    rebooting: () => state.rebooting,
    clock: { monotonic: () => state.now as Millis },
  });
  const look = async (more: object = {}, silent: Record<string, number | undefined> = {}) => {
    const record = { cluster: 'golden', id: 'c1', turns: [], without: [], evidence: {}, ...more };
    const seen = spec.machines.map(
      ({ name, roles }) =>
        ({ name, roles, applied: true, ...(!(name in silent) && { silentFor: 0 }) }) as MachineSeen,
    );
    for (const one of seen)
      if (silent[one.name] !== undefined) Object.assign(one, { silentFor: silent[one.name] });
    return Object.fromEntries(await find(record as never, seen));
  };
  return { nodes, state, look };
}

test('a worker is down that is silent, not Ready, drained by a change, or ordered to reboot', async () => {
  const { nodes, state, look } = finding();
  expect(await look()).toEqual({});
  nodes.set('cp1', { ready: false });
  nodes.set('w1', { ready: false });
  nodes.set('w2', { ready: true, by: 'c0' });
  nodes.set('w5', { ready: true, unschedulable: true });
  state.rebooting = ['w3'];
  state.now = 5000;
  expect(await look({}, { w4: 45_000 })).toEqual({
    w1: 'its node is not Ready',
    w2: 'its node is drained',
    w3: 'it reboots',
    w4: 'it does not report',
  });
  // A server that has just started has heard nobody.
  expect(await look({}, { w4: undefined })).toMatchObject({ w4: 'it does not report' });
});

test('nodes are read again after five seconds, and at once when the turns are others', async () => {
  const { nodes, state, look } = finding();
  await look();
  nodes.set('w1', { ready: false });
  expect(await look()).toEqual({});
  expect(await look({ turns: ['w2'] })).toHaveProperty('w1');
  expect(state.asked).toBe(2);
  await look({ paused: { at: 0, by: 'root' } });
  expect(state.asked).toBe(2);
});

test('while no API server answers, every worker counts as down', async () => {
  const { state, look } = finding();
  state.answers = false;
  expect(Object.keys(await look())).toEqual(WORKERS);
});

test('a worker that was left out while it was drained gets its node back, unless it reboots', async () => {
  const { nodes, state, look } = finding();
  nodes.set('w1', { ready: true, by: 'c1' });
  expect(await look({ without: ['w1'] })).toEqual({});
  expect(nodes.get('w1')).toEqual({ ready: true });
  nodes.set('w1', { ready: true, by: 'c1' });
  state.rebooting = ['w1'];
  expect(await look({ without: ['w1'], turns: ['w2'] })).toEqual({ w1: 'it reboots' });
  expect(nodes.get('w1')).toMatchObject({ by: 'c1' });
});

test('a limit on a group of control planes alone has no effect, and a warning says so', () => {
  const limited = (machines: string[]) => faults({ nodes: [{ machines, maxUnavailable: 1 }] });
  expect(limited(['cp1', 'w1'])).toEqual([]);
  expect(limited(['cp1'])).toEqual([
    'warning nodes[0].maxUnavailable: no machine of the group is a worker, so it has no effect: control planes go down one after the other',
  ]);
});
