/** Whole configurations against golden files, and the rules of rendering one by one. */
import fs from 'node:fs';
import path from 'node:path';
import { gunzipSync } from 'node:zlib';
import fc from 'fast-check';
import { load } from 'js-yaml';
import { describe, expect, test } from 'vitest';
import type { Mac } from '../../../src/base/mac.ts';
import { type Plain, yamlText } from '../../../src/base/yaml-text.ts';
import { LISTS } from '../../../src/ignition/cloudinit.ts';
import { behaviourOf } from '../../../src/ignition/cloudinit-versions.ts';
import { unitPath } from '../../../src/ignition/ignition.ts';
import { render } from '../../../src/ignition/render.ts';
import type { NodeConfig } from '../../../src/resources/nodeconfig.ts';
import { awkward } from './arbitrary.ts';
import { CONTEXT, DEBIAN_12, DEBIAN_13, FEDORA, FLATCAR, renderAll, rendered, renderOne } from './kit.ts';

const GOLDEN = path.join(import.meta.dirname, '../../golden/config');

const cases = fs
  .readdirSync(GOLDEN)
  .filter((name) => name.endsWith('.yaml'))
  .flatMap((name) =>
    renderAll(fs.readFileSync(path.join(GOLDEN, name), 'utf8'), name).map((one) => ({
      name: name.replace('.yaml', ''),
      ...one,
    })),
  );

test.for(cases)(
  '$name: $machine with $image gets what the golden files say',
  async ({ name, image, result }) => {
    if (!result.ok) throw new Error(JSON.stringify(result.faults, null, 1));
    const { files, kernelArguments } = result.value;
    const place = (file: string) => path.join(GOLDEN, name, `${image}.${file}`);
    // Ignition is served as one line; golden files are indented for people.
    for (const [file, text] of Object.entries(files))
      await expect(
        file === 'ignition' ? `${JSON.stringify(JSON.parse(text), null, 1)}\n` : text,
      ).toMatchFileSnapshot(place(file));
    await expect(`${kernelArguments.map(readable).join('\n')}\n`).toMatchFileSnapshot(place('arguments'));
  },
);

/** An argument in readable form, independent of zlib's version. */
function readable(one: string): string {
  if (!one.startsWith('network-config=')) return one;
  const packed = Buffer.from(one.slice('network-config='.length), 'base64');
  return `network-config=base64 of ${packed[0] === 0x1f ? `gzip of ${gunzipSync(packed)}` : packed}`;
}

/** A user-data document as cloud-init reads it. */
const userData = (config: unknown, image: Parameters<typeof rendered>[1] = DEBIAN_13) =>
  load(rendered(config, image).files['user-data']!) as Record<string, unknown>;
const ignition = (config: unknown, image: Parameters<typeof rendered>[1] = FLATCAR) =>
  JSON.parse(rendered(config, image).files.ignition!);
const argument = (list: readonly string[], name: string) =>
  list.find((one) => one.startsWith(`${name}=`))?.slice(name.length + 1);

describe('cloud-init', () => {
  test('the data source has the name that the version accepts as a network source', () => {
    expect(argument(rendered({}, DEBIAN_12).kernelArguments, 'ds')).toBe(
      'nocloud-net;s=http://10.77.0.1:8080/boot/SESSION/',
    );
    expect(argument(rendered({}, DEBIAN_13).kernelArguments, 'ds')).toBe(
      'nocloud;s=http://10.77.0.1:8080/boot/SESSION/',
    );
  });

  test.each([
    ['22.4.2', '22.1'],
    ['23.0', '22.1'],
    ['23.4', '23.1'],
    ['24.2', '23.1'],
    ['24.3', '24.3'],
    ['25.1.4', '24.3'],
    ['99', '24.3'],
    ['0.7.9', '22.1'],
    [undefined, '22.1'],
  ])('version %s behaves as the row since %s', (version, since) => {
    expect(behaviourOf(version).since).toBe(since);
  });

  test('all four documents are always rendered, because a missing one costs a machine eleven seconds', () => {
    expect(Object.keys(rendered({}).files)).toEqual([
      'user-data',
      'meta-data',
      'vendor-data',
      'network-config',
    ]);
    for (const text of Object.values(rendered({}).files)) expect(text).not.toBe('');
  });

  test('without a network in the configuration, only the interface that booted uses DHCP', () => {
    expect(load(rendered({}).files['network-config']!)).toEqual({
      version: 2,
      ethernets: { nic0: { match: { macaddress: '52:54:00:aa:00:01' }, dhcp4: true } },
    });
  });

  test('the network configuration is on the kernel command line, compressed when that is shorter', () => {
    const interfaces = (count: number) => ({
      network: {
        interfaces: Array.from({ length: count }, (_, n) => ({
          mac: `52:54:00:aa:00:0${n}`,
          addresses: [`10.77.${n}.10/24`],
          gateway: `10.77.${n}.1`,
        })),
      },
    });
    for (const config of [{}, interfaces(1), interfaces(8)]) {
      const value = rendered(config);
      const packed = Buffer.from(argument(value.kernelArguments, 'network-config')!, 'base64');
      const json = packed[0] === 0x1f ? gunzipSync(packed) : packed;
      expect(JSON.parse(json.toString())).toEqual(load(value.files['network-config']!));
      expect(argument(value.kernelArguments, 'network-config')!.length).toBeLessThanOrEqual(1200);
    }
  });

  test('a network configuration that is too long is fetched by versions that can do so, and refused for others', () => {
    const config = {
      network: {
        interfaces: Array.from({ length: 32 }, (_, n) => ({
          name: `port${n}x${(n * 7919) % 9973}`,
          addresses: [`10.${(n * 37) % 256}.${(n * 101) % 256}.10/24`],
          routes: Array.from({ length: 4 }, (__, k) => ({
            to: `10.${(n * 53 + k) % 256}.${(n * 89 + k * 31) % 256}.0/24`,
            via: `10.${(n * 37) % 256}.${(n * 101) % 256}.${k + 1}`,
          })),
        })),
      },
    };
    expect(argument(rendered(config, DEBIAN_13).kernelArguments, 'network-config')).toBeUndefined();
    const old = renderOne(config, DEBIAN_12);
    expect(!old.ok && old.faults[0]).toMatchObject({
      code: 'E_CONFIG',
      message: expect.stringContaining('before 24.3'),
    });
  });

  test('files of users, and in their homes, are written after the users are created', () => {
    const files = userData({
      users: [{ name: 'ops' }],
      files: [
        { path: '/etc/a', content: 'a' },
        { path: '/etc/b', content: 'b', owner: 'ops' },
        { path: '/home/ops/c', content: 'c' },
      ],
    }).write_files as { path: string; defer?: boolean }[];
    expect(files.map((file) => [file.path, file.defer ?? false])).toEqual([
      ['/etc/a', false],
      ['/etc/b', true],
      ['/home/ops/c', true],
    ]);
  });

  test.each([
    ['644', '0644'],
    ['0644', '0644'],
    ['4755', '4755'],
    ['04755', '4755'],
  ])('mode %s is written %s', (mode, written) => {
    expect(
      (userData({ files: [{ path: '/a', content: '', mode }] }).write_files as { permissions: string }[])[0]!
        .permissions,
    ).toBe(written);
  });

  test('disks are mounted before files are written, inner mount points after outer ones', () => {
    const { bootcmd, mounts } = userData({
      disks: [
        {
          device: '/dev/vda',
          partitions: [
            { label: 'inner', sizeMiB: 300, filesystem: 'xfs', mount: '/srv/data/inner' },
            { label: 'swap', sizeMiB: 64, filesystem: 'swap' },
            { label: 'raw', sizeMiB: 64 },
          ],
        },
        { device: '/dev/vdb', partitions: [{ label: 'data', filesystem: 'ext4', mount: '/srv/data' }] },
      ],
    }) as { bootcmd: string[]; mounts: string[][] };
    const script = bootcmd.join('\n');
    const lines = script.split('\n').filter((line) => line.startsWith('mounted '));
    expect(lines).toEqual([
      'mounted /dev/disk/by-partlabel/data /srv/data',
      'mounted /dev/disk/by-partlabel/inner /srv/data/inner',
    ]);
    expect(script.indexOf('mkfs.ext4')).toBeLessThan(script.indexOf('mounted /dev/disk/by-partlabel/data'));
    // fstab has them too, and the swap
    expect(mounts.map(([, where]) => where)).toEqual(['/srv/data/inner', 'none', '/srv/data']);
  });

  test('extra documents are merged over the rendered one: mappings merge, lists are appended, values replace', () => {
    const data = userData({
      units: [{ name: 'a.service', enabled: true, contents: '[Service]\nExecStart=/bin/true\n' }],
      extra: { cloudInit: 'hostname: other\nruncmd: ["echo ${machine.name}"]\nntp: {enabled: true}\n' },
    });
    expect(data.hostname).toBe('other');
    expect((data.runcmd as string[]).at(-1)).toBe('echo node-1');
    expect((data.runcmd as string[])[0]).toBe('set -e');
    expect(data.ntp).toEqual({ enabled: true });
  });

  test.each(LISTS)(
    'an extra document whose %s is no list is refused: it would replace all of ours',
    (key) => {
      for (const value of ['null', 'text', '{a: b}', '1']) {
        const result = renderOne({ extra: { cloudInit: `${key}: ${value}\n` } });
        expect(!result.ok && result.faults).toEqual([
          {
            code: 'E_CONFIG',
            path: 'spec.config.extra.cloudInit',
            message: `Profile/worker: ${key} must be a list: it is appended to Muster's own`,
            document: 'Profile/worker',
          },
        ]);
      }
    },
  );

  test('every list that is rendered is one of those', () => {
    const written = userData({
      users: [{ name: 'ops' }],
      files: [{ path: '/a', content: 'a' }],
      packages: ['htop'],
      units: [{ name: 'a.service', enabled: true }],
      disks: [{ device: '/dev/a', partitions: [{ label: 'a', filesystem: 'ext4', mount: '/srv' }] }],
    });
    const lists = Object.keys(written).filter((key) => Array.isArray(written[key]));
    expect(lists.sort()).toEqual([...LISTS].sort());
    expect(Object.values(written).filter((one) => typeof one === 'object' && !Array.isArray(one))).toEqual(
      [],
    );
  });
});

describe('Ignition', () => {
  test('kernel arguments are those of the system', () => {
    expect(rendered({}, FLATCAR).kernelArguments).toEqual([
      'flatcar.first_boot=yes',
      'flatcar.config.url=http://10.77.0.1:8080/boot/SESSION/ignition',
    ]);
    expect(rendered({}, FEDORA).kernelArguments).toEqual([
      'ignition.firstboot',
      'ignition.platform.id=metal',
      'ignition.config.url=http://10.77.0.1:8080/boot/SESSION/ignition',
    ]);
  });

  test('interfaces become files of networkd, or of NetworkManager where that is the network', () => {
    const config = { network: { interfaces: [{ mac: '52:54:00:aa:00:01' }] } };
    const paths = (image: typeof FLATCAR | typeof FEDORA) =>
      ignition(config, image).storage.files.map((file: { path: string; mode: number }) => [
        file.path,
        file.mode.toString(8),
      ]);
    expect(paths(FLATCAR)).toContainEqual(['/etc/systemd/network/20-nic0.network', '644']);
    expect(paths(FEDORA)).toContainEqual(['/etc/NetworkManager/system-connections/nic0.nmconnection', '600']);
  });

  test('a file in the document has priority over the one that is derived for its path', () => {
    const { files } = ignition({ files: [{ path: '/etc/hostname', content: 'mine\n' }] }).storage;
    expect(files.filter((file: { path: string }) => file.path === '/etc/hostname')).toHaveLength(1);
    expect(files[0].contents.source).toBe('data:,mine%0A');
  });

  test('fetched files carry their hash', () => {
    const sha256 = 'a'.repeat(64);
    const { files } = ignition({ files: [{ path: '/x', source: { url: 'http://h/x', sha256 } }] }).storage;
    expect(files.at(-1).contents).toEqual({
      source: 'http://h/x',
      verification: { hash: `sha256-${sha256}` },
    });
  });

  test('partitions are numbered, so that a second boot finds them instead of adding more', () => {
    const { disks } = ignition({
      disks: [{ device: '/dev/sda', partitions: [{ label: 'a', sizeMiB: 10 }, { label: 'b' }] }],
    }).storage;
    expect(disks[0].partitions.map((one: { number: number }) => one.number)).toEqual([1, 2]);
  });

  test.each(['/srv/data', '/', '/a b', '/x-y/z', '/.hidden', '/ü'])(
    'unit names of %s are escaped as systemd does',
    (mount) => {
      const expected: Record<string, string> = {
        '/srv/data': 'srv-data',
        '/': '-',
        '/a b': 'a\\x20b',
        '/x-y/z': 'x\\x2dy-z',
        '/.hidden': '\\x2ehidden',
        '/ü': '\\xc3\\xbc',
      };
      expect(unitPath(mount)).toBe(expected[mount]);
    },
  );

  test('special mode bits are refused by specs that do not have them', () => {
    const config = { files: [{ path: '/a', content: '', mode: '4755' }] };
    const old = renderOne(config, FLATCAR);
    expect(!old.ok && old.faults[0]?.message).toContain(
      'storage.files[1].mode: setuid, setgid and sticky bits need spec 3.4.0',
    );
    expect(ignition(config, { ...FLATCAR, ignitionVersion: '3.4.0' } as never).storage.files[1].mode).toBe(
      0o4755,
    );
  });

  test('a version that does not exist is refused', () => {
    const result = renderOne({}, { ...FLATCAR, ignitionVersion: '2.3.0' });
    expect(!result.ok && result.faults[0]?.message).toContain('is none of 3.3.0');
  });
});

describe('faults', () => {
  const fault = (config: unknown, image: Parameters<typeof renderOne>[1] = DEBIAN_13) => {
    const result = renderOne(config, image);
    return result.ok ? undefined : result.faults.map((one) => `${one.code} ${one.path} ${one.message}`);
  };

  test.each([
    [
      { hostname: '${machine.serial}' },
      'spec.config.hostname Profile/worker: "${machine.serial}" has no value for this machine',
    ],
    [
      { hostname: 'a_${machine.name}' },
      'spec.config.hostname Profile/worker: expands to "a_node-1": not a domain name',
    ],
    [
      { files: [{ path: '/a', content: 'x\ny\n  ${var.no}\n' }] },
      'spec.config.files[0].content Profile/worker: line 3 of the text: there is no "${var.no}"',
    ],
    [
      { network: { interfaces: [{ name: 'e', addresses: ['${machine.name}/24'] }] } },
      'spec.config.network.interfaces[0].addresses[0] Profile/worker: expands to "node-1/24": not an address with prefix length',
    ],
    [
      { variables: { a: '${var.b}', b: 'x' } },
      'spec.config.variables.a Profile/worker: "${var.b}" is used in a variable',
    ],
    [
      { extra: { cloudInit: 'a: [' } },
      'spec.config.extra.cloudInit Profile/worker: line 1, column 4 of the text',
    ],
    [
      { extra: { cloudInit: '- a' } },
      'spec.config.extra.cloudInit Profile/worker: must be one document, a mapping',
    ],
    [
      { extra: { ignition: '{"storage": {"filez": []}}' } },
      'spec.config.extra.ignition Profile/worker: storage.filez: unknown key; did you mean "files"?',
    ],
  ])('%j is refused with field, document and reason', (config, message) => {
    expect(fault(config)).toEqual([expect.stringContaining(`E_CONFIG ${message}`)]);
  });

  test('a unit that systemd could not read is refused for every image', () => {
    const config = { units: [{ name: 'a.service', contents: 'ExecStart=/bin/true\n' }] };
    for (const image of [undefined, FLATCAR])
      expect(fault(config, image)).toEqual([
        expect.stringContaining('units[0].contents Profile/worker: line 1: comes before the first [Section]'),
      ]);
  });

  test('the fault is reported at the layer of the value', () => {
    const result = render({
      layers: [
        {
          layer: 'cluster',
          document: 'Cluster/c',
          config: {
            files: [
              { path: '/b', content: 'b' },
              { path: '/a', content: '${x.y}' },
            ],
          },
        },
        {
          layer: 'machine',
          document: 'Machine/m',
          config: { files: [{ path: '/a', mode: '0600' } as never] },
        },
      ],
      context: CONTEXT,
      image: DEBIAN_13,
      instanceId: 'i',
    });
    expect(!result.ok && result.faults[0]).toMatchObject({
      path: 'spec.config.files[1].content',
      message: expect.stringMatching(/^Cluster\/c: /),
    });
  });
});

const plain: fc.Arbitrary<Plain> = fc.letrec<{ value: Plain }>((tie) => ({
  value: fc.oneof(
    { depthSize: 'small' },
    fc.string({ unit: awkward }),
    fc.constantFrom(
      'yes',
      'No',
      'null',
      '~',
      '1e3',
      '0x1f',
      '0644',
      '1_000',
      '12:30:45',
      '.5',
      '=',
      '<<',
      'on',
      '',
    ),
    fc.integer(),
    fc.boolean(),
    fc.constant(null),
    fc.array(tie('value'), { maxLength: 3 }),
    fc.dictionary(
      fc.string({ minLength: 1 }).filter((key) => key !== '__proto__'),
      tie('value'),
      { maxKeys: 3 },
    ),
  ),
})).value;

test('YAML is read back as it was written', () => {
  fc.assert(
    fc.property(fc.dictionary(fc.constantFrom('a', 'b'), plain), (value) => {
      expect(load(yamlText(value))).toEqual(value);
    }),
    { numRuns: 1000 },
  );
});

test('5,000 different machines of a profile are rendered in a second of CPU time', () => {
  const layers = renderLayers();
  const run = (count: number) => {
    const started = process.cpuUsage();
    for (let n = 0; n < count; n++) {
      const machine = { name: `node-${n}`, mac: '52:54:00:aa:00:01' as Mac, address: '10.77.0.11' };
      const result = render({
        layers,
        context: { ...CONTEXT, machine },
        image: DEBIAN_13,
        instanceId: `${n}`,
      });
      if (!result.ok || !result.value.files['user-data']!.includes(`node-${n}`))
        throw new Error('not rendered');
    }
    return process.cpuUsage(started).user / 1000;
  };
  run(500);
  // It takes 100 ms; the margin is wide because processors are shared.
  expect(run(5000)).toBeLessThan(1000);
});

describe('a unit that starts after a unit that the agent installs later', () => {
  const RUN = '[Service]\nExecStart=/bin/true\n[Install]\nWantedBy=multi-user.target\n';
  const AFTER = `[Unit]\nAfter=network.target kubelet.service\n${RUN}`;
  const units = [
    { name: 'after.service', enabled: true, contents: AFTER },
    { name: 'other.service', enabled: true, contents: RUN },
    { name: 'masked.service', enabled: true, mask: true, contents: AFTER },
  ];
  const of = (
    image: Parameters<typeof rendered>[1],
    lateUnits: readonly string[],
    more: NonNullable<NodeConfig['units']> = [],
  ) => {
    const result = render({
      layers: [
        { layer: 'muster', document: 'muster', config: {}, lateUnits },
        { layer: 'profile', document: 'Profile/p', config: { units: [...units, ...more] } },
      ],
      context: CONTEXT,
      image: { ...image!, reports: true },
      instanceId: 'x',
    });
    if (!result.ok) throw new Error(JSON.stringify(result.faults));
    return result.value.files;
  };

  test('is started by that unit, with cloud-init', () => {
    const text = of(DEBIAN_13, ['kubelet.service'])['user-data']!;
    expect(text).toContain('systemctl enable --no-reload other.service"');
    expect(text).toContain('systemctl start --no-block other.service"');
    expect(text).toContain('/etc/systemd/system/kubelet.service.d/50-muster-wants.conf');
    expect(text).toContain('Wants=after.service\n');
  });

  test('is started by that unit, with Ignition, in addition to the operator’s drop-ins for it', () => {
    const own = { name: 'kubelet.service', dropins: [{ name: '10-own.conf', contents: '[Unit]\n' }] };
    const { systemd } = JSON.parse(of(FLATCAR, ['kubelet.service'], [own]).ignition!) as {
      systemd: { units: { name: string; enabled?: boolean; dropins?: object[] }[] };
    };
    const unit = (name: string) => systemd.units.find((one) => one.name === name);
    expect(unit('after.service')).not.toHaveProperty('enabled');
    expect(unit('other.service')?.enabled).toBe(true);
    expect(unit('kubelet.service')?.dropins).toEqual([
      { name: '10-own.conf', contents: '[Unit]\n' },
      { name: '50-muster-wants.conf', contents: '[Unit]\nWants=after.service\n' },
    ]);
  });

  test('is started immediately when no unit is installed later', () => {
    expect(of(DEBIAN_13, [])['user-data']).toContain(
      'systemctl start --no-block after.service other.service"',
    );
  });
});

function renderLayers() {
  const config = {
    users: [{ name: 'ops', sudo: true, groups: ['adm'] }],
    files: [
      { path: '/etc/motd', content: 'This is ${machine.name}.\n' },
      { path: '/etc/sysctl.d/60.conf', content: 'net.ipv4.ip_forward = 1\n' },
    ],
    units: [{ name: 'a.service', enabled: true, contents: '[Service]\nExecStart=/bin/true\n' }],
  };
  return [{ layer: 'profile' as const, document: 'Profile/worker', config }];
}
