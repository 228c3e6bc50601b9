/** The agent's data filesystem on real block devices. Root, inside scripts/in-namespace.sh. */
import { execFileSync } from 'node:child_process';
import { createHash } from 'node:crypto';
import fs from 'node:fs';
import { afterEach, beforeEach, expect, test } from 'vitest';
import type { PlanLine } from '../../src/agent/plan.ts';
import { askDisk, Disks, MIB } from './agent-disks.ts';
import { Machine, Planner, put, SHELLS } from './agent-kit.ts';

const UUID = '5eed0000-1111-4222-8333-444455556666';

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

/** A machine whose selector is `data`. */
function start(data: string, settings: Record<string, string> = {}) {
  const machine = new Machine(planner, { data, ...settings });
  const disks = new Disks(machine);
  open.push({ machine, disks });
  return { machine, disks };
}

const MARKER = { do: 'marker', cluster: 'lab', founding: 'f1', member: 'cp1', machine: 'cp1' } as const;
const CREATE: PlanLine = { do: 'create-data', device: '/dev/vdb', filesystem: UUID };

test.for(SHELLS)(
  'by %s, a blank disk becomes the data filesystem; certificate, marker and data are there after a reboot without a ticket',
  async (shell) => {
    const { machine, disks } = start('serial=S2');
    disks.add('vda', 64, 'S1');
    disks.add('vdb', 64, 'S2');
    const lines: readonly PlanLine[] = [
      CREATE,
      MARKER,
      { do: 'directory', mode: 0o700, path: '/var/lib/muster/etcd' },
      { do: 'bind', directory: 'containerd', path: '/var/lib/containerd' },
      { do: 'guard-new', filesystem: UUID },
      { do: 'step', step: 'data' },
    ];
    planner.plan(lines);
    expect(await machine.poll(shell)).toEqual({ status: 0, said: '' });
    expect(planner.facts().disk).toEqual({ state: 'blank', device: '/dev/vdb' });
    expect(planner.facts().etcd.wal).toBe('unknown');
    expect(machine.read('/var/lib/muster/marker')).toBe('lab f1 cp1 cp1\n');
    machine.write('/var/lib/containerd/image', 'layer');
    expect(machine.read('/var/lib/muster/containerd/image')).toBe('layer');
    expect(machine.exists('/run/muster/agent')).toBe(false);
    planner.plan(lines);
    expect(await machine.poll(shell)).toEqual({ status: 0, said: '' });

    disks.unmount();
    machine.reboot();
    const settings = machine.read('/etc/muster/agent.conf');
    machine.write('/etc/muster/agent.conf', settings.replace(/^ticket=.*\n/m, ''));
    const asked = planner.asked.length;
    planner.plan([{ do: 'mount-data', filesystem: UUID }, ...lines]);
    expect(await machine.poll(shell)).toEqual({ status: 0, said: '' });
    expect(planner.asked.slice(asked).map(({ path }) => path)).toEqual(['/agent/poll']);
    expect(planner.facts()).toMatchObject({
      disk: { state: 'ours', device: '/dev/vdb', filesystem: UUID, mounted: true },
      marker: { cluster: 'lab', founding: 'f1', member: 'cp1', machine: 'cp1' },
      etcd: { wal: 'absent' },
    });
    expect(machine.read('/var/lib/containerd/image')).toBe('layer');
  },
);

/** A machine with one disk, which is for its data and to start from. */
function startWithOne(mib: number) {
  const { machine, disks } = start('serial=S2', { boot: 'serial=S2' });
  disks.seePartitions();
  machine.write('/proc/cmdline', 'boot=muster\n');
  return { machine, disks, file: disks.add('vdb', mib, 'S2') };
}

/** Name, first MiB and MiB of each partition. */
function tableOf(file: string): readonly (readonly [string, number, number])[] {
  const { partitiontable } = JSON.parse(execFileSync('sfdisk', ['--json', file], { encoding: 'utf8' }));
  return partitiontable.partitions.map(({ name, start, size }: Record<string, string | number>) => [
    name,
    Number(start) / 2048,
    Math.floor(Number(size) / 2048),
  ]);
}

test.for(SHELLS)(
  'by %s, the one disk of a machine gets a partition for its data and one to start from; both are found after a reboot',
  async (shell) => {
    const { machine, disks, file } = startWithOne(8192);
    const lines: readonly PlanLine[] = [CREATE, MARKER];
    planner.plan(lines);
    expect(await machine.poll(shell)).toEqual({ status: 0, said: '' });
    expect(planner.facts().disk).toEqual({ state: 'blank', device: '/dev/vdb' });
    expect(tableOf(file)).toEqual([
      ['MUSTER-BOOT', 1, 1024],
      ['MUSTER-DATA', 1025, 7166],
    ]);
    expect(askDisk(machine, 'boot-look', 'serial=S2')).toBe(
      'disk=ours\ndevice=/dev/vdb\npartition=/dev/vdb1\ndetail=\n',
    );

    disks.unmount();
    disks.unplug('vdb');
    machine.reboot();
    disks.plug('vdb', file, 'S2');
    planner.plan([{ do: 'mount-data', filesystem: UUID }, ...lines]);
    expect(await machine.poll(shell)).toEqual({ status: 0, said: '' });
    expect(planner.facts()).toMatchObject({
      disk: { state: 'ours', device: '/dev/vdb2', filesystem: UUID, mounted: true },
      marker: { cluster: 'lab', founding: 'f1', member: 'cp1', machine: 'cp1' },
    });
    // Its data stay where they are, also when nobody starts from it any more.
    const settings = machine.read('/etc/muster/agent.conf');
    machine.write('/etc/muster/agent.conf', settings.replace(/^boot=.*\n/m, ''));
    expect(await machine.poll(shell)).toEqual({ status: 0, said: '' });
    expect(planner.facts().disk).toMatchObject({ state: 'ours', filesystem: UUID, mounted: true });
  },
);

test('a data disk that was made as a whole stays one, and is no boot disk', async () => {
  const { machine, disks } = startWithOne(1024);
  const settings = machine.read('/etc/muster/agent.conf');
  machine.write('/etc/muster/agent.conf', settings.replace(/^boot=.*\n/m, ''));
  planner.plan([CREATE, MARKER]);
  expect(await machine.poll()).toEqual({ status: 0, said: '' });
  disks.unmount();
  machine.reboot();
  machine.write('/etc/muster/agent.conf', settings);
  planner.plan([{ do: 'mount-data', filesystem: UUID }, CREATE, MARKER]);
  expect(await machine.poll()).toEqual({ status: 0, said: '' });
  expect(askDisk(machine, 'boot-look', 'serial=S2')).toContain(
    'disk=foreign\ndevice=/dev/vdb\npartition=\ndetail=is a data disk as a whole',
  );
});

test('one disk that is too small for both is not written to', async () => {
  const { machine, disks, file } = startWithOne(700);
  planner.plan([CREATE]);
  expect((await machine.poll()).said).toContain(
    '/dev/vdb has 700 MiB, too little for the data and what the machine starts from: at least 768',
  );
  disks.close();
  expect(fs.statSync(file).blocks).toBe(0);
});

test('the mark of a disk that we were dividing counts for nothing once somebody else put a table or a filesystem there', async () => {
  const { machine, disks, file } = startWithOne(64);
  for (const other of [
    () => execFileSync('sfdisk', ['--quiet', file], { input: 'label: gpt\nname=root\n' }),
    () => execFileSync('sfdisk', ['--quiet', '--wipe', 'always', file], { input: 'label: dos\n,\n' }),
    () => execFileSync('mkswap', ['--force', file]),
  ]) {
    disks.unplug('vdb');
    other();
    execFileSync('dd', [`of=${file}`, 'bs=512', 'seek=2047', 'conv=notrunc'], {
      input: 'MUSTER-DATA-NEW',
      stdio: ['pipe', 'ignore', 'ignore'],
    });
    disks.plug('vdb', file, 'S2');
    const before = endsOf(file);
    planner.plan([CREATE]);
    expect((await machine.poll()).said).toContain('foreign');
    expect(endsOf(file)).toBe(before);
  }
});

/** The first and the last MiB of a file. */
function endsOf(file: string): string {
  const octets = fs.readFileSync(file);
  return createHash('sha256').update(octets.subarray(0, MIB)).update(octets.subarray(-MIB)).digest('hex');
}

/** What somebody might miss, and how it got onto the disk. */
const FOREIGN: readonly (readonly [string, (file: string) => void])[] = [
  ['ext4', (file) => execFileSync('mkfs.ext4', ['-q', '-F', file])],
  ['ext4 with our label but not whole', (file) => execFileSync('mkswap', ['-L', 'MUSTER-DATA', file])],
  ['swap', (file) => execFileSync('mkswap', [file])],
  ['a partition table', (file) => execFileSync('sfdisk', ['--quiet', file], { input: 'label: gpt\n,\n' })],
  ['an MBR', (file) => execFileSync('sfdisk', ['--quiet', file], { input: 'label: dos\n,\n' })],
  [
    'a GPT of which only the copy at the end is left',
    (file) => {
      execFileSync('sfdisk', ['--quiet', file], { input: 'label: gpt\n,\n' });
      const disk = fs.openSync(file, 'r+');
      fs.writeSync(disk, Buffer.alloc(MIB), 0, MIB, 0);
      fs.closeSync(disk);
    },
  ],
  [
    'octets that nobody knows',
    (file) => {
      const disk = fs.openSync(file, 'r+');
      fs.writeSync(disk, Buffer.from('x'), 0, 1, 700_000);
      fs.closeSync(disk);
    },
  ],
];

test.for(FOREIGN)(
  'a disk with %s is foreign, and is not touched, even if a plan says so',
  async ([, fill]) => {
    const { machine, disks } = start('serial=S2');
    const file = disks.add('vdb', 64, 'S2');
    disks.unplug('vdb');
    fill(file);
    const before = createHash('sha256').update(fs.readFileSync(file)).digest('hex');
    disks.plug('vdb', file, 'S2');
    planner.plan([CREATE, put('/etc/after', '')]);
    expect((await machine.poll()).status).toBe(1);
    await machine.poll();
    expect(planner.facts().disk).toEqual({
      state: 'foreign',
      device: '/dev/vdb',
      detail: expect.stringMatching(/^(holds|has|cannot) /),
    });
    expect(planner.facts().hold).toMatchObject({
      code: 'create-data',
      text: expect.stringContaining('foreign'),
    });
    expect(machine.exists('/etc/after')).toBe(false);
    disks.close();
    expect(createHash('sha256').update(fs.readFileSync(file)).digest('hex')).toBe(before);
  },
);

test('partitions, holders and a write lock that the kernel knows of make a disk foreign', async () => {
  const { machine, disks } = start('serial=S2');
  disks.add('vdb', 64, 'S2');
  const sys = '/sys/block/vdb';
  for (const [at, text] of [
    [`${sys}/vdb1/partition`, '1\n'],
    [`${sys}/holders/dm-0`, ''],
  ] as const) {
    machine.write(at, text);
    await machine.poll();
    expect(planner.facts().disk).toMatchObject({ state: 'foreign' });
    fs.rmSync(machine.path(at));
  }
  machine.write(`${sys}/ro`, '1\n');
  await machine.poll();
  expect(planner.facts().disk).toMatchObject({ state: 'foreign', detail: 'is read-only' });
});

test('a selector takes the one disk that fits all of it; none and several are said', async () => {
  const { machine, disks } = start('serial=S2');
  disks.add('vda', 64, 'S1');
  disks.add('vdb', 96, 'S2');
  disks.add('loop7', 64, 'S2');
  machine.write('/dev/disk/by-id/x', '');
  fs.rmSync(machine.path('/dev/disk/by-id/x'));
  fs.symlinkSync('../../vda', machine.path('/dev/disk/by-id/ata-MODEL_LINK1'));
  const look = async (data: string) => {
    const settings = machine.read('/etc/muster/agent.conf');
    machine.write('/etc/muster/agent.conf', settings.replace(/^data=.*$/m, `data=${data}`));
    await machine.poll();
    const { disk } = planner.facts();
    return 'device' in disk ? disk.device : disk.state;
  };
  expect(await look('serial=S2')).toBe('/dev/vdb');
  expect(await look('serial=LINK1')).toBe('/dev/vda');
  expect(await look('path=/dev/disk/by-id/ata-MODEL_LINK1')).toBe('/dev/vda');
  expect(await look('path=/dev/vdb size=90-')).toBe('/dev/vdb');
  expect(await look('size=-64')).toBe('/dev/vda');
  expect(await look('size=10-100')).toBe('several');
  expect(await look('size=65-95')).toBe('none');
  expect(await look('path=/dev/vdb serial=S1')).toBe('none');
  expect(await look('model=x')).toBe('none');
});

test('a disk is not made anew under another name than the plan’s, nor when it already is another filesystem', async () => {
  const { machine, disks } = start('serial=S2');
  disks.add('vdb', 64, 'S2');
  planner.plan([{ ...CREATE, device: '/dev/vda' } as PlanLine]);
  expect((await machine.poll()).said).toContain('create-data');
  planner.plan([CREATE]);
  expect((await machine.poll()).status).toBe(0);
  planner.plan([{ ...CREATE, filesystem: UUID.replace('5eed', 'beef') } as PlanLine]);
  expect((await machine.poll()).said).toContain('create-data');
  await machine.poll();
  expect(planner.facts().disk).toMatchObject({ filesystem: UUID });
});

test('the disk of another machine: its certificate is not used, nothing is written to it, and the marker is said', async () => {
  const first = start('serial=S2');
  const file = first.disks.add('vdb', 64, 'S2');
  planner.plan([CREATE, MARKER]);
  expect((await first.machine.poll()).status).toBe(0);
  first.disks.close();
  const listing = () => execFileSync('debugfs', ['-R', 'ls -l /', file], { encoding: 'utf8' });
  const before = listing();

  const second = start('serial=S2', { machine: 'cp2' });
  second.disks.plug('vdb', file, 'S2');
  const asked = planner.asked.length;
  planner.plan([{ ...MARKER, member: 'cp2', machine: 'cp2' }]);
  expect((await second.machine.poll()).said).toContain('foreign-marker');
  expect(planner.asked.slice(asked).map(({ path }) => path)).toEqual(['/agent/redeem', '/agent/poll']);
  expect(planner.facts().marker).toMatchObject({ machine: 'cp1' });
  second.disks.unmount();
  expect(listing()).toBe(before);
});

test('a data disk that shows up late, when the machine has redeemed its ticket: the newer certificate counts from then on', async () => {
  const { machine, disks } = start('serial=S2');
  const file = disks.add('vdb', 64, 'S2');
  planner.plan([CREATE, MARKER]);
  expect((await machine.poll()).status).toBe(0);
  const before = machine.read('/var/lib/muster/agent/agent.crt');
  disks.unmount();
  disks.unplug('vdb');
  machine.reboot();
  await machine.poll();
  const newer = machine.read('/run/muster/agent/agent.crt');
  expect(newer).not.toBe(before);

  disks.plug('vdb', file, 'S2');
  const asked = planner.asked.length;
  planner.plan([{ do: 'mount-data', filesystem: UUID }, MARKER]);
  expect(await machine.poll()).toEqual({ status: 0, said: '' });
  expect(planner.asked.slice(asked).map(({ path }) => path)).toEqual(['/agent/poll']);
  expect(machine.read('/var/lib/muster/agent/agent.crt')).toBe(newer);
  expect(machine.mode('/var/lib/muster/agent/agent.key')).toBe('600');
  // It outlives the next boot, as the first did; what a power cut left half written does not.
  machine.write('/var/lib/muster/agent/.muster-new.agent.key', 'half a key');
  disks.unmount();
  machine.reboot();
  await machine.poll();
  expect(machine.read('/var/lib/muster/agent/agent.crt')).toBe(newer);
  expect(fs.readdirSync(machine.path('/var/lib/muster/agent'))).not.toContain('.muster-new.agent.key');
});

test('etcd does not begin anew where a WAL is, or on another filesystem; what was removed is set aside once', async () => {
  const { machine, disks } = start('serial=S2');
  disks.add('vdb', 64, 'S2');
  planner.plan([CREATE, { do: 'guard-new', filesystem: UUID }]);
  expect((await machine.poll()).status).toBe(0);
  planner.plan([{ do: 'guard-new', filesystem: UUID.replace('5eed', 'beef') }, put('/etc/after', '')]);
  expect((await machine.poll()).said).toContain('guard');
  machine.write('/var/lib/muster/etcd/member/wal/0.wal', 'old');
  planner.plan([{ do: 'guard-new', filesystem: UUID }, put('/etc/after', '')]);
  expect((await machine.poll()).said).toContain('guard');
  expect(machine.exists('/etc/after')).toBe(false);
  const aside: readonly PlanLine[] = [{ do: 'set-aside-etcd', member: '8e9e05' }];
  planner.plan(aside);
  expect((await machine.poll()).status).toBe(0);
  expect(machine.read('/var/lib/muster/etcd.removed-8e9e05/member/wal/0.wal')).toBe('old');
  machine.write('/var/lib/muster/etcd/member/wal/0.wal', 'new');
  planner.plan(aside);
  expect((await machine.poll()).status).toBe(0);
  await machine.poll();
  expect(planner.facts().etcd.wal).toBe('present');
  expect(machine.read('/var/lib/muster/etcd/member/wal/0.wal')).toBe('new');
});

test('a full disk is a hold, nothing is half written, and the plan goes on when there is room', async () => {
  const { machine } = start('');
  fs.mkdirSync(machine.path('/opt'));
  execFileSync('mount', ['-t', 'tmpfs', '-o', 'size=1m', 'tmpfs', machine.path('/opt')]);
  machine.write('/opt/ballast', Buffer.alloc(900 * 1024));
  const lines: readonly PlanLine[] = [
    { do: 'put', mode: 0o644, path: '/opt/large', content: { octets: Buffer.alloc(400 * 1024, 'x') } },
    { do: 'run', unit: 'a.service', digest: 'd' },
  ];
  planner.plan(lines);
  expect((await machine.poll()).status).toBe(1);
  await machine.poll();
  expect(planner.facts().hold).toMatchObject({
    code: 'write-failed',
    text: expect.stringContaining('No space left'),
  });
  expect(fs.readdirSync(machine.path('/opt'))).toEqual(['ballast']);
  expect(machine.told()).toEqual([]);
  fs.rmSync(machine.path('/opt/ballast'));
  planner.plan(lines);
  expect(await machine.poll()).toEqual({ status: 0, said: '' });
  expect(machine.told()).toEqual(['enable a.service', 'start a.service']);
});

test('with no room to stage a plan, nothing of it is done, and the reason arrives', async () => {
  const { machine } = start('');
  await machine.poll();
  execFileSync('mount', ['-t', 'tmpfs', '-o', 'size=300k', 'tmpfs', machine.path('/run')]);
  const content = { octets: Buffer.alloc(400 * 1024, 'x') };
  planner.plan([put('/etc/one', ''), { do: 'put', mode: 0o644, path: '/etc/large', content }]);
  planner.plan([
    put('/etc/one', ''),
    { do: 'put', mode: 0o644, path: '/etc/large', content: { octets: Buffer.alloc(160 * 1024) } },
  ]);
  machine.command('sleep', '#!/bin/sh\n');
  machine.start();
  const holds = () => planner.asked.map(({ form }) => form.get('hold'));
  await expect.poll(holds, { timeout: 100_000 }).toContain('bad-plan');
  expect(machine.exists('/etc/one')).toBe(false);
});

test.for(SHELLS)(
  'by %s, a disk is cleared of the cluster that its marker names and of no other; the filesystem and the certificate stay',
  async (shell) => {
    const { machine, disks } = start('serial=S2');
    disks.add('vdb', 64, 'S2');
    const bind: PlanLine = { do: 'bind', directory: 'containerd', path: '/var/lib/containerd' };
    planner.plan([CREATE, MARKER, bind, put('/etc/kubernetes/pki/ca.crt', 'a')]);
    expect(await machine.poll(shell)).toEqual({ status: 0, said: '' });
    machine.write('/var/lib/containerd/image', 'layer');
    machine.write('/var/lib/muster/etcd-started', '');
    // A restore was under way.
    const image = machine.path('/run/muster/etcd-image');
    fs.mkdirSync(image);
    execFileSync('mount', ['-t', 'tmpfs', 'tmpfs', image]);
    const certificate = machine.read('/var/lib/muster/agent/agent.crt');

    planner.plan([{ ...MARKER, do: 'clear', founding: 'f2' }]);
    expect((await machine.poll(shell)).status).toBe(1);
    expect(machine.read('/var/lib/containerd/image')).toBe('layer');

    planner.plan([
      { ...MARKER, do: 'clear' },
      { do: 'step', step: 'left' },
    ]);
    expect(await machine.poll(shell)).toEqual({ status: 0, said: '' });
    expect(fs.readdirSync(machine.path('/var/lib/muster')).sort()).toEqual(['agent', 'lost+found']);
    expect(machine.read('/var/lib/muster/agent/agent.crt')).toBe(certificate);
    expect(fs.readFileSync('/proc/self/mountinfo', 'utf8')).not.toContain(image);
    expect(fs.existsSync(machine.path('/etc/kubernetes'))).toBe(false);
    // Said again, there is nothing left to do; and the next cluster finds the same filesystem.
    expect(await machine.poll(shell)).toEqual({ status: 0, said: '' });
    expect(planner.facts().disk).toMatchObject({ state: 'ours', filesystem: UUID, mounted: true });
    expect(planner.facts().marker).toBeUndefined();
    planner.plan([{ do: 'guard-left', founding: 'f1' }]);
    expect((await machine.poll(shell)).said).toContain('cannot begin it again');
    planner.plan([{ ...MARKER, cluster: 'next' }, { do: 'guard-left', founding: 'f2' }, bind]);
    expect(await machine.poll(shell)).toEqual({ status: 0, said: '' });
    expect(fs.readdirSync(machine.path('/var/lib/containerd'))).toEqual([]);
  },
);
