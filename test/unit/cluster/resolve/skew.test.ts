/** Which versions must never run at the same time, and which step of an upgrade is allowed. */
import { expect, test } from 'vitest';
import { forbiddenPairs, pairText, type Skewed, stepFault } from '../../../../src/cluster/resolve/skew.ts';

const at = (program: Skewed, version: string, machine = 'm') => ({ program, version, machine });
const texts = (...instances: Parameters<typeof forbiddenPairs>[0]) => forbiddenPairs(instances).map(pairText);

test.for([
  [at('kubelet', '1.35.0', 'w1'), at('kube-apiserver', '1.36.3')],
  [at('kubelet', '1.33.0', 'w1'), at('kube-apiserver', '1.36.3')],
  [at('kubelet', '1.36.9', 'w1'), at('kube-apiserver', '1.36.3')],
  [at('kube-scheduler', '1.35.6'), at('kube-apiserver', '1.36.3')],
  [at('kube-apiserver', '1.35.6', 'cp1'), at('kube-apiserver', '1.36.3', 'cp2')],
  [at('kubectl', '1.37.0'), at('kube-apiserver', '1.36.3')],
  [at('etcd', '3.5.21', 'cp1'), at('etcd', '3.6.6', 'cp2')],
  [at('kube-proxy', '1.33.0', 'w1'), at('kubelet', '1.36.0', 'w1')],
] as const)('%o and %o work together', ([one, other]) => {
  expect(texts(one, other)).toEqual([]);
});

test.for([
  [at('kubelet', '1.36.3', 'w1'), at('kube-apiserver', '1.35.6')],
  [at('kubelet', '1.32.9', 'w1'), at('kube-apiserver', '1.36.3')],
  [at('kube-controller-manager', '1.36.3'), at('kube-apiserver', '1.35.6')],
  [at('kube-scheduler', '1.34.9'), at('kube-apiserver', '1.36.3')],
  [at('kube-apiserver', '1.34.9', 'cp1'), at('kube-apiserver', '1.36.3', 'cp2')],
  [at('etcd', '3.4.23', 'cp1'), at('etcd', '3.6.6', 'cp2')],
  [at('kube-proxy', '1.32.0', 'w1'), at('kubelet', '1.36.0', 'w1')],
] as const)('%o and %o must not run together', ([one, other]) => {
  expect(texts(one, other).length).toBeGreaterThan(0);
});

test('a kubelet fits each of the API servers, the oldest and the newest', () => {
  const servers = [at('kube-apiserver', '1.35.6', 'cp1'), at('kube-apiserver', '1.36.3', 'cp2')];
  expect(texts(...servers, at('kubelet', '1.36.3', 'w1'))).toEqual([
    'kubelet 1.36.3 on w1 does not work with kube-apiserver 1.35.6 on cp1: it may be at most 3 minor versions older and 0 newer',
  ]);
  expect(texts(...servers, at('kubelet', '1.32.1', 'w1'))).toHaveLength(1);
  expect(texts(...servers, at('kubelet', '1.33.1', 'w1'))).toEqual([]);
});

test.for([
  ['kube-apiserver', '1.35.6', '1.36.3', undefined],
  ['kube-apiserver', '1.36.3', '1.36.4', undefined],
  ['kube-apiserver', '1.34.9', '1.36.3', 'skips-minor'],
  ['kube-apiserver', '1.36.3', '1.35.6', 'older-minor'],
  ['kube-apiserver', '1.36.3', '1.36.2', 'older-patch'],
  ['etcd', '3.5.21', '3.6.6-0', undefined],
  ['etcd', '3.5.19', '3.6.6-0', 'etcd-promotion'],
  ['etcd', '3.5.1', '3.6.6', 'etcd-promotion'],
  ['etcd', '3.6.10', '3.7.0-0', 'etcd-patch'],
  ['etcd', '3.6.11', '3.7.0-0', undefined],
  ['etcd', '3.5.0', '3.6.6', undefined],
  ['etcd', '3.5.19', '3.5.24', undefined],
  ['etcd', '3.4.23', '3.5.16', undefined],
  ['etcd', '3.4.23', '3.6.6', 'skips-minor'],
  ['etcd', '3.6.6', '3.5.24', 'older-minor'],
] as const)('%s from %s to %s: %s', ([program, from, to, code]) => {
  expect(stepFault(program, from, to)?.code).toBe(code);
});
