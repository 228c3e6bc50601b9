/**
 * A machine whose single etcd is to be restored by the agent, and what it must have afterwards.
 * Runs inside scripts/in-namespace.sh.
 */
import fs from 'node:fs';
import { expect } from 'vitest';
import { Disks } from '../agent-disks.ts';
import { Machine, type Planner } from '../agent-kit.ts';
import { contentsOf, EtcdAlone, write } from './pod.ts';

const UUID = '5eed0000-1111-4222-8333-444455556666';
const MARKER = { cluster: 'lab', founding: 'f1', member: 'cp1', machine: 'cp1' } as const;
export const RESTORE = {
  do: 'restore-etcd',
  cluster: 'lab',
  from: 'f1',
  to: 'f2',
  member: 'cp1',
  machine: 'cp1',
  address: '10.0.0.7',
  program: 'etcdutl',
  bump: 0,
} as const;
export const KEYS = 50;

/** The container's etcd, and where the agent looks for it. */
export const [CLIENT, METRICS] = [23790, 23810];

/** A machine with its own data disk, for `restore-etcd`. */
export async function prepared(
  planner: Planner,
): Promise<{ readonly machine: Machine; readonly disks: Disks }> {
  const machine = new Machine(planner, { data: 'serial=S2', etcd: `http://127.0.0.1:${METRICS}` });
  const disks = new Disks(machine);
  disks.add('vdb', 640, 'S2');
  planner.plan([
    { do: 'create-data', device: '/dev/vdb', filesystem: UUID },
    { do: 'marker', ...MARKER },
    { do: 'directory', mode: 0o700, path: '/var/lib/muster/etcd' },
  ]);
  expect(await machine.poll()).toEqual({ status: 0, said: '' });
  return { machine, disks };
}

/** Documents for a boot host at NET.1 with the images of a cluster, and for one machine. */
export const imageHost = (net: string): string => `apiVersion: muster/v1
kind: Network
metadata: {name: rack}
spec: {subnet: ${net}.0/24, dhcp: {mode: server}}
---
apiVersion: muster/v1
kind: Machine
metadata: {name: cp1}
spec: {macs: ["52:54:00:83:00:01"], addresses: [${net}.11]}
---
apiVersion: muster/v1
kind: Cluster
metadata: {name: blue}
spec: {trust: segment, kubernetes: {version: 1.36.2, endpoint: ${net}.11, controlPlanes: [cp1]}}
`;

/** Where etcd's data are on the filesystem that is mounted at `home`. */
export const data = (machine: Machine, home = '/var/lib/muster'): string => machine.path(`${home}/etcd`);

/** Data of a single member, as after a fault. */
export async function written(machine: Machine, home?: string): Promise<void> {
  const etcd = await EtcdAlone.start(data(machine, home));
  await write(etcd.at, 0, KEYS);
  await etcd.stop('SIGKILL');
}

/**
 * Asserts that the data belong to a new founding and have every key, and that only the original
 * lies next to them.
 */
export async function isRestored(machine: Machine, home = '/var/lib/muster'): Promise<void> {
  expect(machine.read(`${home}/marker`)).toBe('lab f2 cp1 cp1\n');
  expect(fs.readdirSync(machine.path(home)).filter((name) => name.startsWith('etcd'))).toEqual([
    'etcd',
    'etcd.before-f2',
  ]);
  const restored = await contentsOf(data(machine, home));
  expect(restored).toMatchObject({ keys: KEYS, peers: ['https://10.0.0.7:2380'] });
  fs.mkdirSync(machine.path('/before'));
  fs.cpSync(machine.path(`${home}/etcd.before-f2`), machine.path('/before/member'), {
    recursive: true,
  });
  const before = await contentsOf(machine.path('/before'));
  expect(before).toMatchObject({ keys: KEYS, peers: [expect.not.stringContaining('10.0.0.7')] });
  expect(restored.cluster).not.toBe(before.cluster);
  expect(machine.exists('/run/muster/etcd-image')).toBe(false);
}
