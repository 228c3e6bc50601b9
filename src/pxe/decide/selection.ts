/** Selects the profiles of machines that the roster knows. */
import type { Inventories } from '../../machines/inventories.ts';
import type { Inventory } from '../../machines/inventory.ts';
import type { Member } from '../../machines/roster.ts';
import { type NamedProfile, type Selection, select } from '../../machines/select.ts';
import type { Document } from '../../resources/kinds.ts';

/** What a machine's profile is selected by, besides its document and what was seen. */
export interface SelectedBy {
  readonly profiles: () => readonly NamedProfile[];
  readonly inventories: Pick<Inventories, 'counting'>;
}

/**
 * Selects the profile that a machine gets on a network (by name). `inventory`: instead of the one
 * that counts.
 */
export const selectionOf = (
  by: SelectedBy,
  { name, entry, status }: Pick<Member, 'name' | 'entry' | 'status'>,
  network: string | undefined,
  inventory?: Inventory,
): Selection => selectionFor(by, { name, document: entry?.document, seen: status.seen }, network, inventory);

/** {@link selectionOf} for a machine with a document that it does not have yet. */
export function selectionFor(
  { profiles, inventories }: SelectedBy,
  {
    name,
    document,
    seen,
  }: {
    readonly name: string;
    readonly document: Document<'Machine'> | undefined;
    readonly seen: Member['status']['seen'];
  },
  network: string | undefined,
  inventory: Inventory | undefined = inventories.counting(name)?.inventory,
): Selection {
  return select(
    {
      spec: document?.spec ?? { macs: [] },
      labels: document?.metadata.labels,
      macs: seen.macs,
      arch: seen.arch,
      firmware: seen.firmware,
      network,
      manufacturer: seen.manufacturer,
      product: seen.product,
      serial: document?.spec.serial ?? seen.serial,
      inventory,
    },
    profiles(),
  );
}

/** Whether another inventory of the machine could have led to another profile. */
export const considersInventory = (selection: Selection, profiles: readonly NamedProfile[]): boolean =>
  selection.kind !== 'missing' &&
  !(selection.kind === 'selected' && selection.explicit) &&
  profiles.some(({ spec }) => spec.selector?.inventory !== undefined);
