/**
 * A disk for etcd's data alone, next to the data disk, on real block devices. Root, inside
 * scripts/in-namespace.sh.
 */
import { execFileSync } from 'node:child_process';
import { createHash } from 'node:crypto';
import fs from 'node:fs';
import { afterEach, beforeEach, expect, test } from 'vitest';
import type { PlanLine } from '../../src/agent/wire/plan.ts';
import { Disks } from './agent-disks.ts';
import { Machine, Planner, put, SHELLS } from './agent-kit.ts';
import { PROGRAMS } from './etcd/pod.ts';
import { isRestored, METRICS, RESTORE, written } from './etcd/restoring.ts';

const DATA = '5eed0000-1111-4222-8333-444455556666';
const ETCD = '5eed0000-1111-4222-8333-777788889999';
const OWNER = { cluster: 'lab', founding: 'f1', member: 'cp1', machine: 'cp1' } as const;
const LINES: readonly PlanLine[] = [
  { do: 'create-data', device: '/dev/vdb', filesystem: DATA },
  { do: 'marker', ...OWNER, founding: 'none', member: '_etcd-disk' },
  { do: 'create-etcd', device: '/dev/vdc', filesystem: ETCD },
  { do: 'bind-etcd', directory: 'etcd', path: '/var/lib/etcd' },
  { do: 'marker-etcd', ...OWNER },
];
const GUARD: PlanLine = { do: 'guard-new', filesystem: ETCD };

let planner: Planner;
let open: { machine: Machine; disks: Disks }[];

beforeEach(async () => {
  planner = await Planner.open();
  open = [];
});

afterEach(async () => {
  for (const { machine, disks } of open) {
    await machine.stop();
    disks.close();
    machine.close();
  }
  planner.close();
});

function start(settings: Record<string, string> = {}, mib = 64) {
  const machine = new Machine(planner, { data: 'serial=S2', etcddisk: 'serial=S3', ...settings });
  const disks = new Disks(machine);
  open.push({ machine, disks });
  disks.add('vdb', 64, 'S2');
  return { machine, disks, file: disks.add('vdc', mib, 'S3') };
}

/** Loses what a power cut loses, and the ticket. */
function powerCut({ machine, disks }: { machine: Machine; disks: Disks }): void {
  disks.unmount();
  machine.reboot();
  const settings = machine.read('/etc/muster/agent.conf');
  machine.write('/etc/muster/agent.conf', settings.replace(/^ticket=.*\n/m, ''));
}

test.for(SHELLS)(
  'by %s, etcd’s data are on their own disk, which is mounted again after a power cut before the facts are told',
  async (shell) => {
    const at = start();
    const { machine } = at;
    planner.plan([...LINES, GUARD]);
    expect(await machine.poll(shell)).toEqual({ status: 0, said: '' });
    expect(planner.facts()).toMatchObject({
      disk: { state: 'blank', device: '/dev/vdb' },
      etcdDisk: { disk: { state: 'blank', device: '/dev/vdc' } },
      etcd: { wal: 'unknown' },
    });
    machine.write('/var/lib/etcd/member/wal/0.wal', '');
    expect(machine.exists('/var/lib/muster-etcd/etcd/member/wal/0.wal')).toBe(true);
    expect(machine.exists('/var/lib/muster/etcd')).toBe(false);

    powerCut(at);
    planner.plan([...LINES, GUARD]);
    const { said } = await machine.poll(shell);
    expect(planner.facts()).toMatchObject({
      disk: { state: 'ours', filesystem: DATA, mounted: true },
      marker: { founding: 'none', member: '_etcd-disk', machine: 'cp1' },
      etcdDisk: { disk: { state: 'ours', filesystem: ETCD, mounted: true }, marker: OWNER },
      etcd: { wal: 'present' },
    });
    // A founding never begins over data that are there.
    expect(said).toContain(`guard: etcd does not begin again: yes mounted, filesystem ${ETCD} for ${ETCD}`);
    expect(machine.exists('/var/lib/etcd/member/wal/0.wal')).toBe(true);
  },
);

test('data of a removed membership stay on the etcd disk, and a clearing empties both disks but keeps the identity', async () => {
  const { machine } = start();
  planner.plan(LINES);
  expect(await machine.poll()).toEqual({ status: 0, said: '' });
  machine.write('/var/lib/etcd/member/wal/0.wal', '');
  execFileSync('umount', [machine.path('/var/lib/etcd')]);
  planner.plan([{ do: 'set-aside-etcd', member: 'ab12' }, ...LINES.slice(3)]);
  expect(await machine.poll()).toEqual({ status: 0, said: '' });
  expect(machine.exists('/var/lib/muster-etcd/etcd.removed-ab12/member/wal/0.wal')).toBe(true);
  expect(fs.readdirSync(machine.path('/var/lib/etcd'))).toEqual([]);

  const foreign: PlanLine = { do: 'clear-etcd', ...OWNER, founding: 'f2' };
  planner.plan([foreign]);
  expect((await machine.poll()).said).toContain('foreign-marker');
  expect(machine.exists('/var/lib/muster-etcd/etcd.removed-ab12')).toBe(true);

  const certificate = machine.read('/var/lib/muster/agent/agent.crt');
  planner.plan([
    { do: 'clear-etcd', ...OWNER },
    { do: 'clear', ...OWNER, founding: 'none', member: '_etcd-disk' },
  ]);
  expect(await machine.poll()).toEqual({ status: 0, said: '' });
  expect(fs.readdirSync(machine.path('/var/lib/muster-etcd')).sort()).toEqual(['left', 'lost+found']);
  expect(fs.readdirSync(machine.path('/var/lib/muster')).sort()).toEqual(['agent', 'lost+found']);
  expect(machine.read('/var/lib/muster/agent/agent.crt')).toBe(certificate);
  planner.plan([...LINES.slice(0, 3), { do: 'guard-left', founding: 'f1' }]);
  expect((await machine.poll()).said).toContain('this disk was cleared of founding f1');
});

test('a restore reads, keeps and replaces etcd’s data on their own disk, whose marker it rewrites', async () => {
  const { machine } = start({ etcd: `http://127.0.0.1:${METRICS}` }, 640);
  planner.plan(LINES);
  expect(await machine.poll()).toEqual({ status: 0, said: '' });
  fs.chmodSync(machine.path('/var/lib/etcd'), 0o700);
  await written(machine, '/var/lib/muster-etcd');
  for (const [name, program] of Object.entries(PROGRAMS))
    machine.command(name, `#!/bin/sh\nexec ${program} "$@"\n`);
  planner.plan([RESTORE]);
  expect(await machine.poll()).toEqual({ status: 0, said: '' });
  await isRestored(machine, '/var/lib/muster-etcd');
  expect(machine.exists('/var/lib/etcd/member/snap/db')).toBe(true);
  expect(machine.read('/var/lib/muster/marker')).toBe('lab none _etcd-disk cp1\n');
});

test('a member that has its data on the data disk keeps them there when an etcd disk is named later', async () => {
  const at = start({ etcddisk: '' });
  const { machine } = at;
  planner.plan([LINES[0]!, { do: 'marker', ...OWNER }, put('/var/lib/muster/etcd/member/wal/0.wal', '')]);
  expect(await machine.poll()).toEqual({ status: 0, said: '' });
  powerCut(at);
  const settings = machine.read('/etc/muster/agent.conf');
  machine.write('/etc/muster/agent.conf', settings.replace('etcddisk=', 'etcddisk=serial=S3'));
  planner.plan([{ do: 'mount-data', filesystem: DATA }, GUARD]);
  expect((await machine.poll()).said).toContain(`filesystem ${DATA} for ${ETCD}, WAL present`);
  expect(planner.facts()).toMatchObject({
    marker: OWNER,
    etcdDisk: { disk: { state: 'blank' } },
    etcd: { wal: 'present' },
  });
});

test('a disk with another filesystem, partitions or the data of the machine never becomes the etcd disk', async () => {
  for (const fill of [
    (file: string) => execFileSync('mkfs.ext4', ['-q', '-F', file]),
    (file: string) => execFileSync('mkfs.ext4', ['-q', '-F', '-L', 'MUSTER-DATA', file]),
    (file: string) => execFileSync('sfdisk', ['--quiet', file], { input: 'label: gpt\nname=MUSTER-BOOT\n' }),
  ]) {
    const { machine, disks, file } = start();
    disks.unplug('vdc');
    fill(file);
    const digest = () => createHash('sha256').update(fs.readFileSync(file)).digest('hex');
    const before = digest();
    disks.plug('vdc', file, 'S3');
    planner.plan(LINES);
    expect((await machine.poll()).said).toContain('/dev/vdc is not made the etcd disk');
    expect(planner.facts().etcdDisk).toMatchObject({ disk: { state: 'foreign', device: '/dev/vdc' } });
    disks.close();
    expect(digest()).toBe(before);
  }
});

test('the boot host’s key opens an encrypted etcd disk, by the plan; the data disk stays as it is', async () => {
  const at = start({ etcdencrypt: 'boot-host' });
  const { machine, disks } = at;
  disks.encrypt();
  const lines = LINES.map(
    (line): PlanLine => (line.do === 'create-etcd' ? { ...line, encrypt: 'boot-host' } : line),
  );
  planner.plan(lines);
  expect(await machine.poll()).toEqual({ status: 0, said: '' });
  machine.write('/var/lib/etcd/member/wal/0.wal', '');
  expect([...planner.dataKeys!.keys()]).toEqual([ETCD]);
  powerCut(at);
  planner.plan([...LINES.slice(0, 2), { do: 'mount-etcd', filesystem: ETCD }, ...LINES.slice(3)]);
  expect(await machine.poll()).toEqual({ status: 0, said: '' });
  expect(planner.facts()).toMatchObject({
    etcdDisk: { disk: { state: 'ours', mounted: false, encrypt: 'boot-host', encrypted: 'boot-host' } },
    etcd: { wal: 'unknown' },
  });
  expect(machine.exists('/var/lib/etcd/member/wal/0.wal')).toBe(true);
  expect(machine.exists('/run/muster/data/key')).toBe(false);
});

test('a machine that starts from its boot disk mounts etcd’s disk by itself, and does nothing when its data are gone', async () => {
  const at = start({ boot: 'serial=S1' });
  const { machine, disks } = at;
  machine.write('/proc/cmdline', 'boot=muster\n');
  disks.add('vda', 64, 'S1');
  planner.plan(LINES);
  expect(await machine.poll()).toEqual({ status: 0, said: '' });
  machine.write('/var/lib/etcd/member/wal/0.wal', '');
  const kept: readonly PlanLine[] = [
    { do: 'mount-data', filesystem: DATA },
    LINES[1]!,
    { do: 'mount-etcd', filesystem: ETCD },
    ...LINES.slice(3),
    put('/etc/name', 'cp1\n'),
  ];
  planner.plan(kept);
  expect(await machine.poll()).toEqual({ status: 0, said: '' });
  expect(machine.read('/var/lib/muster/kept/wal')).toBe('present\n');

  planner.close();
  const startsByItself = (): void => {
    powerCut(at);
    fs.rmSync(machine.path('/etc/name'), { force: true });
    machine.write('/proc/cmdline', 'boot=muster muster.kept=1795000000\n');
  };
  startsByItself();
  await machine.poll();
  expect(machine.exists('/var/lib/etcd/member/wal/0.wal')).toBe(true);
  expect(machine.read('/etc/name')).toBe('cp1\n');

  fs.rmSync(machine.path('/var/lib/muster-etcd/etcd/member'), { recursive: true });
  startsByItself();
  expect((await machine.poll()).said).toContain('the data of etcd are gone');
  expect(machine.exists('/etc/name')).toBe(false);
});
