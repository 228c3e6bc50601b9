/**
 * The steps of an upgrade of Kubernetes, in the order in which Kubernetes' version skew policy
 * allows them. Pure.
 *
 * prefetch → etcd → apiservers → managers → control-planes → addons → canary → workers → settle
 *
 * Taking it back goes the same way backwards. Between minor versions that ends with the first API
 * server of the new one: what it writes, an older one may not be able to read. With a soak the new
 * control plane emulates the old version first, and it ends where that does:
 *
 * … → apiservers → managers → soak → lift → lift-managers → control-planes → …
 */
import type { Versioned } from '../../../agent/wire/facts.ts';
import { duration, type Millis, spanText } from '../../../base/duration.ts';
import type { ClusterRole } from '../../model/resolved-cluster.ts';
import { compareVersions, minorOf } from '../../model/versions.ts';
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
import { type ChangeTable, CLUSTER, done, held, type Scope, type Step, waiting } from '../step.ts';
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

/** The API server says that it emulates this minor version; absent: the order has no soak. */
const emulates =
  (minor: string | undefined): Judge =>
  ({ name }, { cluster: { emulated = {} } }) => {
    if (minor === undefined) return done('');
    if (emulated[name] === minor) return done(`it serves as ${minor}`);
    return waiting(
      emulated[name] === undefined
        ? 'its API server does not say which version it emulates'
        : `its API server serves as ${emulated[name]}`,
    );
  };

/** The minor version that the new control plane emulates at first; undefined: none. */
export const emulatedMinor = ({ from, soak }: Pick<UpgradeOrder, 'from' | 'soak'>): string | undefined =>
  soak === undefined ? undefined : minorOf(plainVersion(from.versions['kube-apiserver']));

const runsAsPlanned: Judge = ({ applied, settled }) =>
  applied && settled === true
    ? done('its programs run as planned')
    : waiting('its programs do not run as planned yet');

const nodeJudge = (to: Release) =>
  all(drained, runs('kubelet', to), etcdServes, apiserverIsReady, settledAgain, isBack);

/** The steps of an upgrade with a soak alone. */
const OF_SOAK: readonly StepName[] = ['soak', 'lift', 'lift-managers'];
/** What a soak can be taken back from. */
const BEFORE_LIFT: readonly StepName[] = ['etcd', 'apiservers', 'managers'];

const servingAs = (order: UpgradeOrder, to: Release): string =>
  order.soak === undefined || to !== order.to ? '' : ` and serve as ${emulatedMinor(order)}`;

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
    step: (order, to) => ({
      name: 'apiservers',
      sentence: `API servers become ${to.versions['kube-apiserver']}${servingAs(order, to)}, one after the other.`,
      scope: on(['control-plane'], 1),
      takes: { eachTurn: duration('40s') },
      restarts: (roles) => (roles.includes('control-plane') ? ['kube-apiserver'] : []),
      machine: all(
        runs('kube-apiserver', to),
        emulates(to === order.to ? emulatedMinor(order) : undefined),
        apiserverIsReady,
        settledAgain,
      ),
    }),
  },
  managers: {
    part: 'managers',
    interrupts: 'servers',
    step: (order, to) => ({
      name: 'managers',
      sentence: `Controller managers and schedulers become ${to.versions['kube-scheduler']}${servingAs(order, to)}, one after the other.`,
      scope: on(['control-plane'], 1),
      takes: { eachTurn: duration('20s') },
      restarts: (roles) =>
        roles.includes('control-plane') ? ['kube-controller-manager', 'kube-scheduler'] : [],
      machine: all(runs('kube-controller-manager', to), runs('kube-scheduler', to)),
    }),
  },
  soak: {
    part: 'apiserver',
    step: ({ soak = 0 }) => ({
      name: 'soak',
      sentence: `The new control plane serves as the old version for ${spanText(soak)}, while the cluster is watched.`,
      scope: { on: 'boot-host' },
      acts: true,
      takes: { total: soak as Millis },
      whole: ({ cluster: { soak: seen } }) => {
        if (seen === undefined) return waiting('the cluster is looked at');
        if (seen.unwell !== undefined)
          return held(
            'soak-unwell',
            `${seen.unwell}.`,
            `Correct it, and the change continues; \`muster change ${CLUSTER} roll-back\` brings the old version back.`,
          );
        return seen.leftMs > 0
          ? waiting(`${spanText(seen.leftMs)} are left`)
          : done(`all was well at the end of ${spanText(soak)}`);
      },
    }),
  },
  lift: {
    part: 'apiserver',
    interrupts: 'servers',
    step: (_, to) => ({
      name: 'lift',
      sentence: `API servers serve as ${minorOf(plainVersion(to.versions['kube-apiserver']))}, one after the other.`,
      scope: on(['control-plane'], 1),
      acts: true,
      noReturn: true,
      takes: { eachTurn: duration('40s') },
      restarts: (roles) => (roles.includes('control-plane') ? ['kube-apiserver'] : []),
      machine: all(
        emulates(minorOf(plainVersion(to.versions['kube-apiserver']))),
        apiserverIsReady,
        settledAgain,
      ),
    }),
  },
  'lift-managers': {
    part: 'managers',
    step: (_, to) => ({
      name: 'lift-managers',
      sentence: `Controller managers and schedulers work as ${minorOf(plainVersion(to.versions['kube-scheduler']))}, one control plane after the other.`,
      // All may: which control plane restarts them next, the turns of restarts decide (turn.ts).
      scope: on(['control-plane'], 'all'),
      acts: true,
      takes: { total: duration('1m') },
      restarts: (roles) =>
        roles.includes('control-plane') ? ['kube-controller-manager', 'kube-scheduler'] : [],
      machine: runsAsPlanned,
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
  'soak',
  'lift',
  'lift-managers',
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

const isNewEtcd = ({ from, to }: UpgradeOrder): boolean =>
  minorsNewer(plainVersion(to.versions.etcd), plainVersion(from.versions.etcd)) > 0;

/** A newer minor version of etcd lowers its data on the way back, from 3.6 on. */
export const lowersEtcd = (order: UpgradeOrder): boolean =>
  isNewEtcd(order) && compareVersions(plainVersion(order.from.versions.etcd), '3.5.0') >= 0;

/** An etcd of before 3.6 cannot, and stays: older members could not read the data. */
const etcdStays = (order: UpgradeOrder): boolean => isNewEtcd(order) && !lowersEtcd(order);

/** The minor version of etcd that the upgrade came from. */
export const formerEtcd = ({ from }: UpgradeOrder): string => minorOf(plainVersion(from.versions.etcd));

export const LOWER = 'etcd-lower';

const lower = (order: UpgradeOrder): UpgradeStep => ({
  name: LOWER,
  sentence: `etcd lowers its data, so that members of ${formerEtcd(order)} can read them.`,
  scope: { on: 'boot-host' },
  acts: true,
  takes: { total: duration('30s') },
  whole: ({ cluster: { storage } }) => {
    const newer = Object.entries(storage ?? {}).filter(([, minor]) => minor !== formerEtcd(order));
    if (storage === undefined || newer.length > 0)
      return waiting(`etcd still has data of ${newer[0]?.[1] ?? 'a newer version'}`);
    return done(`etcd has data of ${formerEtcd(order)}`);
  },
});

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
    .filter((name) => order.soak !== undefined || !OF_SOAK.includes(name))
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
      step.name === 'apiservers' && isMinorChange(order) && order.soak === undefined
        ? { ...step, acts: true as const, noReturn: true as const }
        : step,
    ),
    settle('settle', order.to),
  ],
  back: (order) => [
    ...partSteps(order, order.from)
      .filter(({ name }) => name !== 'canary' && (name !== 'etcd' || !etcdStays(order)))
      .filter(({ name }) => order.soak === undefined || BEFORE_LIFT.some((one) => one === name))
      .toReversed()
      .flatMap((step) => [
        ...(step.name === 'etcd' && lowersEtcd(order) ? [lower(order)] : []),
        { ...step, name: `${step.name}${BACK}` },
      ]),
    settle('settle-back', releaseBack(order)),
  ],
};
