/**
 * Checks that a machine cannot make alone, before anything is started on it: whether its clock is
 * right, and whether another machine has the same machine-id. The machine's own checks are in
 * checks.ts.
 */

import type { AgentFacts } from '../../agent/wire/facts.ts';
import type { Clock } from '../../base/clock.ts';
import { apartText } from '../../base/clock-judge.ts';
import { duration, type Millis } from '../../base/duration.ts';

interface PreflightFault {
  readonly code: 'clock' | 'machine-id';
  readonly text: string;
}

/**
 * A clock that is off by more than this holds the machine. Certificates tolerate a day, but tokens,
 * leases and logs do not. The agent itself corrects a clock that is more than a minute behind.
 */
const CLOCK_MAY_BE_OFF = duration('5m');
/**
 * A machine-id belongs to its machine for this long after the last poll; agents poll every 15 s.
 */
const HEARD_WITHIN = duration('45s');

/** Compares a machine's clock with the boot host's; both are ms since 1970. */
function clockFault(clock: number, now: number): PreflightFault | undefined {
  const off = clock - now;
  if (Math.abs(off) <= CLOCK_MAY_BE_OFF) return undefined;
  return {
    code: 'clock',
    text: `Its clock is ${apartText(off)}: set it in the firmware, or name timeServers.`,
  };
}

export interface Preflight {
  /** Why the machine may not start yet; undefined when it may, or when it runs already. */
  of(machine: string, facts: Pick<AgentFacts, 'clock' | 'machineId' | 'applied'>): PreflightFault | undefined;
}

/** Opens the checks; they remember machine-ids in memory. */
export function openPreflight(clock: Clock): Preflight {
  /** machine-id → the machine that reported it first, as long as it polls. */
  const owners = new Map<string, { readonly machine: string; readonly at: Millis }>();

  const duplicateOf = (machine: string, id: string): PreflightFault | undefined => {
    // The machine itself checks for an empty machine-id.
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
      const twin = duplicateOf(machine, machineId);
      return applied === undefined ? (twin ?? clockFault(theirs, clock.now())) : undefined;
    },
  };
}
