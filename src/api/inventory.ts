/** The handler for what machines report of their parts. */
import type { KnownInventory } from '../machines/inventories.ts';
import type { ApiDeps } from './deps.ts';
import { type Handler, json } from './handler.ts';
import { partOf } from './listing.ts';
import { checkMine, findMachine, labelsOf, ofClusters } from './machines.ts';
import { timestamp } from './times.ts';

/** An inventory as the API shows it. */
export type InventoryView = ReturnType<typeof inventoryView>;
export interface InventoryList {
  readonly kind: 'InventoryList';
  readonly items: readonly InventoryView[];
}

const inventoryView = ({ machine, at, inventory, claimed }: KnownInventory) => ({
  machine,
  changedAt: timestamp(at),
  from: claimed ? ('discovery' as const) : ('agent' as const),
  ...inventory,
});

/** Lists inventories. Query: `machine`, a name or hardware address. */
export const listInventory: Handler<ApiDeps> = (request, deps) => {
  const { query } = request;
  const machine = query.get('machine');
  if (machine !== null) checkMine(machine, request, deps);
  const known =
    machine === null
      ? deps.inventories.list().filter((one) => deps.roster.get(one.machine) !== undefined)
      : [deps.inventories.get(findMachine(machine, deps).name)].filter((one) => one !== undefined);
  const mine = ofClusters(request, deps);
  const items = known.filter((one) => mine(one.machine)).map(inventoryView);
  const labels = labelsOf(deps);
  const part = partOf(
    query,
    items,
    (item) => item.machine,
    (item) => labels(item.machine),
  );
  return json({ kind: 'InventoryList', ...part } satisfies InventoryList);
};
