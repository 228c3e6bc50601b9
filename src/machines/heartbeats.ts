/**
 * Which machines are running: when the agent of each last polled with its own certificate. In
 * memory only; after the server restarts, machines that were ready count as running until they had
 * time to poll.
 */
import type { Clock } from '../base/clock.ts';
import { duration, type Millis } from '../base/duration.ts';

/** The longest interval between two polls that an agent is given. */
export const POLL_AT_LEAST = duration('15s');
/**
 * A machine whose agent polled within this time is running. It allows for two lost polls and a slow
 * third.
 */
export const ALIVE_WITHIN = duration('40s');

interface Heartbeat {
  /** Monotonic. */
  readonly at: Millis;
  /**
   * The kernel's boot id. Absent after the server restarted, while the machine is only assumed to
   * be running.
   */
  readonly bootId?: string;
  /** The address that the agent polled from. */
  readonly address?: string;
  /** The agent said that the machine shuts down. */
  readonly left?: true;
}

/**
 * What a heartbeat says about the machine's boot. `first`: nothing was heard of the machine before.
 * `same`: the boot that polled last. `rebooted`: a new boot. `returned`: an earlier boot that
 * another boot has followed since, so two systems hold one certificate.
 */
type Beat = 'first' | 'same' | 'rebooted' | 'returned';

/** What a BMC says of a machine that is off: whether an operator ordered that. */
export type Off = 'ordered' | 'unasked';

/** Whether a machine is heard. `at`: when its agent last polled, ms since 1970, if it did. */
export interface Heard {
  readonly is: 'running' | 'left' | 'silent';
  /** The machine is silent, and its BMC says that it is off. */
  readonly off?: Off;
  readonly at?: Millis;
}

export interface Heartbeats {
  /** Records a poll of the machine's agent. */
  beat(machine: string, of: { readonly bootId: string; readonly address: string }): Beat;
  /** The last heartbeat, however old. */
  last(machine: string): Heartbeat | undefined;
  /** The last heartbeat, if the machine counts as running. Constant time. */
  alive(machine: string): Heartbeat | undefined;
  /** Whether the machine is heard now. */
  heard(machine: string): Heard;
  /** How long the machine still counts as running if it does not poll again; 0 when it does not. */
  remaining(machine: string): Millis;
  /**
   * The machine shuts this boot down: it does not count as running until it polls again. False, and
   * nothing changes, when another boot has polled since.
   */
  leave(machine: string, of: { readonly bootId: string; readonly address: string }): boolean;
  /** The machine's BMC says that it is off, or on. What it says counts for 90 seconds. */
  power(machine: string, off: Off | 'on'): void;
  /** Counts machines that were not heard yet as running, until they had time to poll. */
  suppose(machines: readonly string[]): void;
  /** Drops everything that is known about the machine. */
  forget(machine: string): void;
}

/** BMCs are asked every 30 seconds; two answers may be lost. */
const OFF_WITHIN = duration('90s');

/** How many earlier boots of a machine are remembered, to recognise one that returns. */
const REMEMBERED = 4;

/** Creates an empty table of heartbeats. Times are taken from the monotonic clock. */
export function createHeartbeats({ clock }: { readonly clock: Clock }): Heartbeats {
  const heard = new Map<string, { last: Heartbeat; earlier: readonly string[] }>();
  /** When BMCs last said that their machines are off, monotonic. */
  const off = new Map<string, { readonly at: Millis; readonly off: Off }>();
  const offNow = (machine: string): Off | undefined => {
    const said = off.get(machine);
    return said !== undefined && clock.monotonic() - said.at <= OFF_WITHIN ? said.off : undefined;
  };
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
        heard.set(machine, { last: now, earlier: known?.earlier ?? [] });
        return before === bootId ? 'same' : 'first';
      }
      const returned = known.earlier.includes(bootId);
      const earlier = [before, ...known.earlier.filter((one) => one !== bootId && one !== before)];
      heard.set(machine, { last: now, earlier: earlier.slice(0, REMEMBERED) });
      return returned ? 'returned' : 'rebooted';
    },
    last,
    alive: (machine) => (remaining(machine) > 0 ? last(machine) : undefined),
    heard(machine) {
      const found = last(machine);
      const is = found?.left ? 'left' : remaining(machine) > 0 ? 'running' : 'silent';
      // An agent that was heard is believed: the BMC may be that of another machine.
      const said = is === 'silent' ? offNow(machine) : undefined;
      const more = said === undefined ? {} : { off: said };
      // After a start it is only supposed that a machine runs.
      if (found?.bootId === undefined) return { is, ...more };
      return { is, ...more, at: (clock.now() - (clock.monotonic() - found.at)) as Millis };
    },
    remaining,
    leave(machine, { bootId, address }) {
      const known = heard.get(machine);
      if (known?.last.bootId !== undefined && known.last.bootId !== bootId) return false;
      heard.set(machine, {
        last: { at: clock.monotonic(), bootId, address, left: true },
        earlier: known?.earlier ?? [],
      });
      return true;
    },
    power(machine, said) {
      if (said === 'on') off.delete(machine);
      else off.set(machine, { at: clock.monotonic(), off: said });
    },
    suppose(machines) {
      const at = clock.monotonic();
      for (const machine of machines)
        if (!heard.has(machine)) heard.set(machine, { last: { at }, earlier: [] });
    },
    forget(machine) {
      heard.delete(machine);
      off.delete(machine);
    },
  };
}
