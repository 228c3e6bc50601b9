/**
 * Values that many others hold, such as the agent's scripts in the configuration of every machine:
 * what is made of one of them is made once, and kept with it.
 */

const memoShared = new WeakSet<object>();

/** Marks a value as shared. Its fields must be plain values: it is frozen, they are not. */
export function shared<T extends object>(value: T): T {
  memoShared.add(value);
  return Object.freeze(value);
}

export const isShared = (value: unknown): boolean => memoShared.has(value as object);
