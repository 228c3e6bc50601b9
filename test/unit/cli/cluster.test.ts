/**
 * `muster get cluster NAME --full` and `muster cluster plan MACHINE`, over the socket of a server.
 */
import { afterAll, beforeAll, expect, test } from 'vitest';
import { openWorld, type World } from '../api/world.ts';
import { run } from './run.ts';

const machine = (name: string, n: number) => `---
apiVersion: muster/v1
kind: Machine
metadata: {name: ${name}}
spec: {macs: ["52:54:00:00:00:${n}"], addresses: [10.77.0.${n}]}
`;
const DOCUMENTS = `apiVersion: muster/v1
kind: Network
metadata: {name: lan}
spec: {subnet: 10.77.0.0/24, dhcp: {mode: server}}
---
apiVersion: muster/v1
kind: Cluster
metadata: {name: blue}
spec:
  trust: segment
  kubernetes:
    version: "1.36"
    endpoint: api.blue.test
    controlPlanes: [cp1]
    workers: [w1, later]
    overrides: {versions: {etcd: 3.6.9-0}}
${machine('cp1', 11)}${machine('w1', 21)}`;

let world: World;
beforeAll(async () => {
  world = await openWorld(DOCUMENTS);
});
afterAll(() => world.close());

const muster = (...args: readonly string[]) => run(args, { socket: world.socket });

test('every value of a cluster is a line with where it came from, and what is not there yet is told', async () => {
  const { code, out, err } = await muster('get', 'cluster', 'blue', '--full');
  expect(code).toBe(0);
  const lines = out.split('\n').map((line) => line.split(/ {3,}/));
  expect(lines[0]).toEqual(['PATH', 'VALUE', 'FROM', 'BY']);
  const at = (path: string) => lines.find(([one]) => one === path);
  expect(at('versions.etcd')).toEqual([
    'versions.etcd',
    '3.6.9-0',
    'override',
    'spec.kubernetes.overrides.versions.etcd',
  ]);
  expect(at('images.etcd')?.slice(1, 3)).toEqual(['registry.k8s.io/etcd:3.6.9-0', 'derived']);
  expect(at('networks.pods')?.slice(1, 3)).toEqual(['["10.244.0.0/16"]', 'default']);
  expect(at('machines.cp1')?.slice(1)).toEqual(['control-plane etcd 10.77.0.11', 'spec', 'Machine/cp1']);
  expect(err).toContain('warning: spec.kubernetes: there is no Machine "later"');
});

test('the same as JSON and YAML, with provenance beside it', async () => {
  const { out } = await muster('get', 'cluster/blue', '--full', '-o', 'json');
  const view = JSON.parse(out);
  expect(view.full.machines.map(({ name }: { name: string }) => name)).toEqual(['cp1', 'w1']);
  expect(view.provenance['versions.etcd'].from).toBe('override');
  expect((await muster('get', 'cluster', 'blue', '--full', '-o', 'yaml')).out).toContain(
    '  endpoint:\n    host: api.blue.test',
  );
});

test('clusters are listed with what a person decided of them', async () => {
  const { out } = await muster('get', 'clusters');
  expect(out).toMatch(/^NAME +KUBERNETES +ENDPOINT +CONTROL PLANES +WORKERS +CONDITION$/m);
  expect(out).toMatch(/^blue +1\.36 +api\.blue\.test +cp1 +2 +not-founded$/m);
});

test('--full is of one cluster', async () => {
  for (const args of [['machine', 'cp1'], ['clusters'], ['cluster', 'blue', 'red']])
    expect((await muster('get', ...args, '--full')).code).toBe(2);
  const { code, err } = await muster('get', 'cluster', 'red', '--full');
  expect([code, err]).toEqual([1, expect.stringContaining('E_NOT_FOUND')]);
});

test('the plan of a machine is shown with its files, without a secret', async () => {
  const { code, out } = await muster('cluster', 'plan', 'w1');
  expect(code).toBe(0);
  expect(out).toContain('put 0644 /etc/muster/balancer.cfg\n    global\n');
  expect(out).toContain('\nrun kubelet.service\n');
  expect(out).not.toContain('PRIVATE');
  expect((await muster('cluster', 'plan', 'cp1')).out).toContain('--initial-cluster-state=existing');
});

test('a machine that is of no cluster, or not whole, has no plan', async () => {
  expect((await muster('cluster', 'plan', 'stranger')).err).toContain('no Cluster gives the machine');
  expect((await muster('cluster', 'plan', 'later')).err).toContain('E_CLUSTER');
});
