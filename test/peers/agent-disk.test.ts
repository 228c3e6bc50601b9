/** The agent's data filesystem on real block devices: loop devices under the names of disks. Root, inside scripts/in-namespace.sh. */
import { execFileSync, spawnSync } from 'node:child_process';
import fs from 'node:fs';
import { afterEach, beforeEach, expect, test } from 'vitest';
import type { PlanLine } from '../../src/agent/plan.ts';
import { Desk, Machine } from '../unit/agent/kit.ts';

const MIB = 1024 * 1024;
const UUID = '5eed0000-1111-4222-8333-444455556666';

let desk: Desk;
let machine: Machine;
let loops: string[];

beforeEach(async () => {
  desk = await Desk.open();
  loops = [];
  machine = undefined as unknown as Machine;
});

afterEach(() => {
  unmount();
  for (const loop of loops) spawnSync('losetup', ['--detach', loop]);
  machine.close();
  desk.close();
});

/** All mounts of the machine, the last first. */
function unmount(): void {
  const mounts = fs.readFileSync('/proc/self/mountinfo', 'utf8').split('\n');
  for (const line of mounts.reverse()) {
    const at = line.split(' ')[4] ?? '';
    if (at.startsWith(`${machine.root}/`)) execFileSync('umount', [at]);
  }
}

/** A machine whose selector is `data`. */
function start(data: string): void {
  machine = new Machine(desk, { data });
}

/** A disk of the machine: a loop device under a disk's name, in /dev and /sys as the kernel has it. */
function disk(name: string, mib: number, serial: string): { file: string; loop: string } {
  const file = machine.path(`/${name}.img`);
  fs.writeFileSync(file, '');
  fs.truncateSync(file, mib * MIB);
  return plug(name, file, serial);
}

function plug(name: string, file: string, serial: string): { file: string; loop: string } {
  const loop = execFileSync('losetup', ['--find', '--show', file], { encoding: 'utf8' }).trim();
  loops.push(loop);
  const number = /[0-9]+$/.exec(loop)![0];
  fs.mkdirSync(machine.path('/dev'), { recursive: true });
  execFileSync('mknod', [machine.path(`/dev/${name}`), 'b', '7', number]);
  machine.write(`/sys/block/${name}/size`, `${fs.statSync(file).size / 512}\n`);
  machine.write(`/sys/block/${name}/dev`, `7:${number}\n`);
  machine.write(`/sys/block/${name}/serial`, `  ${serial} \n`);
  machine.write(`/sys/block/${name}/ro`, '0\n');
  return { file, loop };
}

const CREATE: readonly PlanLine[] = [
  { do: 'create-data', device: '/dev/vdb', filesystem: UUID },
  { do: 'marker', cluster: 'lab', founding: 'f1', member: 'cp1', machine: 'cp1' },
  { do: 'directory', mode: 0o700, path: '/var/lib/muster/etcd' },
  { do: 'bind', directory: 'containerd', path: '/var/lib/containerd' },
  { do: 'guard-new', filesystem: UUID },
  { do: 'step', step: 'data' },
];

test('a blank disk becomes the data filesystem; certificate, marker and data are there after a reboot without a ticket', async () => {
  start('serial=S2');
  disk('vda', 64, 'S1');
  disk('vdb', 64, 'S2');
  desk.plan(CREATE);
  expect(await machine.poll()).toEqual({ status: 0, said: '' });
  expect(desk.facts().disk).toEqual({ state: 'blank', device: '/dev/vdb' });
  expect(machine.read('/var/lib/muster/marker')).toBe('lab f1 cp1 cp1\n');
  machine.write('/var/lib/containerd/image', 'layer');
  expect(machine.read('/var/lib/muster/containerd/image')).toBe('layer');
  expect(machine.exists('/run/muster/agent')).toBe(false);

  unmount();
  machine.reboot();
  machine.write(
    '/etc/muster/agent.conf',
    machine.read('/etc/muster/agent.conf').replace(/^ticket=.*\n/m, ''),
  );
  const tickets = desk.asked.length;
  desk.plan([{ do: 'mount-data', filesystem: UUID }, ...CREATE]);
  expect(await machine.poll()).toEqual({ status: 0, said: '' });
  expect(desk.asked.slice(tickets).map(({ path: asked }) => asked)).toEqual(['/agent/poll']);
  expect(desk.facts()).toMatchObject({
    disk: { state: 'ours', device: '/dev/vdb', filesystem: UUID, mounted: true },
    marker: { cluster: 'lab', founding: 'f1', member: 'cp1', machine: 'cp1' },
    etcd: { wal: 'absent' },
  });
  expect(machine.read('/var/lib/containerd/image')).toBe('layer');
});
