/** The inventories of machines, in memory and in the store. */
import { isDeepStrictEqual } from 'node:util';
import type { Clock } from '../base/clock.ts';
import type { Millis } from '../base/duration.ts';
import type { Log } from '../base/log.ts';
import { KEYS } from '../store/keys.ts';
import type { Store } from '../store/store.ts';
import type { Inventory } from './inventory.ts';

/** An inventory with the time when the machine last reported a change of it. */
export interface KnownInventory {
  readonly machine: string;
  readonly at: Millis;
  readonly inventory: Inventory;
}

export interface Inventories {
  /** Takes what a machine reports, and stores it if it has changed. Never rejects. */
  take(machine: string, inventory: Inventory): Promise<void>;
  get(machine: string): KnownInventory | undefined;
  /** Ordered by name. */
  list(): readonly KnownInventory[];
}

interface InventoryRecord {
  readonly v: 1;
  readonly at: Millis;
  readonly inventory: Inventory;
}

/** Reads all records, and deletes those of machines that the roster does not know. */
export async function openInventories(deps: {
  readonly store: Store;
  readonly clock: Clock;
  readonly log: Log;
  readonly roster: { get(machine: string): unknown };
}): Promise<Inventories> {
  const { store, clock, log, roster } = deps;
  const known = new Map<string, KnownInventory>();
  const { records } = await store.list(KEYS.inventory.prefix());
  for (const { key, value } of records) {
    const [machine] = KEYS.inventory.parse(key) ?? [];
    if (machine === undefined || roster.get(machine) === undefined) {
      await store.commit([{ key, delete: true }]);
      continue;
    }
    const { at, inventory } = JSON.parse(value) as InventoryRecord;
    known.set(machine, { machine, at, inventory });
  }
  return {
    async take(machine, inventory) {
      if (isDeepStrictEqual(known.get(machine)?.inventory, inventory)) return;
      const at = clock.now();
      known.set(machine, { machine, at, inventory });
      try {
        const record: InventoryRecord = { v: 1, at, inventory };
        await store.commit([{ key: KEYS.inventory.key(machine), put: JSON.stringify(record) }]);
      } catch (error) {
        log.warn({ machine, cause: (error as Error).message }, 'an inventory was not stored');
      }
    },
    get: (machine) => known.get(machine),
    list: () => [...known.values()].toSorted((a, b) => (a.machine < b.machine ? -1 : 1)),
  };
}
