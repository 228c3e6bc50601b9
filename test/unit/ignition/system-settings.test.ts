/** Settings of the kernel, packages, and accounts, in cloud-init as well as in Ignition. */
import { load } from 'js-yaml';
import { describe, expect, test } from 'vitest';
import { merge } from '../../../src/ignition/merge.ts';
import { nodeConfig } from '../../../src/resources/nodeconfig.ts';
import { DEBIAN_13, FLATCAR, rendered, renderOne } from './kit.ts';

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
