/** The inventories of machines, in memory and in the store. */
import { isDeepStrictEqual } from 'node:util';
import type { Clock } from '../base/clock.ts';
import type { Millis } from '../base/duration.ts';
import { messageOf } from '../base/error-text.ts';
import type { Log } from '../base/log.ts';
import type { Catalog } from '../resources/catalog.ts';
import { KEYS } from '../store/keys.ts';
import type { Store } from '../store/store.ts';
import type { Inventory } from './inventory.ts';
import type { Roster } from './member.ts';
import { Space } from './space.ts';

/** An inventory with the time when the machine last reported a change of it. */
export interface KnownInventory {
  readonly machine: string;
  readonly at: Millis;
  readonly inventory: Inventory;
  /**
   * It was sent from the discovery system over plain HTTP: anybody on the segment may have written
   * it.
   */
  readonly claimed?: true | undefined;
}

/**
 * How many octets of inventories of unknown machines are kept, some thousand inventories. One more
 * drops the one that was reported first.
 */
export const MAX_CLAIMED_OCTETS = 16 * 1024 * 1024;

export interface Inventories {
  /** Takes what a machine reports, and stores it if it has changed. Never rejects. */
  take(machine: string, inventory: Inventory): Promise<void>;
  /**
   * Takes what an unknown machine reports from the discovery system. It counts from the moment when
   * the machine has a document. True when it differs from what was known. Never rejects.
   */
  claim(machine: string, inventory: Inventory): Promise<boolean>;
  /**
   * Gives what an unknown machine claimed to the machine whose new document names it, if that one
   * has none. Both names may be the same.
   */
  adopt(from: string, into: string): Promise<void>;
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
  readonly claimed?: true;
}

interface Kept extends KnownInventory {
  readonly settled?: CountingInventory | undefined;
}

/** Reads all records, and deletes those of machines that the roster does not know. */
export async function openInventories(deps: {
  readonly store: Store;
  readonly clock: Clock;
  readonly log: Log;
  readonly roster: { get(machine: string): { readonly entry?: unknown } | undefined };
}): Promise<Inventories> {
  const { store, clock, log, roster } = deps;
  const isUnknown = (machine: string): boolean => !roster.get(machine)?.entry;
  const known = new Map<string, Kept>();
  /** What unknown machines claimed. */
  const claims = new Space(MAX_CLAIMED_OCTETS);
  const { records } = await store.list(KEYS.inventory.prefix());
  for (const { key, value } of records) {
    const [machine] = KEYS.inventory.parse(key) ?? [];
    if (machine === undefined || roster.get(machine) === undefined) {
      await store.commit([{ key, delete: true }]);
      continue;
    }
    const { at, inventory, settled, claimed } = JSON.parse(value) as InventoryRecord;
    known.set(machine, { machine, at, inventory, settled, claimed });
    if (claimed && isUnknown(machine)) claims.set(machine, value.length);
  }
  const keep = async (one: Kept): Promise<void> => {
    known.set(one.machine, one);
    const { machine, at, inventory, settled, claimed } = one;
    const record: InventoryRecord = {
      v: 1,
      at,
      inventory,
      ...(settled && { settled }),
      ...(claimed && { claimed }),
    };
    const put = JSON.stringify(record);
    if (claimed && isUnknown(machine)) claims.set(machine, put.length);
    else claims.delete(machine);
    const dropped = claims.takeTooMuch();
    for (const name of dropped) known.delete(name);
    await store.commit([
      { key: KEYS.inventory.key(machine), put },
      ...dropped.map((name) => ({ key: KEYS.inventory.key(name), delete: true as const })),
    ]);
  };
  const stored = async (one: Kept): Promise<void> => {
    try {
      await keep(one);
    } catch (error) {
      log.warn({ machine: one.machine, cause: messageOf(error) }, 'an inventory was not stored');
    }
  };
  const forget = async (machine: string): Promise<void> => {
    claims.delete(machine);
    if (known.delete(machine)) await store.commit([{ key: KEYS.inventory.key(machine), delete: true }]);
  };
  return {
    async take(machine, inventory) {
      const before = known.get(machine);
      if (!before?.claimed && isDeepStrictEqual(before?.inventory, inventory)) return;
      const settled = before?.settled && completed(before.settled, inventory);
      await stored({ machine, at: clock.now(), inventory, settled });
    },
    async claim(machine, inventory) {
      if (isDeepStrictEqual(known.get(machine)?.inventory, inventory)) return false;
      await stored({ machine, at: clock.now(), inventory, claimed: true });
      return true;
    },
    async adopt(from, into) {
      const found = known.get(from);
      if (found?.claimed !== true) return;
      claims.delete(from);
      if (from === into) return;
      const taken = known.has(into) ? undefined : stored({ ...found, machine: into });
      await Promise.all([taken, forget(from)]);
    },
    get: (machine) => known.get(machine),
    list: () => [...known.values()].toSorted((a, b) => (a.machine < b.machine ? -1 : 1)),
    counting(machine) {
      const found = known.get(machine);
      if (found?.claimed && isUnknown(machine)) return undefined;
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
    forget,
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
 * Deletes what is known of machines whose documents are deleted, because a machine that gets the
 * name later is another one, and of unknown machines whose records are dropped. What an unknown
 * machine claimed goes to the machine whose new document names it. Returns a function that ends
 * this.
 */
export function forgetDeleted(
  inventories: Pick<Inventories, 'forget' | 'adopt'>,
  {
    catalog,
    roster,
    log,
  }: {
    readonly catalog: Pick<Catalog, 'subscribe'>;
    readonly roster: Pick<Roster, 'onGone'>;
    readonly log: Log;
  },
): () => void {
  const change = async (machine: string, done: Promise<void>): Promise<void> => {
    try {
      await done;
    } catch (error) {
      log.warn({ machine, cause: messageOf(error) }, 'an inventory was not deleted');
    }
  };
  const ends = [
    roster.onGone(({ name, into }) => {
      void change(name, into === undefined ? inventories.forget(name) : inventories.adopt(name, into));
    }),
    catalog.subscribe((changes) => {
      for (const { kind, name, entry } of changes) {
        if (kind !== 'Machine') continue;
        void change(name, entry === undefined ? inventories.forget(name) : inventories.adopt(name, name));
      }
    }),
  ];
  return () => {
    for (const end of ends) end();
  };
}
