/**
 * What a site has already reads what Muster prints: Ansible an inventory, ssh a configuration,
 * Prometheus its targets.
 */
import { spawn, spawnSync } from 'node:child_process';
import fs from 'node:fs';
import net from 'node:net';
import path from 'node:path';
import { pipeline } from 'node:stream/promises';
import { afterAll, beforeAll, expect, test } from 'vitest';
import { DOCUMENTS, openWorld, type World } from '../unit/api/world.ts';
import { run } from '../unit/cli/run.ts';
import { unpacked } from './unpacked.ts';

const CLUSTER = `---
apiVersion: muster/v1
kind: Cluster
metadata: {name: blue-1}
spec: {trust: segment, kubernetes: {version: 1.36.2, endpoint: 10.77.0.5, controlPlanes: [cp-1]}}
---
apiVersion: muster/v1
kind: Machine
metadata: {name: cp-1, labels: {"site.example/rack": "a, \\"left\\""}}
spec: {macs: ["52:54:00:aa:00:11"], addresses: [10.77.0.11], profile: worker}
`;

let world: World;
beforeAll(async () => {
  world = await openWorld(DOCUMENTS + CLUSTER);
});
afterAll(() => world.close());

async function listed(format: string): Promise<string> {
  const { out } = await run(['get', 'machines', '-o', format], { socket: world.socket });
  const file = path.join(world.directory, `list-${format}`);
  fs.writeFileSync(file, out);
  return file;
}

test('ansible-inventory finds the machine in all of its groups', async () => {
  const file = await listed('ansible');
  const { command, env } = unpacked('ansible-core', 'usr/bin/ansible-inventory');
  const python = `${env.PYTHONPATH}:/usr/lib/python3/dist-packages`;
  const { stdout, stderr } = spawnSync('python3', [command, '-i', file, '--list'], {
    env: { ...env, PYTHONPATH: python, HOME: world.directory, ANSIBLE_HOME: world.directory },
    encoding: 'utf8',
  });
  expect(stderr).not.toMatch(/warning|error/i);
  const inventory = JSON.parse(stdout) as Record<string, { hosts?: string[] }> & {
    _meta: { hostvars: Record<string, object> };
  };
  expect(inventory._meta.hostvars['cp-1']).toEqual({ ansible_host: '10.77.0.11' });
  for (const group of [
    'cluster_blue_1',
    'cluster_blue_1_control_plane',
    'profile_worker',
    'label_site_example_rack_a___left_',
  ])
    expect([group, inventory[group]?.hosts]).toEqual([group, ['cp-1']]);
});

test('ssh goes to the address of the machine', async () => {
  const file = await listed('ssh-config');
  const { stdout } = spawnSync('ssh', ['-F', file, '-G', 'cp-1'], { encoding: 'utf8' });
  expect(stdout).toMatch(/^hostname 10\.77\.0\.11$/m);
});

test('Prometheus scrapes the targets that it is told, with the labels of the machines', async () => {
  // promtool speaks TCP, and the API of this test listens on a socket.
  const bridge = net.createServer((near) => {
    const far = net.connect(world.socket);
    void Promise.allSettled([pipeline(near, far), pipeline(far, near)]);
  });
  await new Promise<void>((resolve) => bridge.listen(0, '127.0.0.1', resolve));
  const { port } = bridge.address() as net.AddressInfo;
  const config = path.join(world.directory, 'prometheus.yml');
  fs.writeFileSync(
    config,
    JSON.stringify({
      scrape_configs: [
        {
          job_name: 'kubelets',
          http_sd_configs: [{ url: `http://127.0.0.1:${port}/v1/sd/prometheus?of=kubelet` }],
          relabel_configs: [
            { source_labels: ['__meta_muster_machine'], target_label: 'instance' },
            { regex: '__meta_muster_label_(.+)', action: 'labelmap' },
          ],
        },
      ],
    }),
  );
  const { command, env } = unpacked('promtool-trixie', 'usr/bin/promtool');
  // The API answers from this process, so it must not wait for the program.
  const child = spawn(command, ['check', 'service-discovery', config, 'kubelets', '--timeout=3s'], { env });
  const output: string[] = [];
  child.stdout.on('data', (octets) => output.push(String(octets)));
  child.stderr.on('data', (octets) => output.push(String(octets)));
  await new Promise((resolve) => child.once('close', resolve));
  bridge.close();
  const text = output.join('');
  const found = JSON.parse(text.slice(text.indexOf('['))) as readonly { readonly labels: object }[];
  expect(found.map(({ labels }) => labels)).toEqual([
    expect.objectContaining({
      __address__: '10.77.0.11:10250',
      instance: 'cp-1',
      site_example_rack: 'a, "left"',
    }),
  ]);
});
