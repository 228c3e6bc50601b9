/** The agent's inventory of the real machine that the test runs on, in both shells. */
import { execFileSync } from 'node:child_process';
import fs from 'node:fs';
import os from 'node:os';
import path from 'node:path';
import { expect, test } from 'vitest';
import { readInventory } from '../../src/machines/inventory.ts';
import { SHELLS, SOURCE } from './agent-kit.ts';

test.each(SHELLS)('the inventory agrees with what the kernel says (%s)', (...shell) => {
  const run = fs.mkdtempSync(path.join(os.tmpdir(), 'inventory-'));
  const script = `root= run=${run}
    . ${SOURCE}/muster-base.sh; . ${SOURCE}/muster-inventory.sh
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
    ...disk('sys/devices/virtual', 'loop0', '7:0', 8),
  });
  const inventory = path.resolve('src/agent/muster-inventory.sh');
  const script = `root=${root}; export root; first_line() { first_line=; }
    lsblk() { busybox sh images/discovery/lsblk.sh; }; . ${inventory}; inventory_lines`;
  const text = execFileSync('busybox', ['sh', '-c', script], {
    encoding: 'utf8',
    stdio: ['ignore', 'pipe', 'ignore'],
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
    { name: 'sdb', bytes: 12288, rotational: false, transport: 'sas', model: 'ST1200MM0009' },
  ]);
});
