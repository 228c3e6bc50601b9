/**
 * Values that reach certificates, images, files and kubelet are held to what these take, when the
 * Cluster is applied.
 */
import { expect, test } from 'vitest';
import { fieldsOf } from '../../../../src/cluster/components/config-shapes.ts';
import { MINORS } from '../../../../src/cluster/model/versions.ts';
import { parseDocuments } from '../../../../src/resources/document.ts';
import { faults } from '../kit.ts';

const VIRTUAL = { endpoint: '10.0.0.10', virtualAddress: { interface: 'eth0' } };

test.for([
  [{ sans: { ips: ['banana'] } }, 'sans.ips'],
  [{ sans: { dns: ['api blue'] } }, 'sans.dns'],
  [{ sans: { dns: ['10.0.0.9'] } }, 'sans.dns'],
  [{ serviceAddresses: { kubernetes: ['banana'] } }, 'serviceAddresses.kubernetes'],
  [{ serviceAddresses: { dns: ['banana'] } }, 'serviceAddresses.dns'],
  [{ serviceAddresses: { dns: ['10.97.0.10'] } }, 'serviceAddresses.dns'],
  [{ serviceAddresses: { dns: [] } }, 'serviceAddresses.dns'],
  [{ keys: 'Ed25519' }, 'keys'],
  [{ versions: { 'kube-proxy': 'v1.36.2' } }, 'versions.kube-proxy'],
  [{ versions: { kubelet: 'new' } }, 'versions.kubelet'],
  [{ versions: { coredns: '1.14.2' } }, 'versions.coredns'],
  [{ versions: { pause: 'x y' } }, 'versions.pause'],
  [{ images: { etcd: 'BAD REF' } }, 'images.etcd'],
  [{ cni: { images: { flannel: 'a b' } } }, 'cni.images.flannel'],
  [{ registry: 'https://mirror.example' }, 'registry'],
  [{ dnsDomain: 'bad domain!' }, 'dnsDomain'],
  [{ dnsDomain: 'Cluster.local' }, 'dnsDomain'],
  [{ dnsDomain: '10.0.0.1' }, 'dnsDomain'],
  [{ virtualAddress: { routerId: 999 } }, 'virtualAddress.routerId'],
  [{ virtualAddress: { interface: 'a b; rm' } }, 'virtualAddress.interface'],
  [{ cniPlugins: 'opt/cni/bin' }, 'cniPlugins'],
  [{ hostCertificates: ['etc/ssl'] }, 'hostCertificates'],
  [{ checks: { fsyncMs: -1 } }, 'checks.fsyncMs'],
  [{ mirrors: ['mirror.example'] }, 'mirrors'],
  [{ mirrors: ['https://user:pass@mirror.example'] }, 'mirrors'],
  [{ mirrors: ['https://mirror.example/v2/cache?x'] }, 'mirrors'],
  [{ mirrors: ['https://mirror.example/x\n  evil: true'] }, 'mirrors'],
  [{ mirrors: ['https://mirror.example/${HOME}'] }, 'mirrors'],
  [{ mirrors: ['https://mirror.example/../../etc'] }, 'mirrors'],
  [{ virtualAddress: { interface: '-x' } }, 'virtualAddress.interface'],
] as const)('the override %j is refused', ([overrides, path]) => {
  const told = faults({ ...VIRTUAL, overrides });
  expect(told.length, told.join()).toBeGreaterThan(0);
  for (const one of told) expect(one.replace(/: .*/, '')).toMatch(/^error overrides\.(images\.|versions\.)?/);
  expect(
    told.some((one) => one.startsWith(`error overrides.${path}: `)),
    told.join(),
  ).toBe(true);
});

test('a value from the short specification is reported at its own field', () => {
  expect(faults({ registry: 'https://mirror.example' })[0]).toMatch(/^error registry: not a registry/);
});

test('registries with a port or a path, and images by digest, are taken', () => {
  expect(faults({ registry: 'registry.example:5000/mirror/k8s' })).toEqual([]);
  expect(faults({ overrides: { images: { pause: `x.example/pause@sha256:${'a'.repeat(64)}` } } })).toEqual(
    [],
  );
});

const document = (sans: string) => `apiVersion: muster/v1
kind: Cluster
metadata: {name: blue}
spec:
  trust: segment
  kubernetes: {version: "1.36", endpoint: api.test, controlPlanes: [cp1], sans: [${sans}]}
`;

test.for([
  '""',
  'api blue',
  'bücher.example',
  'https://api',
  '"api:6443"',
  '"fe80::1%eth0"',
  '999.1.1.1',
  '-a',
])('the further name %s of the API is refused', (text) => {
  expect(parseDocuments(document(text), 'c.yaml').faults.map(({ path }) => path)).toEqual([
    'spec.kubernetes.sans[0]',
  ]);
});

test.for(['api', 'API.example', '10.0.0.9', '"fd00::1"', '"*.api.example"'])(
  'the further name %s of the API is taken',
  (text) => {
    expect(parseDocuments(document(text), 'c.yaml').faults).toEqual([]);
  },
);

const kubelet = (config: Record<string, unknown>) => faults({ overrides: { kubelet: { config } } });

test.for([
  [{ maxPodz: 250 }, 'maxPodz: KubeletConfiguration of 1.36 has no maxPodz; did you mean "maxPods"?'],
  [{ maxPods: '250' }, 'maxPods: expected a whole number, unquoted, of at most 2147483647'],
  [{ failSwapOn: 'no' }, 'failSwapOn: expected true or false, unquoted'],
  [{ syncFrequency: 60 }, 'syncFrequency: expected a duration like "90s" or "1h30m"'],
  [
    { evictionHard: { 'memory.available': 100 } },
    'evictionHard: expected a mapping of names to texts; quote numbers',
  ],
  [
    { featureGates: { AllAlpha: 'true' } },
    'featureGates: expected a mapping of feature gates to true or false, unquoted',
  ],
] as const)('the setting %j of kubelet is refused', ([config, expected]) => {
  expect(kubelet(config)).toContain(`error overrides.kubelet.config.${expected}`);
});

test('settings of kubelet of the right type are taken', () => {
  expect(
    kubelet({
      maxPods: 250,
      failSwapOn: false,
      syncFrequency: '1m30s',
      imageMaximumGCAge: '0s',
      evictionHard: { 'memory.available': '100Mi' },
      featureGates: { AllAlpha: false },
      topologyManagerPolicy: 'best-effort',
    }),
  ).toEqual([]);
});

test('a setting of a later kubelet is refused for an older one', () => {
  const overrides = (version: string) => ({
    overrides: { versions: { kubelet: version }, kubelet: { config: { memoryReservationPolicy: 'None' } } },
  });
  expect(faults(overrides('1.36.2'))).toEqual([]);
  expect(faults(overrides('1.35.6'))).toEqual([
    'error overrides.kubelet.config.memoryReservationPolicy: KubeletConfiguration of 1.35 has no memoryReservationPolicy; 1.36, 1.37 know it',
  ]);
});

test('the table of kubelet’s fields is plausible: no field twice, and each version has most', () => {
  for (const minor of MINORS) expect(Object.keys(fieldsOf('kubelet', minor)).length).toBeGreaterThan(100);
  expect(fieldsOf('kubelet', '1.34')).not.toHaveProperty('memoryReservationPolicy');
});

test.for(['AllAlpha=maybe', 'AllAlpha', 'AllAlpha=true,AllBeta'])(
  'gates are NAME=true or NAME=false, not %s',
  (gates) => {
    expect(faults({ overrides: { flags: { 'kube-apiserver': { 'feature-gates': gates } } } }).join()).toMatch(
      /^error overrides\.flags\.kube-apiserver\.feature-gates: "All\w+(=maybe)?" is not a setting of a gate/,
    );
  },
);

test('flags and gates are those of the component’s own version', () => {
  const old = { versions: { kubelet: '1.34.9' } };
  // 1.35 and 1.36 have no such gate of kubelet
  expect(
    faults({
      overrides: {
        ...old,
        kubelet: { config: { featureGates: { MemoryManager: true, KubeletCrashLoopBackOffMax: true } } },
      },
    }),
  ).toEqual([]);
  expect(
    faults({ overrides: { ...old, flags: { kubelet: { 'feature-gates': 'CRIListStreaming=true' } } } }),
  ).toEqual([
    'error overrides.flags.kubelet.feature-gates: Kubernetes 1.34 has no feature gate CRIListStreaming; 1.36, 1.37 know it',
  ]);
});

test.for([
  [{ mode: 'nftables', conntrack: { maxPerCore: 0 } }, undefined],
  [{ mode: 'nftable' }, 'mode: expected one of iptables, ipvs, nftables'],
  [{ mod: 'nftables' }, 'mod: KubeProxyConfiguration has no mod; did you mean "mode"?'],
  [{ oomScoreAdj: '5' }, 'oomScoreAdj: expected a whole number, unquoted'],
  [{ clusterCIDR: '10.1.0.0/16' }, 'clusterCIDR: Muster decides this: it is networks.pods; set that'],
  [{ clientConnection: null }, 'clientConnection.kubeconfig: Muster decides this: '],
] as const)('kube-proxy’s fields are those that it knows: %j', ([config, expected]) => {
  const told = faults({ overrides: { kubeProxy: { config } } });
  if (expected === undefined) expect(told).toEqual([]);
  else expect(told).toEqual([expect.stringContaining(`error overrides.kubeProxy.config.${expected}`)]);
});

test('a path of a mirror that has two readings is told with both', () => {
  const told = faults({ mirrors: ['https://harbor.example/hub'] });
  expect(told).toEqual([
    expect.stringMatching(/^warning mirrors\[0\]: .*harbor\.example\/v2\/hub".*hub\/v2"/),
  ]);
  expect(faults({ mirrors: ['https://harbor.example/v2/hub', 'https://m.example'] })).toEqual([]);
});

test.each(['ntp.example:123', 'ntp..example', '999.1.1.1', '0.0.0.0', 'https://ntp.example', '*.example'])(
  '%s is no time server',
  (server) => {
    const { faults: told } = parseDocuments(
      `apiVersion: muster/v1
kind: Cluster
metadata: {name: blue}
spec: {trust: segment, kubernetes: {version: "1.36", endpoint: a.example, controlPlanes: [cp1], timeServers: ["${server}"]}}`,
      'd.yaml',
    );
    expect(told.map(({ message }) => message)).toEqual([
      expect.stringContaining('without scheme, port and options'),
    ]);
  },
);
