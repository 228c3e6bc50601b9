/** The steps of an explanation that say what the inventory of a machine decides. */
import { isDeepStrictEqual } from 'node:util';
import type { Member } from '../../machines/roster.ts';
import type { Selection } from '../../machines/select.ts';
import type { BootContext } from './boot-context.ts';
import { chosenDataDisk, type DisksBy, disksFor } from './data-disk.ts';
import type { ExplainStep } from './explain-state.ts';
import { considersInventory, selectionOf } from './selection.ts';

/** Empty where no inventory could change the profile. */
export function inventorySteps(
  context: Pick<BootContext, 'profiles' | 'inventories'>,
  member: Member,
  network: string | undefined,
  selection: Selection,
): readonly ExplainStep[] {
  if (selection.kind === 'missing' || !considersInventory(selection, context.profiles())) return [];
  const { name } = member;
  const counting = context.inventories.counting(name);
  const last = context.inventories.get(name);
  if (counting === undefined || last === undefined) {
    const { awaiting = [] } = selection;
    const may = awaiting.length === 0 ? '' : `; once it is, ${awaiting.join(' or ')} may select the machine`;
    return [{ step: 'inventory', result: `not reported yet${may}` }];
  }
  const time = (at: number) => new Date(at).toISOString();
  const counts =
    counting === last
      ? `as reported at ${time(last.at)}`
      : `as reported at ${time(counting.at)}, when it booted`;
  if (isDeepStrictEqual(counting.inventory, last.inventory)) return [{ step: 'inventory', result: counts }];
  const next = selectionOf(context, member, network, last.inventory);
  const [now, then] = [selection, next].map((one) =>
    one.kind === 'selected' ? one.profile.name : 'no profile',
  );
  const change =
    now === then
      ? 'the same profile fits'
      : `by it the machine would have ${then}; \`muster machine accept ${name}\` lets it count`;
  return [{ step: 'inventory', result: `${counts}; it changed at ${time(last.at)}: ${change}` }];
}

/** What `muster explain` says of a data disk that the inventory decides. */
export function dataDiskSteps(
  context: DisksBy,
  member: Member,
  selection: Selection,
): readonly ExplainStep[] {
  const found = chosenDataDisk(context, member.name, disksFor(context, member, selection));
  if (found === undefined) return [];
  if (!found.ok) return [{ step: 'data disk', result: `not chosen: ${found.text}` }];
  const { path, serial } = found.selector;
  return [{ step: 'data disk', result: `${serial ?? path ?? 'by its size'} (${found.because})` }];
}
