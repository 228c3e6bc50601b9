/**
 * The discovery system's wipe and test on loop devices, with the shell and tools that it has:
 * busybox. Drives that erase or test themselves are doubles here, which give the pages of NVMe and
 * ATA as the standards have them; lab/wiped.yaml has an emulated NVMe drive and Debian's programs.
 */
import { execFileSync, spawnSync } from 'node:child_process';
import fs from 'node:fs';
import os from 'node:os';
import path from 'node:path';
import { afterEach, beforeEach, expect, test } from 'vitest';
import { readMeasures, testFaults } from '../../src/machines/life/burn-in.ts';
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

/** What the discovery system reads in. */
const SCRIPTS = `set -u
  . ${ROOT}/src/agent/scripts/muster-base.sh
  . ${ROOT}/src/agent/scripts/muster-serial.sh
  . ${ROOT}/src/agent/scripts/muster-within.sh
  . ${ROOT}/images/discovery/wipe.sh
  . ${ROOT}/images/discovery/erase.sh
  . ${ROOT}/images/discovery/burn-in.sh
  erase_pause=0
  wipe_said() { :; }`;

/** Carries out an order, and judges the report as the boot host does. */
function wipe(order: Partial<Wipe> = {}, prelude = '') {
  const wanted: Wipe = { id: 'w1', level: 'overwrite', disks: [], ...order };
  const [plan, report] = [path.join(top, 'order'), path.join(top, 'report')];
  fs.writeFileSync(plan, `${orderText(wanted)}\n`);
  const script = `${SCRIPTS}
    run=${top}
    # Enough to count, and fewer programs to start.
    [ ${wanted.level} != crypto ] || wipe_canaries=36
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

/** A program of the discovery system that is a double here. */
function double(name: string, text: string): void {
  fs.writeFileSync(path.join(top, 'bin', name), `#!/bin/sh\n${text}`, { mode: 0o755 });
}

/** A page of a drive: octets at offsets. */
function page(name: string, length: number, octets: Readonly<Record<number, number>>): void {
  const at = Buffer.alloc(length);
  for (const [offset, value] of Object.entries(octets)) at[Number(offset)] = value;
  fs.writeFileSync(path.join(top, name), at);
}

interface Nvme {
  /** SANICAP, FNA: what it can do. Format NVM it always can. */
  readonly sanitizes?: number;
  readonly how?: number;
  /** SSTAT after a sanitize. */
  readonly ends?: number;
  /** It says that it erased itself, and does nothing. */
  readonly lies?: true;
}

/** An NVMe drive whose octets are in a file: pages of the NVMe Base Specification 1.4. */
function nvme(file: string, { sanitizes = 0, how = 0, ends = 1, lies }: Nvme): void {
  page('id-ctrl', 4096, { 256: 2, 328: sanitizes, 524: how });
  page('id-ns', 4096, { 32: 0x80 });
  // Its estimates: ten seconds each. `busy`: a sanitize is under way, at 50 %.
  const log = (sstat: number) => ({ 0: 0xff, 1: sstat === 2 ? 0x7f : 0xff, 2: sstat, 12: 10, 16: 10 });
  for (const [name, sstat] of Object.entries({ idle: 0, busy: 2, ended: ends })) page(name, 512, log(sstat));
  const erase = lies ? 'true' : `dd if=/dev/urandom of=${file} bs=1M count=48 conv=notrunc 2>/dev/null`;
  double(
    'nvme',
    `cd ${top}; echo "$*" >>calls
    case $1 in
      id-ctrl | id-ns) cat $1 ;;
      sanitize) echo 2 >polls; ${erase} ;;
      format) ${erase} ;;
      sanitize-log)
        read -r polls 2>/dev/null <polls || polls=
        case $polls in
          '') cat idle ;;
          0) cat ended ;;
          *) echo $((polls - 1)) >polls; cat busy ;;
        esac ;;
    esac`,
  );
}
const calls = (): string[] => fs.readFileSync(path.join(top, 'calls'), 'utf8').split('\n');

test.each([
  ['sanitizes by its key', { sanitizes: 3 }, 'nvme-sanitize-crypto', 'sstat=0x0001', '--sanact=4'],
  ['sanitizes by blocks alone', { sanitizes: 2 }, 'nvme-sanitize-block', 'sstat=0x0001', '--sanact=2'],
  ['formats with another key', { how: 4 }, 'nvme-format-crypto', 'fpi=0x80', '--ses=2'],
  ['formats and erases', {}, 'nvme-format-erase', 'fpi=0x80', '--ses=1'],
])('an NVMe drive that %s does so, and its page is read afterwards', (_, of, method, evidence, word) => {
  nvme(disk('nvme0n1', 'S1'), of);
  const { disks, why } = wipe({ level: 'crypto' });
  expect(why).toBeUndefined();
  expect(disks[0]).toMatchObject({ result: 'done', method, evidence, left: 0 });
  expect(disks[0]!.zeros).toBeLessThan(disks[0]!.canaries);
  expect(calls().join('\n')).toContain(word);
});

test.each<[string, Nvme, string]>([
  ['that says it did and did nothing', { sanitizes: 1, lies: true }, 'nvme0n1: canary-left'],
  ['whose sanitize failed', { sanitizes: 1, ends: 3 }, 'nvme0n1: erase-failed'],
])('an NVMe drive %s fails', (_, of, why) => {
  nvme(disk('nvme0n1', 'S1'), of);
  expect(wipe({ level: 'crypto' }).why).toBe(why);
});

test('a drive erases no other namespace than the one that is ordered', () => {
  const file = disk('nvme0n1', 'S1');
  const other = disk('nvme0n2', 'S1');
  const order = { level: 'crypto', disks: ['S1'] } as const;
  nvme(file, { sanitizes: 1, how: 2 });
  expect(wipe(order).why).toBe('nvme0n1: shares-drive');
  nvme(file, { sanitizes: 1 });
  expect(wipe(order).disks[0]).toMatchObject({ result: 'done', method: 'nvme-format-erase' });
  expect(remains(other).length).toBeGreaterThan(0);
});

test('a sanitize that a power cut interrupted is waited for, and one that does not end is named', () => {
  nvme(disk('nvme0n1', 'S1'), { sanitizes: 1 });
  fs.writeFileSync(path.join(top, 'polls'), '3\n');
  expect(wipe({ level: 'crypto' }).why).toBeUndefined();
  fs.writeFileSync(path.join(top, 'polls'), '1000000\n');
  expect(wipe({ level: 'crypto' }, 'erase_limit() { echo 0; }').why).toBe('nvme0n1: erase-late');
});

/** An ATA drive whose words say what it can do and what is so of it (ACS); hdparm is a double. */
function ata(file: string, { state = 0x21, forgets = true } = {}): void {
  fs.writeFileSync(path.join(top, 'state'), `${state}\n`);
  double(
    'hdparm',
    `cd ${top}; echo "$*" >>calls; read -r state <state
    case "$*" in
      --Istdout*)
        echo; echo "/dev/sda:"
        n=0
        while [ $n -lt 256 ]; do
          case $n in
            82) word=$((state == 0 ? 0 : 2)) ;;
            89) word=1 ;; 90) word=32769 ;; 128) word=$state ;; *) word=0 ;;
          esac
          printf '%04x ' $word; n=$((n + 1)); [ $((n % 8)) != 0 ] || echo
        done ;;
      *--security-set-pass*) echo $((state | 2)) >state ;;
      *--security-unlock*) [ -e foreign ] || echo $((state & ~4)) >state ;;
      *--security-disable*) [ -e foreign ] || echo $((state & ~2)) >state ;;
      *--security-erase*)
        dd if=/dev/zero of=${file} bs=1M count=48 conv=notrunc 2>/dev/null
        ${forgets ? 'echo $((state & ~2)) >state' : ':'} ;;
    esac`,
  );
}

test('an ATA drive erases itself with a password, which it has forgotten afterwards', () => {
  const file = disk('sda', 'S1', { at: 'ata1/block/sda' });
  ata(file);
  const { disks, why } = wipe({ level: 'crypto' });
  expect(why).toBeUndefined();
  expect(disks[0]).toMatchObject({ method: 'ata-erase-enhanced', evidence: 'security=0x0021' });
  ata(file, { state: 0x1 });
  expect(wipe({ level: 'crypto' }).disks[0]).toMatchObject({ method: 'ata-erase' });
  // The power was cut while it erased itself: it is locked with the password of the wipe.
  ata(file, { state: 0x27 });
  expect(wipe({ level: 'crypto' }).why).toBeUndefined();
});

test('an ATA drive that is frozen, locked by others, or keeps its password fails', () => {
  const file = disk('sda', 'S1', { at: 'ata1/block/sda' });
  ata(file, { state: 0x29 });
  expect(wipe({ level: 'crypto' }).why).toBe('sda: frozen');
  ata(file, { forgets: false });
  expect(wipe({ level: 'crypto' }).why).toBe('sda: erase-failed');
  ata(file, { state: 0x27 });
  fs.writeFileSync(path.join(top, 'foreign'), '');
  expect(wipe({ level: 'crypto' }).why).toBe('sda: password-set');
  ata(file, { state: 0 });
  expect(wipe({ level: 'crypto' }).why).toBe('sda: cannot-erase');
});

/** Makes what Muster encrypts (muster-luks.sh) on a disk, from this MiB on. */
function encrypt(file: string, { from = 0, mib = 48, label = 'MUSTER-DATA' } = {}): void {
  fs.writeFileSync(path.join(top, 'key'), 'k'.repeat(32));
  const options = ['-o', `${from * MIB}`, '--sizelimit', `${mib * MIB}`];
  const loop = execFileSync('losetup', ['-f', '--show', ...options, file], { encoding: 'utf8' }).trim();
  loops.push(loop);
  execFileSync('cryptsetup', [
    ...['luksFormat', '--batch-mode', '--type', 'luks2', '--label', label, '--offset', '32768'],
    ...['--pbkdf', 'pbkdf2', '--pbkdf-force-iterations', '1000', '--key-file', path.join(top, 'key'), loop],
  ]);
}
const opens = (file: string, from = 0): boolean => {
  const loop = execFileSync('losetup', ['-f', '--show', '-o', `${from * MIB}`, file], { encoding: 'utf8' });
  loops.push(loop.trim());
  return spawnSync('cryptsetup', ['isLuks', loop.trim()]).status === 0;
};

test('of a disk that Muster encrypted, the header is destroyed and all that is outside of it', () => {
  const whole = disk('vda', 'S1');
  encrypt(whole);
  const parts = disk('vdb', 'S2', { mib: 96, part: [24, 48] });
  encrypt(parts, { from: 24 });
  for (const [file, at] of [
    [whole, 40],
    [parts, 41],
    [parts, 71],
    [parts, 72],
  ] as const) {
    const fd = fs.openSync(file, 'r+');
    fs.writeSync(fd, PATTERN, at * MIB);
    fs.closeSync(fd);
  }
  expect([opens(whole), opens(parts, 24)]).toEqual([true, true]);
  const { disks, why } = wipe({ level: 'crypto' });
  expect(why).toBeUndefined();
  expect(disks.map(({ method, evidence }) => [method, /^luks=[0-9a-f-]{36}$/.test(evidence!)])).toEqual([
    ['luks-header', true],
    ['luks-header', true],
  ]);
  expect([opens(whole), opens(parts, 24)]).toEqual([false, false]);
  // What was written into the encrypted part stays as it is, and nothing else.
  expect([remains(whole), remains(parts)]).toEqual([
    [24, 40, 47],
    [41, 71],
  ]);
});

test('a disk that nobody can erase fails, and so does one that others encrypted', () => {
  const file = disk('vda', 'S1');
  expect(wipe({ level: 'crypto' }).why).toBe('vda: cannot-erase');
  encrypt(file, { label: 'BACKUP' });
  expect(wipe({ level: 'crypto' }).why).toBe('vda: cannot-erase');
  expect(remains(file).length).toBeGreaterThan(0);
});

/** Tests the disks, as part of a report that is good otherwise; says which faults that has. */
function testDisks(): { readonly lines: string; readonly faults: readonly string[] } {
  const plan = path.join(top, 'order');
  fs.writeFileSync(plan, 'test t1 60\n');
  const script = `${SCRIPTS}
    run=${top} wipe_plan=${plan} wipe_work=${top}/work seconds=60
    mkdir -p ${top}/work
    burn_disks`;
  const lines = execFileSync(path.join(top, 'bin/sh'), ['-c', script], {
    env: { PATH: path.join(top, 'bin'), root: top },
    encoding: 'utf8',
    stdio: ['ignore', 'pipe', 'inherit'],
  });
  const others = 'memory\ttested\t1000\t10\t0\nnetwork\teth0\tfetched\t10\t10\t200\t0\t0\n';
  return { lines, faults: testFaults(readMeasures(`${lines}${others}end\n`)!) };
}

test('disks are read to their end, and one that ends early or that is gone is named', () => {
  disk('vda', 'S1');
  disk('vdb', 'S2', { sector: 4096 });
  const { lines, faults } = testDisks();
  expect(faults).toEqual([]);
  expect(lines).toMatch(
    new RegExp(`^disk\tvda\tread\t${48 * MIB}\t${48 * MIB}\t\\d+\tunread\tnone\tS1\t`, 'm'),
  );
  // It says that it has more than it has.
  fs.writeFileSync(path.join(top, 'sys/block/vda/size'), `${64 * 2048}\n`);
  fs.rmSync(path.join(top, 'dev/vdb'));
  expect(testDisks().faults).toEqual(['vda: read-error after 0 octets', 'vdb: read-error after 0 octets']);
});

test('drives are asked for their health, and their self-tests are waited for', () => {
  disk('sda', 'S1', { mib: 8, at: 'ata1/block/sda' });
  disk('nvme0n1', 'S2', { mib: 8 });
  page('id-ctrl', 4096, { 256: 16 });
  for (const [name, octets] of [
    ['running', { 0: 1, 1: 50, 4: 0x17 }],
    ['passed', { 4: 0x10 }],
    ['failed', { 4: 0x17 }],
  ] as const)
    page(name, 564, octets);
  const once = 'if [ -e asked ]; then rm asked; ';
  const drives = (ata: number, log: string, health = 'result: PASSED') => {
    double(
      'smartctl',
      `cd ${top}
      case $1 in
        --health) echo "SMART overall-health self-assessment test ${health}"; exit ${health.endsWith('PASSED') ? 0 : 8} ;;
        --test=short) touch asked ;;
        --capabilities)
          ${once} status=249; else status=${ata}; fi
          echo "Self-test execution status:      ( $status)	The self-test ..." ;;
      esac`,
    );
    double(
      'nvme',
      `cd ${top}
      case $1 in
        id-ctrl) cat id-ctrl ;;
        device-self-test) touch asked ;;
        self-test-log) ${once} cat running; else cat ${log}; fi ;;
      esac`,
    );
  };
  drives(0, 'passed');
  const good = testDisks();
  expect(good.faults).toEqual([]);
  expect(good.lines.match(/passed\tpassed/g)).toHaveLength(2);
  drives(0x79, 'failed', 'result: FAILED!');
  expect(testDisks().faults).toEqual([
    'nvme0n1: it says of itself that it fails',
    'nvme0n1: self-test failed',
    'sda: it says of itself that it fails',
    'sda: self-test failed',
  ]);
});
