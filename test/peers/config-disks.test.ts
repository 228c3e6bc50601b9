/**
 * The script by which cloud-init makes and mounts file systems, on loop devices. Root, inside
 * scripts/in-namespace.sh.
 */
import { execFileSync, spawnSync } from 'node:child_process';
import fs from 'node:fs';
import os from 'node:os';
import path from 'node:path';
import { afterEach, beforeEach, expect, test } from 'vitest';
import { diskScript } from '../../src/ignition/cloudinit-scripts.ts';
import type { NodeFilesystem } from '../../src/resources/nodeconfig.ts';
import { attachLoop, MIB } from './agent-disks.ts';

let directory: string;
let device: string;

beforeEach(() => {
  directory = fs.mkdtempSync(path.join(os.tmpdir(), 'muster-disks-'));
  fs.mkdirSync(path.join(directory, 'bin'));
  // Devices of a test have no udev.
  fs.writeFileSync(path.join(directory, 'bin/udevadm'), '#!/bin/sh\n', { mode: 0o755 });
  const file = path.join(directory, 'disk');
  fs.writeFileSync(file, '');
  fs.truncateSync(file, 64 * MIB);
  device = attachLoop(file);
});

afterEach(() => {
  spawnSync('umount', [at()]);
  execFileSync('losetup', ['--detach', device]);
  fs.rmSync(directory, { recursive: true, force: true });
});

const at = (): string => path.join(directory, 'mount');

/** Runs the script for one file system; returns what it complains of. */
function run(one: Omit<NodeFilesystem, 'device'>): string {
  const script = diskScript([], [{ device, ...one }]).replaceAll('/run/muster-failed', `${directory}/failed`);
  const { status, stderr } = spawnSync('sh', ['-c', script], {
    env: { PATH: `${directory}/bin:${process.env.PATH}` },
    encoding: 'utf8',
  });
  if (status !== 0) expect(fs.readFileSync(`${directory}/failed`, 'utf8')).toMatch(/^disks: /);
  return status === 0 ? '' : stderr;
}

const typeOf = (): string =>
  spawnSync('blkid', ['-p', '-o', 'value', '-s', 'TYPE', device], { encoding: 'utf8' }).stdout.trim();

test('a whole disk gets its file system once, and keeps what is on it', () => {
  const data = { format: 'ext4', mount: at(), options: ['noatime'] } satisfies Omit<NodeFilesystem, 'device'>;
  expect(run(data)).toBe('');
  expect(typeOf()).toBe('ext4');
  expect(execFileSync('findmnt', ['-nro', 'OPTIONS', at()], { encoding: 'utf8' })).toContain('noatime');
  fs.writeFileSync(path.join(at(), 'kept'), 'data');
  execFileSync('umount', [at()]);
  expect(run(data)).toBe('');
  expect(fs.readFileSync(path.join(at(), 'kept'), 'utf8')).toBe('data');
  // The next run of the same boot changes nothing.
  expect(run(data)).toBe('');
});

test('a disk with another file system or with partitions is not written to, and the boot says why', () => {
  execFileSync('mkswap', [device], { stdio: 'ignore' });
  expect(run({ format: 'ext4', mount: at() })).toContain('holds swap, not ext4; it is kept');
  expect(typeOf()).toBe('swap');
  execFileSync('wipefs', ['--all', '--quiet', device]);
  execFileSync('sfdisk', ['--quiet', '--no-reread', device], {
    input: 'label: gpt\n,\n',
    stdio: ['pipe', 'ignore', 'ignore'],
  });
  expect(run({ format: 'ext4', mount: at() })).toContain('has a partition table');
});

test('without a format a file system has to be there, of any type', () => {
  expect(run({ mount: at() })).toContain('has no file system; name a format to make one');
  expect(typeOf()).toBe('');
  execFileSync('mkfs.ext4', ['-q', device]);
  expect(run({ mount: at() })).toBe('');
  expect(execFileSync('findmnt', ['-nro', 'SOURCE', at()], { encoding: 'utf8' }).trim()).toBe(device);
});
