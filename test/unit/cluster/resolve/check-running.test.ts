/** A changed Cluster is compared with what its founded cluster runs. */
import { expect, test } from 'vitest';
import { runningFaults } from '../../../../src/cluster/resolve/check-running.ts';
import { fixedOf, type RunningMachine, releaseOf } from '../../../../src/cluster/resolve/release.ts';
import type { KubernetesSpec } from '../../../../src/resources/kinds.ts';
import { resolved } from '../kit.ts';

const NEWER = { versions: { etcd: '3.6.8-0' } };
const FOUNDED = resolved({ version: '1.35.6' });

/** `CODE field` of each fault, with `?` where a person may accept it. */
function faults(changes: Partial<KubernetesSpec>, machines: Record<string, Partial<RunningMachine>> = {}) {
  const known = Object.entries(machines).map(([name, machine]): [string, RunningMachine] => [
    name,
    { serves: false, versions: {}, ...machine },
  ]);
  const running = { release: releaseOf(FOUNDED), fixed: fixedOf(FOUNDED), machines: new Map(known) };
  return runningFaults(resolved({ version: '1.35.6', ...changes }), running).map(
    ({ code, path, survivable }) => `${code} ${path}${survivable ? '?' : ''}`,
  );
}

test('an unchanged Cluster, new machines, a newer patch and the next minor have no fault', () => {
  expect(faults({})).toEqual([]);
  expect(faults({ version: '1.35.7' })).toEqual([]);
  expect(faults({ version: '1.36.3' }, { w1: { versions: { kubelet: '1.35.6' } } })).toEqual([]);
});

test.for<[string, Partial<KubernetesSpec>, readonly string[]]>([
  ['the next minor', { version: '1.36.3' }, []],
  ['an older minor', { version: '1.34.9' }, ['E_SKEW version', 'E_CONFIRM overrides.versions.etcd?']],
  ['an older patch', { version: '1.35.5' }, ['E_CONFIRM version?']],
  ['another service network', { networks: { services: ['10.97.0.0/16'] } }, ['E_FOUNDED networks.services']],
  ['another pod network', { networks: { pods: ['10.245.0.0/16'] } }, ['E_FOUNDED networks.pods']],
  ['another domain', { dnsDomain: 'other.local' }, ['E_FOUNDED dnsDomain']],
  ['another runtime', { runtime: 'cri-o' }, ['E_FOUNDED runtime']],
  ['another CNI', { cni: 'kube-router' }, ['E_CONFIRM cni?']],
  ['another endpoint', { endpoint: '10.0.0.100' }, ['E_CONFIRM endpoint?']],
])('%s', ([, changes, found]) => {
  expect(faults(changes)).toEqual(found);
});

test('virtual addresses that a founded cluster loses need its name', () => {
  const held = (addresses: string[] | undefined) =>
    fixedOf(
      resolved({ version: '1.35.6', ...(addresses && { virtualAddress: { addresses, interface: 'eth0' } }) }),
    );
  const release = releaseOf(FOUNDED);
  const codes = (was: Partial<ReturnType<typeof held>>, will: string[] | undefined) =>
    runningFaults(
      resolved({
        version: '1.35.6',
        ...(will && { virtualAddress: { addresses: will, interface: 'eth0' } }),
      }),
      { release, fixed: { ...held(undefined), ...was }, machines: new Map() },
    ).map(({ code, path, survivable }) => `${code} ${path}${survivable ? '?' : ''}`);
  const lost = ['E_CONFIRM virtualAddress.addresses?'];
  expect(codes(held(['10.0.0.10']), ['10.0.0.10'])).toEqual([]);
  expect(codes(held(['10.0.0.10']), ['10.0.0.99'])).toEqual(lost);
  expect(codes(held(['10.0.0.10']), undefined)).toEqual(lost);
});

test('what runs counts, whatever the release says: a control plane that slept, an API server ahead', () => {
  expect(faults({ version: '1.36.3' }, { cp1: { versions: { 'kube-apiserver': '1.34.9' } } })).toEqual([
    'E_SKEW version',
  ]);
  expect(faults({}, { cp1: { versions: { 'kube-apiserver': '1.36.3' } } })).toEqual(['E_SKEW version']);
  expect(faults({}, { cp1: { versions: { etcd: '3.7.0' } } })).toEqual(['E_SKEW overrides.versions.etcd']);
  expect(faults({ overrides: NEWER }, { cp1: { versions: { etcd: '3.5.19' } } })).toEqual([
    'E_SKEW overrides.versions.etcd',
  ]);
});

test('a kubelet that is too old for the next API server, or newer than it, is named', () => {
  expect(faults({ version: '1.36.3' }, { w1: { versions: { kubelet: '1.32.4' } } })).toEqual([
    'E_SKEW version',
  ]);
  expect(faults({}, { w1: { versions: { kubelet: '1.36.0' } } })).toEqual(['E_SKEW version']);
});

test('a control plane that the document leaves out is taken out by a command, or knowingly left', () => {
  expect(faults({ controlPlanes: ['cp1'] }, { cp2: { serves: true }, w9: {} })).toEqual([
    'E_CONFIRM controlPlanes?',
  ]);
});
