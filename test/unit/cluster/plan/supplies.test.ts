/** Binaries of the boot host in a machine's plan. */
import { expect, test } from 'vitest';
import { type Artifact, type BinaryArtifact, openArtifactBook } from '../../../../src/artifacts/book.ts';
import { cidr, ipv4 } from '../../../../src/base/ipv4.ts';
import { planLines } from '../../../../src/cluster/plan/machine-plan.ts';
import { manifestFiles } from '../../../../src/cluster/plan/manifests.ts';
import { binaryLines, pinImages } from '../../../../src/cluster/plan/supplies.ts';
import { requiredArtifacts } from '../../../../src/cluster/resolve/artifacts.ts';
import type { ServedNetwork } from '../../../../src/pxe/network.ts';
import { createSupplies } from '../../../../src/pxe/supplies.ts';
import { openMemoryStore } from '../../../../src/store/memory.ts';
import { FOUNDING, resolved } from '../kit.ts';

const FULL = resolved();
const [cp1] = FULL.machines;
const worker = FULL.machines.find(({ name }) => name === 'w1')!;
const HASH = 'ab'.repeat(32);
const DIGEST = `sha256:${'d'.repeat(64)}`;
const OTHER_DIGEST = `sha256:${'e'.repeat(64)}`;

const binary = (name: string, version: string, form: 'file' | 'tar', sha256 = HASH): BinaryArtifact => ({
  kind: 'binary',
  name,
  version,
  arch: 'x86_64',
  sha256,
  size: 1,
  form,
});
async function bookWith(...artifacts: readonly Artifact[]) {
  const book = await openArtifactBook(openMemoryStore());
  await book.put(artifacts);
  return book;
}
const urlOf = (sha256: string, name: string) => `http://h/${sha256}/${name}`;

test('a program by itself is fetched where it is found first, an archive is unpacked where its publisher means it', async () => {
  const book = await bookWith(
    binary('kubelet', '1.36.3', 'file'),
    binary('containerd', FULL.versions.containerd, 'tar'),
    binary('cni-plugins', '1.9.1', 'tar'),
  );
  const lines = binaryLines({ resolved: FULL, machine: worker, arch: 'x86_64', book, urlOf });
  const url = (name: string) => `http://h/${HASH}/${name}`;
  expect(lines.filter((line) => line.do !== 'directory')).toEqual([
    { do: 'fetch', mode: 0o755, path: '/usr/local/bin/kubelet', url: url('kubelet'), sha256: HASH, size: 1 },
    { do: 'unpack', directory: '/usr/local', url: url('containerd'), sha256: HASH, size: 1 },
    { do: 'unpack', directory: '/opt/cni/bin', url: url('cni-plugins'), sha256: HASH, size: 1 },
  ]);
});

test("programs out of etcd's archive are linked from where they are found, on members only", async () => {
  const book = await bookWith(binary('etcd', '3.6.8', 'tar'));
  const lines = binaryLines({ resolved: FULL, machine: cp1!, arch: 'x86_64', book, urlOf });
  expect(lines).toContainEqual({
    do: 'link',
    to: '/usr/local/lib/muster/etcd/etcd-v3.6.8-linux-amd64/etcdctl',
    path: '/usr/local/bin/etcdctl',
    onlyIfAbsent: false,
  });
  expect(binaryLines({ resolved: FULL, machine: worker, arch: 'x86_64', book, urlOf })).toEqual([]);
});

test('another version or processor is not taken', async () => {
  const book = await bookWith(binary('kubelet', '1.36.2', 'file'));
  expect(binaryLines({ resolved: FULL, machine: worker, arch: 'x86_64', book, urlOf })).toEqual([]);
  const own = await bookWith(binary('kubelet', '1.36.3', 'file'));
  expect(binaryLines({ resolved: FULL, machine: worker, arch: 'aarch64', book: own, urlOf })).toEqual([]);
});

test('another binary restarts only the unit that runs it', async () => {
  const digests = (name: 'kubelet' | 'containerd', sha256: string) => {
    const binaries =
      name === 'kubelet'
        ? ([{ do: 'fetch', mode: 0o755, path: '/usr/local/bin/kubelet', url: 'http://h', sha256 }] as const)
        : ([{ do: 'unpack', directory: '/usr/local', url: 'http://h', sha256 }] as const);
    const lines = planLines({ resolved: FULL, machine: worker, data: [], pki: [], binaries });
    return new Map(lines.flatMap((line) => (line.do === 'run' ? [[line.unit, line.digest] as const] : [])));
  };
  for (const name of ['kubelet', 'containerd'] as const) {
    const [a, b] = [digests(name, HASH), digests(name, 'cd'.repeat(32))];
    const changed = [...a].filter(([unit, digest]) => b.get(unit) !== digest).map(([unit]) => unit);
    expect(changed).toEqual([`${name}.service`]);
  }
});

test('every binary that a cluster requires has a place, for both processors', async () => {
  for (const arch of ['x86_64', 'aarch64'] as const)
    for (const form of ['file', 'tar'] as const) {
      const required = requiredArtifacts(FULL, arch).filter((one) => one.kind === 'binary');
      const book = await bookWith(
        ...required.map(({ name, version }) => ({ ...binary(name, version, form), arch })),
      );
      const lines = binaryLines({ resolved: FULL, machine: cp1!, arch, book, urlOf });
      const brought = lines.filter((line) => line.do === 'fetch' || line.do === 'unpack');
      expect(brought).toHaveLength(required.length);
      for (const line of lines) if (line.do === 'unpack') expect(line.directory).toMatch(/^\//);
    }
});

const LAN = {
  name: 'lan',
  subnet: cidr('10.0.0.0/24'),
  serverAddress: ipv4('10.0.0.1'),
  httpPort: 8080,
} as ServedNetwork;
const image = (reference: string): Artifact => ({
  kind: 'image',
  reference,
  digest: DIGEST,
  mediaType: 'application/vnd.oci.image.manifest.v1+json',
  manifests: [{ mediaType: 'application/vnd.oci.image.manifest.v1+json', digest: DIGEST, size: 1 }],
  blobs: [],
});
const suppliesOf = async (network: ServedNetwork, ...artifacts: readonly Artifact[]) => {
  const book = await bookWith(...artifacts);
  return createSupplies({
    networks: () => [network],
    roster: { get: () => undefined },
    book,
    agentPort: () => 8443,
  });
};

test('a machine gets URLs with the address by which it reaches this host; without one it gets none', async () => {
  const kubelet = binary('kubelet', '1.36.3', 'file');
  const { binaries, mirrors } = (await suppliesOf(LAN, kubelet))(FULL, worker);
  expect(mirrors).toEqual(['https://10.0.0.1:8443']);
  expect(binaries).toContainEqual(
    expect.objectContaining({ do: 'fetch', url: `http://10.0.0.1:8080/assets/${HASH}/kubelet` }),
  );
  const elsewhere = await suppliesOf({ ...LAN, subnet: cidr('192.168.0.0/24') }, kubelet);
  expect(elsewhere(FULL, worker)).toMatchObject({ binaries: [], mirrors: [] });
});

test('static pods name the images that are here by their digest as well, and others as they are', async () => {
  const cluster = resolved({
    overrides: { images: { 'kube-scheduler': `registry.k8s.io/kube-scheduler@${OTHER_DIGEST}` } },
  });
  const here = ['etcd', 'kube-apiserver', 'pause'] as const;
  const artifacts = here.map((what) => image(cluster.images[what]));
  const imagesOf = async (network: ServedNetwork) => {
    const { digestOf } = (await suppliesOf(network, ...artifacts))(cluster, cp1!);
    const pinned = pinImages(cluster, digestOf);
    expect(pinned.images.pause).toBe(cluster.images.pause);
    return manifestFiles(pinned, cp1!, FOUNDING).map(({ text }) => /image: "?([^"\n]+)/.exec(text)?.[1]);
  };
  const tags = [
    'registry.k8s.io/etcd:3.6.8-0',
    'registry.k8s.io/kube-apiserver:v1.36.3',
    'registry.k8s.io/kube-controller-manager:v1.36.3',
    `registry.k8s.io/kube-scheduler@${OTHER_DIGEST}`,
  ];
  expect(await imagesOf(LAN)).toEqual([`${tags[0]}@${DIGEST}`, `${tags[1]}@${DIGEST}`, tags[2], tags[3]]);
  // Who does not reach the registry here is not told a digest that may be nowhere else.
  expect(await imagesOf({ ...LAN, subnet: cidr('192.168.0.0/24') })).toEqual(tags);
});
