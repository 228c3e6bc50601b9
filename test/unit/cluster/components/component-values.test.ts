/**
 * Values with which a component ends as it starts are refused when a Cluster is applied, and others
 * are taken. test/peers/component-values.test.ts holds the same lists against the components.
 */
import { expect, test } from 'vitest';
import { faults } from '../kit.ts';
import { JUDGED, valuesOf, verdictOf } from './component-values.ts';

test.each(JUDGED)('each value of %s in the list gets the verdict that the list has', (component) => {
  const differ = valuesOf(component).flatMap(({ value, known }) =>
    [...known].flatMap(([version, { muster }]) => {
      const says = verdictOf(component, version, value);
      return says === muster ? [] : [`${version} ${JSON.stringify(value)}: ${muster}, now ${says}`];
    }),
  );
  expect(differ).toEqual([]);
});

test.each(JUDGED)(
  'no value with which %s ends is taken, and what it takes is refused with a reason',
  (component) => {
    const wrong = valuesOf(component).flatMap(({ value, known, note }) =>
      [...known].flatMap(([version, { component: real, muster }]) =>
        (real === 'ends' && muster !== 'refused') || (muster === 'refused' && note === '')
          ? [`${version} ${JSON.stringify(value)}`]
          : [],
      ),
    );
    expect(wrong).toEqual([]);
  },
);

test('the lists have as many values as a reader of the promise expects', () => {
  const count = (version: string) =>
    JUDGED.flatMap(valuesOf).filter(({ known }) => known.has(version)).length;
  expect(count('1.36') + count('3.6')).toBeGreaterThan(1400);
  expect(count('1.35')).toBeGreaterThan(320);
});

test('a fault of kubelet that a flag causes is reported once, at the flag', () => {
  expect(faults({ overrides: { flags: { kubelet: { 'topology-manager-policy': 'strict' } } } })).toEqual([
    expect.stringMatching(/^error overrides\.flags\.kubelet\.topology-manager-policy: /),
  ]);
});

test('what both kinds of kubelets have is reported once, and what control planes have at theirs', () => {
  const wrong = { evictionHard: { 'memory.free': '1Gi' } };
  expect(faults({ overrides: { kubelet: { config: wrong } } })).toEqual([
    expect.stringMatching(/^error overrides\.kubelet\.config\.evictionHard: kubelet has no signal/),
  ]);
  expect(faults({ overrides: { kubelet: { controlPlaneConfig: wrong } } })).toEqual([
    expect.stringMatching(/^error overrides\.kubelet\.controlPlaneConfig\.evictionHard: /),
  ]);
});

test('a gate that another version has off is needed there', () => {
  const overrides = { kubelet: { config: { cpuCFSQuotaPeriod: '50ms' } } };
  expect(faults({ version: '1.36', overrides })).toEqual([]);
  expect(faults({ version: '1.35', overrides })).toEqual([
    expect.stringMatching(/takes it only with the feature gate CustomCPUCFSQuotaPeriod: true$/),
  ]);
  const on = { ...overrides.kubelet.config, featureGates: { CustomCPUCFSQuotaPeriod: true } };
  expect(faults({ version: '1.35', overrides: { kubelet: { config: on } } })).toEqual([]);
});

test('nodes of a pod network are counted with the mask of an override', () => {
  const mask = (size: string) => ({ flags: { 'kube-controller-manager': { 'node-cidr-mask-size': size } } });
  expect(faults({ networks: { pods: ['10.244.0.0/22'] }, overrides: mask('24') })).toContainEqual(
    'error networks.pods: 10.244.0.0/22 has room for 4 nodes with a /24 each; there are 5; set overrides.flags.kube-controller-manager.node-cidr-mask-size: "25"',
  );
  expect(faults({ overrides: mask('12') })).toContainEqual(
    expect.stringContaining("a node's part of the pod network /16 is from /16 to /32"),
  );
});

test('the pods that a flag of kubelet allows are counted as well', () => {
  expect(faults({ overrides: { flags: { kubelet: { 'max-pods': '300' } } } })).toEqual([
    expect.stringMatching(/^warning networks\.pods: .* for 253 pods, and kubelet takes 300/),
  ]);
});

test('a range of node ports without the ports that the cluster uses is taken, with the endpoint of another host', () => {
  const range = (value: string) => ({ flags: { 'kube-apiserver': { 'service-node-port-range': value } } });
  const told = (value: string, more: object = {}) => faults({ ...more, overrides: range(value) });
  expect(told('6000-7000')).toEqual([
    expect.stringContaining(
      'a Service could take 6443, which is the port of kube-apiserver on machines; write a range without it',
    ),
  ]);
  expect(told('8000-9000', { endpoint: 'balancer.example:8443' })).toEqual([]);
});

test.each([
  ['127.0.0.1', 'an address of each machine itself'],
  ['localhost', 'localhost is each machine itself'],
  ['10.0.0.21', 'it is the address of w1, which is no control plane'],
])('the endpoint %s is refused', (endpoint, message) => {
  expect(faults({ endpoint })).toEqual([expect.stringContaining(`error endpoint: `)]);
  expect(faults({ endpoint })[0]).toContain(message);
});
