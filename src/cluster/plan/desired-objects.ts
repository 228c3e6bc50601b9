/**
 * The objects that a control plane has to apply now. They follow only from the resolved Cluster,
 * its CA, the add-ons' files and the founding of etcd. The planner hands them out, and the
 * cluster's health asks whether they were applied; both take them from here and so mean the same
 * objects.
 */

import type { ClusterMachine, ResolvedCluster } from '../model/resolved-cluster.ts';
import { type AddonLibrary, type AddonsPart, addonsPart, NO_ADDONS } from '../objects/addons/library.ts';
import { bundleOf } from '../objects/bundle.ts';
import { type ObjectsPart, objectsPart } from './objects-unit.ts';

interface PresentObjects {
  readonly part: ObjectsPart;
  /** The add-ons in this bundle, and why some are missing. */
  readonly addons: AddonsPart;
}

/** `caBundle`: every trusted generation of the cluster's CA, PEM. */
export type PresentOf = (
  resolved: ResolvedCluster,
  machine: ClusterMachine,
  caBundle: string,
) => Promise<PresentObjects>;

/** Compares by identity, because the library returns the same value for an unchanged add-on. */
const sameAddons = (before: AddonsPart['ready'] | undefined, now: AddonsPart['ready']): boolean =>
  before?.length === now.length && before.every((one, n) => one === now[n]);

/**
 * Makes the objects once for each state of the documents.
 *
 * @param library Renders add-ons; undefined when there are no add-ons.
 * @param foundingOf Returns the id of a cluster's current founding.
 */
export function openPresentObjects(
  library: AddonLibrary | undefined,
  foundingOf: (cluster: string) => string | undefined,
): PresentOf {
  /** The objects by resolved Cluster, then by machine, founding and CA. */
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
