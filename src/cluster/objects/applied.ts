/**
 * What is known of the applying of in-cluster objects by each control plane. It gets its credential, of an hour and of the highest rank,
 * only for a bundle that it has not applied yet; when that is done it removes the credential, and that is how it is seen.
 */
import { z } from 'zod';
import type { AgentFacts } from '../../agent/facts.ts';
import type { Log } from '../../base/log.ts';
import type { Store } from '../../store/store.ts';

/** `objects/CLUSTER/MACHINE` in the store. */
const record = z.strictObject({
  v: z.literal(1),
  /** The bundle that the credential was given for. */
  digest: z.string(),
  /** The boot in which it was given: a key that is gone after a reboot says nothing. */
  bootId: z.string(),
  done: z.boolean(),
});
export type AppliedRecord = z.output<typeof record>;

export const OBJECTS_PREFIX = 'objects/';
export const objectsKey = (cluster: string, machine: string): string => `objects/${cluster}/${machine}`;

/** `write` is stored before anything follows from it. */
export interface Applying {
  /** Due: it needs a credential and the unit. */
  readonly state: 'done' | 'due';
  readonly write?: AppliedRecord;
}

/** What is due. Pure. */
export function applying(
  known: AppliedRecord | undefined,
  digest: string,
  { bootId, pins }: Pick<AgentFacts, 'bootId' | 'pins'>,
): Applying {
  const hasKey = pins.has('applier');
  const given: AppliedRecord = { v: 1, digest, bootId, done: false };
  if (known?.digest !== digest) return hasKey ? { state: 'due', write: given } : { state: 'due' };
  if (known.done) return { state: 'done' };
  if (hasKey) return known.bootId === bootId ? { state: 'due' } : { state: 'due', write: given };
  return known.bootId === bootId ? { state: 'done', write: { ...known, done: true } } : { state: 'due' };
}

export interface AppliedObjects {
  /** Whether this machine has to apply the bundle; what follows is stored when it resolves. */
  isDue(cluster: string, machine: string, digest: string, facts: AgentFacts): Promise<boolean>;
}

export function openAppliedObjects({
  store,
  log,
}: {
  readonly store: Store;
  readonly log: Log;
}): AppliedObjects {
  return {
    async isDue(cluster, machine, digest, facts) {
      const key = objectsKey(cluster, machine);
      const stored = await store.get(key);
      const known = stored && readApplied(stored.value);
      if (stored && known === undefined)
        log.warn({ key }, 'a stored record cannot be read and is passed over');
      const { state, write } = applying(known, digest, facts);
      if (write) await store.commit([{ key, put: JSON.stringify(write) }]);
      return state === 'due';
    },
  };
}

/** Undefined when it is not a record of a version known here. */
export function readApplied(text: string): AppliedRecord | undefined {
  try {
    return record.safeParse(JSON.parse(text)).data;
  } catch {
    return undefined;
  }
}
