/** Manifests and kubelet's files, field by field against kubeadm's for the same cluster. */
import fs from 'node:fs';
import { load } from 'js-yaml';
import { expect, test } from 'vitest';
import { kubeletFiles, kubeletUnitFlags } from '../../../../src/cluster/plan/kubelet.ts';
import { manifestFiles } from '../../../../src/cluster/plan/manifests.ts';
import { pinImages } from '../../../../src/cluster/plan/supplies.ts';
import { CLUSTER_DEVIATIONS } from '../../../../src/cluster/resolve/deviations.ts';
import { FOUNDING, resolved } from '../kit.ts';

// biome-ignore lint/suspicious/noExplicitAny: documents as their readers see them
type Loose = any;

const golden: Loose = JSON.parse(fs.readFileSync('test/golden/cluster/kubeadm.json', 'utf8'));

const earlier: Loose = JSON.parse(fs.readFileSync('test/golden/cluster/kubeadm-before-1.36.json', 'utf8'));

/** What kubeadm of a version writes: the files of 1.36.3 with what an earlier version adds. */
const goldenOf = (version: string): Loose => merged(golden, earlier[version] ?? {});

const isMapping = (value: Loose): boolean =>
  typeof value === 'object' && value !== null && !Array.isArray(value);

const merged = (wide: Loose, narrow: Loose): Loose =>
  !isMapping(wide) || !isMapping(narrow)
    ? narrow
    : Object.fromEntries(
        [...new Set([...Object.keys(wide), ...Object.keys(narrow)])].map((key) => [
          key,
          key in narrow ? merged(wide[key], narrow[key]) : wide[key],
        ]),
      );

const VERSIONS = ['1.34.9', '1.35.6', '1.36.3'] as const;

const DIGEST = `sha256:${'d'.repeat(64)}`;

const flagsOf = (command: readonly string[]): Record<string, string> =>
  Object.fromEntries(command.map((flag) => /^--([^=]+)=(.*)$/s.exec(flag)!.slice(1) as [string, string]));

/** Every scalar by its path. */
function flat(value: Loose, path = ''): Map<string, string> {
  if (typeof value !== 'object' || value === null || Array.isArray(value))
    return new Map([[path, JSON.stringify(value)]]);
  const entries = Object.entries(value).flatMap(([key, inner]) => [
    ...flat(inner, path === '' ? key : `${path}.${key}`),
  ]);
  return new Map(entries.length === 0 ? [[path, '{}']] : entries);
}

function differing(where: string, expected: Loose, found: Loose): string[] {
  const [a, b] = [flat(expected), flat(found)];
  return [...new Set([...a.keys(), ...b.keys()])]
    .filter((key) => a.get(key) !== b.get(key))
    .map((key) => `${where} ${key}`);
}

const dashed = (flags: Record<string, string>) =>
  Object.fromEntries(Object.entries(flags).map(([flag, value]) => [`--${flag}`, value]));

/** All differences between the golden files and ours, in the deviations' form. */
function differences(version: string): string[] {
  const golden = goldenOf(version);
  const cluster = pinImages(resolved({ version }), () => DIGEST);
  const machine = cluster.machines.find(({ name }) => name === 'cp1')!;
  const found = manifestFiles(cluster, machine, FOUNDING, () => 'digest').flatMap(({ path, text }) => {
    const name = path.split('/').at(-1)!.replace('.yaml', '');
    const pod = load(text) as Loose;
    const { command, volumeMounts, ...container } = pod.spec.containers[0];
    const { containers: _, volumes, ...spec } = pod.spec;
    const expected = golden.manifests[name];
    const mounts = Object.fromEntries(volumeMounts.map(({ name, ...mount }: Loose) => [name, mount]));
    const hostPaths = Object.fromEntries(volumes.map(({ name, hostPath }: Loose) => [name, hostPath]));
    expect(command[0]).toBe(name);
    expect(pod.status).toEqual({});
    return [
      ...differing(name, dashed(expected.flags), dashed(flagsOf(command.slice(1)))),
      ...differing(name, expected.metadata, pod.metadata),
      ...differing(name, expected.container, container),
      ...differing(name, expected.spec, spec),
      ...differing(
        name,
        { mounts: expected.mounts, volumes: expected.volumes },
        { mounts, volumes: hostPaths },
      ),
    ];
  });
  const files = new Map(
    kubeletFiles(cluster, machine).map(({ path, text }) => [path.split('/').at(-1), text]),
  );
  const args = /^KUBELET_KUBEADM_ARGS="(.*)"\n$/.exec(files.get('kubeadm-flags.env')!)![1]!.split(' ');
  return [
    ...found,
    ...differing('kubelet', golden.kubelet.config, load(files.get('config.yaml')!)),
    ...differing('kubelet', golden.kubelet.instance, load(files.get('instance-config.yaml')!)),
    ...differing('kubelet', dashed(golden.kubelet.flags), dashed(flagsOf(args))),
  ];
}

const namesOf = (where: string): readonly string[] =>
  Object.entries(CLUSTER_DEVIATIONS)
    .filter(([, { fields }]) => fields.test(where))
    .map(([name]) => name);

test.for(VERSIONS)(
  'manifests and kubelet’s configuration of %s are kubeadm’s but for named deviations',
  (version) => {
    expect(differences(version).filter((where) => namesOf(where).length !== 1)).toEqual([]);
  },
);

test('each named deviation is used, some by earlier versions alone', () => {
  const used = (version: string) => [...new Set(differences(version).flatMap(namesOf))].sort();
  const all = Object.keys(CLUSTER_DEVIATIONS).sort();
  const only = (...names: readonly string[]) => all.filter((name) => !names.includes(name));
  expect(used('1.34.9')).toEqual(all);
  expect(used('1.35.6')).toEqual(only('sandboxImage', 'crashLoopGate'));
  expect(used('1.36.3')).toEqual(only('sandboxImage', 'crashLoopGate', 'flexVolume'));
});

test('every deviation has a reason in a sentence', () => {
  for (const { reason } of Object.values(CLUSTER_DEVIATIONS)) expect(reason).toMatch(/^\S.*\.$/);
});

test.for(VERSIONS)('images of %s are those that kubeadm lists', (version) => {
  expect(Object.values(resolved({ version }).images).sort()).toEqual(goldenOf(version).images);
});

test('flags stand in kubeadm’s order', () => {
  const cluster = resolved();
  const [etcd] = manifestFiles(cluster, cluster.machines[0]!, FOUNDING);
  const command = (load(etcd!.text) as Loose).spec.containers[0].command.slice(1) as string[];
  const names = command.map((flag) => flag.split('=')[0]!);
  expect(names).toEqual([...names].sort());
  expect(command).toContain(
    '--initial-cluster=cp1=https://10.0.0.11:2380,cp2=https://10.0.0.12:2380,cp3=https://10.0.0.13:2380',
  );
});

test('without a founding there is no manifest of etcd', () => {
  const cluster = resolved();
  expect(manifestFiles(cluster, cluster.machines[0]!).map(({ path }) => path)).not.toContain(
    '/etc/kubernetes/manifests/etcd.yaml',
  );
});

test('nothing is left to expand in any file of any machine', () => {
  const cluster = resolved();
  for (const machine of cluster.machines) {
    const files = [...manifestFiles(cluster, machine, FOUNDING), ...kubeletFiles(cluster, machine)];
    expect(files.filter(({ text }) => text.includes('${')).map(({ path }) => path)).toEqual([]);
    expect(kubeletUnitFlags(cluster, machine).join(' ')).not.toContain('${');
  }
});

test('a worker has no static pods, no taint and no shortened back-off', () => {
  const cluster = resolved();
  const worker = cluster.machines.find(({ name }) => name === 'w1')!;
  expect(manifestFiles(cluster, worker, FOUNDING)).toEqual([]);
  const config = load(kubeletFiles(cluster, worker)[0]!.text) as Loose;
  expect(config.registerWithTaints).toBeUndefined();
  expect(config.crashLoopBackOff).toBeUndefined();
});

test.for([
  ['1.34', undefined, true],
  ['1.35', undefined, false],
  ['1.35', '1.34.9', true],
  ['1.36', undefined, false],
] as const)(
  'a kubelet of 1.34 needs the gate for the capped back-off, on workers too, where an override may set it: %s, kubelet %s',
  ([version, kubelet, gate]) => {
    const cluster = resolved({
      version,
      overrides: {
        ...(kubelet && { versions: { kubelet } }),
        kubelet: { config: { crashLoopBackOff: { maxContainerRestartPeriod: '60s' } } },
      },
    });
    for (const name of ['cp1', 'w1']) {
      const machine = cluster.machines.find((one) => one.name === name)!;
      const config = load(kubeletFiles(cluster, machine)[0]!.text) as Loose;
      expect(config.featureGates).toEqual(gate ? { KubeletCrashLoopBackOffMax: true } : undefined);
    }
  },
);

test.for([
  ['3.4.34', '--experimental-initial-corrupt-check=true', '/health?exclude=NOSPACE&serializable=true'],
  ['3.5.26-0', '--experimental-initial-corrupt-check=true', '/livez'],
  ['3.6.8-0', '--feature-gates=InitialCorruptCheck=true', '/livez'],
] as const)('etcd %s is started with its own flags and probes', ([version, flag, probe]) => {
  const cluster = resolved(
    { etcd: { topology: 'external', machines: ['e1'] }, overrides: { versions: { etcd: version } } },
    [
      ...['cp1', 'cp2', 'cp3', 'w1', 'w2'].map((name, n) => ({ name, addresses: [`10.0.0.${11 + n}`] })),
      { name: 'e1', addresses: ['10.0.0.31'] },
    ],
  );
  const machine = cluster.machines.find(({ name }) => name === 'e1')!;
  const [file, ...more] = manifestFiles(cluster, machine, {
    ...FOUNDING,
    members: [{ name: 'e1', address: '10.0.0.31' }],
  });
  expect(more).toEqual([]);
  const container = (load(file!.text) as Loose).spec.containers[0];
  expect(container.command).toContain(flag);
  expect(container.startupProbe.httpGet.path).toBe(probe);
  expect(cluster.flags['kube-apiserver']['etcd-servers']).toBe('https://10.0.0.31:2379');
});

test('dual stack: both families in ranges, service addresses, masks and node addresses; the first of each in front', () => {
  const machines = ['cp1', 'cp2', 'cp3', 'w1', 'w2'].map((name, n) => ({
    name,
    addresses: [`fd00::${n + 1}`, `10.0.0.${n + 1}`],
  }));
  const cluster = resolved(
    {
      networks: {
        pods: ['fd00:10:244::/56', '10.244.0.0/16'],
        services: ['fd00:10:96::/112', '10.96.0.0/16'],
      },
      sans: [],
    },
    machines,
  );
  expect(cluster.serviceAddresses).toEqual({
    kubernetes: ['fd00:10:96::1', '10.96.0.1'],
    dns: ['fd00:10:96::a', '10.96.0.10'],
  });
  expect(cluster.flags['kube-apiserver']['service-cluster-ip-range']).toBe('fd00:10:96::/112,10.96.0.0/16');
  expect(cluster.flags['kube-controller-manager']).toMatchObject({
    'node-cidr-mask-size-ipv4': '24',
    'node-cidr-mask-size-ipv6': '64',
  });
  const machine = cluster.machines[0]!;
  const files = manifestFiles(cluster, machine, {
    ...FOUNDING,
    members: [{ name: 'cp1', address: 'fd00::1' }],
  });
  const etcd = files.find(({ path }) => path.endsWith('etcd.yaml'))!.text;
  expect(etcd).toContain('--initial-cluster=cp1=https://[fd00::1]:2380');
  expect(etcd).toContain('--listen-client-urls=https://127.0.0.1:2379,https://[fd00::1]:2379');
  expect(files[1]!.text).toContain('--advertise-address=fd00::1');
  expect(kubeletFiles(cluster, machine).at(-1)!.text).toContain('--node-ip=fd00::1,10.0.0.1');
});
