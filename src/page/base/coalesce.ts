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
