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

/** Whether a machine is heard. `at`: when its agent last polled, ms since 1970, if it did. */
export interface Heard {
  readonly is: 'running' | 'left' | 'silent';
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
  /** Counts machines that were not heard yet as running, until they had time to poll. */
  suppose(machines: readonly string[]): void;
  /** Drops everything that is known about the machine. */
  forget(machine: string): void;
}

/** How many earlier boots of a machine are remembered, to recognise one that returns. */
const REMEMBERED = 4;

/** Creates an empty table of heartbeats. Times are taken from the monotonic clock. */
export function createHeartbeats({ clock }: { readonly clock: Clock }): Heartbeats {
  const heard = new Map<string, { last: Heartbeat; earlier: readonly string[] }>();
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
      // After a start it is only supposed that a machine runs.
      if (found?.bootId === undefined) return { is };
      return { is, at: (clock.now() - (clock.monotonic() - found.at)) as Millis };
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
    suppose(machines) {
      const at = clock.monotonic();
      for (const machine of machines)
        if (!heard.has(machine)) heard.set(machine, { last: { at }, earlier: [] });
    },
    forget: (machine) => void heard.delete(machine),
  };
}
