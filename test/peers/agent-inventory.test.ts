/** The agent's inventory of the real machine that the test runs on, in both shells. */
import { execFileSync, spawnSync } from 'node:child_process';
import fs from 'node:fs';
import os from 'node:os';
import path from 'node:path';
import { expect, test } from 'vitest';
import { readInventory } from '../../src/machines/inventory.ts';
import { attachLoop, MIB } from './agent-disks.ts';
import { Machine, Planner, SHELLS, SOURCE } from './agent-kit.ts';

/** Reads in what the inventory needs, as the agent and the discovery system do. */
const READ_IN = ['base', 'within', 'serial', 'inventory']
  .map((part) => `. ${SOURCE}/muster-${part}.sh`)
  .join('; ');

test.each(SHELLS)('the inventory agrees with what the kernel says (%s)', (...shell) => {
  const run = fs.mkdtempSync(path.join(os.tmpdir(), 'inventory-'));
  const script = `root= run=${run}; ${READ_IN}
    take_inventory; cat "$run/inventory.new"; inventory_arrived; take_inventory; ls "$run"`;
  const [program, ...words] = shell as readonly string[];
  const text = execFileSync(program!, [...words, '-c', script], { encoding: 'utf8' });
  fs.rmSync(run, { recursive: true });
  // The second one is not due before an hour has passed.
  expect(text.trimEnd().split('\n').at(-1)).toBe('inventory');
  const inventory = readInventory(text)!;
  const kilobytes = /^MemTotal: *(\d+)/m.exec(fs.readFileSync('/proc/meminfo', 'utf8'))![1];
  expect(inventory.memoryBytes).toBe(Number(kilobytes) * 1024);
  expect(inventory.processors?.threads).toBe(os.cpus().length);
  const listed = execFileSync('lsblk', ['-dnb', '-e', '1,2,7,11', '-o', 'NAME,SIZE'], { encoding: 'utf8' });
  const disks = listed
    .trim()
    .split('\n')
    .filter((line) => line !== '')
    .map((line) => line.trim().split(/ +/))
    .filter(([name, size]) => size !== '0' && !name!.startsWith('zram'));
  expect(inventory.disks.map(({ name, bytes }) => [name, String(bytes)])).toEqual(disks);
});

/** Writes files of a tree, and links: a value that begins with `→` names the target. */
function tree(files: Readonly<Record<string, string | Buffer>>): string {
  const root = fs.mkdtempSync(path.join(os.tmpdir(), 'sys-'));
  for (const [name, content] of Object.entries(files)) {
    const file = path.join(root, name);
    fs.mkdirSync(path.dirname(file), { recursive: true });
    if (typeof content === 'string' && content.startsWith('→')) fs.symlinkSync(content.slice(1), file);
    else fs.writeFileSync(file, content);
  }
  return root;
}

test('the discovery system shows disks as lsblk does, without lsblk and udev', () => {
  // ATA exchanges the letters of each pair.
  const swapped = Buffer.from('SAMSUNG MZ7LH960HAJR-00005'.padEnd(40)).swap16();
  const nvme = 'sys/devices/pci0000:00/0000:00:04.0/nvme/nvme0';
  const sata = 'sys/devices/pci0000:00/0000:00:1f.2/ata1/host0/target0:0:0/0:0:0:0';
  const sas = 'sys/devices/pci0000:00/0000:00:05.0/host1/port-1:0/end_device-1:0/target1:0:0/1:0:0:0';
  const disk = (at: string, name: string, dev: string, sectors: number) => ({
    [`${at}/block/${name}/dev`]: `${dev}\n`,
    [`${at}/block/${name}/size`]: `${sectors}\n`,
    [`${at}/block/${name}/queue/rotational`]: '0\n',
    [`${at}/block/${name}/device`]: '→../..',
    [`sys/block/${name}`]: `→../../${at}/block/${name}`,
  });
  const root = tree({
    ...disk(nvme, 'nvme0n1', '259:0', 8),
    [`${nvme}/serial`]: 'S64FNE0R   \n',
    [`${nvme}/model`]: 'SAMSUNG MZQL2960HCJR-00A07\n',
    [`${nvme}/block/nvme0n1/wwid`]: 'eui.3634463052100001\n',
    ...disk(sata, 'sda', '8:0', 16),
    [`${sata}/model`]: 'SAMSUNG MZ7LH960\n',
    [`${sata}/vpd_pg80`]: Buffer.concat([Buffer.from([0, 0x80, 0, 20]), Buffer.from('      S45NNA0M "x')]),
    [`${sata}/vpd_pg89`]: Buffer.concat([Buffer.alloc(114), swapped, Buffer.alloc(300)]),
    [`${sata}/wwid`]: 'naa.5002538e4097d8a1\n',
    ...disk(sas, 'sdb', '8:16', 24),
    [`${sas}/model`]: 'ST1200MM0009\n',
    [`${sas}/vpd_pg80`]: Buffer.concat([Buffer.from([0, 0x80, 0, 8]), Buffer.from('ZC1AB123')]),
    ...disk('sys/devices/virtual', 'loop0', '7:0', 8),
    'bin/lsblk': `#!/bin/sh\nexec busybox sh ${path.resolve('images/discovery/lsblk.sh')}\n`,
  });
  fs.chmodSync(path.join(root, 'bin/lsblk'), 0o755);
  const script = `root=${root} run=${root}/run; export root; ${READ_IN}; inventory_lines`;
  const text = execFileSync('busybox', ['sh', '-c', script], {
    encoding: 'utf8',
    stdio: ['ignore', 'pipe', 'ignore'],
    env: { PATH: `${root}/bin:${process.env.PATH}` },
  });
  fs.rmSync(root, { recursive: true });
  expect(readInventory(text)?.disks).toEqual([
    {
      name: 'nvme0n1',
      bytes: 4096,
      rotational: false,
      transport: 'nvme',
      serial: 'S64FNE0R',
      wwn: 'eui.3634463052100001',
      model: 'SAMSUNG MZQL2960HCJR-00A07',
    },
    {
      name: 'sda',
      bytes: 8192,
      rotational: false,
      transport: 'sata',
      serial: 'S45NNA0M x',
      wwn: '0x5002538e4097d8a1',
      model: 'SAMSUNG MZ7LH960HAJR-00005',
    },
    {
      name: 'sdb',
      bytes: 12288,
      rotational: false,
      transport: 'sas',
      serial: 'ZC1AB123',
      model: 'ST1200MM0009',
    },
  ]);
});

test.each(SHELLS)(
  'a program that asks the hardware ends with its own answer, or hard after its time (%s)',
  (...shell) => {
    const run = fs.mkdtempSync(path.join(os.tmpdir(), 'within-'));
    const [program, ...words] = shell as readonly string[];
    const script = `run=${run}; . ${SOURCE}/muster-within.sh; within "$@"`;
    const within = (...command: readonly string[]) => {
      const { status, stdout, stderr } = spawnSync(program!, [...words, '-c', script, 'sh', ...command], {
        encoding: 'utf8',
      });
      return { status, stdout, stderr };
    };
    expect(within('9', 'sh', '-c', 'cat; echo "a  b"; echo why >&2; exit 7')).toEqual({
      status: 7,
      stdout: 'a  b\n',
      stderr: 'why\n',
    });
    expect(within('1', 'sh', '-c', 'trap "" TERM; echo half; sleep 600; sleep 600')).toMatchObject({
      status: 124,
      stdout: 'half\n',
      stderr: expect.stringContaining('sh did not end within 1 seconds'),
    });
    // A program that floods fills no memory.
    expect(within('9', 'yes').stdout.length).toBe(1024 * 1024);
    // What is left says that a program hung, and which is still there.
    expect(fs.readdirSync(run).filter((name) => name !== 'hung' && name !== 'stuck')).toEqual([]);
    fs.rmSync(run, { recursive: true });
  },
);

test('a BMC that hangs, even in the kernel, does not stop the agent; its inventory says what it lacks', async () => {
  const planner = await Planner.open();
  const machine = new Machine(planner);
  // A write to a filesystem that is frozen ends by no signal.
  const image = machine.path('/frozen.img');
  const frozen = machine.path('/frozen');
  fs.mkdirSync(frozen);
  fs.writeFileSync(image, '');
  fs.truncateSync(image, 16 * MIB);
  execFileSync('mkfs.ext4', ['-q', '-F', image]);
  const loop = attachLoop(image);
  execFileSync('mount', [loop, frozen]);
  execFileSync('fsfreeze', ['-f', frozen]);
  try {
    machine.write('/dev/ipmi0', '');
    machine.command('ipmitool', `#!/bin/sh\ntrap '' TERM\n: >${frozen}/file\n`);
    await machine.poll();
    expect(planner.facts().inventory).toMatchObject({
      missing: [{ part: 'bmc', text: 'ipmitool did not end within 10 seconds' }],
    });
    expect(planner.facts().inventory).not.toHaveProperty('bmc');
    // It is not started again while it hangs.
    fs.rmSync(machine.path('/run/muster/inventory'));
    const begun = performance.now();
    await machine.poll();
    expect(performance.now() - begun).toBeLessThan(8000);
  } finally {
    execFileSync('fsfreeze', ['-u', frozen]);
    machine.end();
    for (let tries = 0; spawnSync('umount', [frozen]).status !== 0 && tries < 100; tries += 1)
      execFileSync('sleep', ['0.1']);
    execFileSync('losetup', ['--detach', loop]);
    machine.close();
    planner.close();
  }
});
