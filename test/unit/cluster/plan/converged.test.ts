/** Control planes that are workers too, and machines whose names are domain names. */
import { load } from 'js-yaml';
import { expect, test } from 'vitest';
import { balancerPart } from '../../../../src/cluster/plan/balancer.ts';
import { kubeletConfiguration, kubeletFiles } from '../../../../src/cluster/plan/kubelet.ts';
import { manifestFiles } from '../../../../src/cluster/plan/manifests.ts';
import { objectsPart } from '../../../../src/cluster/plan/objects-unit.ts';
import { systemLines } from '../../../../src/cluster/plan/system.ts';
import { clusterNames, holderOf } from '../../../../src/cluster/resolve/certificate-names.ts';
import { leafOf } from '../../../../src/pki/hierarchy.ts';
import { KINDS, type KubernetesSpec } from '../../../../src/resources/kinds.ts';
import { FOUNDING, faults, resolved } from '../kit.ts';

const machineOf = (changes: Partial<KubernetesSpec>, name: string) => {
  const cluster = resolved(changes);
  return { cluster, machine: cluster.machines.find((one) => one.name === name)! };
};

test('a control plane that is a worker too runs pods of everybody, and stays a control plane in everything else', () => {
  const { cluster, machine } = machineOf({ workers: ['cp1', 'w1'] }, 'cp1');
  expect(faults({ workers: ['cp1', 'w1'] })).toEqual([]);
  expect(machine).toMatchObject({ roles: ['control-plane', 'etcd'], schedulable: true });
  expect(kubeletConfiguration(cluster, machine).registerWithTaints).toEqual([]);
  expect(balancerPart(cluster, machine, [])).toBeUndefined();
  const other = cluster.machines.find(({ name }) => name === 'cp2')!;
  expect(kubeletConfiguration(cluster, other).registerWithTaints).toEqual([
    { key: 'node-role.kubernetes.io/control-plane', effect: 'NoSchedule' },
  ]);
});

test('its own taints and those of an override stay on such a node', () => {
  const { cluster, machine } = machineOf(
    {
      workers: ['cp1'],
      nodes: [{ machines: ['cp1'], taints: ['gpu:NoSchedule'] }],
      overrides: {
        kubelet: { controlPlaneConfig: { registerWithTaints: [{ key: 'disk', effect: 'NoExecute' }] } },
      },
    },
    'cp1',
  );
  expect(kubeletConfiguration(cluster, machine).registerWithTaints).toEqual([
    { key: 'disk', effect: 'NoExecute' },
    { key: 'gpu', effect: 'NoSchedule' },
  ]);
});

test('load balancers of Services may send traffic to such a node', () => {
  const { cluster, machine } = machineOf({ workers: ['cp1'] }, 'cp1');
  const scriptOf = (one: typeof machine): string =>
    objectsPart(one, { created: [], applied: [], proposed: [] }, []).files.flatMap((line) =>
      line.do === 'put' && 'text' in line.content && line.content.text.startsWith('#!')
        ? [line.content.text]
        : [],
    )[0]!;
  expect(scriptOf(machine)).not.toContain('exclude-from-external-load-balancers');
  expect(scriptOf(cluster.machines[1]!)).toContain('exclude-from-external-load-balancers=');
});

test('a member of etcd of its own is no worker', () => {
  const spec = { etcd: { topology: 'external', machines: ['w1'] }, workers: ['w1', 'w2'] } as const;
  expect(faults(spec as unknown as Partial<KubernetesSpec>)).toEqual([
    expect.stringContaining('w1 is a worker and a member of etcd; remove it from one of the lists'),
  ]);
});

const LONG = [
  { name: 'cp1.blue.example', addresses: ['10.0.0.11'] },
  { name: 'w1.blue.example', addresses: ['10.0.0.21'] },
] as const;
const NAMED = { controlPlanes: [LONG[0].name], workers: [LONG[1].name] };

test('a machine’s domain name is the name of its node, of its member of etcd, and in its certificates', () => {
  const cluster = resolved(NAMED, LONG);
  const [machine] = cluster.machines;
  const founding = { ...FOUNDING, members: [{ name: machine!.name, address: '10.0.0.11' }] };
  const [etcd] = manifestFiles(cluster, machine!, founding);
  // biome-ignore lint/suspicious/noExplicitAny: a manifest as its reader sees it
  const { command } = (load(etcd!.text) as any).spec.containers[0];
  expect(command).toContain('--name=cp1.blue.example');
  expect(command).toContain('--initial-cluster=cp1.blue.example=https://10.0.0.11:2380');
  expect(kubeletFiles(cluster, machine!).at(-1)!.text).toContain('--hostname-override=cp1.blue.example');
  for (const leaf of ['apiserver', 'kubelet-serving', 'etcd-server', 'etcd-peer'] as const)
    expect(leafOf(leaf).sans(holderOf(machine!), clusterNames(cluster)).dns).toContain(machine!.name);
  expect(leafOf('kubelet').subject(holderOf(machine!)).commonName).toBe('system:node:cp1.blue.example');
  expect(systemLines(cluster, machine!, true)).toContainEqual(
    expect.objectContaining({ path: '/etc/hostname', content: { text: 'cp1.blue.example\n' } }),
  );
});

test.for([
  ['cp9.blue.example', true],
  ['cp9', true],
  ['9', true],
  ['9.blue', true],
  ['10.77.0.33', false],
  ['Cp9.blue', false],
  ['cp9.', false],
  ['.cp9', false],
  ['cp9..blue', false],
  ['cp9.-blue', false],
  ['cp9_blue', false],
  [`${'a'.repeat(31)}.${'b'.repeat(31)}`, true],
  [`${'a'.repeat(32)}.${'b'.repeat(31)}`, false],
] as const)('the name of a Machine "%s": %s', ([name, good]) => {
  const document = {
    apiVersion: 'muster/v1',
    kind: 'Machine',
    metadata: { name },
    spec: { macs: ['52:54:00:aa:00:31'] },
  };
  expect(KINDS.Machine.safeParse(document).success).toBe(good);
});
