/** A machine whose etcd was alone and is to be restored by the agent, and what it must have then. Inside scripts/in-namespace.sh. */
import fs from 'node:fs';
import { expect } from 'vitest';
import type { Machine } from '../agent-kit.ts';
import { contentsOf, EtcdAlone, write } from './pod.ts';

export const UUID = '5eed0000-1111-4222-8333-444455556666';
export const MARKER = { cluster: 'lab', founding: 'f1', member: 'cp1', machine: 'cp1' } as const;
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

export const data = (machine: Machine): string => machine.path('/var/lib/muster/etcd');

/** Data of a member that was alone, as after a fault. */
export async function written(machine: Machine): Promise<void> {
  const etcd = await EtcdAlone.start(data(machine));
  await write(etcd.at, 0, KEYS);
  await etcd.stop('SIGKILL');
}

/** The data are those of a new founding, with every key; the original is beside them, and nothing else. */
export async function isRestored(machine: Machine): Promise<void> {
  expect(machine.read('/var/lib/muster/marker')).toBe('lab f2 cp1 cp1\n');
  expect(fs.readdirSync(machine.path('/var/lib/muster')).filter((name) => name.startsWith('etcd'))).toEqual([
    'etcd',
    'etcd.before-f2',
  ]);
  const restored = await contentsOf(data(machine));
  expect(restored).toMatchObject({ keys: KEYS, peers: ['https://10.0.0.7:2380'] });
  fs.mkdirSync(machine.path('/before'));
  fs.cpSync(machine.path('/var/lib/muster/etcd.before-f2'), machine.path('/before/member'), {
    recursive: true,
  });
  const before = await contentsOf(machine.path('/before'));
  expect(before).toMatchObject({ keys: KEYS, peers: [expect.not.stringContaining('10.0.0.7')] });
  expect(restored.cluster).not.toBe(before.cluster);
  expect(machine.exists('/run/muster/etcd-image')).toBe(false);
}
