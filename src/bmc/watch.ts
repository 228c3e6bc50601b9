/** Asks all BMCs regularly whether their machines are on. */
import type { Clock } from '../base/clock.ts';
import { type Millis, seconds, toMillis } from '../base/duration.ts';
import { apart } from '../base/rehearsal.ts';
import type { PowerOrders, ReadPower } from './orders.ts';

export const LOOK_EVERY: Millis = toMillis(seconds(30));
/** How many BMCs are asked at the same time. */
const AT_ONCE = 16;
/** A BMC that does not answer is asked again after 1, 2, 4, … rounds, and then every ten. */
const LONGEST = 10;

interface PowerWatchDeps {
  /** The machines that have a BMC. */
  readonly machines: () => readonly string[];
  readonly orders: Pick<PowerOrders, 'last'> & { look(machine: string): Promise<ReadPower> };
  readonly clock: Pick<Clock, 'after'>;
}

/** Starts the watch. Returns what ends it. */
export function watchPower({ machines, orders, clock }: PowerWatchDeps): () => void {
  /** Rounds in which a BMC did not answer, in a row, and the round in which it is asked again. */
  const failing = new Map<string, { readonly times: number; readonly again: number }>();
  let round = 0;
  let isClosed = false;
  let cancel: () => void = () => {};

  const look = async (machine: string): Promise<void> => {
    const order = orders.last(machine);
    // An order reads the state by itself, and needs its BMC for that.
    const isBusy = order !== undefined && !order.end && order.step !== 'queued';
    if (isBusy || (failing.get(machine)?.again ?? 0) > round) return;
    const { state } = await orders.look(machine).catch(() => ({ state: 'unknown' as const }));
    if (state !== 'unknown') return void failing.delete(machine);
    const times = (failing.get(machine)?.times ?? 0) + 1;
    failing.set(machine, { times, again: round + Math.min(LONGEST, 2 ** (times - 1)) });
  };
  const all = async (): Promise<void> => {
    round++;
    const left = [...machines()];
    for (const known of failing.keys()) if (!left.includes(known)) failing.delete(known);
    const worker = async (): Promise<void> => {
      for (let next = left.pop(); next !== undefined && !isClosed; next = left.pop()) await look(next);
    };
    await Promise.all(Array.from({ length: AT_ONCE }, worker));
    if (!isClosed) cancel = clock.after(LOOK_EVERY, () => void all());
  };
  cancel = clock.after(LOOK_EVERY, () => void apart(all));
  return () => {
    isClosed = true;
    cancel();
  };
}
