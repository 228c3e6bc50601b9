/** How far the control planes are with the objects that are the present ones. */
import { type FullCluster, withRole } from '../full.ts';
import type { AppliedObjects } from './applied.ts';
import type { PresentOf } from './present.ts';

/** A control plane, as far as the present objects go. */
export interface ApplierStanding {
  readonly machine: string;
  /** unasked: its agent has not asked since they are the present ones. */
  readonly state: 'applied' | 'given' | 'unasked';
  /** When they were given to it, ms since 1970; absent when an older version gave them. */
  readonly since?: number | undefined;
  /** kubectl's words, of the last time when it did not put them in place. */
  readonly says?: string | undefined;
}

export interface ObjectsStanding {
  readonly appliers: readonly ApplierStanding[];
  /** Why add-ons are not among them. */
  readonly lacking?: string | undefined;
}

export interface StandingDeps {
  readonly present: PresentOf;
  readonly applied: Pick<AppliedObjects, 'known'>;
}

/** `caBundle`: as for {@link PresentOf}. */
export async function objectsStanding(
  { present, applied }: StandingDeps,
  full: FullCluster,
  caBundle: string,
): Promise<ObjectsStanding> {
  let lacking: string | undefined;
  const appliers: ApplierStanding[] = [];
  for (const machine of withRole(full, 'control-plane')) {
    const { part, addons } = await present(full, machine, caBundle);
    lacking = addons.hold?.text;
    const known = await applied.known(full.name, machine.name);
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
