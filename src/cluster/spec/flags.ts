/**
 * The flags and feature gates of each version, so that an unknown flag or a value that a component
 * does not take is refused when the Cluster is applied, and not by a component that fails to start.
 * The tables come from the components themselves (scripts/component-tables.ts).
 */
import { FLAG_LINES, GATE_LINES } from './component-tables.generated.ts';

export const MINORS = ['1.34', '1.35', '1.36'] as const;
export type Minor = (typeof MINORS)[number];

export const KUBERNETES_COMPONENTS = [
  'kube-apiserver',
  'kube-controller-manager',
  'kube-scheduler',
  'kubelet',
] as const;
export type KubernetesComponent = (typeof KUBERNETES_COMPONENTS)[number];

/** What is known of a flag in one version. */
export interface FlagInfo {
  /** The type of its value, as flag-values.ts names it. */
  readonly type: string;
  /** The names that the value, or each part of a list, may have; empty: any. */
  readonly choices: readonly string[];
}

/** What is known of a feature gate in one version. */
export interface GateInfo {
  readonly on: boolean;
  /** The stage whose gates AllAlpha or AllBeta set; absent: another one. */
  readonly stage?: 'alpha' | 'beta';
  /** It can be set to nothing but its default. */
  readonly locked: boolean;
}

/** Name → version → what is known. */
export type Known<T = unknown> = ReadonlyMap<string, ReadonlyMap<string, T>>;

function flagsIn(text: string): Known<FlagInfo> {
  const flags = new Map<string, Map<string, FlagInfo>>();
  for (const line of text.trim().split('\n')) {
    const [name = '', type = '', minors = '', choices = ''] = line.trim().split(' ');
    const info = { type, choices: choices === '' ? [] : choices.split(',') };
    const versions = flags.get(name) ?? new Map<string, FlagInfo>();
    for (const minor of minors.split(',')) versions.set(minor, info);
    flags.set(name, versions);
  }
  return flags;
}

export const FLAGS: Readonly<Record<KubernetesComponent, Known<FlagInfo>>> = {
  'kube-apiserver': flagsIn(FLAG_LINES['kube-apiserver']),
  'kube-controller-manager': flagsIn(FLAG_LINES['kube-controller-manager']),
  'kube-scheduler': flagsIn(FLAG_LINES['kube-scheduler']),
  kubelet: flagsIn(FLAG_LINES.kubelet),
};

export const ETCD_FLAGS: Known<FlagInfo> = flagsIn(FLAG_LINES.etcd);

const STAGES: Readonly<Record<string, NonNullable<GateInfo['stage']>>> = { a: 'alpha', b: 'beta' };

export const FEATURE_GATES: Known<GateInfo> = new Map(
  GATE_LINES.trim()
    .split('\n')
    .map((line) => {
      const [name = '', ...states] = line.trim().split(' ');
      const versions = states.map((state): [string, GateInfo] => {
        const [, minor = '', stage = '', on, locked] = /^([0-9.]+)([ab]?)([+-])(!?)$/.exec(state) ?? [];
        const of = STAGES[stage];
        return [minor, { on: on === '+', locked: locked === '!', ...(of !== undefined && { stage: of }) }];
      });
      return [name, new Map(versions)];
    }),
);

/** The names in the table that this minor version has. */
export const known = (table: Known, minor: string): ReadonlySet<string> =>
  new Set([...table].filter(([, versions]) => versions.has(minor)).map(([name]) => name));

/** The minor versions that have this name. */
export const minorsKnowing = (table: Known, name: string): readonly Minor[] =>
  MINORS.filter((minor) => table.get(name)?.has(minor));
