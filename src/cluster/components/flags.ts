/**
 * The flags and feature gates of each version, so that an unknown flag or a value that a component
 * does not take is refused when the Cluster is applied, and not by a component that fails to start.
 * The tables come from the components themselves (scripts/ask-components.ts).
 */

import { MINORS, type Minor } from '../model/versions.ts';
import { type Known, knownIn } from './tables.ts';

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

const flagsOf = (component: KubernetesComponent | 'etcd'): Known<FlagInfo> =>
  knownIn(`flag ${component}`, ([type = '', ...choices]) => ({ type, choices }));

export const FLAGS: Readonly<Record<KubernetesComponent, Known<FlagInfo>>> = {
  'kube-apiserver': flagsOf('kube-apiserver'),
  'kube-controller-manager': flagsOf('kube-controller-manager'),
  'kube-scheduler': flagsOf('kube-scheduler'),
  kubelet: flagsOf('kubelet'),
};

export const ETCD_FLAGS: Known<FlagInfo> = flagsOf('etcd');

/** API group → minor version → the versions of the group that it registers. */
export const API_VERSIONS: Known<readonly string[]> = knownIn('api', (versions) => versions);

const STAGES: Readonly<Record<string, NonNullable<GateInfo['stage']>>> = { a: 'alpha', b: 'beta' };

export const FEATURE_GATES: Known<GateInfo> = knownIn('gate', ([state = '']): GateInfo => {
  const [, stage = '', on, locked] = /^([ab]?)([+-])(!?)$/.exec(state) ?? [];
  const of = STAGES[stage];
  return { on: on === '+', locked: locked === '!', ...(of !== undefined && { stage: of }) };
});

/** The names in the table that this minor version has. */
export const known = (table: Known, minor: string): ReadonlySet<string> =>
  new Set([...table].filter(([, versions]) => versions.has(minor)).map(([name]) => name));

/** The minor versions that have this name. */
export const minorsKnowing = (table: Known, name: string): readonly Minor[] =>
  MINORS.filter((minor) => table.get(name)?.has(minor));
