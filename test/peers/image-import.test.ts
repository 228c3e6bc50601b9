/**
 * `muster image import` on disk images that mkfs, sfdisk and qemu-img make: what it keeps, and what
 * it refuses. The scenario `imported` boots what it makes.
 */
import { execFileSync } from 'node:child_process';
import { createHash } from 'node:crypto';
import fs from 'node:fs';
import { tmpdir } from 'node:os';
import path from 'node:path';
import { afterAll, beforeAll, describe, expect, it } from 'vitest';
import type { MusterError } from '../../src/base/errors.ts';
import { importImage, inScratch } from '../../src/cli/image/import.files.ts';

const HOME = fs.mkdtempSync(path.join(tmpdir(), 'muster-import-test-'));
const env = { ...process.env, PATH: `${process.env.PATH}:/usr/sbin:/sbin` };
const tool = (...[name, ...words]: string[]) =>
  execFileSync(name!, words, { env, encoding: 'utf8', stdio: 'pipe' });
const at = (name: string) => path.join(HOME, name);
const MIB = 2 ** 20;

afterAll(() => fs.rmSync(HOME, { recursive: true, force: true }));

function write(root: string, name: string, content: string | Buffer, mode = 0o644): string {
  const file = path.join(root, name);
  fs.mkdirSync(path.dirname(file), { recursive: true });
  fs.writeFileSync(file, content);
  fs.chmodSync(file, mode);
  return file;
}

const V = '6.1.0-test';
/** A root file system with the names that a system has; its kernel is only a head of one. */
function makeRoot(name: string): string {
  const root = at(name);
  write(root, 'usr/lib/os-release', 'ID=debian\nVERSION_ID="13"\nPRETTY_NAME="Debian 13"\n');
  fs.mkdirSync(path.join(root, 'etc'));
  fs.symlinkSync('../usr/lib/os-release', path.join(root, 'etc/os-release'));
  const kernel = Buffer.alloc(4096);
  kernel.write('HdrS', 0x202);
  write(root, `boot/vmlinuz-${V}`, kernel);
  write(root, `boot/config-${V}`, 'CONFIG_SQUASHFS_ZSTD=y\nCONFIG_SQUASHFS_XATTR=y\nCONFIG_RD_ZSTD=y\n');
  const modules = `usr/lib/modules/${V}`;
  write(
    root,
    `${modules}/modules.dep`,
    'kernel/drivers/net/dummy.ko.xz:\nkernel/fs/squashfs/squashfs.ko.xz:\n',
  );
  write(root, `${modules}/modules.alias`, 'alias rtnl-link-dummy dummy\n');
  write(root, `${modules}/modules.builtin`, 'kernel/overlay.ko\nkernel/loop.ko\nkernel/af_packet.ko\n');
  for (const module of ['kernel/drivers/net/dummy.ko', 'kernel/fs/squashfs/squashfs.ko'])
    tool('xz', write(root, `${modules}/${module}`, `the octets of ${module}`));
  write(root, 'usr/lib/python3/dist-packages/cloudinit/version.py', '__VERSION__ = "25.1.4"\n');
  return root;
}

/** A file system of a directory, as a whole file. */
function fileSystem(root: string, name: string, sizeMiB = 16): string {
  const file = at(name);
  fs.writeFileSync(file, '');
  fs.truncateSync(file, sizeMiB * MIB);
  // Fixed ids, so that only the contents make two images different.
  tool('mke2fs', '-q', '-F', '-t', 'ext4', '-d', root, file);
  return file;
}

/** A disk with a GPT and these files in its partitions. */
function disk(name: string, ...parts: readonly string[]): string {
  const file = at(name);
  fs.writeFileSync(file, '');
  let end = 1;
  const lines = parts.map((part) => {
    const size = Math.ceil(fs.statSync(part).size / MIB);
    const line = `start=${end}MiB, size=${size}MiB`;
    end += size;
    return line;
  });
  fs.truncateSync(file, (end + 1) * MIB);
  execFileSync('sfdisk', ['-q', file], { env, input: `label: gpt\n${lines.join('\n')}\n` });
  let seek = 1;
  for (const part of parts) {
    tool('dd', `if=${part}`, `of=${file}`, 'bs=1M', `seek=${seek}`, 'conv=notrunc,sparse', 'status=none');
    seek += Math.ceil(fs.statSync(part).size / MIB);
  }
  return file;
}

interface Result {
  readonly hashes: readonly string[];
  readonly image: Readonly<Record<string, unknown>>;
}
const HASHED = ['kernel', 'initrd', 'root.squashfs'];

/** Imports, and lets `look` see the files that were made. */
async function imported(file: string, look?: (work: string) => void): Promise<Result> {
  return inScratch(async (work) => {
    await importImage({
      file,
      work,
      name: undefined,
      root: undefined,
      signal: new AbortController().signal,
      say: () => undefined,
    });
    look?.(work);
    const sha256 = (name: string) =>
      createHash('sha256')
        .update(fs.readFileSync(path.join(work, name)))
        .digest('hex');
    return {
      hashes: HASHED.map(sha256),
      image: JSON.parse(fs.readFileSync(path.join(work, 'image.json'), 'utf8')),
    };
  });
}
const refusal = (file: string): Promise<string> =>
  imported(file).then(
    () => 'taken',
    ({ code, message }: MusterError) => `${code}: ${message}`,
  );

/** The initrd has the image's own modules, and what an import changes at boot. */
function checkInitrd(initrd: string): void {
  const cwd = at('initrd');
  fs.mkdirSync(cwd);
  execFileSync('sh', ['-c', 'zstd -q -dc "$1" | cpio -id --quiet', 'sh', initrd], { cwd });
  const read = (name: string) => fs.readFileSync(path.join(cwd, name), 'utf8');
  const module = 'kernel/drivers/net/dummy.ko';
  expect(read(`lib/modules/${V}/${module}`)).toBe(`the octets of ${module}`);
  expect(read(`lib/modules/${V}/modules.dep`)).toBe(`${module}:\nkernel/fs/squashfs/squashfs.ko:\n`);
  expect(read('files/etc/fstab')).not.toMatch(/^[^#]/m);
  expect(read('scripts/muster')).toContain('mountroot()');
}

let kept: readonly string[];
let root: string;
let whole: string;
beforeAll(() => {
  root = makeRoot('root');
  const tool = write(root, 'usr/bin/tool', 'a program', 0o4755);
  fs.chownSync(tool, 1234, 5678);
  fs.chmodSync(tool, 0o4755);
  fs.linkSync(tool, path.join(root, 'usr/bin/same'));
  // cap_net_raw+ep, and a label.
  const attributes = `import os, sys
os.setxattr(sys.argv[1], 'security.capability', bytes.fromhex('0100000200200000000000000000000000000000'))
os.setxattr(sys.argv[1], 'security.selinux', b'system_u:object_r:bin_t:s0\\0')
`;
  execFileSync('python3', ['-c', attributes, tool]);
  write(root, 'etc/shadow', 'root:*:1::::::\n', 0o600);
  whole = fileSystem(root, 'root.ext4');
});

describe('an imported disk image', () => {
  it('keeps owners, modes, capabilities, labels and hard links, and gets an initrd of its own modules', async () => {
    const { hashes, image } = await imported(disk('kept.raw', whole), (work) => {
      const tree = at('kept');
      tool('unsquashfs', '-q', '-n', '-d', tree, path.join(work, 'root.squashfs'));
      const file = path.join(tree, 'usr/bin/tool');
      const { uid, gid, mode, nlink, ino } = fs.statSync(file);
      expect({ uid, gid, mode: mode & 0o7777, nlink }).toEqual({
        uid: 1234,
        gid: 5678,
        mode: 0o4755,
        nlink: 2,
      });
      expect(fs.statSync(path.join(tree, 'usr/bin/same')).ino).toBe(ino);
      const read =
        'import os, sys; [print(n, os.getxattr(sys.argv[1], n).hex()) for n in sorted(os.listxattr(sys.argv[1]))]';
      expect(execFileSync('python3', ['-c', read, file], { encoding: 'utf8' })).toBe(
        `security.capability 0100000200200000000000000000000000000000\nsecurity.selinux ${Buffer.from('system_u:object_r:bin_t:s0\0').toString('hex')}\n`,
      );
      expect(fs.readFileSync(path.join(tree, 'etc/shadow'), 'utf8')).toBe('root:*:1::::::\n');
      expect(fs.statSync(path.join(tree, 'etc/shadow')).mode & 0o777).toBe(0o600);
      checkInitrd(path.join(work, 'initrd'));
    });
    kept = hashes;
    expect(image).toMatchObject({
      name: 'debian-13',
      os: 'debian',
      version: '13',
      arch: 'x86_64',
      configFormat: 'cloud-init',
      cloudInitVersion: '25.1.4',
      kernelVersion: V,
      reports: false,
    });
  });

  it('gives the same octets each time, also as qcow2', async () => {
    const qcow2 = at('same.qcow2');
    tool('qemu-img', 'convert', '-c', '-O', 'qcow2', at('kept.raw'), qcow2);
    expect((await imported(qcow2)).hashes).toEqual(kept);
  });

  it('may have its kernel in another partition, which fstab or its contents name', async () => {
    const apart = at('apart');
    fs.cpSync(root, apart, { recursive: true, verbatimSymlinks: true });
    fs.rmSync(path.join(apart, 'boot'), { recursive: true });
    fs.mkdirSync(path.join(apart, 'boot'));
    const boot = fileSystem(path.join(root, 'boot'), 'boot.ext4', 8);
    const { image } = await imported(disk('apart.raw', boot, fileSystem(apart, 'apart.ext4')));
    expect(image.kernelVersion).toBe(V);
  });
});

describe('a root file system', () => {
  const mountedAt = (file: string, options: string, fill: (mount: string) => void) => {
    const mount = at('mount');
    fs.mkdirSync(mount, { recursive: true });
    tool('mount', '-o', `loop${options}`, file, mount);
    try {
      fill(mount);
    } finally {
      tool('umount', mount);
    }
  };
  const copy = (to: string) =>
    tool(
      'sh',
      '-c',
      'tar -c --xattrs --xattrs-include="*" -C "$1" . | tar -x --xattrs --xattrs-include="*" -C "$2"',
      'sh',
      root,
      to,
    );
  const empty = (name: string, sizeMiB: number) => {
    const file = at(name);
    fs.writeFileSync(file, '');
    fs.truncateSync(file, sizeMiB * MIB);
    return file;
  };
  const hasTool = (work: string) =>
    expect(tool('unsquashfs', '-ll', path.join(work, 'root.squashfs'))).toMatch(
      /^-rwsr-xr-x 1234\/5678 .*usr\/bin\/tool$/m,
    );

  it('may be xfs', async () => {
    const file = empty('root.xfs', 320);
    tool('mkfs.xfs', '-q', file);
    mountedAt(file, ',nouuid', copy);
    await imported(disk('xfs.raw', file), hasTool);
  });

  it('may be a subvolume of btrfs, as in Fedora, with others that its fstab names', async () => {
    const file = empty('root.btrfs', 128);
    tool('mkfs.btrfs', '-q', '-L', 'fedora', file);
    mountedAt(file, '', (mount) => {
      for (const name of ['root', 'var']) tool('btrfs', 'subvolume', 'create', path.join(mount, name));
      copy(path.join(mount, 'root'));
      fs.mkdirSync(path.join(mount, 'root/var'));
      fs.writeFileSync(path.join(mount, 'root/etc/fstab'), 'LABEL=fedora /var btrfs subvol=var 0 0\n');
      fs.writeFileSync(path.join(mount, 'var/inside'), 'of the subvolume');
    });
    await imported(disk('btrfs.raw', file), (work) => {
      hasTool(work);
      expect(tool('unsquashfs', '-cat', path.join(work, 'root.squashfs'), 'var/inside')).toBe(
        'of the subvolume',
      );
    });
  });

  it('may be a tarball, which gives the same octets each time', async () => {
    const tar = at('root.tar.xz');
    tool('tar', '-c', '-J', '--xattrs', '--xattrs-include=*', '-f', tar, '-C', root, '.');
    const { hashes } = await imported(tar, hasTool);
    expect((await imported(tar)).hashes).toEqual(hashes);
  });
});

describe('an image is refused that', () => {
  it('is a tarball that is cut off, or has names outside of its tree', async () => {
    const tar = at('cut.tar.gz');
    tool('tar', '-c', '-z', '-f', tar, '-C', root, '.');
    fs.truncateSync(tar, Math.floor(fs.statSync(tar).size / 2));
    expect(await refusal(tar)).toMatch(/^E_IMPORT_TRUNCATED: /);
    tool('tar', '-c', '-P', '-f', at('out.tar'), '-C', root, '--transform', 's,^boot,../boot,', 'boot');
    expect(await refusal(at('out.tar'))).toMatch(/^E_IMPORT_ENTRY: \.\.\/boot/);
  });

  it('is not complete', async () => {
    const raw = disk('cut.raw', whole);
    const qcow2 = at('cut.qcow2');
    tool('qemu-img', 'convert', '-O', 'qcow2', raw, qcow2);
    fs.truncateSync(qcow2, Math.floor(fs.statSync(qcow2).size / 2));
    fs.truncateSync(raw, 9 * MIB);
    expect(await refusal(raw)).toMatch(/^E_IMPORT_TRUNCATED: its partition table/);
    expect(await refusal(qcow2)).toMatch(/^E_IMPORT_TRUNCATED: /);
  });

  it('names a file of this host as its rest', async () => {
    const raw = disk('base.raw', whole);
    const qcow2 = at('backed.qcow2');
    tool('qemu-img', 'create', '-q', '-f', 'qcow2', '-b', raw, '-F', 'raw', qcow2);
    expect(await refusal(qcow2)).toMatch(/^E_IMPORT_FORMAT: .*names another file/);
  });

  it('has no root file system, or two', async () => {
    const empty = at('empty');
    fs.mkdirSync(empty);
    expect(await refusal(fileSystem(empty, 'empty.ext4', 8))).toMatch(/^E_IMPORT_NO_ROOT: /);
    const two = disk('two.raw', whole, whole);
    expect(await refusal(two)).toMatch(/^E_IMPORT_ROOTS: there are 2 .*partition 1, partition 2/);
  });

  it('is encrypted', async () => {
    const file = at('luks');
    fs.writeFileSync(file, '');
    fs.truncateSync(file, 32 * MIB);
    const words = ['luksFormat', '-q', '--pbkdf', 'pbkdf2', '--pbkdf-force-iterations', '1000', file, '-'];
    execFileSync('cryptsetup', words, { env, input: 'passphrase' });
    expect(await refusal(disk('luks.raw', file))).toMatch(
      /^E_IMPORT_ENCRYPTED: partition 1 is encrypted \(LUKS\)/,
    );
  });

  it.each<[string, (root: string) => void, RegExp]>([
    [
      'link',
      (tree) => fs.symlinkSync('../../../etc/passwd', path.join(tree, 'boot/out')),
      /^E_IMPORT_ENTRY: \/boot\/out/,
    ],
    [
      'device',
      (tree) => tool('mknod', path.join(tree, 'disk'), 'b', '8', '0'),
      /^E_IMPORT_ENTRY: \/disk is a device/,
    ],
    [
      'escape',
      (tree) => write(tree, 'a\u001b[2J', ''),
      /^E_IMPORT_ENTRY: \/a\\u001b\[2J is a name with control/,
    ],
    ['holes', (tree) => fs.truncateSync(write(tree, 'big', ''), 2 ** 35), /^E_IMPORT_SIZE: \/big has/],
    [
      'container',
      (tree) => fs.rmSync(path.join(tree, 'usr/lib/modules'), { recursive: true }),
      /^E_IMPORT_KERNEL: /,
    ],
    [
      // A kernel that is a link to a file of this host must not come into the image.
      'kernel',
      (tree) => {
        fs.rmSync(path.join(tree, `boot/vmlinuz-${V}`));
        fs.symlinkSync('/etc/hostname', path.join(tree, `boot/vmlinuz-${V}`));
      },
      /^E_IMPORT_KERNEL: .*not that kernel/,
    ],
  ])('has a %s that no system needs', async (name, spoil, expected) => {
    const tree = makeRoot(`bad-${name}`);
    spoil(tree);
    expect(await refusal(fileSystem(tree, `${name}.ext4`))).toMatch(expected);
  });

  it('is no image at all', async () => {
    expect(await refusal(write(HOME, 'text', 'no image'))).toMatch(/^E_IMPORT_NO_ROOT: /);
  });
});
