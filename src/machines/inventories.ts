/** The inventories of machines, in memory and in the store. */
import { isDeepStrictEqual } from 'node:util';
import type { Clock } from '../base/clock.ts';
import type { Millis } from '../base/duration.ts';
import type { Log } from '../base/log.ts';
import type { Catalog } from '../resources/catalog.ts';
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
  /** The inventory by which Profiles select the machine: the settled one, else the last. */
  counting(machine: string): CountingInventory | undefined;
  /**
   * Lets the present inventory count until {@link Inventories.unsettle}, whatever the machine
   * reports later, apart from neighbours that cards had not heard yet. Changes nothing while one is
   * settled. Durable when it resolves.
   */
  settle(machine: string): Promise<void>;
  /** Lets the last inventory count again. Durable when it resolves. */
  unsettle(machine: string): Promise<void>;
  /** Deletes what is known of a machine. Durable when it resolves. */
  forget(machine: string): Promise<void>;
}

/** The inventory that counts; the same object as long as it is the same inventory. */
export interface CountingInventory {
  readonly at: Millis;
  readonly inventory: Inventory;
}

interface InventoryRecord extends CountingInventory {
  readonly v: 1;
  /** What counts while it is there, although the machine may have reported changes since. */
  readonly settled?: CountingInventory;
}

interface Kept extends KnownInventory {
  readonly settled?: CountingInventory | undefined;
}

/** Reads all records, and deletes those of machines that the roster does not know. */
export async function openInventories(deps: {
  readonly store: Store;
  readonly clock: Clock;
  readonly log: Log;
  readonly roster: { get(machine: string): unknown };
}): Promise<Inventories> {
  const { store, clock, log, roster } = deps;
  const known = new Map<string, Kept>();
  const { records } = await store.list(KEYS.inventory.prefix());
  for (const { key, value } of records) {
    const [machine] = KEYS.inventory.parse(key) ?? [];
    if (machine === undefined || roster.get(machine) === undefined) {
      await store.commit([{ key, delete: true }]);
      continue;
    }
    const { at, inventory, settled } = JSON.parse(value) as InventoryRecord;
    known.set(machine, { machine, at, inventory, settled });
  }
  const keep = async (one: Kept): Promise<void> => {
    known.set(one.machine, one);
    const { at, inventory, settled } = one;
    const record: InventoryRecord = { v: 1, at, inventory, ...(settled && { settled }) };
    await store.commit([{ key: KEYS.inventory.key(one.machine), put: JSON.stringify(record) }]);
  };
  return {
    async take(machine, inventory) {
      if (isDeepStrictEqual(known.get(machine)?.inventory, inventory)) return;
      try {
        const settled = known.get(machine)?.settled;
        await keep({
          machine,
          at: clock.now(),
          inventory,
          settled: settled && completed(settled, inventory),
        });
      } catch (error) {
        log.warn({ machine, cause: (error as Error).message }, 'an inventory was not stored');
      }
    },
    get: (machine) => known.get(machine),
    list: () => [...known.values()].toSorted((a, b) => (a.machine < b.machine ? -1 : 1)),
    counting(machine) {
      const found = known.get(machine);
      return found?.settled ?? found;
    },
    async settle(machine) {
      const found = known.get(machine);
      if (found === undefined || found.settled !== undefined) return;
      const { at, inventory } = found;
      await keep({ ...found, settled: { at, inventory } });
    },
    async unsettle(machine) {
      const found = known.get(machine);
      if (found?.settled !== undefined) await keep({ ...found, settled: undefined });
    },
    async forget(machine) {
      if (known.delete(machine)) await store.commit([{ key: KEYS.inventory.key(machine), delete: true }]);
    },
  };
}

/**
 * A settled inventory with the neighbours that the same cards hear later: switches send LLDP every
 * half minute, so the first report of a boot may be without them. Nothing else is taken over.
 */
function completed(settled: CountingInventory, { cards: later }: Inventory): CountingInventory {
  const { cards } = settled.inventory;
  const heard = cards.map((card) => {
    if (!card.link || card.neighbour) return card;
    const neighbour = later.find(({ mac, link }) => link && mac === card.mac)?.neighbour;
    return neighbour ? { ...card, neighbour } : card;
  });
  if (heard.every((card, n) => card === cards[n])) return settled;
  return { ...settled, inventory: { ...settled.inventory, cards: heard } };
}

/**
 * Deletes what is known of machines whose documents are deleted: a machine that gets the name later
 * is another one. Returns a function that ends this.
 */
export function forgetDeleted(
  inventories: Pick<Inventories, 'forget'>,
  { catalog, log }: { readonly catalog: Pick<Catalog, 'subscribe'>; readonly log: Log },
): () => void {
  const forget = async (machine: string): Promise<void> => {
    try {
      await inventories.forget(machine);
    } catch (error) {
      log.warn({ machine, cause: (error as Error).message }, 'an inventory was not deleted');
    }
  };
  return catalog.subscribe((changes) => {
    for (const { kind, name, entry } of changes)
      if (kind === 'Machine' && entry === undefined) void forget(name);
  });
}
