/**
 * Kubernetes' version skew policy as a table, and the rules of etcd: which versions must never run
 * at the same time, and from which version an upgrade may go to which. Pure.
 *
 * @see https://kubernetes.io/releases/version-skew-policy/
 * @see https://etcd.io/docs/v3.6/upgrades/
 * @see https://github.com/kubernetes/kubernetes/pull/138746 for etcd 3.7
 */
import { compareVersions, minorOf, parseVersion } from '../model/versions.ts';

const SKEWED = [
  'etcd',
  'kube-apiserver',
  'kube-controller-manager',
  'kube-scheduler',
  'kubelet',
  'kube-proxy',
  'kubectl',
] as const;
export type Skewed = (typeof SKEWED)[number];

/** A program that runs on a machine. */
export interface Instance {
  readonly program: Skewed;
  readonly machine: string;
  readonly version: string;
}

/** By how many minor versions a program may be older and newer than another one. */
interface SkewRule {
  readonly program: Skewed;
  readonly than: Skewed;
  readonly older: number;
  readonly newer: number;
  /** Whether the rule holds only between programs of one machine. */
  readonly sameMachine?: true;
}

/**
 * The policy. Where instances of a program differ, each pair has to fit: so a kubelet is not newer
 * than the oldest API server, and at most three minor versions older than the newest.
 */
export const SKEW_RULES: readonly SkewRule[] = [
  { program: 'kube-apiserver', than: 'kube-apiserver', older: 1, newer: 1 },
  { program: 'kubelet', than: 'kube-apiserver', older: 3, newer: 0 },
  { program: 'kube-proxy', than: 'kube-apiserver', older: 3, newer: 0 },
  { program: 'kube-proxy', than: 'kubelet', older: 3, newer: 3, sameMachine: true },
  { program: 'kube-controller-manager', than: 'kube-apiserver', older: 1, newer: 0 },
  { program: 'kube-scheduler', than: 'kube-apiserver', older: 1, newer: 0 },
  { program: 'kubectl', than: 'kube-apiserver', older: 1, newer: 1 },
  // Members of neighbouring minor versions work together while etcd is being upgraded.
  { program: 'etcd', than: 'etcd', older: 1, newer: 1 },
];

export interface ForbiddenPair {
  readonly one: Instance;
  readonly other: Instance;
  readonly rule: SkewRule;
}

/** How many minor versions `a` is newer than `b`; Infinity for another major version. */
export function minorsNewer(a: string, b: string): number {
  const [left, right] = [parseVersion(a), parseVersion(b)];
  if (left === undefined || right === undefined || left[0] !== right[0]) return Number.POSITIVE_INFINITY;
  return left[1] - right[1];
}

const fits = ({ older, newer }: SkewRule, one: string, other: string): boolean => {
  const by = minorsNewer(one, other);
  return by <= newer && by >= -older;
};

/** The first pair that must not run at the same time, of each rule. */
export function forbiddenPairs(instances: readonly Instance[]): readonly ForbiddenPair[] {
  return SKEW_RULES.flatMap((rule) => {
    for (const one of instances)
      for (const other of instances)
        if (
          one !== other &&
          one.program === rule.program &&
          other.program === rule.than &&
          (!rule.sameMachine || one.machine === other.machine) &&
          !fits(rule, one.version, other.version)
        )
          return [{ one, other, rule }];
    return [];
  });
}

/** A pair as a sentence for people. */
export const pairText = ({ one, other, rule }: ForbiddenPair): string =>
  `${one.program} ${one.version} on ${one.machine} does not work with ${other.program} ${other.version} on ${other.machine}: it may be at most ${rule.older} minor versions older and ${rule.newer} newer`;

/** Why a program must not be changed from one version to another. */
export interface StepFault {
  readonly code: 'skips-minor' | 'older-minor' | 'etcd-promotion' | 'etcd-patch' | 'older-patch';
  readonly text: string;
}

/** etcd 3.5.1 to 3.5.19 can lose the promotion of a learner (etcd issue 19557). */
const losesPromotion = (version: string): boolean =>
  compareVersions(version, '3.5.1') >= 0 && compareVersions(version, '3.5.19') <= 0;

/**
 * Why a program that runs as `from` must not become `to`; undefined when it may. An older patch
 * version is a fault that a person may accept.
 */
export function stepFault(program: Skewed, from: string, to: string): StepFault | undefined {
  const minors = minorsNewer(to, from);
  if (minors < 0)
    return {
      code: 'older-minor',
      text: `${program} ${from} runs, and no ${program} goes back to an older minor version such as ${minorOf(to)}`,
    };
  if (minors > 1)
    return {
      code: 'skips-minor',
      text: `${program} ${from} runs: go one minor version at a time, to ${nextMinor(from)} first`,
    };
  if (program === 'etcd' && minors === 1 && losesPromotion(from))
    return {
      code: 'etcd-promotion',
      text: `etcd ${from} runs, which can lose the promotion of a learner: go to 3.5.20 or a newer 3.5 first`,
    };
  if (program === 'etcd' && minorOf(to) === '3.7' && compareVersions(from, '3.6.11') < 0)
    return {
      code: 'etcd-patch',
      text: `etcd ${from} runs, and etcd 3.7 is reached from 3.6.11 or a newer 3.6 only: go there first, with overrides.versions.etcd`,
    };
  if (minors === 0 && compareVersions(to, from) < 0)
    return { code: 'older-patch', text: `${program} ${from} runs, which is newer than ${to}` };
  return undefined;
}

const nextMinor = (version: string): string => {
  const [major, minor] = parseVersion(version)!;
  return `${major}.${minor + 1}`;
};
