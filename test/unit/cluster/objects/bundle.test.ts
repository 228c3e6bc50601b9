/**
 * In-cluster objects, field by field against what kubeadm put into an API server for the same
 * cluster.
 */
import fs from 'node:fs';
import { load, loadAll } from 'js-yaml';
import { expect, test } from 'vitest';
import { millis } from '../../../../src/base/duration.ts';
import { applying } from '../../../../src/cluster/objects/applied.ts';
import { bundleOf, manifestText } from '../../../../src/cluster/objects/bundle.ts';
import { kubeProxyObjects } from '../../../../src/cluster/objects/kube-proxy.ts';
import { componentHash } from '../../../../src/cluster/objects/kubeadm.ts';
import { requiredArtifacts } from '../../../../src/cluster/resolve/artifacts.ts';
import { OBJECT_DEVIATIONS } from '../../../../src/cluster/resolve/deviations.ts';
import { MACHINES, resolved } from '../kit.ts';

// biome-ignore lint/suspicious/noExplicitAny: documents as their readers see them
type Loose = any;

const golden: Readonly<Record<string, Loose>> = JSON.parse(
  fs
    .readFileSync('test/golden/cluster/objects.json', 'utf8')
    .replace('<redacted>', Buffer.from('CA\n').toString('base64')),
);
const idOf = ({ kind, metadata }: Loose): string => `${kind} ${metadata.namespace ?? ''}/${metadata.name}`;

/** The cluster of the golden files: people came in by its address. */
const cluster = resolved({ endpoint: '10.0.0.10', sans: ['api.golden.test'], keys: 'RSA-2048' });
const bundle = bundleOf(cluster, 'CA\n');
const objects = [...bundle.created, ...bundle.applied];
const read: Loose[] = loadAll(manifestText(objects)) as Loose[];

/** A ConfigMap's data as what they say; hashes are over the text and compared elsewhere. */
function readable(object: Loose): Loose {
  if (object.kind !== 'ConfigMap') return object;
  const { annotations: _, ...metadata } = object.metadata;
  const data = Object.entries(object.data as Record<string, string>).map(([key, text]) => [
    key,
    key === 'Corefile' ? text : load(text),
  ]);
  return { ...object, metadata, data: Object.fromEntries(data) };
}

/**
 * Every scalar by its path; subjects and rules by what they say, since their order means nothing.
 */
function flat(value: Loose, path = ''): Map<string, string> {
  if (typeof value !== 'object' || value === null) return new Map([[path, JSON.stringify(value)]]);
  const entries = Array.isArray(value)
    ? value.map((item, n) => [item?.name ?? (path.endsWith('subjects') ? JSON.stringify(item) : n), item])
    : Object.entries(value);
  if (entries.length === 0) return new Map([[path, '{}']]);
  return new Map(
    entries.flatMap(([key, inner]: Loose) => [...flat(inner, path === '' ? key : `${path}.${key}`)]),
  );
}

/** What kubeadm's objects have besides: defaults that its types or the API server write out. */
const IS_DEFAULT =
  /^(""|"0s?"|0|null|false|\{\}|"ClusterIP"|"None"|"Cluster"|"IPv4"|"Always"|"default-scheduler"|"ClusterFirst"|"File"|"\/dev\/termination-log"|"25%"|"v1"|420|600|10|30|1|3|"coredns"|"kube-proxy")$/;

function differences(): string[] {
  return read.flatMap((object) => {
    const expected = golden[idOf(object)];
    if (expected === undefined) return [idOf(object)];
    const [theirs, ours] = [flat(expected), flat(readable(object))];
    return [...new Set([...theirs.keys(), ...ours.keys()])]
      .filter((path) => theirs.get(path) !== ours.get(path))
      .filter((path) => ours.has(path) || !IS_DEFAULT.test(theirs.get(path)!))
      .map((path) => `${idOf(object)} ${path}`);
  });
}

test('objects are kubeadm’s but for named deviations, and each of these is used', () => {
  const used = new Set<string>();
  const unexplained = differences().filter((where) => {
    const names = Object.entries(OBJECT_DEVIATIONS).filter(([, { fields }]) => fields.test(where));
    for (const [name] of names) used.add(name);
    return names.length !== 1;
  });
  expect(unexplained).toEqual([]);
  expect([...used].sort()).toEqual(Object.keys(OBJECT_DEVIATIONS).sort());
});

test('nothing that kubeadm makes is missing, but for secrets, which there are none of', () => {
  const ours = new Set(read.map(idOf));
  expect(Object.keys(golden).filter((id) => !ours.has(id))).toEqual([
    'Role kube-system/kubeadm:kubeadm-certs',
    'RoleBinding kube-system/kubeadm:kubeadm-certs',
  ]);
});

test('kubeadm takes the ConfigMaps of kubelet and kube-proxy for its own by their hashes', () => {
  const theirs = JSON.parse(fs.readFileSync('test/golden/cluster/component-hash.json', 'utf8'));
  expect(componentHash(theirs.data)).toEqual(theirs.annotations);
  for (const name of ['kubelet-config', 'kube-proxy']) {
    const { data, metadata } = read.find((one) => one.kind === 'ConfigMap' && one.metadata.name === name);
    expect(metadata.annotations).toEqual(componentHash(data));
  }
});

test('overrides of kube-proxy are in its ConfigMap, with the hash that kubeadm compares', () => {
  const config = { mode: 'nftables', conntrack: { maxPerCore: 0 } };
  const map = kubeProxyObjects(resolved({ overrides: { kubeProxy: { config } } })).find(
    ({ kind }) => kind === 'ConfigMap',
  ) as unknown as { data: Record<string, string>; metadata: { annotations: unknown } };
  expect(load(map.data['config.conf']!)).toEqual({
    apiVersion: 'kubeproxy.config.k8s.io/v1alpha1',
    kind: 'KubeProxyConfiguration',
    bindAddress: '0.0.0.0',
    clientConnection: { kubeconfig: '/var/lib/kube-proxy/kubeconfig.conf' },
    clusterCIDR: '10.244.0.0/16',
    ...config,
  });
  expect(map.metadata.annotations).toEqual(componentHash(map.data));
});

test('every object is listed once, after the namespace and the account that it needs', () => {
  const ids = read.map(idOf);
  expect(new Set(ids).size).toBe(ids.length);
  const at = (id: string) => ids.indexOf(id);
  expect(at('Namespace /kube-flannel')).toBeLessThan(at('ServiceAccount kube-flannel/flannel'));
  expect(at('ServiceAccount kube-flannel/flannel')).toBeLessThan(
    at('DaemonSet kube-flannel/kube-flannel-ds'),
  );
});

test('no object holds a secret', () => {
  expect(read.filter(({ kind }) => kind === 'Secret')).toEqual([]);
  expect(manifestText(objects)).not.toMatch(/PRIVATE KEY/);
});

test('without a network of ours there is no flannel', () => {
  const ids = bundleOf(resolved({ cni: 'none' }), 'CA\n').applied.map(idOf);
  expect(ids.filter((id) => id.includes('flannel'))).toEqual([]);
});

test('flannel copies its plugin only from an image that is named', () => {
  const text = (plugin: string) =>
    manifestText(
      bundleOf(resolved({ overrides: { cni: { images: { 'flannel-cni-plugin': plugin } } } }), 'CA\n')
        .applied,
    );
  expect(text('x.example/plugin:1')).toContain('image: "x.example/plugin:1"');
  expect(text('')).not.toContain('initContainers');
});

const DUAL = MACHINES.map(({ name, addresses }, n) => ({
  name,
  addresses: [...addresses, `fd00:0:0:1::${n + 1}`],
}));

test('kube-router is chosen instead of flannel, with its own image, and leaves Services to kube-proxy', () => {
  const cluster = resolved({ cni: 'kube-router' });
  const { applied } = bundleOf(cluster, 'CA\n');
  const ids = applied.map(idOf);
  expect(ids.filter((id) => id.includes('flannel'))).toEqual([]);
  const set: Loose = applied.find((one) => idOf(one) === 'DaemonSet kube-system/kube-router');
  const { containers, initContainers, volumes, hostNetwork } = set.spec.template.spec;
  expect(containers[0].args).toEqual(
    expect.arrayContaining(['--run-service-proxy=false', '--service-cluster-ip-range=10.96.0.0/16']),
  );
  expect(containers[0].env).toContainEqual({ name: 'KUBERNETES_SERVICE_HOST', value: '127.0.0.1' });
  expect(hostNetwork).toBe(true);
  const mounted = [...containers, ...initContainers].flatMap((one: Loose) => one.volumeMounts);
  const names = new Set(volumes.map(({ name }: Loose) => name));
  expect(mounted.every(({ name }: Loose) => names.has(name))).toBe(true);
  const images = requiredArtifacts(cluster, 'x86_64').flatMap((one) =>
    one.kind === 'image' ? [one.reference] : [],
  );
  expect(images.filter((one) => /flannel/.test(one))).toEqual([]);
  expect(images).toContain(containers[0].image);
});

test('kube-router gets both families, and with IPv6 alone a generated router id', () => {
  const args = (pods: string[], services: string[], machines: typeof DUAL) => {
    const { applied } = bundleOf(
      resolved({ cni: 'kube-router', networks: { pods, services }, sans: [] }, machines),
      'CA\n',
    );
    return (applied.find((one) => one.kind === 'DaemonSet' && one.metadata.name === 'kube-router') as Loose)
      .spec.template.spec.containers[0].args;
  };
  const [v4, v6] = [
    ['10.244.0.0/16', '10.96.0.0/16'],
    ['fd00:10:244::/56', 'fd00:10:96::/112'],
  ] as const;
  expect(args([v4[0], v6[0]], [v4[1], v6[1]], DUAL)).toEqual(
    expect.arrayContaining([
      '--enable-ipv4=true',
      '--enable-ipv6=true',
      '--bgp-graceful-restart=true',
      `--service-cluster-ip-range=${v4[1]}`,
      `--service-cluster-ip-range=${v6[1]}`,
    ]),
  );
  const alone = args(
    [v6[0]],
    [v6[1]],
    DUAL.map(({ name, addresses }) => ({ name, addresses: [addresses[1]!] })),
  );
  expect(alone).toEqual(expect.arrayContaining(['--enable-ipv4=false', '--router-id=generate']));
});

test('dual stack reaches Services, kube-proxy and flannel', () => {
  const dual = resolved(
    {
      networks: {
        pods: ['10.244.0.0/16', 'fd00:10:244::/56'],
        services: ['10.96.0.0/16', 'fd00:10:96::/112'],
      },
    },
    DUAL,
  );
  const text = manifestText(bundleOf(dual, 'CA\n').applied);
  expect(text).toContain('ipFamilyPolicy: RequireDualStack');
  expect(text).toContain('clusterCIDR: "10.244.0.0/16,fd00:10:244::/56"');
  expect(text).toContain('"IPv6Network": "fd00:10:244::/56"');
});

const boot = (bootId: string, ...pins: 'applier'[]) => ({
  bootId,
  pins: new Map(pins.map((pin) => [pin, 'x'])),
});

const T0 = millis(5000);
const later = millis(9000);

test('a bundle is applied once: until the credential is gone, and again when it is another one', () => {
  expect(applying(undefined, 'D', boot('b'), T0)).toEqual({ state: 'due' });
  const given = applying(undefined, 'D', boot('b', 'applier'), T0);
  expect(given).toEqual({ state: 'due', write: { v: 1, digest: 'D', bootId: 'b', since: T0, done: false } });
  expect(applying(given.write, 'D', boot('b', 'applier'), later)).toEqual({ state: 'due' });
  const done = applying(given.write, 'D', boot('b'), later);
  expect(done).toMatchObject({ state: 'done', write: { done: true } });
  expect(applying(done.write, 'D', boot('c'), later)).toEqual({ state: 'done' });
  expect(applying(done.write, 'E', boot('c'), later)).toEqual({ state: 'due' });
});

test('a machine that was restarted before it was done gets another credential, and the time counts on', () => {
  const { write } = applying(undefined, 'D', boot('b', 'applier'), T0);
  expect(applying(write, 'D', boot('c'), later)).toEqual({ state: 'due' });
  expect(applying(write, 'D', boot('c', 'applier'), later)).toMatchObject({
    state: 'due',
    write: { bootId: 'c', since: T0 },
  });
  expect(applying(write, 'E', boot('b', 'applier'), later).write).toMatchObject({
    digest: 'E',
    since: later,
  });
});

test('kubectl’s error is stored when it changes, and removed when the objects are applied', () => {
  const { write } = applying(undefined, 'D', boot('b', 'applier'), T0);
  const refused = { ...boot('b', 'applier'), objects: 'Error' };
  const told = applying(write, 'D', refused, later);
  expect(told.write).toEqual({ ...write, says: 'Error' });
  expect(applying(told.write, 'D', refused, later)).toEqual({ state: 'due' });
  expect(applying(told.write, 'D', boot('b', 'applier'), later).write).toEqual(write);
  expect(applying(told.write, 'D', boot('b'), later).write).toEqual({ ...write, done: true });
});
