/** The discovery system's wipe on loop devices, with the shell and tools that it has: busybox. */
import { execFileSync } from 'node:child_process';
import fs from 'node:fs';
import os from 'node:os';
import path from 'node:path';
import { afterEach, beforeEach, expect, test } from 'vitest';
import { readReport, whyNotWiped } from '../../src/machines/life/wipe.ts';
import { orderText, type Wipe } from '../../src/machines/life/wipe-order.ts';

const ROOT = path.resolve(import.meta.dirname, '../..');
const MIB = 1024 * 1024;
const PATTERN = 'a secret of the last owner';

let top: string;
let loops: string[];
beforeEach(() => {
  top = fs.mkdtempSync(path.join(os.tmpdir(), 'muster-wipe-'));
  loops = [];
  for (const name of ['bin', 'dev', 'sys/block', 'sys/class/dmi/id'])
    fs.mkdirSync(path.join(top, name), { recursive: true });
  execFileSync('busybox', ['--install', '-s', path.join(top, 'bin')]);
  fs.rmSync(path.join(top, 'bin/lsblk'), { force: true });
  fs.symlinkSync(path.join(ROOT, 'images/discovery/lsblk.sh'), path.join(top, 'bin/lsblk'));
  fs.writeFileSync(path.join(top, 'sys/class/dmi/id/product_serial'), 'RACK7\n');
});
afterEach(() => {
  for (const loop of loops) execFileSync('losetup', ['-d', loop]);
  fs.rmSync(top, { recursive: true, force: true });
});

interface DiskOf {
  readonly mib?: number;
  readonly sector?: number;
  readonly readOnly?: boolean;
  /** Begin and length of a partition in MiB. */
  readonly part?: readonly [number, number];
  /** How the kernel says that it is connected. */
  readonly at?: string;
}

/** A disk with a pattern in its middle and at its end; returns the file that has its octets. */
function disk(name: string, serial: string, of: DiskOf = {}): string {
  const { mib = 48, sector = 512, readOnly, part, at = `virtio/block/${name}` } = of;
  const file = path.join(top, `${name}.img`);
  fs.closeSync(fs.openSync(file, 'w'));
  fs.truncateSync(file, mib * MIB);
  const fd = fs.openSync(file, 'r+');
  for (const where of [0, 24 * MIB, mib * MIB - 4096]) fs.writeSync(fd, PATTERN, where);
  fs.closeSync(fd);
  const more = [...(readOnly ? ['-r'] : []), '-b', `${sector}`];
  const loop = execFileSync('losetup', ['-f', '--show', ...more, file], { encoding: 'utf8' }).trim();
  loops.push(loop);
  fs.symlinkSync(loop, path.join(top, 'dev', name));
  const sys = path.join(top, 'sys/devices', at);
  fs.mkdirSync(path.join(sys, 'queue'), { recursive: true });
  fs.symlinkSync(sys, path.join(top, 'sys/block', name));
  const facts = { dev: '254:0', size: `${mib * 2048}`, ro: '0', serial };
  for (const [key, value] of Object.entries(facts)) fs.writeFileSync(path.join(sys, key), `${value}\n`);
  fs.writeFileSync(path.join(sys, 'queue/logical_block_size'), `${sector}\n`);
  if (part) {
    fs.mkdirSync(path.join(sys, `${name}1`));
    fs.writeFileSync(path.join(sys, `${name}1/start`), `${part[0] * 2048}\n`);
    fs.writeFileSync(path.join(sys, `${name}1/size`), `${part[1] * 2048}\n`);
  }
  return file;
}

/** Where the pattern is on a disk, in MiB. */
const remains = (file: string): number[] => {
  const octets = fs.readFileSync(file);
  const found: number[] = [];
  for (let at = octets.indexOf(PATTERN); at >= 0; at = octets.indexOf(PATTERN, at + 1))
    found.push(Math.floor(at / MIB));
  return found;
};

/** Carries out an order, and judges the report as the boot host does. */
function wipe(order: Partial<Wipe> = {}, prelude = '') {
  const wanted: Wipe = { id: 'w1', level: 'overwrite', disks: [], ...order };
  const [plan, report] = [path.join(top, 'order'), path.join(top, 'report')];
  fs.writeFileSync(plan, `${orderText(wanted)}\n`);
  const script = `set -u
    . ${ROOT}/src/agent/scripts/muster-base.sh
    . ${ROOT}/src/agent/scripts/muster-serial.sh
    . ${ROOT}/images/discovery/wipe.sh
    wipe_said() { :; }
    ${prelude}
    wipe_machine ${plan} ${report}`;
  execFileSync(path.join(top, 'bin/sh'), ['-c', script], {
    env: { PATH: path.join(top, 'bin'), root: top },
    stdio: ['ignore', 'inherit', 'inherit'],
  });
  const read = readReport(fs.readFileSync(report, 'utf8'));
  if (read === undefined) throw new Error(fs.readFileSync(report, 'utf8'));
  return { disks: read.disks, why: whyNotWiped(wanted, read) };
}

test.each([512, 4096])(
  'all sectors of a disk with sectors of %i octets are overwritten, which is read afterwards',
  (sector) => {
    const file = disk('vda', 'S1', { sector });
    const { disks, why } = wipe();
    expect(why).toBeUndefined();
    expect(disks).toEqual([
      expect.objectContaining({ name: 'vda', result: 'done', serial: 'S1', octets: 48 * MIB, left: 0 }),
    ]);
    expect(disks[0]!.canaries).toBeGreaterThan(48);
    expect(fs.readFileSync(file).every((octet) => octet === 0)).toBe(true);
  },
);

test('tables are wiped at both ends of disk and partition, and what is between stays', () => {
  const file = disk('vda', 'S1', { mib: 96, part: [40, 20] });
  const fd = fs.openSync(file, 'r+');
  for (const at of [41, 59, 70]) fs.writeSync(fd, PATTERN, at * MIB);
  fs.closeSync(fd);
  expect(wipe({ level: 'tables' }).why).toBeUndefined();
  expect(remains(file)).toEqual([24, 70]);
});

test('only disks that the order names are wiped; others, shared ones and sticks are left alone', () => {
  const [own, shared, stick] = [
    disk('sda', 'S 1'),
    disk('sdb', 'S2', { at: 'rport-1:0-0/block/sdb' }),
    disk('sdc', 'S3', { at: 'usb1/1-1/block/sdc' }),
  ];
  const all = wipe({ level: 'tables' });
  expect(all.why).toBeUndefined();
  expect(all.disks.map(({ name, result, code }) => [name, result, code])).toEqual([
    ['sda', 'done', 'done'],
    ['sdb', 'left', 'shared'],
    ['sdc', 'left', 'usb'],
  ]);
  expect([own, shared, stick].map((file) => remains(file).length)).toEqual([1, 3, 3]);
  expect(wipe({ level: 'tables', disks: ['S2', 'S9'] }).why).toBe('the disk S9 is not in the machine');
  expect([shared, stick].map((file) => remains(file).length)).toEqual([1, 3]);
});

test('another machine than the one that was ordered wipes nothing', () => {
  const file = disk('vda', 'S1');
  expect(wipe({ serial: 'RACK8' }).why).toBe('the machine refused: other-machine');
  expect(remains(file)).toHaveLength(3);
  expect(wipe({ level: 'tables', serial: 'RACK7' }).why).toBeUndefined();
});

test('a disk that refuses writes, ends early or is in use is named, and one good disk does not help', () => {
  disk('vda', 'S1');
  disk('vdb', 'S2', { readOnly: true });
  expect(wipe({ level: 'tables' }).why).toBe('vdb: write-error');
  fs.rmSync(path.join(top, 'sys/block/vda'));
  fs.writeFileSync(path.join(top, 'sys/block/vdb/ro'), '1\n');
  expect(wipe({ level: 'tables' }).why).toBe('vdb: read-only');
  fs.mkdirSync(path.join(top, 'sys/block/vdb/holders/md0'), { recursive: true });
  fs.writeFileSync(path.join(top, 'sys/block/vdb/ro'), '0\n');
  expect(wipe({ level: 'tables' }).why).toBe('vdb: in-use');
});

test.each([
  ['takes no write, and says that it did', '*of=*', 'vda: canary-not-written'],
  ['takes no zeros, and says that it did', '*if=/dev/zero*', 'vda: canary-left'],
])('a drive that %s fails', (_, lie, why) => {
  const file = disk('vda', 'S1');
  // The drive's double: these writes end well and change nothing.
  const lies = `dd() { case "$*" in ${lie}) case "$*" in *of="$root/dev"*) return 0 ;; esac ;; esac; busybox dd "$@"; }`;
  expect(wipe({ level: 'tables' }, lies).why).toBe(why);
  expect(remains(file).length).toBeGreaterThan(0);
});
