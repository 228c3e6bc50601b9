/** Machines as other programs read them; test/peers/site.test.ts has those programs. */
import fs from 'node:fs';
import path from 'node:path';
import { load } from 'js-yaml';
import { afterEach, beforeEach, expect, test } from 'vitest';
import { DOCUMENTS, openWorld, type World } from '../api/world.ts';
import { type Ran, run } from './run.ts';

const CLUSTER = `---
apiVersion: muster/v1
kind: Cluster
metadata: {name: blue}
spec: {trust: segment, kubernetes: {version: 1.36.2, endpoint: 10.77.0.5, controlPlanes: [cp-1], workers: [node-2]}}
---
apiVersion: muster/v1
kind: Machine
metadata: {name: cp-1, labels: {rack: "a, \\"left\\""}}
spec: {macs: ["52:54:00:aa:00:11", "52:54:00:aa:00:12"], addresses: [10.77.0.11], serial: S-1}
---
apiVersion: muster/v1
kind: Machine
metadata: {name: node-2}
spec: {macs: ["52:54:00:aa:00:21"], addresses: [10.77.0.21], profile: worker, pool: spare}
`;

let world: World;
beforeEach(async () => {
  world = await openWorld(DOCUMENTS + CLUSTER);
});
afterEach(() => world.close());
const muster = (...words: string[]): Promise<Ran> => run(words, { socket: world.socket });

test('an inventory for Ansible has groups of clusters, roles, profiles, pools and labels', async () => {
  const { all } = load((await muster('get', 'machines', '-o', 'ansible')).out) as {
    all: { hosts: object; children: Record<string, { hosts: object }> };
  };
  expect(all.hosts).toEqual({
    'cp-1': { ansible_host: '10.77.0.11' },
    'node-2': { ansible_host: '10.77.0.21' },
  });
  const members = Object.entries(all.children).map(([name, { hosts }]) => [name, ...Object.keys(hosts)]);
  expect(members).toEqual([
    ['cluster_blue', 'cp-1', 'node-2'],
    ['cluster_blue_control_plane', 'cp-1'],
    ['cluster_blue_worker', 'node-2'],
    ['condition_registered', 'cp-1', 'node-2'],
    ['label_rack_a___left_', 'cp-1'],
    ['pool_spare', 'node-2'],
    ['profile_worker', 'node-2'],
  ]);
});

test('hosts and ssh-config name the machines that have an address', async () => {
  expect((await muster('get', 'm', '-o', 'hosts')).out).toBe('10.77.0.11\tcp-1\n10.77.0.21\tnode-2\n');
  expect((await muster('get', 'm', 'cp-1', '-o', 'ssh-config')).out).toBe(
    'Host cp-1\n  HostName 10.77.0.11\n',
  );
  expect((await muster('get', 'm', '-l', 'rack=none', '-o', 'hosts')).out).toBe('');
});

test('a table goes out and comes back as the same documents', async () => {
  const table = path.join(world.directory, 'racks.csv');
  fs.writeFileSync(table, (await muster('get', 'machines', 'cp-1', 'node-1', '-o', 'csv')).out);
  const { out } = await muster('import', 'csv', table);
  const documents = path.join(world.directory, 'back.txt');
  fs.writeFileSync(documents, out);
  expect((await muster('apply', '--dry-run', '-f', documents)).out).toBe(
    'machine/cp-1 unchanged (dry run)\nmachine/node-1 unchanged (dry run)\n',
  );
  expect(fs.readFileSync(table, 'utf8')).toContain('"rack=a, ""left"";"');
});

test('such a list is one of machines alone', async () => {
  for (const words of [
    ['get', 'profiles'],
    ['get', 'machines,profiles'],
    ['get', 'machines', '-w'],
    ['get', 'leases'],
  ])
    expect(await muster(...words, '-o', 'hosts')).toMatchObject({ code: 2 });
});

interface Target {
  readonly targets: readonly string[];
  readonly labels: Readonly<Record<string, string>>;
}

test('Prometheus gets each program on the machines that run it, with the labels of the machines', async () => {
  const of = (query: Record<string, string>) =>
    world.client.call<Target[]>('GET', '/v1/sd/prometheus', { query });
  expect((await of({})).map(({ targets }) => targets)).toEqual([['10.77.0.11:9100'], ['10.77.0.21:9100']]);
  expect(await of({ of: 'etcd' })).toEqual([
    {
      targets: ['10.77.0.11:2379'],
      labels: {
        __meta_muster_machine: 'cp-1',
        __meta_muster_phase: 'registered',
        __meta_muster_cluster: 'blue',
        __meta_muster_role: 'control-plane',
        __meta_muster_label_rack: 'a, "left"',
      },
    },
  ]);
  expect((await of({ of: 'kubelet' })).length).toBe(2);
  expect((await of({ of: 'apiserver', port: '9443' }))[0]!.targets).toEqual(['10.77.0.11:9443']);
  expect(await of({ labels: 'rack=nowhere' })).toEqual([]);
  await expect(of({ of: 'nginx' })).rejects.toMatchObject({ code: 'E_USAGE' });
});
