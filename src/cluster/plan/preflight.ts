/**
 * What a machine cannot tell by itself before anything is started on it: whether its clock is
 * right, and whether another machine has its machine-id. Its own checks are in content/checks.ts.
 */
import type { AgentFacts } from '../../agent/facts.ts';
import type { Clock } from '../../base/clock.ts';
import { duration, type Millis } from '../../base/duration.ts';

export interface PreflightFault {
  readonly code: 'clock' | 'machine-id';
  readonly text: string;
}

/**
 * Certificates bear a day; tokens, leases and people's logs do not. The agent itself sets a clock
 * that is a minute behind.
 */
const CLOCK_MAY_BE_OFF = duration('5m');
/** Agents speak every 15 s at the latest. */
const HEARD_WITHIN = duration('45s');

const UNITS = [
  ['year', 365 * 86_400],
  ['day', 86_400],
  ['hour', 3_600],
  ['minute', 60],
] as const;

/** `3 hours`: the largest unit that fits, rounded; at least a minute. */
function inWords(ms: number): string {
  const seconds = ms / 1000;
  const [unit, size] = UNITS.find(([, one]) => seconds >= one) ?? UNITS[3];
  const count = Math.max(1, Math.round(seconds / size));
  return `${count} ${unit}${count === 1 ? '' : 's'}`;
}

/** `now`: ours, ms since 1970. */
export function clockFault(clock: number, now: number): PreflightFault | undefined {
  const off = clock - now;
  if (Math.abs(off) <= CLOCK_MAY_BE_OFF) return undefined;
  return {
    code: 'clock',
    text: `Its clock is ${inWords(Math.abs(off))} ${off > 0 ? 'ahead' : 'behind'}: set it in the firmware, or name timeServers.`,
  };
}

export interface Preflight {
  /** Undefined: nothing stands against starting. A machine that runs is not stopped by it. */
  of(machine: string, facts: Pick<AgentFacts, 'clock' | 'machineId' | 'applied'>): PreflightFault | undefined;
}

export function openPreflight(clock: Clock): Preflight {
  /** Who was heard with each machine-id; the first has it as long as it is heard. */
  const owners = new Map<string, { readonly machine: string; readonly at: Millis }>();

  const owned = (machine: string, id: string): PreflightFault | undefined => {
    // None at all is the machine's own check.
    if (id === '') return undefined;
    const owner = owners.get(id);
    const now = clock.monotonic();
    if (owner !== undefined && owner.machine !== machine && now - owner.at < HEARD_WITHIN)
      return {
        code: 'machine-id',
        text: `${owner.machine} has the same machine-id ${id}: its system was copied. Remove /etc/machine-id from the image.`,
      };
    owners.set(id, { machine, at: now });
    return undefined;
  };

  return {
    of(machine, { clock: theirs, machineId, applied }) {
      const twin = owned(machine, machineId);
      return applied === undefined ? (twin ?? clockFault(theirs, clock.now())) : undefined;
    },
  };
}
