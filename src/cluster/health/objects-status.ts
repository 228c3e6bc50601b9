/** How far the control planes are with the objects that are the present ones. */

import type { AppliedObjects } from '../objects/applied.ts';
import type { PresentOf } from '../plan/desired-objects.ts';
import { type ResolvedCluster, withRole } from '../spec/resolved-cluster.ts';

/** A control plane, as far as the present objects go. */
export interface ApplierStatus {
  readonly machine: string;
  /** unasked: its agent has not asked since they are the present ones. */
  readonly state: 'applied' | 'given' | 'unasked';
  /** When they were given to it, ms since 1970; absent when an older version gave them. */
  readonly since?: number | undefined;
  /** kubectl's words, of the last time when it did not put them in place. */
  readonly says?: string | undefined;
}

export interface ObjectsStatus {
  readonly appliers: readonly ApplierStatus[];
  /** Why add-ons are not among them. */
  readonly lacking?: string | undefined;
}

export interface ObjectsStatusDeps {
  readonly present: PresentOf;
  readonly applied: Pick<AppliedObjects, 'known'>;
}

/** `caBundle`: as for {@link PresentOf}. */
export async function objectsStatus(
  { present, applied }: ObjectsStatusDeps,
  resolved: ResolvedCluster,
  caBundle: string,
): Promise<ObjectsStatus> {
  let lacking: string | undefined;
  const appliers: ApplierStatus[] = [];
  for (const machine of withRole(resolved, 'control-plane')) {
    const { part, addons } = await present(resolved, machine, caBundle);
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
