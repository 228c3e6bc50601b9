/** Which control planes have applied the current bundle of in-cluster objects. */

import { type ResolvedCluster, withRole } from '../model/resolved-cluster.ts';
import type { AppliedObjects } from '../objects/applied.ts';
import type { AllowedVersions } from '../plan/allowed.ts';
import type { PresentOf } from '../plan/desired-objects.ts';

/** Whether a control plane has applied the current bundle. */
export interface ApplierStatus {
  readonly machine: string;
  /**
   * unasked: its agent has not asked since the bundle changed. given: it got the bundle and is
   * applying it.
   */
  readonly state: 'applied' | 'given' | 'unasked';
  /** When the machine got the bundle, ms since 1970; absent before it asked. */
  readonly since?: number | undefined;
  /** kubectl's message when it last failed. */
  readonly says?: string | undefined;
}

export interface ObjectsStatus {
  readonly appliers: readonly ApplierStatus[];
  /** Why add-ons are missing in the bundle; absent when none is missing. */
  readonly lacking?: string | undefined;
}

export interface ObjectsStatusDeps {
  readonly present: PresentOf;
  readonly applied: Pick<AppliedObjects, 'known'>;
}

/**
 * Reads the state of every control plane. `caBundle`: as for {@link PresentOf}. `allowed`:
 * during an upgrade the objects of some control planes are those of the new release.
 */
export async function objectsStatus(
  { present, applied }: ObjectsStatusDeps,
  resolved: ResolvedCluster,
  caBundle: string,
  allowed: AllowedVersions,
): Promise<ObjectsStatus> {
  let lacking: string | undefined;
  const appliers: ApplierStatus[] = [];
  for (const machine of withRole(resolved, 'control-plane')) {
    const { part, addons } = await present(
      allowed(resolved, machine).resolved ?? resolved,
      machine,
      caBundle,
    );
    lacking = addons.hold?.text;
    const known = await applied.known(resolved.name, machine.name);
    if (known?.digest !== part.digest) appliers.push({ machine: machine.name, state: 'unasked' });
    else
      appliers.push({
        machine: machine.name,
        state: known.done ? 'applied' : 'given',
        since: known.since,
        says: known.says,
      });
  }
  return { appliers, lacking };
}
