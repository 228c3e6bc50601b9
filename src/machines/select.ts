/** Selects a machine's profile, and says why. */
import type { Mac } from '../base/mac.ts';
import type { MachineSpec, ProfileSpec } from '../resources/kinds.ts';

/** What selectors can match: what the document says, else what was seen. */
export interface Selectable {
  readonly spec: Pick<MachineSpec, 'profile' | 'macs' | 'serial'>;
  readonly labels?: Readonly<Record<string, string>> | undefined;
  readonly macs: readonly Mac[];
  readonly arch?: string | undefined;
  readonly firmware?: string | undefined;
  readonly network?: string | undefined;
  readonly manufacturer?: string | undefined;
  readonly product?: string | undefined;
  readonly serial?: string | undefined;
}

export interface NamedProfile {
  readonly name: string;
  readonly spec: ProfileSpec;
}

export type Selection =
  /**
   * `matched`: the selectors that fit, e.g. `arch=x86_64`; empty when the machine's document names
   * the profile.
   */
  | {
      readonly kind: 'selected';
      readonly profile: NamedProfile;
      readonly explicit: boolean;
      readonly matched: readonly string[];
    }
  /** The document names a profile that does not exist. */
  | { readonly kind: 'missing'; readonly profile: string }
  | { readonly kind: 'none' };

/**
 * Returns the profile that the machine's document names. Without one: among the profiles whose
 * selectors all match, the one with most selectors; among equals the first by name. A profile
 * without selectors selects no machine. The order of `profiles` does not matter.
 */
export function select(machine: Selectable, profiles: readonly NamedProfile[]): Selection {
  const named = machine.spec.profile;
  if (named !== undefined) {
    const profile = profiles.find((one) => one.name === named);
    return profile
      ? { kind: 'selected', profile, explicit: true, matched: [] }
      : { kind: 'missing', profile: named };
  }
  let best: { profile: NamedProfile; matched: readonly string[] } | undefined;
  for (const profile of profiles) {
    const matched = matches(machine, profile.spec);
    if (matched === undefined || matched.length === 0) continue;
    const ahead =
      best === undefined ||
      matched.length > best.matched.length ||
      (matched.length === best.matched.length && profile.name < best.profile.name);
    if (ahead) best = { profile, matched };
  }
  return best ? { kind: 'selected', explicit: false, ...best } : { kind: 'none' };
}

/**
 * Every profile that {@link select} could give a machine that is only partly known: an absent field
 * may turn out to be whatever a selector wants. Undefined stands for no profile. A single item
 * means that the result is certain.
 */
export function selectable(
  machine: Selectable,
  profiles: readonly NamedProfile[],
): readonly (NamedProfile | undefined)[] {
  const { profile: named } = machine.spec;
  if (named !== undefined) return [profiles.find((one) => one.name === named)];
  const supposed = (profile: NamedProfile) => ({ ...wantedBy(profile), ...machine });
  const fitting = profiles.filter((one) => (matches(supposed(one), one.spec) ?? []).length > 0);
  const found = new Set<NamedProfile | undefined>();
  for (const one of [machine, ...fitting.map(supposed)]) {
    const selection = select(one, fitting);
    found.add(selection.kind === 'selected' ? selection.profile : undefined);
  }
  return [...found];
}

/** The values that a profile's selectors want in fields that a machine has once. */
function wantedBy({ spec }: NamedProfile): Partial<Selectable> {
  const { labels: _, mac: __, ...equal } = spec.selector ?? {};
  return equal;
}

/** The selectors of a profile that matched, or undefined when one of them does not. */
function matches(machine: Selectable, profile: ProfileSpec): readonly string[] | undefined {
  const { labels, mac, ...equal } = profile.selector ?? {};
  const matched: string[] = [];
  for (const [field, wanted] of Object.entries(equal)) {
    if (wanted === undefined) continue;
    if (machine[field as keyof typeof equal] !== wanted) return undefined;
    matched.push(`${field}=${wanted}`);
  }
  if (mac !== undefined) {
    const macs = [...machine.spec.macs, ...machine.macs];
    if (!macs.some((one) => fitsPrefix(one, mac.toLowerCase().replaceAll('-', ':')))) return undefined;
    matched.push(`mac=${mac}`);
  }
  for (const [label, wanted] of Object.entries(labels ?? {})) {
    if (machine.labels?.[label] !== wanted) return undefined;
    matched.push(`labels.${label}=${wanted}`);
  }
  return matched;
}

/**
 * `52:54:00:*` matches every address with that prefix; without `*` the whole address must match.
 */
function fitsPrefix(mac: string, pattern: string): boolean {
  return pattern.endsWith('*') ? mac.startsWith(pattern.slice(0, -1)) : mac === pattern;
}
