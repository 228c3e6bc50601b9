/**
 * Faults that only appear when layers are merged. Rendering refuses them for both formats alike.
 */
import { load } from 'js-yaml';
import { describe, expect, test } from 'vitest';
import { render } from '../../../src/ignition/render.ts';
import type { ConfigLayer } from '../../../src/ignition/rendered.ts';
import { nodeConfig } from '../../../src/resources/nodeconfig.ts';
import { CONTEXT, DEBIAN_12, FLATCAR } from './kit.ts';

const MAC = '52:54:00:aa:00:0';

function renderLayers(wide: unknown, narrow: unknown, image: typeof DEBIAN_12 | typeof FLATCAR) {
  const layers: ConfigLayer[] = [
    { layer: 'profile', document: 'Profile/w', config: nodeConfig.parse(wide) },
    { layer: 'machine', document: 'Machine/a', config: nodeConfig.parse(narrow) },
  ];
  return render({ layers, context: CONTEXT, image, instanceId: 'a-SESSION' });
}

/** The faults of two merged layers, which must be the same for both formats. */
function faults(wide: unknown, narrow: unknown) {
  const [a, b] = [DEBIAN_12, FLATCAR].map((image) => {
    const result = renderLayers(wide, narrow, image);
    return result.ok ? [] : result.faults.map(({ message, path }) => `${path} ${message}`);
  });
  expect(a).toEqual(b);
  return a;
}

describe('interfaces', () => {
  const nics = (...interfaces: object[]) => ({ network: { interfaces } });

  test('of two layers with the same name are refused, with both places', () => {
    expect(
      faults(nics({ mac: `${MAC}1`, name: 'lan0', mtu: 9000 }), nics({ name: 'lan0', dhcp4: true })),
    ).toEqual([
      'spec.config.network.interfaces[0].name Machine/a: the interface "lan0" is also spec.config.network.interfaces[0].mac of Profile/w; keep one',
    ]);
  });

  test('are refused when one has the name that another gets from its number', () => {
    expect(faults(nics({ mac: `${MAC}1` }), nics({ name: 'nic0', dhcp4: true }))).toHaveLength(1);
  });

  test('with different names are all rendered', () => {
    expect(
      faults(
        nics({ mac: `${MAC}1`, name: 'lan0' }),
        nics({ mac: `${MAC}1`, name: 'lan1' }, { name: 'lan0' }),
      ),
    ).toEqual([]);
  });
});

describe('disks', () => {
  const disk = (name: string, ...partitions: object[]) => ({
    disks: [{ device: `/dev/${name}`, partitions }],
  });

  test('of two layers are refused when partitions have the same label, by which they are found', () => {
    expect(
      faults(
        disk('vda', { label: 'data', filesystem: 'ext4' }),
        disk('vdb', { label: 'data', filesystem: 'xfs' }),
      ),
    ).toEqual([
      'spec.config.disks[0].partitions[0].label Machine/a: the partition "data" is also spec.config.disks[0].partitions[0].label of Profile/w; keep one',
    ]);
  });

  test('with the same mount point are refused, however it is spelled', () => {
    const mounted = (label: string, mount: string) => ({ label, filesystem: 'ext4', mount });
    expect(faults(disk('vda', mounted('a', '/srv/x')), disk('vdb', mounted('b', '/srv//x/')))).toEqual([
      'spec.config.disks[0].partitions[0].mount Machine/a: the mount "/srv/x" is also spec.config.disks[0].partitions[0].mount of Profile/w; keep one',
    ]);
    expect(faults(disk('vda', mounted('a', '/srv/x')), disk('vdb', mounted('b', '/srv/y')))).toEqual([]);
  });

  test.each([[{}], [{ sizeMiB: 0 }]])(
    'a partition with the rest of the disk (%o) is the last of it',
    (rest) => {
      expect(faults({}, disk('vda', { label: 'a', ...rest }, { label: 'b', sizeMiB: 64 }))).toEqual([
        'spec.config.disks[0].partitions[0] Machine/a: partition "a" has no sizeMiB, so it takes the rest of the disk: only the last can',
      ]);
      expect(faults({}, disk('vda', { label: 'b', sizeMiB: 64 }, { label: 'a', ...rest }))).toEqual([]);
    },
  );
});

test('a unit that a narrower layer masks is not written, because systemctl cannot mask where a file exists', () => {
  const units = [
    {
      name: 'a.service',
      enabled: true,
      contents: '[Service]\nExecStart=/bin/true\n[Install]\nWantedBy=x.target\n',
    },
  ];
  const result = renderLayers({ units }, { units: [{ name: 'a.service', mask: true }] }, DEBIAN_12);
  const data = load((result.ok && result.value.files['user-data']) || '') as Record<string, unknown>;
  expect(data.write_files).toBeUndefined();
  expect(data.runcmd).toContain('systemctl mask --no-reload a.service');
});
