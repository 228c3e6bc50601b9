/**
 * Which parts of a machine may have the new release at this moment of an upgrade. Everything else
 * keeps the old one, whatever the document says. Pure.
 */
import type { RunningVersions, Versioned } from '../../../agent/wire/facts.ts';
import type { ClusterRole } from '../../model/resolved-cluster.ts';
import { ALL_OLD, type Emulating, type HasNew, PARTS, type Part } from '../../resolve/mixed.ts';
import type { Release } from '../../resolve/release.ts';
import type { ChangeRecord } from '../record.ts';
import type { UpgradeOrder } from './order.ts';
import { BACK, partOfStep, plainVersion, type StepName, UPGRADE } from './table.ts';

interface Asking {
  readonly name: string;
  readonly roles: readonly ClusterRole[];
  /** What runs on it. */
  readonly versions: RunningVersions;
  /**
   * Whether it may begin when it has its turn: its hooks let it, and its node is drained where the
   * step drains.
   */
  readonly mayBegin: boolean;
}

type Progress = Pick<
  ChangeRecord<UpgradeOrder>,
  'order' | 'route' | 'step' | 'acted' | 'evidence' | 'turns' | 'past'
>;

/** The step in which a part of this machine gets its release. */
function stepFor(
  part: Part,
  { name, roles }: Asking,
  { order, route }: Pick<Progress, 'order' | 'route'>,
): StepName {
  switch (part) {
    case 'etcd':
      return 'etcd';
    case 'apiserver':
      return 'apiservers';
    case 'managers':
      return 'managers';
    case 'addons':
      return 'addons';
    case 'node':
      if (!roles.includes('worker')) return 'control-planes';
      return route === 'forward' && name === order.canary ? 'canary' : 'workers';
  }
}

/** The parts of a machine that have the new release. */
export function allowed(progress: Progress, machine: Asking): HasNew {
  const has = { ...ALL_OLD } as Record<Part, boolean>;
  for (const part of PARTS) has[part] = hasNew(progress, machine, part);
  return has;
}

const LIFTED_BY = { apiserver: 'lift', managers: 'lift-managers' } as const satisfies Record<
  Emulating,
  StepName
>;

/** The parts of a machine that have the new release and emulate the old minor version. */
export function emulating(progress: Progress, machine: Asking, has: HasNew): readonly Emulating[] {
  const { order, route, step } = progress;
  if (order.soak === undefined) return [];
  const steps = UPGRADE.forward(order);
  const at = steps.findIndex(({ name }) => name === step);
  return (Object.keys(LIFTED_BY) as Emulating[]).filter((part) => {
    const lift = steps.findIndex(({ name }) => name === LIFTED_BY[part]);
    const lifted = route === 'forward' && (at > lift || (at === lift && mayChange(progress, machine, step)));
    return has[part] && !lifted;
  });
}

/**
 * The parts of a machine that have the release when no upgrade is under way. A control plane that
 * was away during one brings its API server up to date before anything that must not be newer.
 */
export function allowedWhenSettled(release: Release, { roles, versions }: Asking): HasNew {
  const wanted = plainVersion(release.versions['kube-apiserver']);
  const current = versions['kube-apiserver'];
  const behind = roles.includes('control-plane') && current !== undefined && current !== wanted;
  return { etcd: true, apiserver: true, managers: !behind, addons: !behind, node: !behind };
}

function hasNew(progress: Progress, machine: Asking, part: Part): boolean {
  const { order, route, step } = progress;
  const steps = route === 'forward' ? UPGRADE.forward(order) : UPGRADE.back(order);
  const suffix = route === 'forward' ? '' : BACK;
  const at = steps.findIndex(({ name }) => name === step);
  const own = steps.findIndex(({ name }) => name === `${stepFor(part, machine, progress)}${suffix}`);
  // A part without a step does not change, or (etcd, on the way back) stays as it is.
  if (own < 0) return route === 'back' && isNew(progress, machine, part);
  const passed = at > own || (at === own && mayChange(progress, machine, step));
  if (route === 'forward') return passed;
  return !passed && isNew(progress, machine, part);
}

/** Whether the machine may change in the step that the upgrade is at. */
function mayChange({ evidence, turns, acted }: Progress, { name, mayBegin }: Asking, step: string): boolean {
  if (evidence[name] !== undefined) return true;
  if (!acted) return false;
  if (partOfStep(step) === 'addons' || step === LIFTED_BY.managers) return true;
  return turns.includes(name) && mayBegin;
}

const PROGRAM: Readonly<Record<Exclude<Part, 'addons'>, Versioned & keyof UpgradeOrder['to']['versions']>> = {
  etcd: 'etcd',
  apiserver: 'kube-apiserver',
  managers: 'kube-controller-manager',
  node: 'kubelet',
};

/** Whether a part of the machine has the new release already, on the way back. */
function isNew({ order, past }: Progress, { versions }: Asking, part: Part): boolean {
  if (part === 'addons') return past.some(({ step, route }) => route === 'forward' && step === 'addons');
  const program = PROGRAM[part];
  const [from, to] = [order.from, order.to].map((release) => plainVersion(release.versions[program]));
  return from !== to && versions[program] === to;
}
