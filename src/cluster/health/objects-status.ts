/** Which control planes have applied the current bundle of in-cluster objects. */
import type { AppliedObjects } from '../objects/applied.ts';
import type { PresentOf } from '../plan/desired-objects.ts';
import { type ResolvedCluster, withRole } from '../spec/resolved-cluster.ts';

/** A control plane and the current bundle. */
export interface ApplierStatus {
  readonly machine: string;
  /**
   * unasked: its agent has not asked since the bundle changed. given: it is applying the bundle.
   */
  readonly state: 'applied' | 'given' | 'unasked';
  /**
   * When it was given the bundle, ms since 1970; absent when an older version of Muster gave it.
   */
  readonly since?: number | undefined;
  /** kubectl's message when it last failed. */
  readonly says?: string | undefined;
}

export interface ObjectsStatus {
  readonly appliers: readonly ApplierStatus[];
  /** Why add-ons are missing in the bundle. */
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
