/** Attacks by the service's user on root, which builds images. Need root. */
import { execFileSync, spawnSync } from 'node:child_process';
import fs from 'node:fs';
import os from 'node:os';
import path from 'node:path';
import { afterEach, beforeEach, expect, test } from 'vitest';

const COMMON = path.join(import.meta.dirname, '../../images/common.sh');
/** The service's user, as far as these tests are concerned. */
const NOBODY = 65534;

let directory: string;
beforeEach(() => {
  directory = fs.mkdtempSync(path.join(os.tmpdir(), 'muster-images-'));
});
afterEach(() => fs.rmSync(directory, { recursive: true }));

/** Begins to build an image in this directory, as root and its build scripts do. */
const build = (image: string) =>
  spawnSync('sh', ['-c', '. "$1"; only_builder "$2" ""; echo begun', 'build.sh', COMMON, image], {
    encoding: 'utf8',
  });

test('root that builds images empties no file to which the service’s user has put a link', () => {
  const victim = path.join(directory, 'victim');
  fs.writeFileSync(victim, 'precious');
  const cache = path.join(directory, 'cache');
  fs.mkdirSync(path.join(cache, 'images'), { recursive: true });
  fs.chownSync(cache, NOBODY, NOBODY);
  // The directory that root made is moved away by whoever has the one above it.
  const move = 'mv images old && mkdir images && ln -s ../../victim images/debian.lock';
  execFileSync('sh', ['-c', move], { cwd: cache, uid: NOBODY, gid: NOBODY });

  const { status, stdout, stderr } = build(path.join(cache, 'images/debian'));
  expect([status, stdout]).toEqual([1, '']);
  expect(stderr).toContain('it belongs to another user; name another --cache');
  expect(fs.readFileSync(victim, 'utf8')).toBe('precious');
});

test('a link in the place of a lock is refused in a directory of root, too', () => {
  const victim = path.join(directory, 'victim');
  fs.writeFileSync(victim, 'precious');
  fs.symlinkSync(victim, path.join(directory, 'debian.lock'));
  const { status, stderr } = build(path.join(directory, 'debian'));
  expect(status).toBe(1);
  expect(stderr).toContain('debian.lock is a link; remove it');
  expect(fs.readFileSync(victim, 'utf8')).toBe('precious');
});

test.each([
  ['to which others may write', 0o777],
  ['to which others may write, although they may not move files there', 0o1777],
])('no image is built in a directory %s', (_, mode) => {
  fs.chmodSync(directory, mode);
  expect(build(path.join(directory, 'debian')).stderr).toContain('others may write to it');
});

test('an image is built in a directory of the user’s own, also below one that all may write to', () => {
  const { status, stdout } = build(path.join(directory, 'images/debian'));
  expect([status, stdout]).toEqual([0, 'begun\n']);
});
