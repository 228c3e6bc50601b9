/**
 * Rehearsals of requests (`dryRun`): a request runs as usual until its first change, which ends it.
 * So all of its checks count, and nothing of it remains.
 */
import { AsyncLocalStorage } from 'node:async_hooks';

interface Rehearsal {
  /** What would have changed first; absent until then. */
  would?: readonly string[];
}

const rehearsals = new AsyncLocalStorage<Rehearsal | undefined>();

/** Whether the calling code runs in a rehearsal. */
export const isRehearsal = (): boolean => rehearsals.getStore() !== undefined;

/** Ends the work of a rehearsal. Code that catches it cannot change anything either. */
class Rehearsed extends Error {}

/**
 * Is called immediately before something changes, or a secret is given out. It returns outside of a
 * rehearsal; within one it throws, also when it is called again.
 *
 * @param what the changes, as `put operator/ada`
 */
export function beforeChange(...what: readonly string[]): void {
  const rehearsal = rehearsals.getStore();
  if (rehearsal === undefined) return;
  rehearsal.would ??= what;
  throw new Rehearsed(`a rehearsal ends before: ${what.join(', ')}`);
}

/**
 * Runs `work` until its first change. Returns what would have changed; nothing, when the work ended
 * without a change. What the work left behind, such as a promise that it did not await, changes
 * nothing either.
 *
 * @throws what `work` throws before its first change
 */
export async function rehearse(work: () => unknown): Promise<readonly string[]> {
  const rehearsal: Rehearsal = {};
  try {
    await rehearsals.run(rehearsal, async () => await work());
  } catch (error) {
    if (rehearsal.would === undefined) throw error;
  }
  return rehearsal.would ?? [];
}

/**
 * Runs work that serves all requests, such as a loop or a timer, which a request only causes to
 * begin: it is no part of a rehearsal.
 */
export const apart = <T>(work: () => T): T => (isRehearsal() ? rehearsals.run(undefined, work) : work());
