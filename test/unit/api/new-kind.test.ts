/**
 * A new kind of change is this file's KIND: its table, its evidence, and how it is ordered. API,
 * command line and page need nothing else of it.
 */
import { afterEach, beforeEach, expect, test } from 'vitest';
import { z } from 'zod';
import { changeOperations } from '../../../src/api/operations/changes.ts';
import { ROUTES } from '../../../src/api/operations.ts';
import { duration } from '../../../src/base/duration.ts';
import { anyKind, type ChangeKind } from '../../../src/cluster/change/kind.ts';
import { requestFor } from '../../../src/cluster/change/request.ts';
import { REQUESTS } from '../../../src/cluster/change/requests.ts';
import { done, type Step, waiting } from '../../../src/cluster/change/step.ts';
import { stateOf, titleOf } from '../../../src/page/cluster/shown-change.ts';
import { run } from '../cli/run.ts';
import { openWorld, type World } from './world.ts';

const paintRequest = requestFor('paint', { color: z.enum(['red', 'green']) });
const paintOrder = z.strictObject({ color: z.string() });
type Order = z.output<typeof paintOrder>;
/** The machines that have the wanted colour. */
type Seen = readonly string[];

const painted = new Set<string>();
const STEPS: Readonly<Record<'paint' | 'dry' | 'wash', Step<Order, Seen>>> = {
  paint: {
    name: 'paint',
    sentence: 'Every machine is painted, one after the other.',
    scope: { on: 'machines', roles: 'any', atOnce: 1 },
    takes: {},
    restarts: () => ['the painter'],
    machine: ({ name }, { cluster }) =>
      cluster.includes(name) ? done('it is painted') : waiting('it is bare'),
  },
  dry: {
    name: 'dry',
    sentence: 'The paint dries.',
    scope: { on: 'boot-host' },
    acts: true,
    noReturn: true,
    takes: {},
  },
  wash: {
    name: 'wash',
    sentence: 'The paint is washed off.',
    scope: { on: 'boot-host' },
    acts: true,
    takes: {},
  },
};

const KIND: ChangeKind<Order, Seen, z.output<typeof paintRequest>> = {
  name: 'paint',
  request: paintRequest,
  schema: paintOrder,
  prepare: async (cluster, { color }) => ({
    order: { color },
    faults: color === 'red' ? [{ code: 'E_CHANGE', message: 'there is no red paint' }] : [],
    about: { [cluster]: `it becomes ${color}` },
  }),
  mustStay: (_cluster, { name, roles }) =>
    roles.includes('worker') ? undefined : `${name} is a control plane, and has to be painted`,
  forward: () => [STEPS.paint, STEPS.dry],
  back: () => [STEPS.wash],
  act: async ({ order, back }) => {
    if (back) painted.clear();
    return order;
  },
  look: async () => [...painted],
};

const machine = (name: string, n: number) => `---
apiVersion: muster/v1
kind: Machine
metadata: {name: ${name}}
spec: {macs: ["52:54:00:00:00:${n}"], addresses: [10.77.0.${n}], profile: node}
`;
const DOCUMENTS = `apiVersion: muster/v1
kind: Network
metadata: {name: lan}
spec: {subnet: 10.77.0.0/24, dhcp: {mode: server}}
---
apiVersion: muster/v1
kind: Profile
metadata: {name: node}
spec: {}
---
apiVersion: muster/v1
kind: Cluster
metadata: {name: blue}
spec:
  trust: segment
  kubernetes: {version: "1.36.3", endpoint: api.blue.test, controlPlanes: [cp1], workers: [w1, w2]}
${machine('cp1', 11)}${machine('w1', 21)}${machine('w2', 22)}`;

let world: World;
beforeEach(async () => {
  painted.clear();
  const operations = changeOperations([...REQUESTS, paintRequest]);
  const changed = new Set<string>(operations.map(({ key }) => key));
  const others = ROUTES.filter(({ key }) => !changed.has(key));
  world = await openWorld(DOCUMENTS, { kinds: [anyKind(KIND)], routes: [...operations, ...others] });
});
afterEach(async () => {
  await world.changes.close();
  await world.close();
});

const params = { name: 'blue' };
const order = (color: string, query = {}) =>
  world.client.call('POST', '/v1/clusters/blue/change', { query, body: { json: { kind: 'paint', color } } });
const change = (...args: readonly string[]) => run(['change', 'blue', ...args], { socket: world.socket });
const view = () => world.client.ask('GET /v1/clusters/:name/change', { params });

/** Every machine reports, and the boot host looks. */
async function polls(): Promise<void> {
  world.clock.advance(duration('10s'));
  for (const name of ['cp1', 'w1', 'w2'])
    world.changes.heard('blue', name, { facts: {} as never, since: world.clock.monotonic(), applied: true });
  await world.changes.look('blue');
}

test('it is rehearsed, refused with its faults and for wrong fields, and begun by the API', async () => {
  expect(await order('green', { dryRun: 'true' })).toMatchObject({
    ...{ kind: 'paint', faults: [], about: { blue: 'it becomes green' } },
    steps: [{ restarts: { 'the painter': ['cp1', 'w1', 'w2'] } }, { name: 'dry', noReturn: true }],
  });
  await expect(order('blue')).rejects.toMatchObject({ code: 'E_USAGE', faults: [{ path: 'color' }] });
  await expect(order('red')).rejects.toMatchObject({
    code: 'E_CHANGE',
    message: 'blue: there is no red paint',
  });
  expect(world.changes.record('blue')).toBeUndefined();
  expect(await order('green')).toMatchObject({ kind: 'paint', step: 'paint', order: { color: 'green' } });
  await expect(order('green')).rejects.toThrow('is under way, at the step paint');
});

test('it is shown, paused, resumed, rolled back, and machines are left out of it, by the command line', async () => {
  await order('green');
  await polls();
  expect((await change()).out).toMatch(/^paint of blue.+ at paint\n {2}-> paint +Every machine is painted/);
  expect(await change('pause')).toMatchObject({ code: 0, out: expect.stringContaining('paused') });
  expect(await change('resume')).toMatchObject({ code: 0, out: expect.stringContaining('at paint') });
  expect((await change('leave-out', 'cp1')).err).toContain('cp1 is a control plane, and has to be painted');
  expect((await change('leave-out', 'w2')).out).toContain('left out: w2');
  painted.add('cp1');
  await polls();
  await polls();
  expect((await change()).out).toContain('waits for w1: it is bare');
  expect((await change('roll-back')).out).toContain('rolling back, at wash');
  await world.changes.look('blue');
  expect(await change('watch')).toMatchObject({ code: 1, out: expect.stringContaining(': rolled back') });
  expect(painted.size).toBe(0);
});

test('its end is its evidence, and from its point of no return it is not taken back', async () => {
  await order('green');
  for (const name of ['cp1', 'w1', 'w2']) painted.add(name);
  for (let n = 0; n < 5; n++) await polls();
  expect(await change('watch')).toMatchObject({ code: 0, out: expect.stringContaining('(3 machines)') });
  expect((await change('roll-back')).err).toContain('no change is under way');
});

test('the page shows it as it shows every change', async () => {
  await order('green');
  await polls();
  const shown = await view();
  expect([titleOf(shown), stateOf(shown)]).toEqual(['Paint', ['busy', 'under way']]);
  expect(shown.wayBack).toEqual(['The paint is washed off.']);
  await change('pause');
  expect(stateOf(await view())).toEqual(['warn', expect.stringMatching(/^paused by /)]);
});
