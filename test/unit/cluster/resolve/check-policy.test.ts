/**
 * Network policies: who enforces them, which namespaces begin isolated, and what would only seem
 * so.
 */
import { expect, test } from 'vitest';
import { bundleOf } from '../../../../src/cluster/objects/bundle.ts';
import { requiredArtifacts } from '../../../../src/cluster/resolve/artifacts.ts';
import { kubernetesSpec } from '../../../../src/resources/cluster-spec.ts';
import type { KubernetesSpec } from '../../../../src/resources/kinds.ts';
import { completed, faults, resolved, SHORT } from '../kit.ts';

// biome-ignore lint/suspicious/noExplicitAny: documents as their readers see them
type Loose = any;

const objects = (changes: Partial<KubernetesSpec>): Loose[] => [
  ...bundleOf(resolved(changes), 'CA\n').applied,
];
const imagesOf = (changes: Partial<KubernetesSpec>): string[] =>
  requiredArtifacts(resolved(changes), 'x86_64').flatMap((one) =>
    one.kind === 'image' ? [one.reference] : [],
  );
const addons = (name: string) => [{ name, objects: [] }];

test('without a word of it nothing is isolated, and flannel is the only thing on every node for the network', () => {
  expect(resolved().networkPolicy).toEqual({ enforce: 'none', isolate: [] });
  expect(objects({}).filter(({ kind }) => kind === 'NetworkPolicy')).toEqual([]);
  expect(imagesOf({}).filter((one) => /kube-router/.test(one))).toEqual([]);
});

test.for([
  ['kube-router', 'cni', { cni: 'kube-router' }],
  ['addon', 'addons', { cni: 'none', addons: addons('calico') }],
  ['addon', 'addons', { cni: 'none', addons: addons('cilium') }],
  ['none', 'cni', { cni: 'none', addons: addons('metallb') }],
  ['none', 'cni', { cni: 'flannel', addons: addons('calico') }],
  ['addon', 'networkPolicy.enforce', { networkPolicy: { enforce: 'addon' } }],
  ['kube-router', 'networkPolicy.enforce', { cni: 'none', networkPolicy: { enforce: 'kube-router' } }],
] as const)('policies are enforced by %s, as %s says', ([enforce, by, changes]) => {
  const { resolved: cluster, provenance } = completed(changes as Partial<KubernetesSpec>);
  expect(cluster?.networkPolicy.enforce).toBe(enforce);
  expect(provenance.get('networkPolicy.enforce')?.by).toBe(by);
});

test('with flannel kube-router is only a firewall, and leaves CNI alone', () => {
  const changes = { networkPolicy: { enforce: 'kube-router' } } as const;
  const all = objects(changes);
  const sets = all.filter(({ kind }) => kind === 'DaemonSet').map(({ metadata }) => metadata.name);
  expect(sets).toEqual(['kube-proxy', 'kube-flannel-ds', 'kube-router']);
  expect(all.map(({ metadata }) => metadata.name)).not.toContain('kube-router-cfg');
  const pod = all.find(({ kind, metadata }) => kind === 'DaemonSet' && metadata.name === 'kube-router').spec
    .template.spec;
  const [container] = pod.containers;
  expect(container.args).toEqual([
    '--run-router=false',
    '--run-firewall=true',
    '--run-service-proxy=false',
    '--run-loadbalancer=false',
    '--enable-ipv4=true',
    '--enable-ipv6=false',
    '--service-cluster-ip-range=10.96.0.0/16',
  ]);
  expect(JSON.stringify(pod)).not.toContain('cni');
  expect(pod.initContainers).toBeUndefined();
  expect(imagesOf(changes)).toContain(container.image);
  expect(imagesOf(changes).filter((one) => /flannel/.test(one))).toHaveLength(2);
});

test('an isolated namespace exists and accepts connections only from its own pods; outgoing ones are not limited', () => {
  const all = objects({ cni: 'kube-router', networkPolicy: { isolate: ['shop', 'default'] } });
  const sets = all.filter(({ kind }) => kind === 'DaemonSet').map(({ metadata }) => metadata.name);
  expect(sets).toEqual(['kube-proxy', 'kube-router']);
  const made = all.slice(-6);
  expect(made.map(({ kind, metadata }) => `${kind} ${metadata.namespace ?? ''}/${metadata.name}`)).toEqual(
    ['shop', 'default'].flatMap((namespace) => [
      `Namespace /${namespace}`,
      `NetworkPolicy ${namespace}/muster-default-deny`,
      `NetworkPolicy ${namespace}/muster-allow-same-namespace`,
    ]),
  );
  const everyPod = { podSelector: {}, policyTypes: ['Ingress'] };
  expect(made[1].spec).toEqual({ ...everyPod, ingress: [] });
  expect(made[2].spec).toEqual({ ...everyPod, ingress: [{ from: [{ podSelector: {} }] }] });
  // A name alone: labels of the namespace are somebody else's.
  expect(made[0].metadata).toEqual({ name: 'shop' });
});

const ISOLATE = { isolate: ['shop'] };
test.for([
  [
    { networkPolicy: ISOLATE },
    'error networkPolicy.isolate: flannel enforces no network policies, so that the namespaces would only seem isolated; set networkPolicy.enforce: kube-router, which adds its firewall, or enforce: addon if an add-on does it',
  ],
  [
    { cni: 'none', addons: addons('metallb'), networkPolicy: ISOLATE },
    'error networkPolicy.isolate: nothing is known to enforce network policies, so that the namespaces would only seem isolated; set networkPolicy.enforce: addon if the network that you install does, or kube-router, which adds its firewall',
  ],
  [
    { cni: 'kube-router', networkPolicy: { enforce: 'addon' } },
    'error networkPolicy.enforce: kube-router is the network and enforces them itself; leave enforce out',
  ],
  [
    { cni: 'none', addons: addons('cilium'), networkPolicy: { enforce: 'kube-router' } },
    'error networkPolicy.enforce: the add-on cilium is the network and enforces them itself; leave enforce out',
  ],
  [
    { cni: 'kube-router', networkPolicy: { isolate: ['a', 'kube-system', 'a'] } },
    'error networkPolicy.isolate[1]: CoreDNS is in kube-system, and pods of every namespace ask it',
    'error networkPolicy.isolate[2]: a is listed twice',
  ],
] as const)('%o is refused with a remedy', ([changes, ...expected]) => {
  expect(faults(changes as Partial<KubernetesSpec>)).toEqual(expected);
});

test('isolation is accepted as soon as something enforces it', () => {
  for (const enforce of ['kube-router', 'addon'] as const)
    expect(faults({ networkPolicy: { ...ISOLATE, enforce } })).toEqual([]);
  expect(faults({ cni: 'none', addons: addons('calico'), networkPolicy: ISOLATE })).toEqual([]);
});

test('the schema refuses an invalid name of a namespace', () => {
  const read = (isolate: string) =>
    kubernetesSpec.safeParse({ ...SHORT, networkPolicy: { isolate: [isolate] } }).success;
  expect([read('shop-1'), read('Shop'), read('a.b'), read('-a'), read('a'.repeat(64))]).toEqual([
    true,
    false,
    false,
    false,
    false,
  ]);
});
