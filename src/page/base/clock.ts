/** The time and timers of the page. No other file of it has any. */

export const now = (): number => Date.now();

/** Calls back after `ms`. The returned function cancels that. */
export function after(ms: number, work: () => void): () => void {
  const timer = setTimeout(work, ms);
  return () => clearTimeout(timer);
}

/** Waits, or until `stop` aborts. */
export const pause = (ms: number, stop: AbortSignal | undefined): Promise<void> =>
  new Promise((resolve) => {
    const cancel = after(ms, resolve);
    stop?.addEventListener('abort', () => {
      cancel();
      resolve();
    });
  });

/** Calls back every `ms`. The returned function ends that. */
export function every(ms: number, work: () => void): () => void {
  const timer = setInterval(work, ms);
  return () => clearInterval(timer);
}

/** Runs `work` soon after a call, and not more often than every `ms`. */
export function throttle(ms: number, work: () => void): () => void {
  let last = Number.NEGATIVE_INFINITY;
  let waits = false;
  return () => {
    if (waits) return;
    waits = true;
    setTimeout(
      () => {
        waits = false;
        last = performance.now();
        work();
      },
      Math.max(0, last + ms - performance.now()),
    );
  };
}

/** Runs `work` once, `ms` after the first of several calls. */
export function coalesce(ms: number, work: () => void): (() => void) & { cancel(): void } {
  let timer: ReturnType<typeof setTimeout> | undefined;
  const call = (): void => {
    if (timer !== undefined) return;
    timer = setTimeout(() => {
      timer = undefined;
      work();
    }, ms);
  };
  const cancel = (): void => {
    clearTimeout(timer);
    timer = undefined;
  };
  return Object.assign(call, { cancel });
}
