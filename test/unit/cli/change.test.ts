/** `muster cluster roll`, `upgrade-agents` and `muster change`, over the socket of a server. */
import { afterEach, beforeEach, expect, test } from 'vitest';
import type { AgentFacts } from '../../../src/agent/wire/facts.ts';
import type { ResolvedCluster } from '../../../src/cluster/model/resolved-cluster.ts';
import { openWorld, type World } from '../api/world.ts';
import { run } from './run.ts';

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
kind: Image
metadata: {name: new}
spec:
  os: debian
  arch: x86_64
  kernel: {sha256: ${'a'.repeat(64)}}
  root: {sha256: ${'b'.repeat(64)}}
  configFormat: cloud-init
---
apiVersion: muster/v1
kind: Profile
metadata: {name: node}
spec: {image: new}
---
apiVersion: muster/v1
kind: Cluster
metadata: {name: blue}
spec:
  trust: segment
  kubernetes: {version: "1.36.3", endpoint: api.blue.test, controlPlanes: [cp1], workers: [w1, w2]}
  maintenance: {windows: [{days: [sat], time: "22:00", duration: 4h}]}
  hooks:
    - {name: ceph, when: before, url: https://hooks.blue.test, secret: {valueFrom: {secret: h, key: k}}}
${machine('cp1', 11)}${machine('w1', 21)}${machine('w2', 22)}`;

let world: World;
beforeEach(async () => {
  world = await openWorld(DOCUMENTS);
  const resolved = world.deps.resolved('blue') as ResolvedCluster;
  for (const one of resolved.machines) await world.releases.heard(resolved, one, factsOf(one.name));
});
afterEach(async () => {
  await world.changes.close();
  await world.close();
});

/** w1 runs the image that it would boot, all others run an older one. */
const factsOf = (name: string): AgentFacts => ({
  ...{ agent: '99', bootId: `${name}-1`, machineId: 'm', clock: 0, pins: new Map(), requests: new Map() },
  disk: { state: 'unused' },
  etcd: { wal: 'present', health: 'serving' },
  runs: { kubelet: '1.36.3', 'kube-apiserver': '1.36.3', etcd: '3.6.8' },
  image: (name === 'w1' ? 'b' : 'c').repeat(64),
});

const roll = (...args: readonly string[]) =>
  run(['cluster', 'roll', 'blue', ...args], { socket: world.socket });

const change = (...args: readonly string[]) => run(['change', 'blue', ...args], { socket: world.socket });

const call = (json: object, query = {}) =>
  world.client.call('POST', '/v1/clusters/blue/change', { query, body: { json: { kind: 'roll', ...json } } });

/** Begins a roll of the workers, past the checks that only a healthy cluster passes. */
const begun = () =>
  world.changes.begin(
    {
      ...{ cluster: 'blue', kind: 'roll', pauseBefore: [], without: [] },
      order: {
        machines: { w1: { bootId: 'w1-1' }, w2: { bootId: 'w2-1' } },
        ...{ images: {}, servers: [], workers: ['w1', 'w2'], canary: 'w1', maxUnavailable: 1 },
      },
    },
    'root',
  );

test('a dry run shows the machines with their images, the steps, the window, the hooks, and what prevents the roll', async () => {
  const { code, out } = await roll('--dry-run', '--outdated');
  expect(code).toBe(1);
  expect(out).toContain('cp1: it runs cccccccccccc, and would boot new\n');
  expect(out).toContain('w2: it runs cccccccccccc, and would boot new\n');
  expect(out).not.toMatch(/^w1: /m);
  expect(out).toMatch(/^canary +The worker w2 is drained and reboots/m);
  expect(out).toContain('It asks the hook ceph before the turn of each machine, which waits for it for 10m');
  expect(out).toMatch(/No machine reboots yet: the maintenance window .+ opens at /);
  expect(out).toContain('REFUSED: cp1: no agent of it has reported, so nothing can reboot it');
  expect((await roll('--dry-run', '--now')).out).not.toContain('maintenance window');
  expect(JSON.parse((await roll('--dry-run', '-o', 'json')).out)).toMatchObject({
    about: { cp1: expect.stringContaining('would boot new'), w1: 'it runs new' },
  });
  expect(world.changes.record('blue')).toBeUndefined();
});

test('a roll is refused with its reason, and nothing begins', async () => {
  const refusal = async (...args: string[]) => (await roll(...args)).err;
  expect((await change()).err).toContain('blue had no change yet');
  expect((await change('stop')).err).toContain('the orders are pause, resume, roll-back, leave-out, watch');
  expect((await change('pause', 'w1')).err).toContain('only leave-out takes machines');
  expect((await change('leave-out')).err).toContain('name the machines that are left out');
  expect(await refusal()).toContain('its etcd is not founded yet');
  expect(await refusal('--machines', 'w9')).toContain('w9 is not a machine of blue');
  expect(await refusal('--machines', 'w1', '--outdated')).toContain('runs the image');
  expect(await refusal('--machines', 'w1', '--without', 'w1')).toContain('no machine is left');
  expect(await refusal('--max-unavailable', '0')).toContain(
    'maxUnavailable: this value is too small; at least 1',
  );
  for (const order of ['pause', 'resume', 'roll-back'] as const)
    expect((await change(order)).err).toContain('E_CHANGE');
  await expect(call({ outdated: 'maybe' })).rejects.toMatchObject({ code: 'E_USAGE' });
  await expect(call({ more: 'x' })).rejects.toMatchObject({ code: 'E_USAGE' });
  expect(world.changes.record('blue')).toBeUndefined();
});

test('a change is shown, paused, resumed, rolled back and followed', async () => {
  await begun();
  expect((await change()).out).toContain('The worker w1 is drained and reboots');
  expect(await change('pause')).toMatchObject({ code: 0, out: expect.stringContaining('paused') });
  expect(world.changes.record('blue')?.paused).toBeDefined();
  expect((await change('resume')).code).toBe(0);
  expect(world.changes.record('blue')?.paused).toBeUndefined();
  expect((await change('roll-back')).code).toBe(0);
  expect(world.changes.record('blue')).toMatchObject({ route: 'back', step: 'release' });
  expect((await change('roll-back')).code).not.toBe(0);
  world.servers.kube = async () => ({ body: { items: [] }, text: '', date: 0 });
  await world.changes.look('blue');
  expect(await change('watch')).toMatchObject({ code: 1, out: expect.stringContaining('rolled back') });
});

test('machines are left out of a roll that is under way, if they belong to the cluster', async () => {
  await begun();
  expect(JSON.parse((await change('leave-out', 'w2', '-o', 'json')).out)).toMatchObject({ without: ['w2'] });
  expect((await change('leave-out', 'w9')).err).toContain('w9 is not a machine of blue');
  expect((await change('leave-out', '--leave', 'pod/a')).err).toContain('nothing is left behind');
  expect(world.changes.record('blue')?.without).toEqual(['w2']);
  expect((await roll()).err).toContain('the roll that root ordered is under way');
});

test('an order that names the change which was seen does not reach another one', async () => {
  const { id } = await begun();
  const pause = (seen: string) =>
    world.client.ask('POST /v1/clusters/:name/change/pause', {
      params: { name: 'blue' },
      body: { id: seen },
    });
  await expect(pause('upgrade-1')).rejects.toMatchObject({
    code: 'E_CHANGE',
    message: `blue: the change upgrade-1 is not under way any more; the last one is ${id}`,
  });
  expect(world.changes.record('blue')?.paused).toBeUndefined();
  expect(await pause(id)).toMatchObject({ id, paused: { by: expect.any(String) } });
});

test('the upgrade of agents is a change of its own beside that of the cluster, and another one replaces it', async () => {
  const options = { socket: world.socket };
  const upgrade = (...args: readonly string[]) =>
    run(['cluster', 'upgrade-agents', 'blue', ...args], options);
  const change = (...args: readonly string[]) => run(['change', 'blue.agents', ...args], options);
  expect((await upgrade('--dry-run')).out).toMatch(/^cp1: runs .+\nw1: .+\nw2: .+\nfirst +One control plane/);
  expect(world.changes.record('blue.agents')).toBeUndefined();
  expect((await upgrade('--paused')).out).toContain('agent-upgrade of blue.agents, ordered by');
  expect((await change()).out).toContain('paused before or at first');
  expect((await change('resume')).out).toContain('at first');
  expect((await change('leave-out', 'w2')).out).toContain('left out: w2');
  expect((await change('leave-out', 'w9')).err).toContain('w9 is not a machine of blue.agents');
  await upgrade();
  expect(world.changes.record('blue.agents')?.order).toMatchObject({ attempt: 2 });
  expect((await change('roll-back')).out).toContain('rolling back, at stop');
  expect(world.changes.record('blue')).toBeUndefined();
  expect((await run(['change', 'green.agents'], options)).err).toContain('had no change yet');
});
