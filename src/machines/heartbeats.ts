/**
 * Which machines are alive: when the agent of each was last heard, over its own certificate. In
 * memory only; after a restart of ours, machines that were ready count as alive until they had time
 * to be heard.
 */
import type { Clock } from '../base/clock.ts';
import { duration, type Millis } from '../base/duration.ts';

/** Agents are told to ask at least this often. */
export const POLL_AT_LEAST = duration('15s');
/** Two polls lost and a slow third: a machine that was heard within this time runs. */
export const ALIVE_WITHIN = duration('40s');

export interface Heartbeat {
  /** Monotonic. */
  readonly at: Millis;
  /** The kernel's: changes with every boot. Absent: supposed after a restart of ours. */
  readonly bootId?: string;
  /** Where it was heard from. */
  readonly address?: string;
  /** It said that it goes down. */
  readonly left?: true;
}

/**
 * `returned`: this boot was thought over, since another one was heard after it: two systems hold
 * one certificate.
 */
export type Beat = 'first' | 'same' | 'rebooted' | 'returned';

export interface Heartbeats {
  beat(machine: string, of: { readonly bootId: string; readonly address: string }): Beat;
  /** The last one, however old. */
  last(machine: string): Heartbeat | undefined;
  /** The last one, if the machine has to be taken for running. Constant time. */
  alive(machine: string): Heartbeat | undefined;
  /** For how long it is taken for running if nothing more is heard; 0 when it is not. */
  remaining(machine: string): Millis;
  /**
   * The machine says that this boot of it ends: it does not run until it is heard again. False, and
   * nothing changes, when another boot was heard since.
   */
  leave(machine: string, of: { readonly bootId: string; readonly address: string }): boolean;
  /** Supposes that these machines run, as of now. */
  suppose(machines: readonly string[]): void;
  forget(machine: string): void;
}

/** Boots of a machine that are remembered, to know one that returns. */
const REMEMBERED = 4;

export function createHeartbeats({ clock }: { readonly clock: Clock }): Heartbeats {
  const heard = new Map<string, { last: Heartbeat; over: readonly string[] }>();
  const last = (machine: string) => heard.get(machine)?.last;
  const remaining = (machine: string): Millis => {
    const found = last(machine);
    if (found === undefined || found.left) return 0 as Millis;
    return Math.max(0, found.at + ALIVE_WITHIN - clock.monotonic()) as Millis;
  };
  return {
    beat(machine, { bootId, address }) {
      const known = heard.get(machine);
      const now: Heartbeat = { at: clock.monotonic(), bootId, address };
      const before = known?.last.bootId;
      if (known === undefined || before === undefined || before === bootId) {
        heard.set(machine, { last: now, over: known?.over ?? [] });
        return before === bootId ? 'same' : 'first';
      }
      const returned = known.over.includes(bootId);
      const over = [before, ...known.over.filter((one) => one !== bootId && one !== before)];
      heard.set(machine, { last: now, over: over.slice(0, REMEMBERED) });
      return returned ? 'returned' : 'rebooted';
    },
    last,
    alive: (machine) => (remaining(machine) > 0 ? last(machine) : undefined),
    remaining,
    leave(machine, { bootId, address }) {
      const known = heard.get(machine);
      if (known?.last.bootId !== undefined && known.last.bootId !== bootId) return false;
      heard.set(machine, {
        last: { at: clock.monotonic(), bootId, address, left: true },
        over: known?.over ?? [],
      });
      return true;
    },
    suppose(machines) {
      const at = clock.monotonic();
      for (const machine of machines) if (!heard.has(machine)) heard.set(machine, { last: { at }, over: [] });
    },
    forget: (machine) => void heard.delete(machine),
  };
}
