/** Files, units, users and disks that would stop a boot, or never start, are refused. */
import { describe, expect, test } from 'vitest';
import { networkFaults } from '../../../src/ignition/network-faults.ts';
import { nodeFaults } from '../../../src/ignition/node-faults.ts';
import { nodeConfig } from '../../../src/resources/nodeconfig.ts';

const told = (config: object): string[] =>
  nodeFaults(nodeConfig.parse(config)).map(({ path, message }) => `${path.join('.')}: ${message}`);

const file = (...paths: string[]) => ({ files: paths.map((path) => ({ path, content: '' })) });

describe('files', () => {
  test.each([
    [file('/etc'), 'files.0.path: /etc is a directory'],
    [file('/etc/systemd/network'), 'files.0.path: /etc/systemd/network is a directory'],
    [file('/etc/a', '/etc/a/b'), 'files.1.path: it lies below /etc/a, which is a file here too'],
    [file(`/etc/${'é'.repeat(128)}`), 'files.0.path: a name in this path has more than 255 octets'],
  ])('%j is refused', (config, message) => {
    expect(told(config)).toEqual([expect.stringContaining(message)]);
  });

  test('neighbours, and files in directories of the system, are taken', () => {
    expect(told(file('/etc/a', '/etc/ab', '/etc/systemd/network/a.network', '/srv/a b'))).toEqual([]);
  });
});

const unit = (contents: string, more: object = {}) => ({
  units: [{ name: 'a.service', contents, ...more }],
});

describe('units', () => {
  test.each([
    [unit('hello'), 'line 1: comes before the first [Section]'],
    [unit('[Service]\nType=oneshot\n'), 'a service needs ExecStart'],
    [unit('[Service]\nExecStart=/bin/a\nExecStart=\n'), 'a service needs ExecStart'],
    [unit('[Service]\nExecStart=/bin/a\nExecStart=/bin/b\n'), 'a service of Type=simple has one ExecStart'],
    [
      unit('[Mount]\nWhat=/dev/sdb\nWhere=/srv/data\n', { name: 'data.mount' }),
      'systemd wants the unit of /srv/data to be named srv-data.mount',
    ],
    [
      unit('[Automount]\nWhere=/srv/my-data\n', { name: 'srv-my-data.automount' }),
      'to be named srv-my\\x2ddata.automount',
    ],
    [
      unit('', { name: 'muster-ready.service', mask: true }),
      'without muster-ready.service the machine would',
    ],
    [
      unit('[Service]\nExecStart=-/sbin/reboot\n[Install]\nWantedBy=default.target\n', { enabled: true }),
      'would restart the machine',
    ],
    [
      unit(
        '[Unit]\nSuccessAction=poweroff-force\n[Service]\nExecStart=/a\n[Install]\nWantedBy=default.target\n',
        { enabled: true },
      ),
      '"SuccessAction=poweroff-force" would restart',
    ],
  ])('%j is refused', (config, message) => {
    expect(told(config)).toEqual([expect.stringContaining(message)]);
  });

  test.each([
    [unit('[Service]\nExecStart=/bin/a\nExecStart=\nExecStart=/bin/b\n')],
    [unit('[Service]\nType=oneshot\nExecStart=/bin/a\nExecStart=/bin/b \\\n  c\n')],
    [unit('[Service]\nType=oneshot\nRemainAfterExit=yes\nExecStop=/bin/a\n')],
    [
      unit('[Service]\nType=notify\n', {
        dropins: [{ name: 'a.conf', contents: '[Service]\nExecStart=/a\n' }],
      }),
    ],
    [unit('[Mount]\nWhat=/dev/sdb\nWhere=/srv/data/\n', { name: 'srv-data.mount' })],
    [unit('[Mount]\nWhat=/dev/sdb\nWhere=/srv/.a\n', { name: 'srv-.a.mount' })],
    [unit('[Timer]\nOnCalendar=daily\n', { name: 'a.timer' })],
    [unit('[Service]\nExecStart=/sbin/reboot\n')],
    [
      unit(
        '[Unit]\nConditionPathExists=/run/x\n[Service]\nExecStart=/sbin/reboot\n[Install]\nWantedBy=default.target\n',
        { enabled: true },
      ),
    ],
    [unit('[Service]\nExecStart=/bin/a\n', { name: 'muster-extra.service', mask: true })],
    [unit('', { mask: true })],
  ])('%j is taken', (config) => {
    expect(told(config)).toEqual([]);
  });
});

describe('users and disks', () => {
  const disk = (device: string, ...partitions: object[]) => ({ disks: [{ device, partitions }] });

  test.each([
    [
      {
        users: [
          { name: 'a', uid: 1500 },
          { name: 'b', uid: 1500 },
        ],
      },
      'users.1.uid: 1500 is the number of a as well',
    ],
    [{ users: [{ name: 'a', uid: 0 }] }, 'users.0.uid: 0 is the number of root'],
    [disk('/dev/sdb1', { label: 'a' }), 'disks.0.device: /dev/sdb1 is a partition'],
    [disk('/dev/nvme0n1p2'), 'disks.0.device: /dev/nvme0n1p2 is a partition'],
    [disk('/dev/disk/by-id/x-part1'), 'disks.0.device: /dev/disk/by-id/x-part1 is a partition'],
    [
      disk('/dev/sdb', { label: 'a', sizeMiB: 100, filesystem: 'xfs' }),
      'disks.0.partitions.0.sizeMiB: xfs needs 300 MiB or more',
    ],
    [
      { ...disk('/dev/sdb', { label: 'a' }), filesystems: [{ device: '/dev/sdb', format: 'ext4' }] },
      'filesystems.0.device: /dev/sdb has partitions in disks',
    ],
  ])('%j is refused', (config, message) => {
    expect(told(config)).toEqual([expect.stringContaining(message)]);
  });

  test.each([
    [{ users: [{ name: 'root', uid: 0 }, { name: 'a', uid: 1500 }, { name: 'b' }] }],
    [
      disk(
        '/dev/nvme0n1',
        { label: 'a', sizeMiB: 300, filesystem: 'xfs' },
        { label: 'b', filesystem: 'btrfs' },
      ),
    ],
    [disk('/dev/disk/by-path/pci-0000:00:1f.2-ata-1')],
    [{ ...disk('/dev/sdb', { label: 'a' }), filesystems: [{ device: '/dev/sdb1', format: 'ext4' }] }],
  ])('%j is taken', (config) => {
    expect(told(config)).toEqual([]);
  });
});

describe('interfaces that would never be up', () => {
  const faults = (...interfaces: object[]): string[] =>
    networkFaults(nodeConfig.parse({ network: { interfaces } }).network!.interfaces).map(
      ({ path, message }) => `${path.join('.')}: ${message}`,
    );
  const bond = (more: object) => ({
    name: 'bond0',
    bond: { mode: '802.3ad', interfaces: ['eth0', 'eth1'], ...more },
  });
  const nic = { name: 'eth0', addresses: ['10.77.0.31/24'] };

  test.each([
    [[{ ...nic, gateway: '10.77.0.0' }], '0.gateway: 10.77.0.0 is the network itself'],
    [[{ ...nic, gateway: '10.77.0.255' }], '0.gateway: 10.77.0.255 is the broadcast address'],
    [[bond({ minLinks: 3 })], '0.bond.minLinks: the bond has 2 members'],
    [
      [{ name: 'br0', bridge: { interfaces: ['eth0'], stp: true, forwardDelay: '1s' } }],
      '0.bridge.forwardDelay: with STP the kernel takes 2s to 30s',
    ],
    [[{ name: 'lan', vlan: { id: 20, link: 'bond0' } }], '0.vlan.link: no entry of interfaces makes bond0'],
    [[{ name: 'lan', vlan: { id: 20, link: 'eth0.5' } }], '0.vlan.link: no entry of interfaces makes eth0.5'],
  ])('%j are refused', (interfaces, message) => {
    expect(faults(...interfaces)).toEqual([expect.stringContaining(message)]);
  });

  test.each([
    [[{ ...nic, gateway: '10.77.0.1' }]],
    [[{ name: 'eth0', addresses: ['10.77.0.31/31'], gateway: '10.77.0.30' }]],
    [[bond({ minLinks: 2 }), { name: 'lan', vlan: { id: 20, link: 'bond0' } }]],
    [[{ name: 'lan', vlan: { id: 20, link: 'enp1s0f1' } }]],
    [[{ name: 'br0', bridge: { interfaces: ['eth0'], forwardDelay: '0s' } }]],
  ])('%j are taken', (interfaces) => {
    expect(faults(...interfaces)).toEqual([]);
  });
});

test.each(['01:00:5e:00:00:01', 'ff:ff:ff:ff:ff:ff', '00:00:00:00:00:00'])(
  'no network card has the address %s',
  (mac) => {
    const { network } = nodeConfig.parse({ network: { interfaces: [{ mac, dhcp4: true }] } });
    expect(networkFaults(network!.interfaces)).toEqual([
      { path: [0, 'mac'], message: `no network card has the address ${mac}` },
    ]);
  },
);
