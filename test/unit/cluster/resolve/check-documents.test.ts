/** Clusters that would not work are refused when they are applied, with the line that is wrong. */
import { expect, test } from 'vitest';
import { systemClock } from '../../../../src/base/clock.ts';
import { MusterError } from '../../../../src/base/errors.ts';
import { silentLog } from '../../../../src/base/log.ts';
import { createMetrics } from '../../../../src/base/metrics.ts';
import { checkAll } from '../../../../src/cluster/resolve/check-documents.ts';
import { openCatalog } from '../../../../src/resources/catalog.files.ts';
import { openMemoryStore } from '../../../../src/store/memory.ts';

const catalog = () =>
  openCatalog({
    metrics: createMetrics(),
    store: openMemoryStore(),
    events: { record: () => undefined },
    log: silentLog,
    clock: systemClock,
    checkConfig: checkAll,
  });

const machine = (name: string, n: number, address = `10.0.0.${n}`) => `---
apiVersion: muster/v1
kind: Machine
metadata: {name: ${name}}
spec: {macs: ["52:54:00:00:00:${n}"], addresses: [${address}], profile: node}
`;
const PROFILE = `---
apiVersion: muster/v1
kind: Profile
metadata: {name: node}
spec: {boot: disk, dataDisk: {serial: data}}
`;
/** The networks that machines are in, and the profile that they have. */
const NETWORKS = ['10.0.0.0/24', '10.9.0.0/24']
  .map(
    (subnet, n) => `---
apiVersion: muster/v1
kind: Network
metadata: {name: lan${n}}
spec: {subnet: ${subnet}, dhcp: {mode: "off"}}
`,
  )
  .concat(PROFILE)
  .join('');
const MACHINES = ['cp1', 'cp2', 'cp3', 'w1'].map((name, n) => machine(name, 11 + n)).join('');
const cluster = (more = '', name = 'blue') => `---
apiVersion: muster/v1
kind: Cluster
metadata: {name: ${name}}
spec:
  kubernetes:
    version: "1.36"
    endpoint: api.${name}.test
    controlPlanes: [cp1, cp2, cp3]
    workers: [w1]
${more}  trust: segment
`;

/** Faults as `line path: message` of what applying the text says; empty when it is taken. */
async function refused(text: string, before = ''): Promise<readonly string[]> {
  const one = await catalog();
  try {
    await one.applyText(NETWORKS, 'networks.yaml');
    if (before !== '') await one.applyText(before, 'before.yaml');
    await one.applyText(text, 'c.yaml');
    return [];
  } catch (error) {
    if (!(error instanceof MusterError)) throw error;
    return error.faults.map(({ at, path, message }) => `${at?.line ?? '-'} ${path}: ${message}`);
  } finally {
    await one.close();
  }
}

test('a whole cluster is taken, in one text and in any order', async () => {
  expect(await refused(cluster() + MACHINES)).toEqual([]);
  expect(await refused(cluster())).toEqual([]);
  expect(await refused(MACHINES, cluster())).toEqual([]);
});

test.for([
  [
    '    networks: {pods: [10.96.0.0/12]}\n',
    /^\d+ spec\.kubernetes\.networks\.services: Cluster\/blue: 10\.96\.0\.0\/16 overlaps 10\.96\.0\.0\/12 of/,
  ],
  [
    '    networks: {machines: [10.0.1.0/24]}\n',
    /^\d+ spec\.kubernetes: Cluster\/blue: cp1: 10\.0\.0\.11 is outside of networks\.machines/,
  ],
  [
    '    overrides: {versions: {kubelet: 1.37.0}}\n',
    /^31 spec\.kubernetes\.overrides\.versions\.kubelet: Cluster\/blue: 1\.37\.0 is newer than kube-apiserver/,
  ],
  [
    '    overrides:\n      flags:\n        kube-apiserver:\n          audit-log-pth: x\n',
    /^34 spec\.kubernetes\.overrides\.flags\.kube-apiserver\.audit-log-pth: .*did you mean "audit-log-path"\?/,
  ],
] as const)('%j is refused with its line', async ([more, expected]) => {
  const faults = await refused(MACHINES + cluster(more));
  expect(
    faults.find((one) => expected.test(one)),
    faults.join('\n'),
  ).toBeDefined();
});

const virtual = (address: string, more = '') =>
  cluster(`    virtualAddress: {interface: eth0}\n${more}`).replace('api.blue.test', address);
const POOL = `---
apiVersion: muster/v1
kind: Network
metadata: {name: pool}
spec: {subnet: 10.8.0.0/24, gateway: 10.8.0.1, address: 10.8.0.2, dhcp: {mode: server, pools: [{start: 10.8.0.100, end: 10.8.0.199}]}}
`;

test.for([
  [
    '10.8.0.150',
    /^\d+ \S+: Cluster\/blue: 10\.8\.0\.150 is inside the pool 10.8.0.100 to 10.8.0.199 of Network\/pool/,
  ],
  ['10.8.0.1', /10\.8\.0\.1 is the gateway of Network\/pool$/],
  ['10.8.0.2', /10\.8\.0\.2 is Muster's own address in Network\/pool$/],
  ['10.8.0.0', /10\.8\.0\.0 is the first or last address of 10\.8\.0\.0\/24, Network\/pool/],
  ['10.8.0.255', /10\.8\.0\.255 is the first or last address of 10\.8\.0\.0\/24, Network\/pool/],
  ['10.0.0.77', /10\.0\.0\.77 is the address of Machine\/alone; use one that nothing else has/],
  ['10.0.0.99', undefined],
  ['10.8.0.99', undefined],
] as const)(
  'a virtual address %s that is somebody’s already is refused, whichever document comes last',
  async ([address, expected]) => {
    const others = POOL + machine('alone', 77);
    const first = await refused(virtual(address), others + MACHINES);
    const last = await refused(others, MACHINES + virtual(address));
    // only what is applied has lines
    expect(last).toEqual(first.map((one) => one.replace(/^\d+/, '-')));
    expect(first).toEqual(expected === undefined ? [] : [expect.stringMatching(expected)]);
  },
);

test('a configuration with the virtual address of a Cluster is refused, also that of its own machine', async () => {
  const before = MACHINES + virtual('10.0.0.77');
  const given = 'config: {network: {interfaces: [{name: eth0, addresses: [10.0.0.77/24]}]}}}';
  for (const text of [machine('alone', 78), machine('cp1', 11)])
    expect((await refused(text.replace(/\}\n$/, `, ${given}\n`), before)).join()).toMatch(
      /10\.0\.0\.77 is the address of Machine\/(alone|cp1)/,
    );
});

test('a Machine with the virtual address of a Cluster is refused, and others are accepted', async () => {
  const before = MACHINES + virtual('10.0.0.77');
  expect((await refused(machine('alone', 77), before)).join()).toContain(
    'Cluster/blue: 10.0.0.77 is the address of Machine/alone',
  );
  expect(await refused(machine('alone', 78), before)).toEqual([]);
});

const GREEN = ['cp7', 'w7'].map((name, n) => machine(name, 31 + n)).join('');
const green = (text: string) =>
  text.replace('name: blue', 'name: green').replace('cp1, cp2, cp3', 'cp7').replace('[w1]', '[w7]');

test('two Clusters with the same virtual address get one fault', async () => {
  const [blue, other] = [MACHINES + virtual('10.0.0.99'), GREEN + green(virtual('10.0.0.99'))];
  const says = /10\.0\.0\.99 is the address of Cluster\/(blue|green)/;
  expect(await refused(other, blue)).toEqual([expect.stringMatching(says)]);
  expect(await refused(blue, other)).toEqual([expect.stringMatching(says)]);
  expect(await refused(blue + other)).toEqual([expect.stringMatching(says)]);
});

/** Warnings of applying the text. */
async function warned(text: string, before: string): Promise<readonly string[]> {
  const one = await catalog();
  await one.applyText(NETWORKS + before, 'before.yaml');
  const { warnings } = await one.applyText(text, 'c.yaml');
  await one.close();
  return warnings.map(({ path, message }) => `${path}: ${message}`);
}

test('two Clusters on one segment with one number of VRRP are warned of, as overrides say it', async () => {
  const before = MACHINES + GREEN + virtual('10.0.0.99');
  const other = (address: string, more: string) => green(virtual(address, more));
  const nine = '    overrides: {virtualAddress: {routerId: 99}}\n';
  expect(await warned(other('10.0.0.98', nine), before)).toEqual([
    'spec.kubernetes.virtualAddress.routerId: Cluster/green: 99 is the VRRP group of Cluster/blue on Network/lan0 as well; change one of them',
  ]);
  expect(await warned(other('10.0.0.98', ''), before)).toEqual([]);
  expect(await warned(other('10.9.0.99', ''), before)).toEqual([
    expect.stringContaining(
      '10.9.0.99 is in Network/lan1, and cp7 in Network/lan0: a control plane can hold only',
    ),
  ]);
});

test('a Network among the addresses of pods is a warning, whichever comes last and as overrides say it', async () => {
  const before = MACHINES + cluster('    overrides: {networks: {pods: [10.8.0.0/16]}}\n');
  const says =
    'spec.kubernetes.networks.pods: Cluster/blue: 10.8.0.0/16 overlaps 10.8.0.0/24 of Network/pool; the cluster cannot reach hosts with an address in both';
  const ours = (all: readonly string[]) => all.filter((one) => one.includes('Cluster/blue'));
  expect(ours(await warned(POOL, before))).toEqual([says]);
  expect(ours(await warned(before, POOL))).toEqual([says]);
  expect(ours(await warned(POOL, MACHINES + cluster()))).toEqual([]);
});

test('an even number of etcd members is refused before any machine is there', async () => {
  const two = cluster().replace('[cp1, cp2, cp3]', '[cp1, cp2]');
  expect(await refused(two)).toEqual([
    '9 spec.kubernetes.controlPlanes: Cluster/blue: 2 members of etcd tolerate no more failures than 1; use an odd number',
  ]);
});

test('a machine that moves out of the machines’ network is refused, and others are accepted', async () => {
  const before = MACHINES + cluster('    networks: {machines: [10.0.0.0/24]}\n');
  const moved = await refused(machine('cp1', 11, '10.9.0.1'), before);
  expect(moved).toHaveLength(1);
  expect(moved[0]).toContain('cp1: 10.9.0.1 is outside of networks.machines');
  expect(await refused(machine('w1', 14, '10.0.0.99'), before)).toEqual([]);
});

test('a machine is of one cluster', async () => {
  const faults = await refused(cluster('', 'green'), MACHINES + cluster());
  expect(faults.every((one) => /is a machine of Cluster (blue|green) already/.test(one))).toBe(true);
  expect(faults).toHaveLength(4);
});

test('a machine that says it is of another cluster than the one that gives it a role is refused, in any order', async () => {
  const green = (text: string) =>
    text.replace('spec: {macs: ["52:54:00:00:00:14"]', 'spec: {cluster: green, macs: ["52:54:00:00:00:14"]');
  const other = `---
apiVersion: muster/v1
kind: Cluster
metadata: {name: green}
spec: {}
`;
  const says = /Cluster\/blue: w1 has "cluster: green"/;
  expect(await refused(green(MACHINES) + other + cluster())).toEqual([expect.stringMatching(says)]);
  expect(await refused(green(machine('w1', 14)), other + MACHINES + cluster())).toEqual([
    expect.stringMatching(says),
  ]);
  expect(await refused(MACHINES.replaceAll('spec: {macs', 'spec: {cluster: blue, macs') + cluster())).toEqual(
    [],
  );
});

test('the configuration of a Cluster is checked for machines that only the Cluster names', async () => {
  const asks = cluster().replace(
    '  kubernetes:',
    '  config: {files: [{path: /etc/serial, content: "${machine.serial}"}]}\n  kubernetes:',
  );
  const faults = await refused(MACHINES + asks);
  expect(faults).toHaveLength(1);
  expect(faults[0]).toMatch(/^\d+ spec\.config\.files\[0\]\.content: .*\$\{machine\.serial\}.* has no value/);
});

test('a weak setting that works is a warning with its line when it is applied, and while it is in force', async () => {
  const one = await catalog();
  await one.applyText(NETWORKS + MACHINES, 'before.yaml');
  const { warnings } = await one.applyText(cluster().replace('api.blue.test', '10.0.0.12'), 'c.yaml');
  const expected = [
    {
      code: 'E_CLUSTER',
      path: 'spec.kubernetes.endpoint',
      message:
        'Cluster/blue: it is the address of cp2: the API cannot be reached while that machine is down; use virtualAddress, a balancer or a name',
      at: { file: 'c.yaml', line: 8, column: 15 },
    },
  ];
  expect(warnings).toEqual(expected);
  expect(one.warnings().map(({ message }) => message)).toEqual([expected[0]!.message]);
  // of another document's change it is not said again
  const again = await one.applyText(machine('w1', 14).replace(':14"', ':15"'), 'w.yaml');
  expect(again.warnings).toEqual([]);
  await one.close();
});

test('a worker that no Machine is named like is a warning with the name that may be meant, until there is one', async () => {
  const one = await catalog();
  await one.applyText(NETWORKS + MACHINES + machine('worker-2', 15), 'before.yaml');
  const typo = cluster().replace('workers: [w1]', 'workers: [w1, wroker-2]');
  const { warnings } = await one.applyText(typo, 'c.yaml');
  expect(warnings).toEqual([
    {
      code: 'E_CLUSTER',
      path: 'spec.kubernetes.workers[1]',
      message:
        'Cluster/blue: there is no Machine "wroker-2"; did you mean "worker-2"?; until it exists, the cluster runs without it',
      at: { file: 'c.yaml', line: 10, column: 19 },
    },
  ]);
  expect(one.warnings()).toHaveLength(1);
  expect((await one.applyText(machine('wroker-2', 16), 'w.yaml')).warnings).toEqual([]);
  expect(one.warnings()).toEqual([]);
  await one.close();
});

test('a control plane or member of etcd that no Machine is named like is a warning too: all wait for it', async () => {
  const one = await catalog();
  await one.applyText(
    NETWORKS + MACHINES + ['cp4', 'e1', 'e2'].map((name, n) => machine(name, 15 + n)).join(''),
    'before.yaml',
  );
  const typo = cluster('    etcd: {topology: external, machines: [e1, e2, e33]}\n').replace('cp3]', 'pc4]');
  const { warnings } = await one.applyText(typo, 'c.yaml');
  expect(warnings.map(({ path, message }) => `${path}: ${message}`)).toEqual([
    'spec.kubernetes.controlPlanes[2]: Cluster/blue: there is no Machine "pc4"; did you mean "cp4"?; until it exists, the whole cluster waits',
    'spec.kubernetes.etcd.machines[2]: Cluster/blue: there is no Machine "e33"; until it exists, the whole cluster waits',
  ]);
  await one.close();
});

/** Applies a Cluster over machines whose documents are given field by field; its warnings. */
async function warnedOf(
  machines: Readonly<Record<string, string>>,
  documents = '',
  more = '',
): Promise<readonly string[]> {
  const ours = Object.entries(machines).map(
    ([name, spec], n) => `---
apiVersion: muster/v1
kind: Machine
metadata: {name: ${name}}
spec: {macs: ["52:54:00:00:00:1${n}"]${spec}}
`,
  );
  return warned(cluster(more), documents + ours.join(''));
}
const address = (n: number): string => `, addresses: [10.0.0.1${n}]`;
const wholeBut = (changes: Readonly<Record<string, string>>): Readonly<Record<string, string>> => ({
  cp1: `${address(1)}, profile: node`,
  cp2: `${address(2)}, profile: node`,
  cp3: `${address(3)}, profile: node`,
  w1: `${address(4)}, profile: node`,
  ...changes,
});

test('machines of a Cluster that cannot do their part yet are warned of: address, profile, data disk', async () => {
  expect(await warnedOf(wholeBut({}))).toEqual([]);
  expect(await warnedOf(wholeBut({ cp1: ', profile: node', w1: ', profile: node' }))).toEqual([
    'spec.kubernetes.controlPlanes[0]: Cluster/blue: cp1: no spec.addresses in its Machine; until there is one, the whole cluster waits',
    'spec.kubernetes.workers[0]: Cluster/blue: w1: no spec.addresses in its Machine; until there is one, the cluster runs without it',
  ]);
  expect(await warnedOf(wholeBut({ w1: address(4) }))).toEqual([
    'spec.kubernetes.workers[0]: Cluster/blue: w1: no profile in its Machine, and no Profile selects it; it is held when it boots',
  ]);
  const bare = PROFILE.replace('name: node', 'name: bare').replace(', dataDisk: {serial: data}', '');
  const without = (n: number) => `${address(n)}, profile: bare`;
  expect(await warnedOf(wholeBut({ cp2: without(2), cp3: without(3), w1: without(4) }), bare)).toEqual([
    'spec.kubernetes.controlPlanes[1]: Cluster/blue: cp2, cp3: a member of etcd without dataDisk in its Machine, Profile or Cluster; it is held until there is one',
  ]);
});

test('a profile that may select the machine, and a data disk of it, are no warning', async () => {
  const selecting = PROFILE.replace('name: node', 'name: any').replace(
    'boot: disk',
    'boot: disk, selector: {arch: x86_64}',
  );
  expect(await warnedOf(wholeBut({ cp1: address(1), w1: address(4) }), selecting)).toEqual([]);
});

const image = (programs: string) => `---
apiVersion: muster/v1
kind: Image
metadata: {name: debian-13}
spec: {os: debian, arch: x86_64, configFormat: cloud-init, kernel: {sha256: ${'a'.repeat(64)}}${programs}}
---
apiVersion: muster/v1
kind: Profile
metadata: {name: booted}
spec: {image: debian-13, dataDisk: {serial: data}}
`;
const booted = Object.fromEntries(
  ['cp1', 'cp2', 'cp3', 'w1'].map((name, n) => [name, `${address(n + 1)}, profile: booted`]),
);

test('an image without a program that a machine of the Cluster needs is warned of, by role', async () => {
  expect(await warnedOf(booted, image(', programs: [curl, iptables]'))).toEqual([
    'spec.kubernetes.workers[0]: Cluster/blue: w1: image debian-13 lacks haproxy; boot an image that has all of them; `muster image build debian -- --kubernetes` makes one',
  ]);
  const keepalived = '    virtualAddress: {interface: eth0, addresses: [10.0.0.99]}\n';
  expect(await warnedOf(booted, image(', programs: [curl, iptables, haproxy]'), keepalived)).toEqual([
    'spec.kubernetes.controlPlanes[0]: Cluster/blue: cp1, cp2, cp3: image debian-13 lacks keepalived; boot an image that has all of them; `muster image build debian -- --kubernetes` makes one',
  ]);
});

test('an image that lists no programs, or all of them, is not warned of', async () => {
  expect(await warnedOf(booted, image(''))).toEqual([]);
  expect(await warnedOf(booted, image(', programs: [haproxy, iptables]'))).toEqual([]);
});

test('a Machine of a Cluster that loses its address is a warning, and other changes do not repeat it', async () => {
  const one = await catalog();
  await one.applyText(NETWORKS + MACHINES + cluster(), 'before.yaml');
  const lost = await one.applyText(machine('cp1', 11).replace(', addresses: [10.0.0.11]', ''), 'cp1.yaml');
  expect(lost.warnings.map(({ message }) => message)).toEqual([
    'Cluster/blue: cp1: no spec.addresses in its Machine; until there is one, the whole cluster waits',
  ]);
  const other = await one.applyText(machine('w1', 14).replace(':14"', ':15"'), 'w1.yaml');
  expect(other.warnings).toEqual([]);
  await one.close();
});

test('a Profile or Image that changes alone is checked with the machines that have it', async () => {
  const one = await catalog();
  const machines = MACHINES.replaceAll('profile: node', 'profile: booted');
  await one.applyText(NETWORKS + image('') + machines + cluster(), 'before.yaml');
  const warned = async (text: string) =>
    (await one.applyText(text, 'c.yaml')).warnings.map(({ message }) => message);
  const [, picture, profile] = image(', programs: [curl, iptables]').split('---\n');
  expect(await warned(picture!)).toEqual([
    'Cluster/blue: w1: image debian-13 lacks haproxy; boot an image that has all of them; `muster image build debian -- --kubernetes` makes one',
  ]);
  expect(await warned(PROFILE.replace('name: node', 'name: spare'))).toEqual([]);
  expect(await warned(profile!.replace(', dataDisk: {serial: data}', ''))).toContain(
    'Cluster/blue: cp1, cp2, cp3: a member of etcd without dataDisk in its Machine, Profile or Cluster; it is held until there is one',
  );
  const twice = profile!.replace(
    'dataDisk: {serial: data}',
    'dataDisk: {path: /dev/vdb}, config: {filesystems: [{device: /dev/vdb, format: xfs}]}',
  );
  await expect(one.applyText(twice, 'c.yaml')).rejects.toThrow(
    'Profile/booted: cp1, cp2, cp3, w1: /dev/vdb is the dataDisk; remove it from config.filesystems',
  );
  await one.close();
});

test('a Profile that no longer selects machines leaves them without one, and a warning says so', async () => {
  const one = await catalog();
  const selecting = PROFILE.replace('name: node', 'name: any').replace(
    'boot: disk',
    'boot: disk, selector: {arch: x86_64}',
  );
  const machines = MACHINES.replaceAll(', profile: node', '');
  await one.applyText(NETWORKS + selecting + machines + cluster(), 'before.yaml');
  const { warnings } = await one.applyText(selecting.replace(', selector: {arch: x86_64}', ''), 'c.yaml');
  expect(warnings.map(({ message }) => message)).toContain(
    'Cluster/blue: cp1, cp2, cp3, w1: no profile in its Machine, and no Profile selects it; it is held when it boots',
  );
  const before = await one.applyText(selecting, 'c.yaml');
  expect(before.warnings).toEqual([]);
  await one.close();
});

const ON_DISKS = (disks: string, profile = 'dataDisk: {serial: data}') => `---
apiVersion: muster/v1
kind: Profile
metadata: {name: node}
spec:
  boot: disk
  ${profile}
  config:
    disks: ${disks}
`;
const ETCD_DISK =
  '[{device: /dev/disk/by-id/nvme-ETCD, partitions: [{label: etcd, filesystem: xfs, mount: /var/lib/etcd}]}]';

test('a disk that is mounted where the agent keeps the data disk is refused, because it would stay empty', async () => {
  const told = await refused(ON_DISKS(ETCD_DISK) + cluster() + MACHINES);
  expect(told.join('\n')).toContain(
    'config.disks mounts /dev/disk/by-id/nvme-ETCD at /var/lib/etcd, which the agent keeps on dataDisk; mount it elsewhere, or make it the etcdDisk',
  );
});

test('a disk that is the data disk as well is refused', async () => {
  const disks = '[{device: /dev/vdb, partitions: [{label: x, filesystem: xfs, mount: /srv}]}]';
  const told = await refused(ON_DISKS(disks, 'dataDisk: {path: /dev/vdb}') + cluster() + MACHINES);
  expect(told.join('\n')).toContain('/dev/vdb is the dataDisk; remove it from config.disks');
});

test.each([
  ['/dev/disk/by-id/ata-Maker_Model_data', true],
  ['/dev/disk/by-id/nvme-Maker_Model_data_1', true],
  ['/dev/disk/by-id/virtio-data', true],
  ['/dev/disk/by-id/ata-Maker_Model_xdata', false],
  ['/dev/disk/by-path/pci-data', false],
])('a disk at %s is the data disk with the serial number "data": %s', async (device, isIt) => {
  const disks = `[{device: ${device}, partitions: [{label: x, filesystem: xfs, mount: /srv}]}]`;
  const told = await refused(ON_DISKS(disks) + cluster() + MACHINES);
  expect(told.join('\n').includes(`${device} is the dataDisk; remove it`)).toBe(isIt);
  const etcd = await refused(
    ON_DISKS('[]', `dataDisk: {serial: data}\n  etcdDisk: {path: ${device}}`) + cluster() + MACHINES,
  );
  expect(etcd.join('\n').includes('etcdDisk and dataDisk select the same disk')).toBe(isIt);
});

test('a mount unit over the data disk and a file that it hides are refused', async () => {
  const told = async (config: string): Promise<string> =>
    (await refused(ON_DISKS(`[]\n    ${config}`) + cluster() + MACHINES)).join('\n');
  const unit = (name: string, where: string) =>
    `units: [{name: ${name}, contents: "[Mount]\\nWhat=/dev/sdb\\nWhere=${where}\\n"}]`;
  expect(await told(unit('var-lib-etcd.mount', '/var/lib/etcd'))).toContain('has var-lib-etcd.mount, over');
  expect(await told(unit('var-lib-kubelet-pods.mount', '/var/lib/kubelet/pods'))).toContain(
    'over a directory',
  );
  expect(await told(unit('var-lib-etcdold.mount', '/var/lib/etcdold'))).toBe('');
  expect(await told('files: [{path: /var/lib/kubelet/config.json, content: a}]')).toContain(
    'config.files writes /var/lib/kubelet/config.json, which the dataDisk hides',
  );
  expect(await told('files: [{path: /var/lib/kubelets, content: a}]')).toBe('');
});

test('an etcd disk is taken on members, and its faults are told with what to write', async () => {
  const told = async (spec: string) =>
    (await refused(ON_DISKS('[]', spec) + cluster() + MACHINES)).join('\n');
  const both = 'dataDisk: {serial: D}\n  etcdDisk: {serial: E}';
  expect(await told(both)).toBe('');
  expect(await told('etcdDisk: {serial: E}')).toContain('etcdDisk needs a dataDisk as well');
  expect(await told('dataDisk: {serial: E}\n  etcdDisk: {serial: E}')).toContain(
    'etcdDisk and dataDisk select the same disk; leave etcdDisk out, or name another disk',
  );
  expect(await told(`${both}\n  bootDisk: {serial: E}`)).toContain('etcdDisk and bootDisk select the same');
  const locked =
    'dataDisk: {serial: D}\n  etcdDisk: {serial: E, encrypt: boot-host}\n  bootDisk: {serial: B}';
  expect(await told(locked)).toContain('only the boot host has the key of its etcdDisk');
  const worker = MACHINES.replace(':14"], ', ':14"], etcdDisk: {serial: E}, ');
  expect((await refused(ON_DISKS('[]', both) + cluster() + worker)).join('\n')).toContain(
    'etcdDisk is for members of etcd, and w1 is none in Cluster/blue; remove it',
  );
  const disks = '[{device: /dev/vdb, partitions: [{label: x, filesystem: xfs, mount: /srv}]}]';
  const named = ON_DISKS(disks, 'dataDisk: {serial: D}\n  etcdDisk: {path: /dev/vdb}');
  expect((await refused(named + cluster() + MACHINES)).join('\n')).toContain(
    '/dev/vdb is the etcdDisk; remove it from config.disks',
  );
});

test.each([
  ['cloudInit', 'disk_setup: {/dev/vdb: {table_type: gpt}}', 'disk_setup./dev/vdb'],
  ['cloudInit', 'fs_setup: [{device: vdb, filesystem: ext4}]', 'fs_setup[0]'],
  ['cloudInit', '{device_aliases: {a: /dev/vdb}, mounts: [[a, /srv]]}', 'mounts[0]'],
  ['cloudInit', 'bootcmd: [[wipefs, -a, /dev/vdb1]]', 'bootcmd[0]'],
  ['cloudInit', 'runcmd: ["smartctl -a /dev/vdb", "echo wipefs"]', undefined],
  ['cloudInit', 'mounts: [[LABEL=vdb, /srv], [/dev/vdba, /opt]]', undefined],
  ['cloudInit', 'mounts: [[/dev/vdc, /var/lib/containerd]]', 'mounts /dev/vdc at /var/lib/containerd'],
  ['cloudInit', 'write_files: [{path: /var/lib/kubelet/x, content: a}]', 'writes /var/lib/kubelet/x'],
  ['ignition', 'storage: {disks: [{device: /dev/vdb, wipeTable: true}]}', 'storage.disks[0]'],
  [
    'ignition',
    'storage: {raid: [{name: a, level: raid1, devices: [/dev/vdb, /dev/vdc]}]}',
    'storage.raid[0]',
  ],
  ['ignition', 'storage: {luks: [{name: a, device: /dev/vdb}]}', 'storage.luks[0]'],
  [
    'ignition',
    '{variant: flatcar, version: 1.0.0, storage: {filesystems: [{device: /dev/vdb1, path: /srv, format: ext4}]}}',
    'storage.filesystems[0]',
  ],
  ['ignition', 'systemd: {units: [{name: var-lib-etcd.mount}]}', 'has var-lib-etcd.mount, over'],
  ['ignition', 'storage: {directories: [{path: /var/lib/containerd}]}', undefined],
  [
    'cloudInit',
    'write_files: [{path: /etc/muster/agent.conf, content: a}]',
    'agent.conf, which the agent writes',
  ],
  ['cloudInit', 'swap: {filename: /swap, size: 1G}', 'config makes swap'],
  ['cloudInit', 'swap: {filename: /swap, size: 0}', undefined],
  ['cloudInit', 'mounts: [[/dev/vdc, none, swap, sw]]', 'config makes swap'],
  ['ignition', 'storage: {filesystems: [{device: /dev/vdc, format: swap}]}', 'config makes swap'],
  ['ignition', 'storage: {files: [{path: /etc/muster/ca.crt}]}', 'ca.crt, which the agent writes'],
  ['ignition', 'systemd: {units: [{name: kubelet.service, mask: true}]}', 'turns kubelet.service off'],
  ['ignition', 'systemd: {units: [{name: kubelet.service, dropins: [{name: a.conf}]}]}', undefined],
])('extra.%s with %s is judged as fields are', async (field, text, message) => {
  const documents = ON_DISKS('[]', 'dataDisk: {path: /dev/vdb}').replace(
    'disks: []',
    `extra: {${field}: '${text}'}`,
  );
  const told = (await refused(documents + cluster() + MACHINES)).join('\n');
  if (message === undefined) expect(told).toBe('');
  else expect(told).toContain(message);
});

test('a file system on a whole disk that Muster owns, or where the agent mounts, is refused', async () => {
  const whole = (spec: string, filesystem: string) =>
    refused(ON_DISKS('[]', spec).replace('disks: []', `filesystems: [${filesystem}]`) + cluster() + MACHINES);
  expect(
    (await whole('dataDisk: {path: /dev/vdb}', '{device: /dev/vdb, format: ext4, mount: /srv}')).join(),
  ).toContain('/dev/vdb is the dataDisk; remove it from config.filesystems');
  expect(
    (await whole('dataDisk: {serial: D}', '{device: /dev/vdc, format: xfs, mount: /var/lib/kubelet}')).join(),
  ).toContain('config.filesystems mounts /dev/vdc at /var/lib/kubelet');
  expect(await whole('dataDisk: {serial: D}', '{device: /dev/vdc, format: xfs, mount: /srv}')).toEqual([]);
});

test('arrays and encrypted volumes are refused with what to write instead', async () => {
  const told = async (config: string) =>
    (await refused(ON_DISKS('[]').replace('disks: []', config) + cluster() + MACHINES)).join();
  expect(await told('raid: [{name: md0}]')).toContain('write arrays as storage.raid of extra.ignition');
  expect(await told('luks: []')).toContain('`encrypt` of its dataDisk');
  expect(await told('disks: [{device: /dev/vdb, encrypt: tpm}]')).toContain('storage.luks');
});

test('a disk that is mounted elsewhere is taken, and so is one of a machine without a data disk', async () => {
  const elsewhere = ETCD_DISK.replace('/var/lib/etcd', '/srv/etcd');
  expect(await refused(ON_DISKS(elsewhere) + cluster() + MACHINES)).toEqual([]);
  const images = ETCD_DISK.replace('/var/lib/etcd', '/var/lib/containerd');
  expect(await refused(ON_DISKS(images, '') + cluster() + MACHINES)).toEqual([]);
});

test('what a Cluster or Profile says wrong about disks is told once, at its line, with the machines', async () => {
  const two = `dataDisk: {serial: disk}\n  etcdDisk: {serial: disk}\n`;
  const text = `---
apiVersion: muster/v1
kind: Profile
metadata: {name: bare}
spec: {boot: disk}
${MACHINES.replaceAll('profile: node', 'profile: bare')}${cluster(`  ${two}`)}`;
  const line = text.split('\n').findIndex((one) => one.includes('etcdDisk')) + 1;
  expect(await refused(text)).toEqual([
    `${line} spec.etcdDisk: Cluster/blue: cp1, cp2, cp3: etcdDisk and dataDisk select the same disk; leave etcdDisk out, or name another disk`,
  ]);
  const config =
    '  config: {filesystems: [{device: /dev/disk/by-id/ata-disk_data, format: ext4, mount: /srv}]}\n';
  expect(await refused(cluster(config) + MACHINES)).toEqual([
    `11 spec.config.filesystems: Cluster/blue: cp1, cp2, cp3, w1: /dev/disk/by-id/ata-disk_data is the dataDisk; remove it from config.filesystems`,
  ]);
});

/** What applying a whole cluster says whose Profile and Image have these fields. */
async function toldOf(profile: string, image: string, more = ''): Promise<readonly string[]> {
  const one = await catalog();
  const sha = 'a'.repeat(64);
  const of = (kind: string, name: string, spec: string) =>
    `---\napiVersion: muster/v1\nkind: ${kind}\nmetadata: {name: ${name}}\nspec: ${spec}\n`;
  const documents =
    of('Image', 'system', `{os: debian, arch: x86_64, kernel: {sha256: ${sha}}, reports: true, ${image}}`) +
    of(
      'Profile',
      'held',
      `{image: system, ${profile.includes('dataDisk') ? '' : 'dataDisk: {serial: data}, '}${profile}}`,
    ) +
    MACHINES.replaceAll('profile: node', 'profile: held');
  try {
    await one.applyText(NETWORKS, 'networks.yaml');
    const { warnings } = await one.applyText(documents + cluster(more), 'c.yaml');
    return warnings.map(({ message }) => message).filter((text) => !text.includes('lacks'));
  } catch (error) {
    if (!(error instanceof MusterError)) throw error;
    return error.faults.map(({ message }) => `refused ${message}`);
  } finally {
    await one.close();
  }
}

test.for([
  ['a: {}', 'configFormat: none', /cp1, cp2, cp3: image system has configFormat none, so it gets no agent/],
  [
    'kernelArguments: [systemd.unified_cgroup_hierarchy=0]',
    'configFormat: cloud-init',
    /cp1, cp2, cp3, w1: the kernel argument systemd\.unified_cgroup_hierarchy=0 .* held/,
  ],
  [
    'dataDisk: {path: /dev/nvme0n1p1}',
    'configFormat: cloud-init',
    /refused Profile\/held: cp1, cp2, cp3, w1: dataDisk is \/dev\/nvme0n1p1, which is a partition, .* write \/dev\/nvme0n1$/,
  ],
  [
    'selector: {arch: aarch64}',
    'configFormat: cloud-init',
    /Profile\/held: selects machines of aarch64, and Image\/system is for x86_64/,
  ],
] as const)(
  'what would hold a machine is told when it is applied: %s, %s',
  async ([profile, image, expected]) => {
    const field = profile.startsWith('a:') ? 'trust: segment' : profile;
    const told = await toldOf(field, image);
    expect(told.filter((text) => expected.test(text))).not.toEqual([]);
  },
);

test('IPv6 that is turned off is told only where the cluster has IPv6; later arguments win', async () => {
  const off = 'kernelArguments: [ipv6.disable=1]';
  const format = 'configFormat: cloud-init';
  expect((await toldOf(off, format)).filter((text) => text.includes('IPv6'))).toEqual([]);
  expect(
    await toldOf(
      'kernelArguments: [systemd.unified_cgroup_hierarchy=1]',
      `${format}, kernelArguments: [systemd.unified_cgroup_hierarchy=0]`,
    ),
  ).toEqual([]);
});

test('an endpoint below dnsDomain, and one of two Clusters, are warned of', async () => {
  const one = await catalog();
  await one.applyText(NETWORKS + MACHINES, 'm.yaml');
  const below = await one.applyText(cluster('    dnsDomain: blue.test\n'), 'blue.yaml');
  expect(below.warnings.map(({ message }) => message)).toEqual([
    expect.stringContaining('Cluster/blue: api.blue.test is below dnsDomain blue.test'),
  ]);
  const alone = cluster('', 'alone')
    .replace('api.alone.test', 'api.blue.test')
    .replace(/controlPlanes.*\n.*\n/, 'controlPlanes: [other]\n');
  const twice = await one.applyText(alone, 'alone.yaml');
  expect(twice.warnings.map(({ message }) => message)).toContainEqual(
    expect.stringContaining('api.blue.test is the endpoint of Cluster/blue as well'),
  );
  await one.close();
});
