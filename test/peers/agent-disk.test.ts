/** The agent's data filesystem on real block devices. Root, inside scripts/in-namespace.sh. */
import { execFileSync } from 'node:child_process';
import { createHash } from 'node:crypto';
import fs from 'node:fs';
import { afterEach, beforeEach, expect, test } from 'vitest';
import { selectorText } from '../../src/agent/serve/layer.ts';
import type { PlanLine } from '../../src/agent/wire/plan.ts';
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

/** A machine whose data disk is selected by `data`. */
function start(data: string, settings: Record<string, string> = {}) {
  const machine = new Machine(planner, { data, ...settings });
  const disks = new Disks(machine);
  open.push({ machine, disks });
  return { machine, disks };
}

const MARKER = { do: 'marker', cluster: 'lab', founding: 'f1', member: 'cp1', machine: 'cp1' } as const;
const CREATE: PlanLine = { do: 'create-data', device: '/dev/vdb', filesystem: UUID };

test.for(SHELLS)(
  'by %s, a blank disk becomes the data filesystem; certificate, marker and data survive a reboot without a ticket',
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

/** A machine whose only disk is both its data disk and its boot disk. */
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
  'by %s, a machine’s only disk gets a data partition and a boot partition; both are found after a reboot',
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
    // Its data stay where they are, also when the disk is no boot disk any more.
    const settings = machine.read('/etc/muster/agent.conf');
    machine.write('/etc/muster/agent.conf', settings.replace(/^boot=.*\n/m, ''));
    expect(await machine.poll(shell)).toEqual({ status: 0, said: '' });
    expect(planner.facts().disk).toMatchObject({ state: 'ours', filesystem: UUID, mounted: true });
  },
);

test('a data disk without partitions stays a data disk and does not become a boot disk', async () => {
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

test('a disk that is too small for data and boot partitions is not written to', async () => {
  const { machine, disks, file } = startWithOne(700);
  planner.plan([CREATE]);
  expect((await machine.poll()).said).toContain(
    '/dev/vdb has 700 MiB, too little for the data and what the machine starts from: at least 768',
  );
  disks.close();
  expect(fs.statSync(file).blocks).toBe(0);
});

test('the mark of a disk that the agent began to partition is ignored once the disk has another table or filesystem', async () => {
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

/** Contents that must not be overwritten, and the commands that put them onto the disk. */
const FOREIGN: readonly (readonly [string, (file: string) => void])[] = [
  ['ext4', (file) => execFileSync('mkfs.ext4', ['-q', '-F', file])],
  ['ext4 with our label but not whole', (file) => execFileSync('mkswap', ['-L', 'MUSTER-DATA', file])],
  ['swap', (file) => execFileSync('mkswap', [file])],
  ['a partition table', (file) => execFileSync('sfdisk', ['--quiet', file], { input: 'label: gpt\n,\n' })],
  ['an MBR', (file) => execFileSync('sfdisk', ['--quiet', file], { input: 'label: dos\n,\n' })],
  [
    'a GPT with only its copy at the end of the disk',
    (file) => {
      execFileSync('sfdisk', ['--quiet', file], { input: 'label: gpt\n,\n' });
      const disk = fs.openSync(file, 'r+');
      fs.writeSync(disk, Buffer.alloc(MIB), 0, MIB, 0);
      fs.closeSync(disk);
    },
  ],
  [
    'unknown octets',
    (file) => {
      const disk = fs.openSync(file, 'r+');
      fs.writeSync(disk, Buffer.from('x'), 0, 1, 700_000);
      fs.closeSync(disk);
    },
  ],
];

test.for(FOREIGN)(
  'a disk with %s is foreign and is not written to, even when a plan orders it',
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

test('a disk with partitions, holders or a write lock in the kernel is foreign', async () => {
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

test('a selector finds the one disk that meets all its conditions; none or several are a hold that says so', async () => {
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

test('a disk has the serial number that lsblk and the inventory show, for data, etcd and boot disks alike', () => {
  const { machine, disks } = start('serial=none');
  /** A disk as udev of Debian knows it. */
  const add = (name: string, properties: Readonly<Record<string, string>>, mib = 64) => {
    disks.add(name, mib, '');
    fs.rmSync(machine.path(`/sys/block/${name}/serial`));
    const number = machine.read(`/sys/block/${name}/dev`).trim();
    const lines = Object.entries(properties).map(([key, value]) => `E:${key}=${value}\n`);
    if (lines.length > 0) machine.write(`/run/udev/data/b${number}`, `I:1\n${lines.join('')}`);
  };
  const wwn = { ID_SERIAL: '35000c500a1b2c3d4', ID_SERIAL_SHORT: '5000c500a1b2c3d4' };
  add('sda', { ...wwn, ID_SCSI_SERIAL: 'ZC1AB123' });
  add('sdb', { ID_SERIAL: 'MODEL_WD-WX11', ID_SERIAL_SHORT: 'WD WX11  A1234  ' });
  add('sdc', { ...wwn, ID_SCSI_SERIAL: 'PDNLH0BRH58322' });
  add('sdd', { ...wwn, ID_SCSI_SERIAL: 'PDNLH0BRH58322' });
  add('sde', {});
  machine.write('/sys/block/sde/device/vpd_pg80', Buffer.from('\0\x80\0\x0a  LUN 7/a  '));
  add('mmcblk0', {});
  machine.write('/sys/block/mmcblk0/device/serial', '0x1a2b3c4d\n');
  fs.mkdirSync(machine.path('/dev/disk/by-id'), { recursive: true });
  fs.symlinkSync('../../sda', machine.path('/dev/disk/by-id/wwn-0x5000c500a1b2c3d4'));
  for (const command of ['look', 'etcd-look', 'boot-look']) {
    const found = (serial: string) => {
      const lines = askDisk(machine, command, selectorText({ serial })).split('\n');
      const of = (name: string) => lines.find((line) => line.startsWith(`${name}=`))?.slice(name.length + 1);
      return of('device') || `${of('disk')}: ${of('detail')}`;
    };
    expect(found('ZC1AB123')).toBe('/dev/sda');
    expect(found('0x5000c500a1b2c3d4')).toBe('/dev/sda');
    expect(found(' WD WX11 A1234 ')).toBe('/dev/sdb');
    expect(found('WD_WX11_A1234')).toBe('/dev/sdb');
    expect(found('LUN 7/a')).toBe('/dev/sde');
    expect(found('0x1a2b3c4d')).toBe('/dev/mmcblk0');
    expect(found('PDNLH0BRH58322')).toBe(
      'several: /dev/sdc, /dev/sdd fit serial=PDNLH0BRH58322; name one by its path below /dev/disk/by-id',
    );
  }
});

test('no filesystem is made on a disk of another name than the plan’s, or on one that has another filesystem', async () => {
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

test('nothing is written to another machine’s disk, its certificate is not used, and the hold names its marker', async () => {
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

test('when a data disk appears after the ticket was used, the newer certificate is used from then on', async () => {
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
  // It outlives the next boot like the first; a file half written at a power cut does not.
  machine.write('/var/lib/muster/agent/.muster-new.agent.key', 'half a key');
  disks.unmount();
  machine.reboot();
  await machine.poll();
  expect(machine.read('/var/lib/muster/agent/agent.crt')).toBe(newer);
  expect(fs.readdirSync(machine.path('/var/lib/muster/agent'))).not.toContain('.muster-new.agent.key');
});

test('etcd does not start empty where a WAL exists or on another filesystem; removed data are set aside once', async () => {
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

test.for(SHELLS)(
  'by %s, a data disk of which a tenth or less is free is reported until there is room',
  async (shell) => {
    const { machine, disks } = start('serial=S2');
    disks.add('vdb', 64, 'S2');
    planner.plan([CREATE]);
    const used = async (): Promise<string | undefined> => {
      await machine.poll(shell);
      return planner.facts().full?.[machine.path('/var/lib/muster')];
    };
    await used();
    expect(await used()).toBeUndefined();
    execFileSync('fallocate', ['-l', '52M', machine.path('/var/lib/muster/ballast')]);
    expect(Number(await used())).toBeGreaterThanOrEqual(90);
    fs.rmSync(machine.path('/var/lib/muster/ballast'));
    expect(await used()).toBeUndefined();
  },
);

test('a full disk is a hold, nothing is half written, and the plan continues when there is room', async () => {
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

test('without room to stage a plan nothing of it is done, and the reason is reported', async () => {
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
  'by %s, a disk is cleared only of the cluster that its marker names; the filesystem and the certificate stay',
  async (shell) => {
    const { machine, disks } = start('serial=S2');
    disks.add('vdb', 64, 'S2');
    const bind: PlanLine = { do: 'bind', directory: 'containerd', path: '/var/lib/containerd' };
    planner.plan([CREATE, MARKER, bind, put('/etc/kubernetes/pki/ca.crt', 'a')]);
    expect(await machine.poll(shell)).toEqual({ status: 0, said: '' });
    machine.write('/var/lib/containerd/image', 'layer');
    machine.write('/var/lib/muster/etcd-started', '');
    // A restore was in progress.
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
    // The repeated order changes nothing, and the next cluster finds the same filesystem.
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

/** Programs get two seconds, however long they may take. */
const IMPATIENT = `#!/bin/sh
case $1 in
  -k) shift 3; exec /usr/bin/timeout -k 1 2 "$@" ;;
  *) shift; exec /usr/bin/timeout 9 "$@" ;;
esac
`;

test('a filesystem of which it cannot be read whether it was finished is not ours', async () => {
  const { machine, disks } = start('serial=S2');
  disks.add('vdb', 64, 'S2');
  planner.plan([CREATE, MARKER]);
  // The shell of busybox takes its own timeout and dd, whatever is in PATH.
  expect(await machine.poll(SHELLS[0])).toEqual({ status: 0, said: '' });
  expect(askDisk(machine, 'look', 'serial=S2')).toContain('disk=ours');
  machine.command('timeout', IMPATIENT);
  machine.command('dd', '#!/bin/sh\ncase $* in *count=1) exec sleep 600 ;; *) exec /bin/dd "$@" ;; esac\n');
  const looked = askDisk(machine, 'look', 'serial=S2');
  expect(looked).toContain('disk=foreign');
  expect(looked).toContain('cannot be read at sector');
});

test('a program that hangs while it makes the data filesystem is named, and what it left is no filesystem of ours', async () => {
  const { machine, disks } = start('serial=S2');
  disks.add('vdb', 64, 'S2');
  machine.command('timeout', IMPATIENT);
  // It has written everything when it hangs, and ends by no SIGTERM.
  machine.command('mkfs.ext4', '#!/bin/sh\ntrap "" TERM\n/sbin/mkfs.ext4 "$@"\nsleep 600\n');
  planner.plan([CREATE, MARKER]);
  await machine.poll(SHELLS[0]);
  await machine.poll(SHELLS[0]);
  expect(planner.facts()).toMatchObject({
    disk: { state: 'blank', device: '/dev/vdb' },
    hold: {
      code: 'program-hangs',
      text: expect.stringContaining('mkfs.ext4 did not end within 1800 seconds'),
    },
  });
  expect(() => askDisk(machine, 'mount', 'serial=S2', UUID)).toThrow('Command failed');
  for (const name of ['timeout', 'mkfs.ext4']) fs.rmSync(machine.path(`/bin/${name}`));
  planner.plan([CREATE, MARKER]);
  expect(await machine.poll(SHELLS[0])).toEqual({ status: 0, said: '' });
  expect(machine.read('/var/lib/muster/marker')).toBe('lab f1 cp1 cp1\n');
});
