/**
 * Keeps, over a restart of the server, which machines had their turn and are not back: what the
 * server before this one allowed may begin at any moment.
 */
import { z } from 'zod';
import type { Clock } from '../../base/clock.ts';
import { parsed } from '../../base/foreign-json.ts';
import type { Log } from '../../base/log.ts';
import { KEYS } from '../../store/keys.ts';
import type { Store } from '../../store/store.ts';
import { type Revisions, ROLLED } from '../plan/restarts.ts';

/** What a machine may be doing. */
export interface GivenTurn {
  /** The revisions in the plan with which it restarts programs; absent: it restarts none. */
  readonly given?: Revisions;
  /** The boot that it was ordered to end; absent: it does not reboot. */
  readonly bootId?: string;
}

/** A turn that was under way when this server started. */
export interface TurnBefore extends GivenTurn {
  readonly cluster: string;
  readonly machine: string;
  /** When it was given, wall-clock time. */
  readonly at: number;
}

const schema = z.strictObject({
  v: z.literal(1),
  at: z.int(),
  given: z.partialRecord(z.enum(ROLLED), z.string()).optional(),
  bootId: z.string().optional(),
});

export interface GivenTurns {
  /** The turns that were under way when this server started, by cluster and machine. */
  readonly before: readonly TurnBefore[];
  /**
   * Stores the turn of a machine, unless it is stored already; an empty one removes the record.
   * Resolves when that is durable.
   */
  put(cluster: string, machine: string, turn: GivenTurn): Promise<void>;
}

/** Reads the turns that were under way. */
export async function openGivenTurns({
  store,
  log,
  clock,
}: {
  readonly store: Store;
  readonly log: Log;
  readonly clock: Clock;
}): Promise<GivenTurns> {
  const { records } = await store.list(KEYS.turn.prefix());
  const before = records.flatMap(({ key, value }) => {
    const at = KEYS.turn.parse(key);
    const read = schema.safeParse(parsed(value));
    if (at === undefined || !read.success) {
      log.warn({ key }, 'a stored turn cannot be read and is ignored');
      return [];
    }
    const { v: _, ...turn } = read.data;
    return [{ ...(turn as Omit<TurnBefore, 'cluster' | 'machine'>), cluster: at[0], machine: at[1] }];
  });
  const stored = new Map<string, string>();
  for (const { cluster, machine, given, bootId } of before)
    stored.set(
      KEYS.turn.key(cluster, machine),
      textOf({ ...(given && { given }), ...(bootId && { bootId }) }),
    );
  return {
    before,
    async put(cluster, machine, turn) {
      const key = KEYS.turn.key(cluster, machine);
      const text = textOf(turn);
      if (text === (stored.get(key) ?? NO_TURN)) return;
      const put = JSON.stringify({ v: 1, at: clock.now(), ...turn });
      await store.commit([text === NO_TURN ? { key, delete: true } : { key, put }]);
      stored.set(key, text);
    },
  };
}

/** The same text for the same turn. */
const textOf = ({ given, bootId }: GivenTurn): string =>
  JSON.stringify({ given: given && ROLLED.map((pod) => given[pod] ?? ''), bootId });
const NO_TURN = textOf({});
