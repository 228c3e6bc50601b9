/** What each step of a rotation restarts on a control plane and on a worker, by version. */
import { expect, test } from 'vitest';
import type { PlanLine } from '../../../../src/agent/wire/plan.ts';
import { duration } from '../../../../src/base/duration.ts';
import type { Transition } from '../../../../src/pki/transitions.ts';
import { rig, settle, TestMachine } from '../planner-kit.ts';

/** The files that name the revision of a program, by a short name for it. */
const REVISIONS: readonly (readonly [string, string, RegExp])[] = [
  ...['etcd', 'kube-apiserver', 'kube-controller-manager', 'kube-scheduler'].map(
    (pod) =>
      [
        pod.replace(/^kube-/, ''),
        `/etc/kubernetes/manifests/${pod}.yaml`,
        /MUSTER_REVISION\s+value: "?([0-9a-f]+)/,
      ] as const,
  ),
  ['haproxy', '/etc/muster/balancer.cfg', /text\/plain string ([0-9a-f]+)/],
  ['kubelet', '/etc/systemd/system/kubelet.service.d/10-kubeadm.conf', /MUSTER_REVISION=([0-9a-f]+)/],
];

function revisionsOf(lines: readonly PlanLine[]): ReadonlyMap<string, string> {
  return new Map(
    REVISIONS.flatMap(([name, path, pattern]) => {
      const line = lines.find((one) => one.do === 'put' && one.path === path);
      const text = line?.do === 'put' && 'text' in line.content ? line.content.text : '';
      const [, revision] = pattern.exec(text) ?? [];
      return revision === undefined ? [] : [[name, revision] as const];
    }),
  );
}

type Rotated = 'ca' | 'etcd-ca' | 'front-proxy-ca' | 'sa' | 'encryption';

/** What restarts on cp1 and on w1 in each of these steps of a keyset. */
async function restartsOf(
  version: '1.34' | '1.35' | '1.36',
  name: Rotated,
  steps: readonly ('make' | 'trust' | 'promote' | 'distrust')[],
): Promise<readonly string[]> {
  const { planner, pki, clock } = await rig({ spec: { version } });
  const machines = ['cp1', 'w1'].map((one) => new TestMachine(one));
  const seen = async () => {
    const all: ReadonlyMap<string, string>[] = [];
    for (const machine of machines) all.push(revisionsOf((await settle(planner, machine)).lines));
    return all;
  };
  let before = await seen();
  const keyset =
    name === 'encryption' ? await pki.encryption('golden') : (await pki.keysets('golden')).get(name);
  const old = keyset!.primary;
  let next = '';
  const said: string[] = [];
  for (const step of steps) {
    const generation = step === 'distrust' ? old : next;
    const transition = (step === 'make' ? { do: step } : { do: step, generation }) as Transition;
    const made = await pki.transition('golden', name, transition);
    if (step === 'make') next = made.generation;
    clock.advance(duration('6s'));
    const after = await seen();
    const changed = after.map((one, n) =>
      [...one].filter(([pod, revision]) => before[n]!.get(pod) !== revision).map(([pod]) => pod),
    );
    said.push(`${step}: ${changed.map((pods) => pods.join(' ') || '-').join(', ')}`);
    before = after;
  }
  return said;
}

const BUNDLE_FIRST = ['make', 'trust', 'promote', 'distrust'] as const;
const BRIDGED = ['make', 'promote', 'distrust'] as const;

test.for([
  [
    '1.36',
    'ca',
    BUNDLE_FIRST,
    [
      'make: -, -',
      'trust: controller-manager kubelet, haproxy kubelet',
      'promote: kubelet, kubelet',
      'distrust: controller-manager kubelet, haproxy kubelet',
    ],
  ],
  [
    '1.35',
    'ca',
    BRIDGED,
    [
      'make: -, -',
      'promote: kubelet, kubelet',
      'distrust: apiserver controller-manager scheduler kubelet, haproxy kubelet',
    ],
  ],
  ['1.36', 'etcd-ca', BRIDGED, ['make: -, -', 'promote: -, -', 'distrust: etcd apiserver, -']],
  [
    '1.36',
    'etcd-ca',
    BUNDLE_FIRST,
    ['make: -, -', 'trust: etcd apiserver, -', 'promote: -, -', 'distrust: etcd apiserver, -'],
  ],
  ['1.34', 'front-proxy-ca', BRIDGED, ['make: -, -', 'promote: -, -', 'distrust: -, -']],
  [
    '1.36',
    'sa',
    BUNDLE_FIRST,
    [
      'make: -, -',
      'trust: apiserver, -',
      'promote: apiserver controller-manager, -',
      'distrust: apiserver, -',
    ],
  ],
  ['1.35', 'encryption', BUNDLE_FIRST, ['make: -, -', 'trust: -, -', 'promote: -, -', 'distrust: -, -']],
  [
    '1.34',
    'encryption',
    BUNDLE_FIRST,
    ['make: -, -', 'trust: apiserver, -', 'promote: apiserver, -', 'distrust: apiserver, -'],
  ],
] as const)('in %s, %s by %j restarts only what must', async ([version, name, steps, expected]) => {
  expect(await restartsOf(version, name, steps)).toEqual(expected);
});
