/**
 * Checks Muster's Ignition configurations with the real `ignition-validate`, and compares the
 * verdicts of Muster's own validator.
 */
import { spawnSync } from 'node:child_process';
import fs from 'node:fs';
import path from 'node:path';
import fc from 'fast-check';
import { describe, expect, test } from 'vitest';
import { validateIgnition } from '../../src/ignition/ignition-validate.ts';
import { anyConfig } from '../unit/ignition/arbitrary.ts';
import { FEDORA, FLATCAR, rendered } from '../unit/ignition/kit.ts';

const GOLDEN = path.join(import.meta.dirname, '../golden/config');

/**
 * Returns the output of ignition-validate, with warnings; empty when the configuration is valid.
 */
function verdict(config: string): string {
  const { status, stdout, stderr } = spawnSync('ignition-validate', ['-'], {
    input: config,
    encoding: 'utf8',
  });
  const said = (stdout + stderr).trim();
  if (status !== 0 && said === '') throw new Error(`ignition-validate ended with ${status} and no word`);
  return said;
}

/**
 * Debian's validator supports spec 3.3.0; Muster's output for newer specs differs only in the
 * number.
 */
const judged = (config: string) => verdict(config.replace(/"version": ?"3\.[456]\.0"/, '"version":"3.3.0"'));

const golden = fs
  .readdirSync(GOLDEN, { recursive: true, encoding: 'utf8' })
  .filter((name) => name.endsWith('.ignition'));

test.each(golden)('ignition-validate accepts %s without a message', (name) => {
  expect(judged(fs.readFileSync(path.join(GOLDEN, name), 'utf8'))).toBe('');
});

test.each([
  ['Flatcar', FLATCAR],
  ['Fedora CoreOS', FEDORA],
] as const)('any configuration for %s is taken, with and without the reporting units', (_, image) => {
  fc.assert(
    fc.property(anyConfig, fc.boolean(), (any, reports) => {
      // Special mode bits need spec 3.4.0, which Debian's validator does not support.
      const config = JSON.parse(JSON.stringify(any).replaceAll('4755', '0755'));
      const text = rendered(config, { ...image, reports }).files.ignition!;
      expect(judged(text)).toBe('');
      expect(validateIgnition(JSON.parse(text))).toEqual([]);
    }),
    { numRuns: 100, seed: 20261120 },
  );
});

/** Configurations with one fault each: its name, the faulty part, and the place Muster reports. */
const FAULTS: readonly (readonly [string, object, string])[] = [
  ['no version', { ignition: {} }, 'ignition.version'],
  ['a version that does not exist', { ignition: { version: '9.9.9' } }, 'ignition.version'],
  ['a relative path', { storage: { files: [{ path: 'etc/a' }] } }, 'storage.files[0].path'],
  ['the same path twice', { storage: { files: [{ path: '/a' }, { path: '/a' }] } }, 'storage.files[1].path'],
  [
    'a file that is also a link',
    { storage: { files: [{ path: '/a' }], links: [{ path: '/a', target: '/b' }] } },
    'storage.links[0].path',
  ],
  [
    'a file below a link',
    { storage: { files: [{ path: '/a/b' }], links: [{ path: '/a', target: '/c' }] } },
    'storage.files[0].path',
  ],
  ['a mode too large', { storage: { files: [{ path: '/a', mode: 10000 }] } }, 'storage.files[0].mode'],
  ['a mode as text', { storage: { files: [{ path: '/a', mode: '0644' }] } }, 'storage.files[0].mode'],
  [
    'a URL of an unknown scheme',
    { storage: { files: [{ path: '/a', contents: { source: 'gopher://x' } }] } },
    'storage.files[0].contents.source',
  ],
  [
    'a hash of the wrong length',
    {
      storage: {
        files: [{ path: '/a', contents: { source: 'data:,', verification: { hash: 'sha256-ab' } } }],
      },
    },
    'storage.files[0].contents.verification.hash',
  ],
  [
    'an unknown compression',
    { storage: { files: [{ path: '/a', contents: { source: 'data:,', compression: 'xz' } }] } },
    'storage.files[0].contents.compression',
  ],
  [
    'overwrite without contents',
    { storage: { files: [{ path: '/a', overwrite: true }] } },
    'storage.files[0].contents.source',
  ],
  [
    'a user by name and number',
    { storage: { files: [{ path: '/a', user: { id: 1, name: 'x' } }] } },
    'storage.files[0].user',
  ],
  ['a link without target', { storage: { links: [{ path: '/a' }] } }, 'storage.links[0].target'],
  ['a disk without device', { storage: { disks: [{ partitions: [] }] } }, 'storage.disks[0].device'],
  [
    'the same disk twice',
    { storage: { disks: [{ device: '/dev/a' }, { device: '/dev/a' }] } },
    'storage.disks[1].device',
  ],
  [
    'the same partition number twice',
    {
      storage: {
        disks: [
          {
            device: '/dev/a',
            partitions: [
              { number: 1, sizeMiB: 1, startMiB: 1 },
              { number: 1, sizeMiB: 1, startMiB: 5 },
            ],
          },
        ],
      },
    },
    'storage.disks[0].partitions[1].number',
  ],
  [
    'the same label twice',
    {
      storage: {
        disks: [
          {
            device: '/dev/a',
            partitions: [
              { number: 1, label: 'x' },
              { number: 2, label: 'x' },
            ],
          },
        ],
      },
    },
    'storage.disks[0].partitions[1].label',
  ],
  [
    'a label with a colon',
    { storage: { disks: [{ device: '/dev/a', partitions: [{ number: 1, label: 'a:b' }] }] } },
    'storage.disks[0].partitions[0].label',
  ],
  [
    'a GUID that is none',
    { storage: { disks: [{ device: '/dev/a', partitions: [{ number: 1, typeGuid: 'x' }] }] } },
    'storage.disks[0].partitions[0].typeGuid',
  ],
  [
    'a file system that it cannot make',
    { storage: { filesystems: [{ device: '/dev/a', format: 'zfs' }] } },
    'storage.filesystems[0].format',
  ],
  [
    'a path without a format',
    { storage: { filesystems: [{ device: '/dev/a', path: '/x' }] } },
    'storage.filesystems[0].format',
  ],
  ['a unit without ending', { systemd: { units: [{ name: 'a' }] } }, 'systemd.units[0].name'],
  [
    'the same unit twice',
    { systemd: { units: [{ name: 'a.service' }, { name: 'a.service' }] } },
    'systemd.units[1].name',
  ],
  [
    'a unit that is no unit',
    { systemd: { units: [{ name: 'a.service', contents: '[Foo' }] } },
    'systemd.units[0].contents',
  ],
  [
    'a drop-in without ending',
    { systemd: { units: [{ name: 'a.service', dropins: [{ name: 'x' }] }] } },
    'systemd.units[0].dropins[0].name',
  ],
  ['the same user twice', { passwd: { users: [{ name: 'a' }, { name: 'a' }] } }, 'passwd.users[1].name'],
  [
    'the same key twice',
    { passwd: { users: [{ name: 'a', sshAuthorizedKeys: ['k', 'k'] }] } },
    'passwd.users[0].sshAuthorizedKeys',
  ],
  ['text for a list', { passwd: { users: 'x' } }, 'passwd.users'],
  [
    'a set-user-id bit before 3.4.0',
    { storage: { files: [{ path: '/a', mode: 0o4755, contents: { source: 'data:,' } }] } },
    'storage.files[0].mode',
  ],
  [
    'a unit that enabling does not start',
    { systemd: { units: [{ name: 'a.service', enabled: true, contents: '[Service]\n' }] } },
    'systemd.units[0].contents',
  ],
  ['an unknown key', { storage: { filez: [] } }, 'storage.filez'],
];

describe('our validator and the real one', () => {
  test.each(FAULTS)('both validators refuse %s, and Muster’s names the place', (_, part, place) => {
    const config = { ignition: { version: '3.3.0' }, ...part };
    expect(verdict(JSON.stringify(config))).not.toBe('');
    expect(validateIgnition(config).map((fault) => fault.path)).toContain(place);
  });

  test('both validators accept Ignition settings that Muster never writes', () => {
    const config = {
      ignition: {
        version: '3.3.0',
        timeouts: { httpTotal: 30 },
        proxy: { httpProxy: 'http://p:3128', noProxy: ['lab'] },
        security: {
          tls: {
            certificateAuthorities: [
              { source: 'https://h/ca.pem', verification: { hash: `sha512-${'0'.repeat(128)}` } },
            ],
          },
        },
        config: { merge: [{ source: 's3://bucket/key', httpHeaders: null }], replace: { source: null } },
      },
      kernelArguments: { shouldExist: ['a'], shouldNotExist: ['b'] },
      passwd: {
        groups: [{ name: 'g', gid: 7, system: true }],
        users: [{ name: 'u', primaryGroup: 'g', noCreateHome: true }],
      },
      storage: {
        directories: [{ path: '/d', mode: 493, user: { id: 7 } }],
        files: [{ path: '/f', append: [{ source: 'data:text/plain;base64,YQ==' }] }],
        links: [{ path: '/l', target: '/f', hard: true }],
        raid: [{ name: 'md0', level: 'raid1', devices: ['/dev/a', '/dev/b'] }],
        luks: [{ name: 'c', device: '/dev/c', clevis: { tpm2: true, threshold: 1 } }],
        filesystems: [
          { device: '/dev/md0', format: 'xfs', path: '/x', wipeFilesystem: true, mountOptions: ['noatime'] },
        ],
      },
    };
    expect(verdict(JSON.stringify(config))).toBe('');
    expect(validateIgnition(config)).toEqual([]);
  });
});
