/**
 * What a control plane has to apply now: of the completed Cluster, its CA, the add-ons' files and
 * the founding of its etcd alone, so that who hands it out and who asks whether it was applied mean
 * the same.
 */

import { type AddonLibrary, type AddonsPart, addonsPart, NO_ADDONS } from '../objects/addons/library.ts';
import { bundleOf } from '../objects/bundle.ts';
import type { ClusterMachine, ResolvedCluster } from '../spec/resolved-cluster.ts';
import { type ObjectsPart, objectsPart } from './objects-unit.ts';

export interface PresentObjects {
  readonly part: ObjectsPart;
  /** The add-ons that are among them, and why not all. */
  readonly addons: AddonsPart;
}

/** `caBundle`: the cluster's CA, every trusted generation, PEM. */
export type PresentOf = (
  resolved: ResolvedCluster,
  machine: ClusterMachine,
  caBundle: string,
) => Promise<PresentObjects>;

/** The library gives the same value for what has not changed. */
const sameAddons = (before: AddonsPart['ready'] | undefined, now: AddonsPart['ready']): boolean =>
  before?.length === now.length && before.every((one, n) => one === now[n]);

/**
 * Made once for each state of the documents. `library` absent: there are no add-ons. `foundingOf`:
 * the id of a cluster's present founding.
 */
export function openPresentObjects(
  library: AddonLibrary | undefined,
  foundingOf: (cluster: string) => string | undefined,
): PresentOf {
  /** By the specification, then by machine, founding and CA. */
  const known = new WeakMap<ResolvedCluster, Map<string, PresentObjects>>();
  return async (resolved, machine, caBundle) => {
    const addons =
      library === undefined || resolved.addons.length === 0
        ? NO_ADDONS
        : addonsPart(resolved.name, await library.of(resolved));
    const made = known.get(resolved) ?? new Map<string, PresentObjects>();
    known.set(resolved, made);
    const founding = foundingOf(resolved.name);
    const key = `${machine.name} ${founding} ${caBundle}`;
    const before = made.get(key);
    const part = sameAddons(before?.addons.ready, addons.ready)
      ? before!.part
      : objectsPart(machine, bundleOf(resolved, caBundle), addons.ready, founding);
    const present = { part, addons };
    made.set(key, present);
    return present;
  };
}
