/** What is made of the parts, files and texts of a publisher's image. */
import { describe, expect, it } from 'vitest';
import {
  type Looked,
  type Mount,
  mountWords,
  otherMounts,
  type Part,
  partsOf,
  rootOf,
} from '../../../src/artifacts/import/disk.ts';
import { checkEntries, type Entry, parseEntries } from '../../../src/artifacts/import/entries.ts';
import { imageFacts, warnings } from '../../../src/artifacts/import/judge.ts';
import {
  archOf,
  chooseModules,
  compressionOf,
  equipmentOf,
  kernelConfig,
  kernelOf,
  osRelease,
} from '../../../src/artifacts/import/system.ts';
import type { MusterError } from '../../../src/base/errors.ts';

const entry = (path: string, more: Partial<Entry> = {}): Entry => ({
  type: 'file',
  octets: 1,
  stored: 512,
  inode: path,
  path,
  target: '',
  ...more,
});
const link = (path: string, target: string) => entry(path, { type: 'link', target });
const part = (number: number, more: Partial<Part> = {}): Part => ({
  number,
  start: number * 2 ** 20,
  size: 2 ** 20,
  type: 'ext4',
  ...more,
});
const code = (run: () => unknown): string | undefined => {
  try {
    run();
    return undefined;
  } catch (error) {
    return (error as MusterError).code;
  }
};

describe('entries of an image', () => {
  it('are read with any name that a file may have', () => {
    const listing = 'd 4096 8 1:2 \0\0f 7 8 1:3 a b\nc\0\0l 3 0 1:4 l\0to it\0';
    expect(parseEntries(listing)).toEqual([
      { type: 'file', octets: 7, stored: 4096, inode: '1:3', path: 'a b\nc', target: '' },
      { type: 'link', octets: 3, stored: 0, inode: '1:4', path: 'l', target: 'to it' },
    ]);
  });

  it('are taken as every distribution has them', () => {
    expect(() =>
      checkEntries([
        link('usr/lib/.build-id/aa/bb', '../../../../usr/bin/true'),
        link('etc/mtab', '../proc/self/mounts'),
        link('etc/alternatives/pager', '/bin/less'),
        entry('usr/lib/systemd/system/system-systemd\\x2dcryptsetup.slice'),
        entry('usr/share/ca-certificates/Főtanúsítvány.crt'),
        entry('dev/null', { type: 'device' }),
      ]),
    ).not.toThrow();
  });

  it.each([
    ['a link out of the tree', link('etc/a', '../../x'), 'E_IMPORT_ENTRY'],
    ['a link that goes out and comes back', link('a', '../root/x'), 'E_IMPORT_ENTRY'],
    ['a device outside of /dev', entry('tmp/sda', { type: 'device' }), 'E_IMPORT_ENTRY'],
    ['a name that moves the cursor', entry('a\u001b[2J'), 'E_IMPORT_ENTRY'],
    ['a link to such a name', link('a', 'b\n'), 'E_IMPORT_ENTRY'],
    ['a file of holes', entry('a', { octets: 2 ** 34, stored: 512 }), 'E_IMPORT_SIZE'],
    ['more than fits in memory', entry('a', { octets: 2 ** 36, stored: 2 ** 36 }), 'E_IMPORT_SIZE'],
  ])('are refused: %s', (_, one, expected) => {
    expect(code(() => checkEntries([one]))).toBe(expected);
  });

  it('are counted once for all names of a file', () => {
    const big = { octets: 2 ** 34, stored: 2 ** 34, inode: '1:1' };
    expect(() => checkEntries([entry('a', big), entry('b', big), entry('c', big)])).not.toThrow();
  });
});

describe('the root of a disk', () => {
  const root: Looked = { part: part(1, { uuid: 'AA' }), names: ['etc/os-release', 'usr/lib/os-release'] };
  const boot: Looked = { part: part(2, { uuid: 'bb' }), names: ['vmlinuz-6.1'] };

  it('is the partition that has os-release', () => {
    expect(rootOf([boot, root], [])).toEqual({ part: root.part, path: '/' });
  });

  it('is a subvolume of btrfs, as in Fedora, and nothing else that has a directory etc', () => {
    const fedora: Looked = { part: part(4, { type: 'btrfs' }), names: ['root/usr/lib/os-release'] };
    expect(rootOf([boot, fedora], [])).toMatchObject({ subvolume: 'root' });
    expect(code(() => rootOf([{ ...fedora, part: part(4) }], []))).toBe('E_IMPORT_NO_ROOT');
  });

  it('is asked for when there are two', () => {
    const other = { ...root, part: part(3) };
    expect(code(() => rootOf([root, other], []))).toBe('E_IMPORT_ROOTS');
    expect(rootOf([root, other], [], 3).part.number).toBe(3);
  });

  it.each([
    ['crypto_LUKS', 'E_IMPORT_ENCRYPTED'],
    ['LVM2_member', 'E_IMPORT_NO_ROOT'],
  ])('is not in %s', (type, expected) => {
    expect(code(() => rootOf([boot], [part(1, { type })]))).toBe(expected);
  });

  it('has the other file systems that its fstab names, the outer ones first', () => {
    const mount: Mount = { part: root.part, path: '/' };
    const fstab = `UUID=aa / ext4 defaults 0 1
/dev/disk/by-label/deep /var/lib/x xfs defaults 0 0 # a comment
UUID="BB" /boot ext4 defaults 0 2
LABEL=deep /var btrfs rw,subvol=/@/var 0 0
UUID=cc /boot/efi vfat umask=0077 0 1
UUID=dd /not/here ext4 defaults 0 0
LABEL=deep /../../etc ext4 defaults 0 0
`;
    const deep: Looked = { part: part(3, { label: 'deep' }), names: [] };
    const mounts = otherMounts(fstab, mount, [root, boot, deep]);
    expect(mounts.map(({ path, subvolume }) => [path, subvolume])).toEqual([
      ['/boot', undefined],
      ['/var', '@/var'],
      ['/var/lib/x', undefined],
    ]);
    expect(mountWords([mounts[1]!])).toEqual(['3145728', '1048576', 'ext4', ',subvol=@/var', '/var']);
    expect(otherMounts('', mount, [root, boot])).toEqual([{ part: boot.part, path: '/boot' }]);
  });

  it('is not looked for in a disk that ends before its partitions', () => {
    const json = JSON.stringify({
      partitiontable: { sectorsize: 512, partitions: [{ node: 'disk.raw15', start: 2048, size: 4096 }] },
    });
    expect(partsOf(json, 6144 * 512)).toEqual([{ number: 15, start: 1048576, size: 2097152 }]);
    expect(code(() => partsOf(json, 6143 * 512))).toBe('E_IMPORT_TRUNCATED');
    const cut = JSON.stringify({
      partitiontable: { partitions: [{ node: 'x1', start: 1, size: 9, type: 'ee' }] },
    });
    expect(code(() => partsOf(cut, 5120))).toBe('E_IMPORT_TRUNCATED');
  });
});

describe('the kernel of an image', () => {
  it('is the newest whose modules are there, wherever the family has it', () => {
    const older = ['boot/vmlinuz-6.1.9', 'lib/modules/6.1.9/modules.dep'];
    const newer = ['usr/lib/modules/6.1.10/modules.dep', 'usr/lib/modules/6.1.10/vmlinuz'];
    expect(kernelOf([...older, ...newer].map((path) => entry(path)))).toEqual({
      version: '6.1.10',
      kernel: 'usr/lib/modules/6.1.10/vmlinuz',
      modules: 'usr/lib/modules/6.1.10',
    });
    expect(code(() => kernelOf([entry('boot/vmlinuz-6.1.9')]))).toBe('E_IMPORT_KERNEL');
  });

  it('brings network drivers with what they need, and no others', () => {
    const choice = chooseModules({
      dep: `kernel/drivers/net/virtio_net.ko.xz: kernel/drivers/net/net_failover.ko.xz kernel/net/core/failover.ko.xz
kernel/drivers/net/net_failover.ko.xz: kernel/net/core/failover.ko.xz
kernel/net/core/failover.ko.xz:
kernel/drivers/net/wireless/ath.ko.xz:
kernel/fs/squashfs/squashfs.ko.xz:
kernel/fs/overlayfs/overlay.ko.xz:
kernel/drivers/block/loop.ko.xz:
kernel/fs/xfs/xfs.ko.xz:
`,
      alias: 'alias virtio:d00000001v* virtio_net\nalias fs-xfs xfs\nalias net-pf-17 af-packet\n',
      builtin: 'kernel/net/packet/af_packet.ko\n',
    });
    expect(choice.files).toEqual([
      'kernel/drivers/block/loop.ko.xz',
      'kernel/drivers/net/net_failover.ko.xz',
      'kernel/drivers/net/virtio_net.ko.xz',
      'kernel/fs/overlayfs/overlay.ko.xz',
      'kernel/fs/squashfs/squashfs.ko.xz',
      'kernel/net/core/failover.ko.xz',
    ]);
    expect(choice.dep).toContain(
      'kernel/drivers/net/virtio_net.ko: kernel/drivers/net/net_failover.ko kernel/',
    );
    expect(choice.alias).toBe('alias virtio:d00000001v* virtio_net\n');
  });

  it('is refused without what a root in memory needs', () => {
    expect(code(() => chooseModules({ dep: '', alias: '', builtin: '' }))).toBe('E_IMPORT_KERNEL');
  });

  it('says how its files may be compressed', () => {
    const config = kernelConfig(
      'CONFIG_SQUASHFS_ZSTD=y\n# CONFIG_RD_ZSTD is not set\nCONFIG_SQUASHFS_XZ=y\n',
    );
    expect(compressionOf(config)).toEqual({ root: 'zstd', initrd: 'gzip' });
    expect(compressionOf(undefined)).toEqual({ root: 'gzip', initrd: 'gzip' });
  });

  it('says for which processor it is', () => {
    const head = Buffer.alloc(1024);
    expect(archOf(head)).toBeUndefined();
    head.write('ARM\x64', 0x38, 'latin1');
    expect(archOf(head)).toBe('aarch64');
    head.write('HdrS', 0x202);
    expect(archOf(head)).toBe('x86_64');
  });
});

describe('what an image is', () => {
  const facts = (paths: readonly string[], release: string, selinux?: string) => {
    const equipment = equipmentOf(paths.map((path) => entry(path)));
    return {
      release: osRelease(release),
      arch: 'x86_64' as const,
      kernel: { version: '6.1', kernel: 'boot/vmlinuz-6.1', modules: 'usr/lib/modules/6.1' },
      equipment,
      cloudInitVersion: equipment.cloudInit === undefined ? undefined : '25.1',
      selinux,
      xattrs: true,
    };
  };

  it('is said without a warning for an image that has all', () => {
    const found = facts(
      [
        ...['curl', 'openssl', 'tar'].map((name) => `usr/bin/${name}`),
        ...['sfdisk', 'mkfs.ext4', 'netplan'].map((name) => `usr/sbin/${name}`),
        'usr/lib/systemd/systemd',
        'usr/lib/python3/dist-packages/cloudinit/version.py',
      ],
      'ID=debian\nVERSION_ID="13"\n',
    );
    expect(warnings(found)).toEqual([]);
    expect(imageFacts(found, undefined)).toMatchObject({
      name: 'debian-13',
      os: 'debian',
      configFormat: 'cloud-init',
      programs: ['curl'],
    });
  });

  it('has a warning for each thing that will not work', () => {
    const found = facts(['usr/sbin/NetworkManager'], 'ID="rocky"\nVERSION_ID="9.4"\n', 'enforcing');
    expect(found.equipment.network).toBe('NetworkManager');
    const text = warnings(found).join('\n');
    for (const word of ['systemd', 'cloud-init', 'SELinux', 'the agent needs curl, openssl'])
      expect(text).toContain(word);
    expect(imageFacts(found, undefined)).toMatchObject({ name: 'rocky-9-4', configFormat: 'none' });
    expect(imageFacts(found, 'mine').kernelArguments).toContain('enforcing=0');
  });
});
