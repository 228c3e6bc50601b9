/**
 * Records which bundle of in-cluster objects each control plane has applied. A control plane gets a
 * credential, which is valid for an hour and has all rights, only for a bundle that it has not
 * applied yet. When it has applied the bundle it removes the credential, and Muster sees that the
 * key is gone.
 */
import { z } from 'zod';
import type { AgentFacts } from '../../agent/wire/facts.ts';
import type { Clock } from '../../base/clock.ts';
import type { Millis } from '../../base/duration.ts';
import type { Log } from '../../base/log.ts';
import { KEYS } from '../../store/keys.ts';
import type { Store } from '../../store/store.ts';

/** `objects/CLUSTER/MACHINE` in the store. */
const record = z.strictObject({
  v: z.literal(1),
  /** The bundle that the credential was given for. */
  digest: z.string(),
  /**
   * The boot in which it was given. After a reboot the key is gone in any case, which proves
   * nothing.
   */
  bootId: z.string(),
  done: z.boolean(),
  /** When it was first given for this bundle, ms since 1970. */
  since: z.number(),
  /** kubectl's message when the API last refused the objects; absent once they are applied. */
  says: z.string().optional(),
});
type AppliedRecord = z.output<typeof record>;

/** The result of {@link applying}. `write` is stored before anything else happens. */
interface Applying {
  /** `due`: the machine needs a credential and the unit that applies the objects. */
  readonly state: 'done' | 'due';
  readonly write?: AppliedRecord;
}

/**
 * Decides whether a control plane has to apply the bundle with this digest, and what to record.
 * `now`: ms since 1970. Pure.
 */
export function applying(
  known: AppliedRecord | undefined,
  digest: string,
  { bootId, pins, objects }: Pick<AgentFacts, 'bootId' | 'pins' | 'objects'>,
  now: Millis,
): Applying {
  const hasKey = pins.has('applier');
  const before = known?.digest === digest ? known : undefined;
  if (before?.done) return { state: 'done' };
  const common = { v: 1, digest, bootId, since: before?.since ?? now } as const;
  if (!hasKey)
    return before?.bootId === bootId ? { state: 'done', write: { ...common, done: true } } : { state: 'due' };
  const same = before?.bootId === bootId && before.says === objects;
  if (same) return { state: 'due' };
  return { state: 'due', write: { ...common, done: false, ...(objects !== undefined && { says: objects }) } };
}

export interface AppliedObjects {
  /** Whether this machine has to apply the bundle; the record is stored when this resolves. */
  isDue(cluster: string, machine: string, digest: string, facts: AgentFacts): Promise<boolean>;
  /** The record of this machine; undefined when there is none that can be read. */
  known(cluster: string, machine: string): Promise<AppliedRecord | undefined>;
}

/** Opens the records in the store; a record that cannot be read counts as absent and is logged. */
export function openAppliedObjects({
  store,
  log,
  clock,
}: {
  readonly store: Store;
  readonly log: Log;
  readonly clock: Clock;
}): AppliedObjects {
  const known = async (cluster: string, machine: string): Promise<AppliedRecord | undefined> => {
    const key = KEYS.objects.key(cluster, machine);
    const stored = await store.get(key);
    const read = stored && readApplied(stored.value);
    if (stored && read === undefined) log.warn({ key }, 'a stored record cannot be read and is ignored');
    return read;
  };
  return {
    known,
    async isDue(cluster, machine, digest, facts) {
      const before = await known(cluster, machine);
      const { state, write } = applying(before, digest, facts, clock.now());
      if (write)
        await store.commit([{ key: KEYS.objects.key(cluster, machine), put: JSON.stringify(write) }]);
      return state === 'due';
    },
  };
}

/** Reads a stored record; undefined when its text is not a record of a version known here. */
export function readApplied(text: string): AppliedRecord | undefined {
  try {
    return record.safeParse(JSON.parse(text)).data;
  } catch {
    return undefined;
  }
}
