/**
 * A cluster whose containers are run by CRI-O: what names the runtime names this one, everywhere.
 */
import { expect, test } from 'vitest';
import type { PlanLine } from '../../../../src/agent/wire/plan.ts';
import { openArtifactBook } from '../../../../src/artifacts/book.ts';
import { foundingOrders } from '../../../../src/cluster/etcd/commands.ts';
import type { Founder } from '../../../../src/cluster/etcd/founder.ts';
import { containerdLines } from '../../../../src/cluster/plan/containerd.ts';
import { crioConfig, crioLines, crioRegistries } from '../../../../src/cluster/plan/cri-o.ts';
import { departurePlan } from '../../../../src/cluster/plan/departure.ts';
import { binaryLines } from '../../../../src/cluster/plan/supplies.ts';
import { requiredArtifacts } from '../../../../src/cluster/resolve/artifacts.ts';
import { openMemoryStore } from '../../../../src/store/memory.ts';
import { completed, faults, resolved } from '../kit.ts';
import { rig, settle, TestMachine } from '../planner-kit.ts';

const CRIO = { runtime: 'cri-o' } as const;
const MIRRORED = { ...resolved(CRIO), mirrors: ['https://10.0.0.1:8443', 'http://mirror.example/all/'] };

const textsOf = (lines: readonly PlanLine[]): string =>
  lines
    .flatMap((line) =>
      'content' in line && 'path' in line && 'text' in line.content
        ? [`${line.path}\n${line.content.text}`]
        : [],
    )
    .join('\n');

test.for(['cp1', 'w1'])(
  'the plan of %s runs CRI-O before kubelet, keeps its images on the data disk, and names no other runtime',
  async (name) => {
    const { planner } = await rig({ spec: CRIO });
    if (name === 'w1') await settle(planner, new TestMachine('cp1'));
    const { lines } = await settle(planner, new TestMachine(name));
    const units = lines.flatMap((line) => (line.do === 'run' ? [line.unit] : []));
    expect(units.indexOf('crio.service')).toBeGreaterThanOrEqual(0);
    expect(units.indexOf('crio.service')).toBeLessThan(units.indexOf('kubelet.service'));
    for (const directory of ['containers', 'crio'])
      expect(lines).toContainEqual({ do: 'bind', directory, path: `/var/lib/${directory}` });
    const texts = textsOf(lines);
    expect(JSON.stringify(lines)).not.toMatch(/containerd|\bctr /);
    expect(texts).toContain('pull() {\n  crictl inspecti "$1" >/dev/null 2>&1 || crictl pull "$1"\n}\n');
    expect(texts).toContain(
      'After=network-online.target crio.service muster-images.service systemd-resolved.service\n',
    );
    expect(texts.match(/containerRuntimeEndpoint: "?unix:\/\/\/var\/run\/crio\/crio\.sock/g)).toHaveLength(2);
    expect(texts).toContain('/etc/crictl.yaml\nruntime-endpoint: unix:///var/run/crio/crio.sock\n');
  },
);

test('its settings are those in which it has to differ from its own', () => {
  const cluster = resolved({ ...CRIO, overrides: { cniPlugins: '/opt/other/bin' } });
  expect(crioConfig(cluster)).toBe(`[crio.runtime]
cgroup_manager = "systemd"

[crio.image]
pause_image = "registry.k8s.io/pause:3.10.2"
signature_policy = "/etc/crio/policy.json"

[crio.network]
network_dir = "/etc/cni/net.d/"
plugin_dirs = ["/opt/other/bin"]
`);
});

test('every registry that a cluster needs has the mirrors, with the CA where they are asked by TLS', () => {
  const text = crioRegistries(MIRRORED);
  const entry = (registry: string) => `[[registry]]
prefix = "${registry}"
location = "${registry}"
[[registry.mirror]]
location = "10.0.0.1:8443/${registry}"
[[registry.mirror]]
location = "mirror.example/all/${registry}"
insecure = true
`;
  for (const registry of ['registry.k8s.io', 'ghcr.io', 'docker.io']) expect(text).toContain(entry(registry));
  const own = { ...MIRRORED, images: { ...MIRRORED.images, etcd: 'registry.example:5000/etcd:3.6.8-0' } };
  expect(crioRegistries(own)).toContain(entry('registry.example:5000'));
  const { files } = crioLines(MIRRORED);
  expect(files.filter(({ do: what }) => what === 'link')).toEqual([
    {
      do: 'link',
      to: '/etc/muster/ca.crt',
      path: '/etc/containers/certs.d/10.0.0.1:8443/ca.crt',
      onlyIfAbsent: false,
    },
  ]);
});

test('only another mirror, pause image or bundle restarts it', () => {
  const digest = (cluster = MIRRORED, binaries: readonly PlanLine[] = []) => {
    const { run } = crioLines(cluster, binaries);
    return run.do === 'run' ? run.digest : '';
  };
  const bundle = (sha256: string): PlanLine => ({
    do: 'unpack',
    directory: '/usr/local/lib/muster/crio',
    url: 'http://h/x',
    sha256,
  });
  const changed = [
    digest({ ...MIRRORED, mirrors: [] }),
    digest({ ...MIRRORED, images: { ...MIRRORED.images, pause: 'registry.k8s.io/pause:4' } }),
    digest(MIRRORED, [bundle('1'.repeat(64))]),
    digest(MIRRORED, [bundle('2'.repeat(64))]),
  ];
  expect(new Set([digest(), ...changed]).size).toBe(5);
  expect(digest({ ...MIRRORED, timeServers: ['10.0.0.1'] })).toBe(digest());
});

test('the bundle of its publisher comes instead of containerd, runc and nerdctl, and its programs are found', async () => {
  const names = (cluster = resolved(CRIO)) =>
    requiredArtifacts(cluster, 'aarch64').flatMap((one) => (one.kind === 'binary' ? [one.name] : []));
  expect(names(resolved()).filter((name) => !names().includes(name))).toEqual([
    'containerd',
    'runc',
    'nerdctl',
  ]);
  expect(names().filter((name) => !names(resolved()).includes(name))).toEqual(['cri-o']);
  const [bundle] = requiredArtifacts(resolved(CRIO), 'aarch64').filter(
    (one) => one.kind === 'binary' && one.name === 'cri-o',
  );
  expect(bundle).toMatchObject({
    version: '1.36.3',
    form: 'tar',
    url: 'https://storage.googleapis.com/cri-o/artifacts/cri-o.arm64.v1.36.3.tar.gz',
    checksums: 'https://storage.googleapis.com/cri-o/artifacts/cri-o.arm64.v1.36.3.tar.gz.sha256sum',
  });
  const book = await openArtifactBook(openMemoryStore());
  const sha256 = 'ab'.repeat(32);
  await book.put([
    { kind: 'binary', name: 'cri-o', version: '1.36.3', arch: 'aarch64', sha256, size: 1, form: 'tar' },
  ]);
  const cluster = resolved(CRIO);
  const lines = binaryLines({
    resolved: cluster,
    machine: cluster.machines[0]!,
    arch: 'aarch64',
    book,
    urlOf: () => 'http://h/x',
  });
  expect(lines).toContainEqual({
    do: 'unpack',
    directory: '/usr/local/lib/muster/crio',
    url: 'http://h/x',
    sha256,
    size: 1,
  });
  expect(lines.flatMap((line) => (line.do === 'link' ? [`${line.path} -> ${line.to}`] : []))).toEqual(
    ['crio', 'conmon', 'pinns', 'crun', 'runc'].map(
      (program) => `/usr/local/bin/${program} -> /usr/local/lib/muster/crio/cri-o/bin/${program}`,
    ),
  );
});

test('one that is not of kubelet’s minor version, a mirror that it cannot name, and an override of the choice are refused', () => {
  const refused = (changes: Parameters<typeof faults>[0]) => faults({ ...CRIO, ...changes });
  expect(refused({})).toEqual([]);
  expect(refused({ overrides: { versions: { 'cri-o': '1.34.11' } } })).toEqual([
    'error overrides.versions.cri-o: CRI-O 1.34.11 is not for kubelet 1.36',
  ]);
  expect(refused({ mirrors: ['https://[fd00::1]:5000'] })).toEqual([
    "error mirrors: CRI-O reads the CA of a mirror from a directory with the mirror's name, and Muster cannot write the brackets of https://[fd00::1]:5000 into a path; give the mirror a DNS name",
  ]);
  expect(faults({ overrides: { runtime: 'cri-o' } })).toEqual([
    'error overrides.runtime: it follows from spec.kubernetes.runtime; set that',
  ]);
});

test('a restore is ordered as under containerd, also where etcd is a static pod', async () => {
  const restored: string[] = [];
  const founder = { restore: async (cluster: string) => void restored.push(cluster) } as unknown as Founder;
  await foundingOrders({ get: () => completed(CRIO) }, founder, () => 0).restore('golden', 'cp1', []);
  expect(restored).toEqual(['golden']);
});

test('a machine that leaves stops it like the other', () => {
  const record = { cluster: 'golden', id: 'f1', reset: { at: 1 } } as unknown as Parameters<
    typeof departurePlan
  >[0];
  const { lines } = departurePlan(record, 'cp1', new TestMachine('cp1').facts());
  const stopped = lines.flatMap((line) => (line.do === 'stop' ? [line.unit] : []));
  expect(stopped.indexOf('kubepods.slice')).toBeLessThan(stopped.indexOf('crio.service'));
});

test('a mirror whose path names the place of the API has the images right below it, in both runtimes', () => {
  const cache = {
    ...MIRRORED,
    mirrors: ['https://harbor.example/v2/dockerhub', 'https://plain.example/cache'],
  };
  expect(crioRegistries(cache)).toContain('location = "harbor.example/dockerhub"');
  expect(crioRegistries(cache)).toContain('location = "plain.example/cache/docker.io"');
  const hosts = containerdLines({ ...cache }).files.find(
    (line) => line.do === 'put' && line.path.endsWith('/_default/hosts.toml'),
  );
  const text = hosts?.do === 'put' && 'text' in hosts.content ? String(hosts.content.text) : '';
  const [harbor, plain] = text.split('\n\n');
  expect(harbor).toContain('override_path = true');
  expect(plain).not.toContain('override_path');
});
