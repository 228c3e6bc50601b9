/**
 * The life of a store. A store that was restored from a backup begins another life, with a higher
 * number. Agents remember the number with the revision (src/agent/wire/revision-claim.ts), so a
 * boot host whose store continues elsewhere learns that from them and stops answering, and a
 * restored store does nothing that cannot be undone until an operator has accepted it.
 */
import { z } from 'zod';
import type { Clock } from '../base/clock.ts';
import { firstFew } from '../base/first-few.ts';
import { parsed } from '../base/foreign-json.ts';
import type { Log } from '../base/log.ts';
import { KEYS } from './keys.ts';
import type { Store } from './store.ts';

const record = z.strictObject({
  v: z.literal(1),
  life: z.int().min(0).max(99_999),
  /** Set by a restore until an operator accepts it; times are ms since 1970. */
  restored: z.strictObject({ at: z.int(), takenAt: z.int(), revision: z.int() }).optional(),
  /** Set when a machine has seen a later life of this store. */
  superseded: z.strictObject({ at: z.int(), machine: z.string(), life: z.int() }).optional(),
});

type LifeRecord = z.output<typeof record>;

/** Revisions of one life stay below this, so that life and revision fit into one number. */
const REVISIONS = 10_000_000_000;

/** Life and revision as one number; a later life has a higher one, whatever its revision. */
export const lifeRevision = (life: number, revision: number): number => life * REVISIONS + revision;

/** The parts of {@link lifeRevision}. */
export const partsOf = (number: number): { readonly life: number; readonly revision: number } => ({
  life: Math.floor(number / REVISIONS),
  revision: number % REVISIONS,
});

/** The record's text. */
const encode = (value: Omit<LifeRecord, 'v'>): string => JSON.stringify({ v: 1, ...value });

async function readLife(store: Pick<Store, 'get'>): Promise<LifeRecord> {
  const stored = await store.get(KEYS.life.key());
  if (stored === undefined) return { v: 1, life: 0 };
  const read = record.safeParse(parsed(stored.value));
  // A record that is not understood must not make the store forget that it was superseded.
  return read.success ? read.data : { v: 1, life: 0, superseded: { at: 0, machine: 'unknown', life: 1 } };
}

/** Begins another life of a store that was restored. `takenAt`: when its backup was made. */
export async function beginLife(store: Store, takenAt: number, now: number): Promise<number> {
  const { life } = await readLife(store);
  const { revision } = await store.list(KEYS.life.key());
  const restored = { at: now, takenAt, revision };
  await store.commit([{ key: KEYS.life.key(), put: encode({ life: life + 1, restored }) }]);
  return life + 1;
}

/** The next life of a store that was copied to another place; the copy counts from now on. */
export const nextLife = async (store: Pick<Store, 'get'>): Promise<string> =>
  encode({ life: (await readLife(store)).life + 1 });

/** The life of a store to which records are still being copied. */
export const unfinishedLife = (now: number): string =>
  encode({ life: 0, superseded: { at: now, machine: 'an unfinished copy of the store', life: 1 } });

/** usual: it serves. restored: it waits for an operator. superseded: it answers no machine. */
export type LifeState = 'usual' | 'restored' | 'superseded';

export interface Life {
  readonly number: number;
  readonly state: LifeState;
  /** Why the state is not usual, with what to do. */
  readonly detail: string | undefined;
  /**
   * Notes what a machine proved that it has seen. Resolves with the state, which may have become
   * superseded; that is durable then.
   */
  seen(machine: string, number: number): Promise<LifeState>;
  /**
   * Whether a number that a machine has seen is of a later state than the backup from which this
   * store was restored; only until an operator accepts it.
   */
  isAhead(number: number): boolean;
  /**
   * An operator accepts this store as the right one: it serves, and stores that ran before or
   * elsewhere are superseded by it.
   */
  accept(): Promise<void>;
  /** Calls `listener` when the state becomes superseded. */
  onSuperseded(listener: () => void): void;
}

/** How many machines are listed that have seen more than a restored store. */
const LISTED = 5;

/** Reads the life of the store. */
export async function openLife(deps: {
  readonly store: Store;
  readonly clock: Pick<Clock, 'now'>;
  readonly log: Log;
}): Promise<Life> {
  const { store, clock, log } = deps;
  let known = await readLife(store);
  /** Machines that have seen revisions which a restored store lacks. */
  const ahead = new Map<string, number>();
  let listener = (): void => {};
  const state = (): LifeState => (known.superseded ? 'superseded' : known.restored ? 'restored' : 'usual');
  const write = async (next: Omit<LifeRecord, 'v'>): Promise<void> => {
    await store.commit([{ key: KEYS.life.key(), put: encode(next) }]);
    known = { v: 1, ...next };
  };
  return {
    get number() {
      return known.life;
    },
    get state() {
      return state();
    },
    get detail() {
      return detailOf(known, ahead);
    },
    isAhead: (number) => isAhead(known, number),
    async seen(machine, number) {
      const { life, revision } = partsOf(number);
      if (life > known.life && !known.superseded) {
        log.error({ machine, life, own: known.life }, 'a later life of this store runs elsewhere');
        await write({ ...known, superseded: { at: clock.now(), machine, life } });
        listener();
      }
      if (isAhead(known, number)) ahead.set(machine, Math.max(ahead.get(machine) ?? 0, revision));
      return state();
    },
    async accept() {
      const life = Math.max(known.life, (known.superseded?.life ?? -1) + 1);
      await write({ life });
      ahead.clear();
    },
    onSuperseded(given) {
      listener = given;
    },
  };
}

function isAhead({ life, restored }: LifeRecord, number: number): boolean {
  const seen = partsOf(number);
  return restored !== undefined && seen.life < life && seen.revision > restored.revision;
}

function detailOf(
  { restored, superseded }: LifeRecord,
  ahead: ReadonlyMap<string, number>,
): string | undefined {
  const time = (at: number): string => new Date(at).toISOString();
  if (superseded)
    return `${superseded.machine} has seen a later life of this store (${time(superseded.at)}): it was restored elsewhere, and this boot host answers no machine any more. Switch it off; or, if the other one is gone for good, \`muster backup accept\` and start this server again`;
  if (!restored) return undefined;
  const names = [...ahead.keys()].toSorted();
  const lacks =
    names.length === 0
      ? 'no machine has reported a later state yet'
      : `${firstFew(names, LISTED)} have seen later states than this one`;
  return `the store was restored at ${time(restored.at)} from a backup of ${time(restored.takenAt)}; ${lacks}. Machines run on, and nothing is founded, issued or changed until \`muster backup accept\``;
}
