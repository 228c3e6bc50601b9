/**
 * The steps of an upgrade of Kubernetes, in the order in which Kubernetes' version skew policy
 * allows them. Pure.
 *
 * prefetch → etcd → apiservers → managers → control-planes → addons → canary → workers → settle
 *
 * Taking it back goes the same way backwards. Between minor versions that ends with the first API
 * server of the new one: what it writes, an older one may not be able to read.
 */
import type { Versioned } from '../../../agent/wire/facts.ts';
import { duration, spanText } from '../../../base/duration.ts';
import type { ClusterRole } from '../../model/resolved-cluster.ts';
import { changedParts, type Part } from '../../resolve/mixed.ts';
import type { Release } from '../../resolve/release.ts';
import { minorsNewer } from '../../resolve/skew.ts';
import type { Upgraded } from '../../resolve/windows.ts';
import { limitsText } from '../groups.ts';
import {
  all,
  apiserverIsReady,
  drained,
  etcdServes,
  isBack,
  type Judge as JudgeOf,
  settledAgain,
} from '../judges.ts';
import { type ChangeTable, done, held, type Scope, type Step, waiting } from '../step.ts';
import { ABSENT_AFTER } from '../turn.ts';
import type { UpgradeOrder, UpgradeSeen } from './order.ts';

type UpgradeStep = Step<UpgradeOrder, UpgradeSeen>;
type Judge = JudgeOf<UpgradeOrder, UpgradeSeen>;

const NODES: readonly ClusterRole[] = ['control-plane', 'worker'];
const on = (roles: readonly ClusterRole[], atOnce: number | 'all') =>
  ({
    on: 'machines',
    roles,
    atOnce,
  }) satisfies Scope;

/** The version of a program without the build number of its image's tag. */
export const plainVersion = (version: string): string => version.replace(/^v/, '').replace(/-\d+$/, '');

/** The program runs with the version of the release, by what its executable says. */
const runs =
  (program: Versioned & keyof Release['versions'], to: Release): Judge =>
  ({ facts, silentFor = 0 }) => {
    const wanted = plainVersion(to.versions[program]);
    const version = facts?.runs?.[program];
    if (version === wanted) return done(`${program} ${version} runs`);
    if (facts?.hold) return waiting(`it waits (${facts.hold.code}): ${facts.hold.text}`);
    if (version === undefined) return waiting(`its ${program} does not run`);
    return waiting(
      silentFor < ABSENT_AFTER
        ? `its ${program} is still ${version}`
        : `it has not reported for ${spanText(silentFor)}; its ${program} was ${version} then`,
    );
  };

const hasImages: Judge = ({ name, facts }, { cluster }) => {
  const list = cluster.lists[name];
  if (list === '') return done('');
  if (list === undefined || facts?.prefetched?.list !== list) return waiting('it is fetching images');
  const { fault } = facts.prefetched;
  if (fault === undefined) return done('its images are there');
  return held(
    'image-missing',
    `${name} has not all images: ${fault}.`,
    'Bring them with `muster artifacts pull` or `import`; until then nothing is changed.',
  );
};

/** A part of the upgrade on its machines. `to`: the release that they get. */
interface PartStep {
  readonly part: Part;
  /** The machines that get turns in the step; absent: all do it at once, and it interrupts none. */
  readonly interrupts?: Upgraded;
  readonly step: (order: UpgradeOrder, to: Release) => UpgradeStep;
}

const nodeJudge = (to: Release) =>
  all(drained, runs('kubelet', to), etcdServes, apiserverIsReady, settledAgain, isBack);

const PART_STEPS: Readonly<Record<StepName, PartStep>> = {
  etcd: {
    part: 'etcd',
    interrupts: 'servers',
    step: (_, to) => ({
      name: 'etcd',
      sentence: `Members of etcd become ${plainVersion(to.versions.etcd)}, one after the other.`,
      scope: on(['etcd'], 1),
      takes: { eachTurn: duration('30s') },
      restarts: (roles) => (roles.includes('etcd') ? ['etcd'] : []),
      machine: all(runs('etcd', to), etcdServes, settledAgain),
    }),
  },
  apiservers: {
    part: 'apiserver',
    interrupts: 'servers',
    step: (_, to) => ({
      name: 'apiservers',
      sentence: `API servers become ${to.versions['kube-apiserver']}, one after the other.`,
      scope: on(['control-plane'], 1),
      takes: { eachTurn: duration('40s') },
      restarts: (roles) => (roles.includes('control-plane') ? ['kube-apiserver'] : []),
      machine: all(runs('kube-apiserver', to), apiserverIsReady, settledAgain),
    }),
  },
  managers: {
    part: 'managers',
    interrupts: 'servers',
    step: (_, to) => ({
      name: 'managers',
      sentence: `Controller managers and schedulers become ${to.versions['kube-scheduler']}, one after the other.`,
      scope: on(['control-plane'], 1),
      takes: { eachTurn: duration('20s') },
      restarts: (roles) =>
        roles.includes('control-plane') ? ['kube-controller-manager', 'kube-scheduler'] : [],
      machine: all(runs('kube-controller-manager', to), runs('kube-scheduler', to)),
    }),
  },
  'control-planes': {
    part: 'node',
    interrupts: 'servers',
    step: (_, to) => ({
      name: 'control-planes',
      sentence: `Control planes are drained and get kubelet ${to.versions.kubelet}, one after the other.`,
      scope: on(['control-plane'], 1),
      takes: { eachTurn: duration('60s') },
      restarts: (roles) => (roles.includes('control-plane') ? ['kubelet'] : []),
      machine: nodeJudge(to),
    }),
  },
  addons: {
    part: 'addons',
    step: (_, to) => ({
      name: 'addons',
      sentence: `kube-proxy becomes ${to.versions['kube-proxy']} and CoreDNS ${to.versions.coredns}.`,
      scope: on(['control-plane'], 'all'),
      takes: { total: duration('30s') },
      machine: ({ applied, facts }) =>
        applied && facts?.objects === undefined
          ? done('it has applied the objects')
          : waiting(facts?.objects ?? 'it is applying the objects'),
    }),
  },
  canary: {
    part: 'node',
    interrupts: 'workers',
    step: (order, to) => ({
      name: 'canary',
      sentence: `The worker ${order.canary ?? ''} is drained and gets kubelet ${to.versions.kubelet}, before all others.`,
      scope: {
        ...on(['worker'], 1),
        ...{ only: order.canary ? [order.canary] : [], groups: order.groups },
      },
      takes: { eachTurn: duration('60s') },
      restarts: (roles) => (roles.includes('worker') ? ['kubelet'] : []),
      machine: nodeJudge(to),
    }),
  },
  workers: {
    part: 'node',
    interrupts: 'workers',
    step: (order, to) => ({
      name: 'workers',
      sentence: `Workers are drained and get kubelet ${to.versions.kubelet}, ${limitsText(order)}.`,
      scope: { ...on(['worker'], order.maxUnavailable), groups: order.groups },
      takes: { eachTurn: duration('60s') },
      restarts: (roles) => (roles.includes('worker') ? ['kubelet'] : []),
      machine: nodeJudge(to),
    }),
  },
};

export const STEP_NAMES = [
  'etcd',
  'apiservers',
  'managers',
  'control-planes',
  'addons',
  'canary',
  'workers',
] as const;
export type StepName = (typeof STEP_NAMES)[number];

/** What the name of a step of the way back ends with. */
export const BACK = '-back';

export const partOfStep = (step: string): Part | undefined =>
  PART_STEPS[(step.endsWith(BACK) ? step.slice(0, -BACK.length) : step) as StepName]?.part;

/** Whether machines are drained in this step. */
export const drainsIn = (step: string): boolean => partOfStep(step) === 'node';

/**
 * The machines that may have to wait for a maintenance window in this step; undefined: none. The
 * way back does not wait: it is taken because something does not work.
 */
export const waitsForWindow = (step: string): Upgraded | undefined =>
  PART_STEPS[step as StepName]?.interrupts;

/** Whether the release is of another minor version of Kubernetes. */
export const isMinorChange = ({ from, to }: Pick<UpgradeOrder, 'from' | 'to'>): boolean =>
  minorsNewer(to.versions['kube-apiserver'], from.versions['kube-apiserver']) !== 0;

/** A newer minor version of etcd stays: its members cannot read their data with an older one. */
const etcdStays = ({ from, to }: UpgradeOrder): boolean =>
  minorsNewer(plainVersion(to.versions.etcd), plainVersion(from.versions.etcd)) > 0;

/** The release that the cluster has after the upgrade was taken back. */
export const releaseBack = (order: UpgradeOrder): Release =>
  etcdStays(order)
    ? {
        ...order.from,
        versions: { ...order.from.versions, etcd: order.to.versions.etcd },
        images: { ...order.from.images, etcd: order.to.images.etcd },
      }
    : order.from;

function partSteps(order: UpgradeOrder, to: Release): readonly UpgradeStep[] {
  const parts = changedParts(order.from, order.to);
  return STEP_NAMES.filter((name) => parts.includes(PART_STEPS[name].part))
    .filter((name) => (name !== 'canary' && name !== 'workers') || order.canary !== undefined)
    .map((name) => PART_STEPS[name].step(order, to));
}

const settle = (name: string, { version }: Release): UpgradeStep => ({
  name,
  sentence: `The boot host records that the cluster has Kubernetes ${version}.`,
  scope: { on: 'boot-host' },
  acts: true,
  takes: {},
});

/** The roles of the machines that an upgrade changes. */
export function changedRoles({ from, to }: Pick<UpgradeOrder, 'from' | 'to'>): readonly ClusterRole[] {
  const parts = changedParts(from, to);
  const roles = parts.some((part) => part !== 'etcd') ? NODES : [];
  return parts.includes('etcd') ? [...roles, 'etcd'] : roles;
}

const prefetch = (order: UpgradeOrder): UpgradeStep => ({
  name: 'prefetch',
  sentence: 'Every machine fetches the images that it will need; nothing is changed yet.',
  scope: on(changedRoles(order), 'all'),
  takes: { total: duration('2m') },
  machine: hasImages,
});

const snapshot = (): UpgradeStep => ({
  name: 'snapshot',
  sentence: 'A member of etcd takes a snapshot, and the boot host reads it back.',
  scope: { on: 'boot-host' },
  acts: true,
  takes: { total: duration('1m') },
  whole: ({ cluster: { snapshot: seen } }) => {
    if (seen?.state === 'taken') return done(seen.text);
    if (seen?.state !== 'failed') return waiting(seen?.text ?? 'the snapshot is being taken');
    return held(
      'snapshot',
      `${seen.text}.`,
      'Correct what it says; the next snapshot of the cluster counts.',
    );
  },
});

export const UPGRADE: ChangeTable<UpgradeOrder, UpgradeSeen> = {
  forward: (order) => [
    snapshot(),
    prefetch(order),
    ...partSteps(order, order.to).map((step) =>
      step.name === 'apiservers' && isMinorChange(order)
        ? { ...step, acts: true as const, noReturn: true as const }
        : step,
    ),
    settle('settle', order.to),
  ],
  back: (order) => [
    ...partSteps(order, order.from)
      .filter(({ name }) => name !== 'canary' && (name !== 'etcd' || !etcdStays(order)))
      .toReversed()
      .map((step) => ({ ...step, name: `${step.name}${BACK}` })),
    settle('settle-back', releaseBack(order)),
  ],
};
