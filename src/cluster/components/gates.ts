/**
 * Feature gates: what a component's settings mean, whether it takes them, and which gates cannot be
 * on without others. A component ends as it starts with settings that it does not take.
 */
import { didYouMean } from '../../base/suggest.ts';
import type { ResolvedCluster } from '../model/resolved-cluster.ts';
import { MINORS, type Minor, minorOf } from '../model/versions.ts';
import { goTruth } from './flag-values.ts';
import { FEATURE_GATES, type KubernetesComponent, known, minorsKnowing } from './flags.ts';
import { effectiveKubelet, type KubeletPart } from './kubelet-flags.ts';
import { knownIn } from './tables.ts';

/** What is set, by the name of the gate. */
export type GateSettings = ReadonlyMap<string, boolean>;

/** Gate → minor version → the gates without which it cannot be on. */
const DEPENDENCIES = knownIn('needs', ([gates = '']) => gates.split(','));

/** Groups of gates, by the stage whose gates each sets. */
const GROUPS = { alpha: 'AllAlpha', beta: 'AllBeta' } as const;

/** The settings in a text like `A=true,B=false`, of which each may name the component "kube". */
function settingsIn(text: string): GateSettings {
  const found = new Map<string, boolean>();
  for (const part of text.split(',')) {
    const [, gate = '', on = ''] = /^\s*(?:kube:)?([^=]*)=(.*)$/s.exec(part) ?? [];
    const truth = goTruth(on.trim());
    if (gate.trim() !== '' && truth !== undefined) found.set(gate.trim(), truth);
  }
  return found;
}

/** Whether a gate is on with these settings; false for one that the version does not have. */
export function isGateOn(minor: Minor, settings: GateSettings, gate: string): boolean {
  const info = FEATURE_GATES.get(gate)?.get(minor);
  if (info?.locked) return info.on;
  const group = info?.stage && settings.get(GROUPS[info.stage]);
  return settings.get(gate) ?? group ?? info?.on ?? false;
}

/**
 * The minor version whose gates a component has: its own, or the one that it emulates; undefined
 * where no table has it.
 */
export function gatesVersion(
  { versions, flags }: ResolvedCluster,
  component: KubernetesComponent,
): Minor | undefined {
  const emulated = [flags[component]['emulated-version'] ?? ''].flat().join(',');
  const [, other] = /^\s*(?:kube=)?\s*v?(1\.[0-9]+)/.exec(emulated) ?? [];
  const own = other ?? minorOf(versions[component]);
  return MINORS.find((minor) => minor === own);
}

const textOf = (flags: ResolvedCluster['flags'], component: KubernetesComponent): string =>
  [flags[component]['feature-gates'] ?? ''].flat().join(',');

/** What is set for a component by its flag, and for kubelet by its configuration as well. */
export function settingsOf(
  resolved: ResolvedCluster,
  component: KubernetesComponent,
  part: KubeletPart = 'config',
): GateSettings {
  const text = settingsIn(textOf(resolved.flags, component));
  if (component !== 'kubelet') return text;
  const { featureGates } = effectiveKubelet(resolved, part).config;
  return new Map([...settingsOfMapping(featureGates), ...text]);
}

/** The settings of a field `featureGates`. */
export const settingsOfMapping = (value: unknown): GateSettings =>
  new Map(
    typeof value === 'object' && value !== null
      ? Object.entries(value).filter((entry): entry is [string, boolean] => typeof entry[1] === 'boolean')
      : [],
  );

/**
 * Faults of a gate that is set to `on`.
 *
 * @param minor The minor version of the component; undefined: one without a table, which is not
 *   checked.
 */
export function gateFaults(minor: Minor | undefined, gate: string, on: unknown): readonly string[] {
  if (gate === '' || minor === undefined) return [];
  const info = FEATURE_GATES.get(gate)?.get(minor);
  if (info === undefined) {
    const others = minorsKnowing(FEATURE_GATES, gate);
    const hint =
      others.length > 0
        ? `; ${others.join(', ')} ${others.length === 1 ? 'knows' : 'know'} it`
        : didYouMean(gate, known(FEATURE_GATES, minor)) || '; if an older version had it, remove it';
    return [`Kubernetes ${minor} has no feature gate ${gate}${hint}`];
  }
  return info.locked && typeof on === 'boolean' && on !== info.on
    ? [`the feature gate ${gate} is ${info.on} in Kubernetes ${minor} and cannot be changed; remove it`]
    : [];
}

/** Gates that are on although a gate that they need is off. Each names what to set. */
export function dependencyFaults(minor: Minor | undefined, settings: GateSettings): readonly string[] {
  if (minor === undefined || settings.size === 0) return [];
  const isOn = (gate: string): boolean => isGateOn(minor, settings, gate);
  const off = new Map<string, string[]>();
  const found: string[] = [];
  for (const [gate, versions] of DEPENDENCIES) {
    if (!isOn(gate)) continue;
    for (const one of (versions.get(minor) ?? []).filter((name) => !isOn(name)))
      if (settings.get(gate) === true)
        found.push(`${gate} needs ${one}, which is off in Kubernetes ${minor}; set ${one} to true as well`);
      else off.set(one, [...(off.get(one) ?? []), gate]);
  }
  const wanted = [...off].map(([one, gates]) =>
    settings.has(one) || settings.has('AllBeta')
      ? `${one} cannot be off while ${gates.join(', ')} ${gates.length === 1 ? 'is' : 'are'} on; set ${gates.length === 1 ? 'that' : 'those'} to false as well`
      : `${gates.join(', ')} ${gates.length === 1 ? 'needs' : 'need'} ${one}, which is off in Kubernetes ${minor}; set ${one} to true as well`,
  );
  return [...found, ...wanted];
}

/** Faults of a text like `A=true,B=false`, as the flag `feature-gates` of a component has it. */
export function gatesTextFaults(
  resolved: ResolvedCluster,
  component: KubernetesComponent,
  text: string,
): readonly string[] {
  const settings = text
    .split(',')
    .map((setting) => setting.trim())
    .filter((setting) => setting !== '');
  const named = settings.filter((setting) => setting.startsWith('kube:'));
  if (named.length > 0 && (component === 'kubelet' || named.length < settings.length))
    return [
      component === 'kubelet'
        ? `"${named[0]}": kubelet takes a gate without "kube:"`
        : 'a component is named before some gates alone; leave "kube:" out',
    ];
  return settings.flatMap((setting) => {
    const [, gate = '', on] = /^(?:kube:)?([^=]*)(?:=(.*))?$/.exec(setting) ?? [];
    const truth = on === undefined ? undefined : goTruth(on.trim());
    return [
      ...gateFaults(gatesVersion(resolved, component), gate.trim(), truth),
      ...(truth === undefined
        ? [`"${setting}" is not a setting of a gate; write NAME=true or NAME=false`]
        : []),
    ];
  });
}
