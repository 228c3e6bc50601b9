/** Labels and taints that nodes register with. */
import { expect, test } from 'vitest';
import { taintText } from '../../../../src/cluster/components/nodes.ts';
import { kubeletConfiguration, kubeletFiles } from '../../../../src/cluster/plan/kubelet.ts';
import type { KubernetesSpec } from '../../../../src/resources/kinds.ts';
import { faults, resolved } from '../kit.ts';

type Nodes = NonNullable<KubernetesSpec['nodes']>;

const ofMachine = (name: string, changes: Partial<KubernetesSpec>) => {
  const cluster = resolved(changes);
  const machine = cluster.machines.find((one) => one.name === name)!;
  const env = kubeletFiles(cluster, machine).at(-1)!.text;
  return {
    machine,
    labels: /--node-labels=([^" ]*)/.exec(env)?.[1],
    taints: kubeletConfiguration(cluster, machine).registerWithTaints,
  };
};

const GROUPS: Nodes = [
  { machines: ['w1', 'w2'], labels: { 'topology.kubernetes.io/zone': 'r7' } },
  {
    machines: ['w1', 'cp1'],
    labels: { gpu: 'yes', free: '' },
    taints: ['gpu=yes:NoSchedule', 'gpu:NoExecute'],
  },
];

test('a machine registers with the labels and taints of all groups that name it, and with no others', () => {
  expect(ofMachine('w1', { nodes: GROUPS })).toMatchObject({
    labels: 'free=,gpu=yes,topology.kubernetes.io/zone=r7',
    taints: [
      { key: 'gpu', value: 'yes', effect: 'NoSchedule' },
      { key: 'gpu', effect: 'NoExecute' },
    ],
  });
  expect(ofMachine('w2', { nodes: GROUPS })).toMatchObject({
    labels: 'topology.kubernetes.io/zone=r7',
    taints: undefined,
  });
  expect(ofMachine('cp2', { nodes: GROUPS })).toMatchObject({ labels: undefined });
  expect(ofMachine('cp2', {}).machine).toEqual(ofMachine('cp2', { nodes: GROUPS }).machine);
  expect(ofMachine('w1', { nodes: GROUPS }).machine.taints!.map(taintText)).toEqual(GROUPS[1]!.taints);
});

test('they are added to those of control planes, and to those that the Cluster gives every kubelet', () => {
  const { taints } = ofMachine('cp1', { nodes: GROUPS });
  expect(taints).toEqual([
    { effect: 'NoSchedule', key: 'node-role.kubernetes.io/control-plane' },
    { key: 'gpu', value: 'yes', effect: 'NoSchedule' },
    { key: 'gpu', effect: 'NoExecute' },
  ]);
  const overrides = {
    flags: { kubelet: { 'node-labels': 'all=1' } },
    kubelet: { config: { registerWithTaints: [] } },
  };
  expect(ofMachine('cp1', { nodes: GROUPS, overrides })).toMatchObject({
    labels: 'all=1,free=,gpu=yes',
    taints: [
      { key: 'gpu', value: 'yes', effect: 'NoSchedule' },
      { key: 'gpu', effect: 'NoExecute' },
    ],
  });
});

test.each<[what: string, nodes: Nodes, said: string]>([
  [
    'a label that kubelet gives itself',
    [{ machines: ['w1'], labels: { 'kubernetes.io/hostname': 'x' } }],
    'error nodes[0].labels: kubernetes.io/hostname is set by kubelet itself at each start',
  ],
  [
    'one that follows from the role',
    [{ machines: ['w1'], labels: { 'node-role.kubernetes.io/control-plane': '' } }],
    'error nodes[0].labels: node-role.kubernetes.io/control-plane follows from the list controlPlanes',
  ],
  [
    'a name that is none',
    [{ machines: ['w1'], labels: { 'a b': 'x' } }],
    'error nodes[0].labels: "a b" is not the name of a label',
  ],
  [
    'a domain that is none',
    [{ machines: ['w1'], labels: { 'Upper.example/x': 'x' } }],
    'error nodes[0].labels: "Upper.example/x" is not the name of a label',
  ],
  [
    'a comma, which would begin another label',
    [{ machines: ['w1'], labels: { a: 'b,c=d' } }],
    'error nodes[0].labels: "b,c=d" is not the value of a label',
  ],
  [
    'two values for one label',
    [
      { machines: ['w1'], labels: { a: '1' } },
      { machines: ['w1'], labels: { a: '2' } },
    ],
    'error nodes[1].labels: another group already gives w1 the label a: 1; give it one value',
  ],
  [
    'an effect that there is not',
    [{ machines: ['w1'], taints: ['gpu=yes:NoWay'] }],
    'error nodes[0].taints[0]: "gpu=yes:NoWay" is not a taint',
  ],
  [
    'a taint with a value that is none',
    [{ machines: ['w1'], taints: ['gpu=a b:NoExecute'] }],
    'error nodes[0].taints[0]: "a b" is not the value of a label',
  ],
  [
    'a second taint of one key and effect, with which the API refuses the Node',
    [
      { machines: ['w1', 'w2'], taints: ['gpu=yes:NoSchedule'] },
      { machines: ['w1'], taints: ['gpu=no:NoExecute', 'gpu=no:NoSchedule'] },
    ],
    'error nodes[1].taints[1]: w1 already has the taint gpu=yes:NoSchedule, and a node has one for each key and effect; keep one',
  ],
  [
    'a taint that Kubernetes sets and removes itself',
    [{ machines: ['w1'], taints: ['node.kubernetes.io/unreachable:NoExecute'] }],
    'error nodes[0].taints[0]: Kubernetes sets and removes the taint node.kubernetes.io/unreachable by the state of the node',
  ],
  [
    'a machine that is no node',
    [{ machines: ['w9'] }],
    'warning nodes[0].machines[0]: w9 is not a node of this cluster; did you mean "w1"?',
  ],
])('%s is a fault at its own path', (_what, nodes, said) => {
  expect(faults({ nodes })).toEqual([expect.stringContaining(said)]);
});

test('a machine registers with one taint for each key and effect, and its own wins', () => {
  const nodes = [{ machines: ['cp1'], taints: ['node-role.kubernetes.io/control-plane=x:NoSchedule'] }];
  expect(faults({ nodes })).toEqual([]);
  expect(ofMachine('cp1', { nodes }).taints).toEqual([
    { key: 'node-role.kubernetes.io/control-plane', value: 'x', effect: 'NoSchedule' },
  ]);
});

test('labels that Kubernetes lets a kubelet give are taken', () => {
  const labels = {
    'topology.kubernetes.io/region': 'eu',
    'node.kubernetes.io/instance-type': 'r640',
    'kubelet.kubernetes.io/x': 'y',
    'example.com/rack': 'R-7_a.1',
  };
  expect(faults({ nodes: [{ machines: ['w1'], labels }] })).toEqual([]);
});

test('labels that no kubelet may give are taken and left out of its flag, which goes where nothing else is in it', () => {
  const labels = { 'node-role.kubernetes.io/gpu': '', 'node-restriction.kubernetes.io/a': 'b' };
  const only = { nodes: [{ machines: ['w1'], labels }] };
  expect(faults(only)).toEqual([]);
  expect(ofMachine('w1', only).labels).toBeUndefined();
  expect(ofMachine('w1', { nodes: [{ machines: ['w1'], labels: { ...labels, gpu: 'yes' } }] }).labels).toBe(
    'gpu=yes',
  );
});
