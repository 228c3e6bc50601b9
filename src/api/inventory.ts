/** The handler for what machines report of their parts. */
import type { KnownInventory } from '../machines/inventories.ts';
import type { ApiDeps } from './deps.ts';
import { type Handler, json } from './handler.ts';
import { findMachine } from './machines.ts';
import { timestamp } from './times.ts';

/** An inventory as the API shows it. */
export type InventoryView = ReturnType<typeof inventoryView>;
export interface InventoryList {
  readonly kind: 'InventoryList';
  readonly items: readonly InventoryView[];
}

const inventoryView = ({ machine, at, inventory }: KnownInventory) => ({
  machine,
  changedAt: timestamp(at),
  ...inventory,
});

/** Lists inventories. Query: `machine`, a name or hardware address. */
export const listInventory: Handler<ApiDeps> = ({ query }, deps) => {
  const machine = query.get('machine');
  const known =
    machine === null
      ? deps.inventories.list().filter((one) => deps.roster.get(one.machine) !== undefined)
      : [deps.inventories.get(findMachine(machine, deps).name)].filter((one) => one !== undefined);
  return json({ kind: 'InventoryList', items: known.map(inventoryView) } satisfies InventoryList);
};
