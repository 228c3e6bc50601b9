/** Hooks that several views use. */
import { useCallback, useEffect, useRef, useState } from 'preact/hooks';
import { type Args, requestOf } from '../../api/contract/request.ts';
import type { Answer, OperationKey } from '../../api/operations.ts';
import type { EventView } from '../../api/times.ts';
import { coalesce, every, now } from '../base/clock.ts';
import { askUntil, Problem } from '../base/http.ts';
import { gap, onEvent } from '../base/live.ts';

export interface Fetched<T> {
  readonly value: T | undefined;
  readonly error: unknown;
  readonly reload: () => void;
}

/** How long events are collected before something is fetched again. */
const SETTLE_MS = 150;

/**
 * Asks for something, and asks again after events that concern it. What was there stays on the
 * screen meanwhile.
 *
 * @param operation undefined: nothing is asked for
 */
export function useResource<O extends OperationKey>(
  operation: O | undefined,
  given?: Args<O>[0],
  concerns?: (event: EventView) => boolean,
): Fetched<Answer<O>> {
  const args = [given] as unknown as Args<O>;
  const path = operation && requestOf(operation, ...args).path;
  const [state, setState] = useState<{ path?: string; value?: Answer<O>; error?: unknown }>({});
  const [round, setRound] = useState(0);
  const latest = useRef(concerns);
  latest.current = concerns;
  const reload = useCallback(() => setRound((n) => n + 1), []);
  useEffect(() => {
    if (operation === undefined || path === undefined) return;
    const stop = new AbortController();
    askUntil(stop.signal, operation, ...args).then(
      (value) => setState({ path, value }),
      (error: unknown) => {
        if (!stop.signal.aborted) setState({ path, error });
      },
    );
    return () => stop.abort();
  }, [path, round]);
  useEffect(() => {
    if (path === undefined) return;
    const soon = coalesce(SETTLE_MS, reload);
    const unsubscribe = onEvent((event) => {
      if (latest.current?.(event)) soon();
    });
    let first = true;
    const untrack = gap.subscribe(() => {
      if (!first) reload();
      first = false;
    });
    return () => {
      soon.cancel();
      unsubscribe();
      untrack();
    };
  }, [path, reload]);
  const own = state.path === path;
  return { value: own ? state.value : undefined, error: own ? state.error : undefined, reload };
}

/** Runs an order: whether it is under way, and why it failed. */
export function useOrder(): {
  readonly busy: boolean;
  readonly error: unknown;
  readonly clear: () => void;
  readonly run: (work: () => Promise<void>) => Promise<void>;
} {
  const [busy, setBusy] = useState(false);
  const [error, setError] = useState<unknown>(undefined);
  const run = useCallback(async (work: () => Promise<void>) => {
    setBusy(true);
    setError(undefined);
    try {
      await work();
    } catch (thrown) {
      // The log-in says it, and the order may be given again after it.
      if (!(thrown instanceof Problem && thrown.code === 'E_UNAUTHENTICATED')) setError(thrown);
    }
    setBusy(false);
  }, []);
  return { busy, error, run, clear: useCallback(() => setError(undefined), []) };
}

/** The time, again every `ms`, for ages on the screen. */
export function useNow(ms = 1000): number {
  const [time, setTime] = useState(now);
  useEffect(() => every(ms, () => setTime(now())), [ms]);
  return time;
}
