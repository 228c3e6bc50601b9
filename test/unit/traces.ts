/** Turns stack traces off for tests that throw hundreds of thousands of exceptions. */

/**
 * Runs `work` without stack traces, until its promise is settled if it returns one: nobody reads
 * the traces, and taking them is most of the time. A failing test must therefore name its input.
 */
export function withoutTraces<T>(work: () => T): T {
  const limit = Error.stackTraceLimit;
  const restore = (): void => {
    Error.stackTraceLimit = limit;
  };
  Error.stackTraceLimit = 0;
  let result: T;
  try {
    result = work();
  } catch (error) {
    restore();
    throw error;
  }
  if (result instanceof Promise) return result.finally(restore) as T;
  restore();
  return result;
}
