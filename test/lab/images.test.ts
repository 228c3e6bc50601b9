/**
 * Builds the images that the rack boots: the same recipe gives the same octets, and they contain
 * nothing of the building machine.
 */
import { execFileSync } from 'node:child_process';
import { mkdtempSync, readFileSync, rmSync } from 'node:fs';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { expect, test } from 'vitest';
import { buildImage } from '../../src/lab/images.files.ts';

const LIMIT_MS = 1_500_000;
const say = (line: string) => process.stderr.write(`${line}\n`);

test('the probe system has the same octets when it is built again with another umask', {
  timeout: LIMIT_MS,
}, async () => {
  const first = await buildImage('probe', { project: process.cwd(), say });
  const cache = mkdtempSync(join(tmpdir(), 'muster-images-'));
  const umask = process.umask(0o077);
  try {
    const again = await buildImage('probe', { project: process.cwd(), cache, say });
    for (const file of ['kernel', 'initrd', 'image.json'])
      expect(
        readFileSync(join(again.directory, file)).equals(readFileSync(join(first.directory, file))),
      ).toBe(true);
  } finally {
    process.umask(umask);
    rmSync(cache, { recursive: true });
  }
});

test.for([
  ['debian-13', '/usr/bin/cloud-init'],
  ['debian-13-ignition', '/usr/lib/dracut/modules.d/30ignition/ignition'],
] as const)(
  '%s has no identity, keys, names, logs or times of its own, and only root writes to its root',
  {
    timeout: LIMIT_MS,
  },
  async ([name, applies]) => {
    const { directory } = await buildImage(name, { project: process.cwd(), say });
    const image = JSON.parse(readFileSync(join(directory, 'image.json'), 'utf8')) as {
      sourceDateEpoch: number;
    };
    const list = execFileSync('unsquashfs', ['-lln', '-UTC', '-d', '', join(directory, 'root.squashfs')], {
      encoding: 'utf8',
      maxBuffer: 1 << 26,
    });
    // -rw-r--r-- 0/0   123 2026-11-20 10:00 /etc/issue
    const entries = list.split('\n').flatMap((line) => {
      const found = /^(\S+) \S+ +(\S+) (\d{4}-\d{2}-\d{2} \d{2}:\d{2}) ([^ ]*)/.exec(line);
      return found ? [{ mode: found[1]!, size: found[2], at: found[3]!, path: found[4]! }] : [];
    });
    expect(entries[0]).toMatchObject({ path: '', mode: 'drwxr-xr-x' });
    const paths = entries.map(({ path }) => path);
    expect(paths).toContain(applies);
    expect(entries.find(({ path }) => path === '/etc/machine-id')?.size).toBe('0');
    const own =
      /^(\/etc\/ssh\/ssh_host_|\/etc\/hostname$|\/var\/lib\/dbus\/machine-id$|\/var\/lib\/systemd\/random-seed$|\/var\/lib\/cloud\/)/;
    expect(paths.filter((path) => own.test(path))).toEqual([]);
    const logs = entries.filter(
      ({ path, mode, size }) => path.startsWith('/var/log/') && mode.startsWith('-') && size !== '0',
    );
    expect(logs).toEqual([]);
    const latest = new Date(image.sourceDateEpoch * 1000).toISOString().slice(0, 16).replace('T', ' ');
    expect(entries.filter(({ at }) => at > latest)).toEqual([]);
  },
);
