/** Finds machines by name or hardware address, and what an operator's roles are for. */
import { MusterError } from '../base/errors.ts';
import { type Mac, parseMac } from '../base/mac.ts';
import type { Member, Roster } from '../machines/roster.ts';
import { checkWithin, type PlaceOf, poolPlace } from './access.ts';
import type { ApiRequest } from './handler.ts';

interface Known {
  readonly roster: Pick<Roster, 'get' | 'byMac'>;
}
interface Placed {
  readonly roster: Pick<Roster, 'get'>;
  readonly agents: {
    /** The cluster that a machine's agent works for. */
    agentCluster(machine: string): string | undefined;
  };
}

/** Where machines belong: their cluster, by its document or their own, else their pool. */
export const placing =
  ({ roster, agents }: Placed): PlaceOf =>
  (machine) => {
    const { cluster, pool } = roster.get(machine)?.entry?.document.spec ?? {};
    return agents.agentCluster(machine) ?? cluster ?? (pool === undefined ? undefined : poolPlace(pool));
  };

/** @throws {MusterError} E_USAGE when a text is no hardware address */
export function macOf(text: string): Mac {
  const mac = parseMac(text);
  if (!mac)
    throw new MusterError('E_USAGE', `"${text}" is not a MAC address; write it like 52:54:00:aa:00:01`);
  return mac;
}

function memberOf(nameOrMac: string, { roster }: Known): Member | undefined {
  const mac = parseMac(nameOrMac);
  return roster.get(nameOrMac) ?? (mac && roster.byMac(mac));
}

/**
 * Finds a machine by its name or hardware address.
 *
 * @throws {MusterError} E_NOT_FOUND when the roster has no such machine
 */
export function findMachine(nameOrMac: string, { roster }: Known): Member {
  const mac = parseMac(nameOrMac);
  const found = memberOf(nameOrMac, { roster });
  if (!found)
    throw new MusterError(
      'E_NOT_FOUND',
      mac
        ? `no machine with address ${mac} has a document or was seen; \`muster machine add ${mac} --profile PROFILE\` makes one`
        : `there is no machine "${nameOrMac}"; \`muster get machines\` lists those that have a document or were seen`,
    );
  return found;
}

/**
 * Refuses a machine outside of the clusters and pools to which the answer is limited, also one that
 * nobody knows: the answer must not say which machines there are elsewhere.
 *
 * @throws {MusterError} E_FORBIDDEN
 */
export function checkMine(
  nameOrMac: string,
  { within }: Pick<ApiRequest, 'within'>,
  deps: Known & Placed,
): void {
  const found = memberOf(nameOrMac, deps);
  checkWithin(within, found && placing(deps)(found.name));
}

/** Whether a machine belongs to the clusters and pools to which the answer is limited. */
export function ofClusters(
  { within }: Pick<ApiRequest, 'within'>,
  deps: Placed,
): (machine: string | undefined) => boolean {
  if (within === undefined) return () => true;
  const placeOf = placing(deps);
  return (machine) => machine !== undefined && within.has(placeOf(machine) ?? '');
}

/** The labels of a machine's document. */
export const labelsOf =
  ({ roster }: Known) =>
  (machine: string | undefined): Readonly<Record<string, string>> | undefined =>
    machine === undefined ? undefined : roster.get(machine)?.entry?.document.metadata.labels;
