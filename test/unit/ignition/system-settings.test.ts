/** Settings of the kernel, packages, and accounts, in cloud-init as well as in Ignition. */
import { load } from 'js-yaml';
import { describe, expect, test } from 'vitest';
import { merge } from '../../../src/ignition/merge.ts';
import { nodeConfig } from '../../../src/resources/nodeconfig.ts';
import { SITE_CA } from './arbitrary.ts';
import { DEBIAN_13, FEDORA, FLATCAR, rendered, renderOne } from './kit.ts';

interface CloudConfig {
  readonly write_files: readonly {
    readonly path: string;
    readonly content: string;
    readonly owner?: string;
  }[];
  readonly runcmd: readonly string[];
  readonly users: readonly Readonly<Record<string, unknown>>[];
  readonly packages?: readonly string[];
}
const cloud = (config: object) => load(rendered(config, DEBIAN_13).files['user-data']!) as CloudConfig;

interface Ignition {
  readonly storage: {
    readonly files: readonly {
      readonly path: string;
      readonly user?: object;
      readonly contents: { readonly source: string };
    }[];
  };
  readonly passwd: { readonly users: readonly object[] };
}
const ignition = (config: object) => JSON.parse(rendered(config, FLATCAR).files.ignition!) as Ignition;

const KERNEL = { sysctls: { 'vm.max_map_count': 262144 }, kernelModules: ['nf_conntrack'] };
const SYSCTL = '/etc/sysctl.d/95-muster-config.conf';
const MODULES = '/etc/modules-load.d/95-muster-config.conf';

describe('kernel modules and settings', () => {
  test('are files, which cloud-init loads at once, modules first', () => {
    const { write_files: files, runcmd } = cloud(KERNEL);
    expect(files.find(({ path }) => path === SYSCTL)?.content).toBe('vm.max_map_count = 262144\n');
    expect(files.find(({ path }) => path === MODULES)?.content).toBe('nf_conntrack\n');
    const at = (what: RegExp) => runcmd.findIndex((line) => what.test(line));
    expect(at(/^modprobe -a nf_conntrack \|\|/)).toBeGreaterThan(0);
    expect(at(/^sysctl -q -p/)).toBeGreaterThan(at(/^modprobe/));
  });

  test('are files that systemd reads after Ignition wrote them', () => {
    const paths = ignition(KERNEL).storage.files.map(({ path }) => path);
    expect(paths).toEqual(expect.arrayContaining([SYSCTL, MODULES]));
  });

  test('leave nothing where documents say nothing', () => {
    const { runcmd = [] } = cloud({}) as Partial<CloudConfig>;
    expect(runcmd.join()).not.toMatch(/modprobe|sysctl/);
  });

  test('are merged: settings by name, modules and packages of all layers together', () => {
    const layer = (name: 'cluster' | 'machine', config: object) => ({
      layer: name,
      document: name,
      config: nodeConfig.parse(config),
    });
    expect(
      merge([
        layer('cluster', { sysctls: { 'a.b': 1, 'a.c': 1 }, kernelModules: ['x'], packages: ['p'] }),
        layer('machine', { sysctls: { 'a.b': '2' }, kernelModules: ['y', 'x'], packages: ['q'] }),
      ]).config,
    ).toEqual({ sysctls: { 'a.b': '2', 'a.c': 1 }, kernelModules: ['x', 'y'], packages: ['p', 'q'] });
  });

  test.each([
    { sysctls: { max_map_count: 1 } },
    { sysctls: { 'a.b': '1\nc.d=2' } },
    { kernelModules: ['a b'] },
    { kernelModules: ['../x'] },
    { packages: ['--install-suggests'] },
    { packages: ['a b'] },
    { users: [{ name: 'ops', gecos: 'a:b' }] },
    { files: [{ path: '/a', content: '', owner: '1x' }] },
    { files: [{ path: '/a', content: '', owner: '007' }] },
  ])('cannot be %j', (config) => {
    expect(nodeConfig.safeParse(config).success).toBe(false);
  });
});

test('packages are installed by cloud-init, and refused for Ignition with their place', () => {
  expect(cloud({ packages: ['htop', 'curl=7.88'] }).packages).toEqual(['htop', 'curl=7.88']);
  const refused = renderOne({ packages: ['htop'] }, FLATCAR);
  expect(refused.ok ? [] : refused.faults).toEqual([
    expect.objectContaining({
      path: 'spec.config.packages[0]',
      message: expect.stringContaining('installs no packages'),
    }),
  ]);
});

test('an account has its primary group and its comment', () => {
  const users = [{ name: 'ops', primaryGroup: 'staff', gecos: 'Operators, Room 7' }];
  expect(cloud({ users }).users[0]).toMatchObject({ primary_group: 'staff', gecos: 'Operators, Room 7' });
  expect(ignition({ users }).passwd.users[0]).toMatchObject({
    primaryGroup: 'staff',
    gecos: 'Operators, Room 7',
  });
});

test('a file belongs to a number, which cloud-init cannot set itself', () => {
  const files = [{ path: '/srv/a b', content: '', owner: '1000', group: 'adm' }];
  const { write_files: written, runcmd } = cloud({ files });
  expect(written.find(({ path }) => path === '/srv/a b')?.owner).toBeUndefined();
  expect(runcmd).toContain("chown 1000:adm '/srv/a b'");
  expect(ignition({ files }).storage.files.find(({ path }) => path === '/srv/a b')).toMatchObject({
    user: { id: 1000 },
    group: { name: 'adm' },
  });
});

describe('CA certificates of the site', () => {
  const config = { caCertificates: [SITE_CA] };

  test('are those of cloud-init, before it installs packages', () => {
    const { ca_certs } = load(rendered(config, DEBIAN_13).files['user-data']!) as { ca_certs: object };
    expect(ca_certs).toEqual({ trusted: [SITE_CA] });
  });

  test.each([
    [FLATCAR, '/etc/ssl/certs/muster-site-1.pem'],
    [FEDORA, '/etc/pki/ca-trust/source/anchors/muster-site-1.pem'],
  ])('are files on %o with a unit that adds them, and Ignition trusts them as well', (image, path) => {
    const { ignition, storage, systemd } = JSON.parse(rendered(config, image).files.ignition!);
    const source = storage.files.find((file: { path: string }) => file.path === path).contents.source;
    expect(ignition.security.tls.certificateAuthorities).toEqual([{ source }]);
    expect(systemd.units.map(({ name }: { name: string }) => name)).toContain(
      'muster-site-authorities.service',
    );
  });

  test('of all layers are combined, and without any nothing is there', () => {
    const layer = (name: 'cluster' | 'machine', text: string) => ({
      layer: name,
      document: name,
      config: nodeConfig.parse({ caCertificates: [text] }),
    });
    const both = merge([layer('cluster', SITE_CA), layer('machine', `${SITE_CA}${SITE_CA}`)]);
    expect(both.config.caCertificates).toEqual([SITE_CA, `${SITE_CA}${SITE_CA}`]);
    expect(rendered({}, FLATCAR).files.ignition).not.toContain('muster-site');
  });
});

test('the keys of authorizedKeys are added to those of other layers, without comments', () => {
  const key = (text: string) => `ssh-ed25519 ${text}`;
  const [ada, bob] = [
    key('AAAAC3NzaC1lZDI1NTE5AAAAIGTy9bm9ytgaN2Mk/J62KIqJ13MJ3jaqNeO3PCa0/mwG ada'),
    key('AAAAC3NzaC1lZDI1NTE5AAAAIIcNAMZZfRiAAhyBYI15Jz0+Zzx28DEptsF4c2liEcP2 bob'),
  ];
  const layer = (name: 'cluster' | 'machine', user: object) => ({
    layer: name,
    document: name,
    config: nodeConfig.parse({ users: [{ name: 'ops', ...user }] }),
  });
  const merged = merge([
    layer('cluster', { sshKeys: [ada] }),
    layer('machine', { authorizedKeys: `# ours\n${ada}\n\n${bob}\n` }),
  ]);
  expect(merged.config.users).toEqual([{ name: 'ops', sshKeys: [ada, bob] }]);
});

describe('file systems on devices that exist', () => {
  const FILESYSTEMS = {
    filesystems: [
      { device: '/dev/disk/by-id/x', format: 'xfs', mount: '/srv/data', options: ['noatime'] },
      { device: '/dev/disk/by-label/old', mount: '/srv' },
      { device: '/dev/md/swap', format: 'swap' },
    ],
  };

  test('are made or looked for by cloud-init, mounted from outside in, and in fstab', () => {
    const { bootcmd, mounts } = load(rendered(FILESYSTEMS, DEBIAN_13).files['user-data']!) as {
      bootcmd: string[];
      mounts: string[][];
    };
    const calls = bootcmd[0]!.split('\n').filter((line) => /^(whole|existing|mounted) /.test(line));
    expect(calls).toEqual([
      'whole /dev/disk/by-id/x xfs mkfs.xfs -qf',
      'existing /dev/disk/by-label/old',
      "whole /dev/md/swap swap mkswap ''",
      'mounted /dev/disk/by-label/old /srv',
      'mounted /dev/disk/by-id/x /srv/data noatime',
    ]);
    expect(mounts).toEqual([
      ['/dev/disk/by-id/x', '/srv/data', 'xfs', 'defaults,nofail,noatime', '0', '2'],
      ['/dev/disk/by-label/old', '/srv', 'auto', 'defaults,nofail', '0', '2'],
      ['/dev/md/swap', 'none', 'swap', 'sw', '0', '0'],
    ]);
  });

  test('are Ignition’s if they have a format; the others are mounted alone', () => {
    const { storage, systemd } = JSON.parse(rendered(FILESYSTEMS, FLATCAR).files.ignition!);
    expect(storage.filesystems).toEqual([
      {
        device: '/dev/disk/by-id/x',
        format: 'xfs',
        wipeFilesystem: false,
        path: '/srv/data',
        mountOptions: ['noatime'],
      },
      { device: '/dev/md/swap', format: 'swap', wipeFilesystem: false },
    ]);
    const unit = (name: string) => systemd.units.find((one: { name: string }) => one.name === name).contents;
    expect(unit('srv.mount')).toContain('What=/dev/disk/by-label/old\nWhere=/srv\n\n');
    expect(unit('srv-data.mount')).toContain('Type=xfs\nOptions=noatime\n');
    expect(unit('dev-md-swap.swap')).toContain('What=/dev/md/swap\n');
  });

  test('a file below a mount that Ignition does not make is refused, and taken with cloud-init', () => {
    const config = { ...FILESYSTEMS, files: [{ path: '/srv/motd', content: 'x' }] };
    const result = renderOne(config, FLATCAR);
    expect(!result.ok && result.faults[0]).toMatchObject({
      path: 'spec.config.files[0].path',
      message: expect.stringContaining('only after it has written the files'),
    });
    expect(renderOne(config, DEBIAN_13).ok).toBe(true);
  });

  test.each([
    [{ device: '/dev/vdb' }, 'say what to do with the device'],
    [{ device: '/dev/vdb', format: 'swap', mount: '/srv' }, 'swap has no mount point'],
    [{ device: '/srv/image', format: 'ext4' }, 'not a device'],
    [{ device: '/dev/vdb', mount: '/usr' }, 'hide the running system'],
    [{ device: '/dev/vdb', mount: '/srv', options: ['a b'] }, 'not a mount option'],
  ])('%j is refused', (one, message) => {
    expect(nodeConfig.safeParse({ filesystems: [one] }).error?.issues[0]?.message).toContain(message);
  });

  test('two mounts at one place are refused, in whichever list they are', () => {
    const disks = [{ device: '/dev/vda', partitions: [{ label: 'a', filesystem: 'ext4', mount: '/srv' }] }];
    const result = renderOne({ ...FILESYSTEMS, disks });
    expect(!result.ok && result.faults.map(({ message }) => message).join()).toContain('the mount "/srv"');
  });
});
