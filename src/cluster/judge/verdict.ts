/** Reads what a component said before it ended: whether its values were at fault, and which. */
import { isDeepStrictEqual } from 'node:util';
import type { ResolvedCluster } from '../model/resolved-cluster.ts';
import type { Judged } from './placed.ts';

/** A cluster, and the same one without the values that somebody wrote for its components. */
export interface Written {
  readonly resolved: ResolvedCluster;
  readonly plain: ResolvedCluster;
}

/**
 * How programs begin the line that says what is wrong with a flag, why they end, and anything else.
 * Connections that fail meanwhile may log after the line that says why a program ends.
 */
const COMPLAINTS = [
  /flag provided but not defined|unknown flag|invalid argument|invalid value|unknown shorthand/,
  /"command failed"|^Error:|^F\d{4}|"level":"(fatal|panic)"|^panic: /i,
  /failed|error/i,
];

/** The line in which a program says why it ended, without its usage. */
export function lastWords(output: string): string {
  const lines = output.split('\n').filter((line) => line.trim() !== '');
  const [flags, ends, others] = COMPLAINTS.map((complaint) => lines.filter((line) => complaint.test(line)));
  const last = flags?.[0] ?? ends?.at(-1) ?? others?.at(-1) ?? lines.at(-1);
  return last ?? 'it ended without a word';
}

/**
 * Ends that come from how the program was run: without network, etcd, API, cgroups, /proc and the
 * processors of the machine.
 */
const OF_THE_SANDBOX =
  /context deadline exceeded|connection refused|network is (unreachable|down)|no route to host|cannot assign requested address|cgroup|permission denied|operation not permitted|containerd\.sock|crio\.sock|node IP|failed to get API group resources|unable to (get|load) configmap|\/(dev|proc|sys)\/|"\/(proc|sys)"|oom_score_adj|swap|read-only file system|no space left|file too large|resource temporarily unavailable|cannot allocate memory|some missing paths|online-cpus|did not exist|lookup \S+: /i;

/** kubelet's fault where this host has cgroups of version 1, alone or in a list of faults. */
const CGROUP_1 = /kubelet is configured to not run on a host using cgroup v1[^,\]]*/;

/** Whether a program ended for another reason than its values. */
export function isOfTheSandbox(words: string): boolean {
  const [, faults] = /failed to validate kubelet configuration, error: \[?(.*?)\]?, path:/.exec(words) ?? [];
  if (faults !== undefined) return faults.replace(CGROUP_1, '').replace(/[\s,]+/g, '') === '';
  return OF_THE_SANDBOX.test(words);
}

/** Whether a program did not get beyond reading its flags. */
export const isOfAFlag = (words: string): boolean => COMPLAINTS[0]!.test(words);

const MOST_CHARACTERS = 400;

/** A program's words for people: printable text without the time and place of a log line. */
export const shown = (words: string): string =>
  words
    .replace(/^[EFWI]\d{4} [\d:.]+ +\d+ \S+\] /, '')
    .replace(/^"command failed" err="(.*)"$/, '$1')
    .replace(CGROUP_1, '')
    .replace(/, path: &TypeMeta\{.*/, '')
    .replace(/^.*"msg":"([^"]*)".*?"error":"((?:[^"\\]|\\.)*)".*$/, '$1: $2')
    .replace(/\\(["\\])/g, '$1')
    .replace(/[^\P{C} ]+/gu, ' ')
    .slice(0, MOST_CHARACTERS);

/** The field whose value a component speaks of, as exact as its words are. */
export function fieldOf({ resolved, plain }: Written, component: Judged, words: string): string {
  const [place, written, before] = placeOf(component, resolved, plain);
  const names = Object.keys(written)
    .filter((name) => !isDeepStrictEqual(written[name], before[name]))
    .sort((a, b) => b.length - a.length);
  const named = names.find((name) => speaksOf(words, name)) ?? (names.length === 1 ? names[0] : undefined);
  return named === undefined ? place : `${place}.${named}`;
}

type Fields = Readonly<Record<string, unknown>>;

function placeOf(
  component: Judged,
  resolved: ResolvedCluster,
  plain: ResolvedCluster,
): readonly [place: string, written: Fields, before: Fields] {
  if (component === 'kube-proxy')
    return ['overrides.kubeProxy.config', resolved.kubeProxy.config, plain.kubeProxy.config];
  const flags = [`overrides.flags.${component}`, resolved.flags[component], plain.flags[component]] as const;
  const isOfFlags = !isDeepStrictEqual(flags[1], flags[2]);
  if (component !== 'kubelet' || isOfFlags) return flags;
  const part = isDeepStrictEqual(resolved.kubelet.config, plain.kubelet.config)
    ? 'controlPlaneConfig'
    : 'config';
  return [`overrides.kubelet.${part}`, resolved.kubelet[part], plain.kubelet[part]];
}

/** Whether a text has a name by itself, or as a flag. */
const speaksOf = (words: string, name: string): boolean =>
  words.split(/[^\w.-]+/).some((word) => word.replace(/^--/, '').toLowerCase() === name.toLowerCase());
