/** Selects a machine's profile, and says why. */
import { isDeepStrictEqual } from 'node:util';
import type { Mac } from '../base/mac.ts';
import type { InventorySelector } from '../resources/inventory-selector.ts';
import type { MachineSpec, ProfileSpec } from '../resources/kinds.ts';
import type { Inventory } from './inventory.ts';
import { fitsPattern, type Term, termsOf } from './inventory-selector.ts';

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
  /** What its agent reported, or a selector that it is supposed to fit. */
  readonly inventory?: Inventory | { readonly supposed: InventorySelector } | undefined;
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
      /** Profiles that would win if the machine's inventory, which is not known, fits them. */
      readonly awaiting?: readonly string[];
    }
  /** The document names a profile that does not exist. */
  | { readonly kind: 'missing'; readonly profile: string }
  | { readonly kind: 'none'; readonly awaiting?: readonly string[] };

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
  let best: Matching | undefined;
  for (const profile of profiles) {
    const matching = matchingOf(machine, profile);
    if (matching && isAhead(matching, best)) best = matching;
  }
  const awaiting = machine.inventory === undefined ? awaited(machine, profiles, best) : [];
  const waits = awaiting.length > 0 && { awaiting };
  return best ? { kind: 'selected', explicit: false, ...best, ...waits } : { kind: 'none', ...waits };
}

interface Matching {
  readonly profile: NamedProfile;
  readonly matched: readonly string[];
}

function matchingOf(machine: Selectable, profile: NamedProfile): Matching | undefined {
  const matched = matches(machine, profile.spec);
  return matched === undefined || matched.length === 0 ? undefined : { profile, matched };
}

const isAhead = ({ profile, matched }: Matching, best: Matching | undefined): boolean =>
  best === undefined ||
  matched.length > best.matched.length ||
  (matched.length === best.matched.length && profile.name < best.profile.name);

/** The profiles that would be ahead of `best` if the inventory fits them, by name. */
function awaited(
  machine: Selectable,
  profiles: readonly NamedProfile[],
  best: Matching | undefined,
): readonly string[] {
  return profiles
    .filter((profile) => {
      const supposed = profile.spec.selector?.inventory;
      const matching = supposed && matchingOf({ ...machine, inventory: { supposed } }, profile);
      return matching !== undefined && isAhead(matching, best);
    })
    .map(({ name }) => name)
    .sort();
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
  const { labels: _, mac: __, inventory: supposed, ...equal } = spec.selector ?? {};
  return { ...equal, ...(supposed && { inventory: { supposed } }) };
}

/** The selectors of a profile that matched, or undefined when one of them does not. */
function matches(machine: Selectable, profile: ProfileSpec): readonly string[] | undefined {
  const { labels, mac, inventory, ...equal } = profile.selector ?? {};
  const matched: string[] = [];
  for (const [field, wanted] of Object.entries(equal)) {
    if (wanted === undefined) continue;
    const has = machine[field as keyof typeof equal];
    if (has !== wanted && !(PATTERNS.has(field) && fitsPattern(has, wanted))) return undefined;
    matched.push(`${field}=${wanted}`);
  }
  if (mac !== undefined) {
    const macs = [...machine.spec.macs, ...machine.macs];
    if (!macs.some((one) => fitsPattern(one, mac.toLowerCase().replaceAll('-', ':')))) return undefined;
    matched.push(`mac=${mac}`);
  }
  for (const term of inventory ? termsOf(inventory) : []) {
    if (!isKnownToFit(machine.inventory, term)) return undefined;
    matched.push(...term.wants);
  }
  for (const [label, wanted] of Object.entries(labels ?? {})) {
    if (machine.labels?.[label] !== wanted) return undefined;
    matched.push(`labels.${label}=${wanted}`);
  }
  return matched;
}

/** The fields that can be the beginning of a text, followed by `*`. */
const PATTERNS: ReadonlySet<string> = new Set(['manufacturer', 'product']);

/**
 * An inventory that is only supposed to fit a selector is known to fit the terms of that selector,
 * and no other.
 */
function isKnownToFit(inventory: Selectable['inventory'], term: Term): boolean {
  if (inventory === undefined) return false;
  if (!('supposed' in inventory)) return term.fits(inventory);
  return termsOf(inventory.supposed).some(({ wants }) => isDeepStrictEqual(wants, term.wants));
}
