/**
 * Decides whether a request for a script can come from the machine that it names. A script that
 * boots ends the machine's session and counts as a boot, and anyone who reaches the HTTP port can
 * request one with a MAC from a label. Where Muster gives the addresses, the client's address
 * decides.
 */
import type { Mac } from '../../base/mac.ts';
import type { Recognition } from '../../machines/recognition.ts';
import { plainAddress } from '../../machines/reports.ts';
import type { Member } from '../../machines/roster.ts';
import type { LiveSession } from '../../machines/sessions.ts';
import type { ScriptRequest } from '../boot.ts';
import type { ServedNetwork } from '../network.ts';
import { type BootContext, reservedAddress, selectionOf } from './boot-context.ts';
import { judge, reason, type Verdict } from './decide.ts';

/** Whether Muster gives the machine its address on this network. */
export function givesAddress(network: ServedNetwork, member: Member | undefined): boolean {
  if (network.mode === 'server') return true;
  if (network.mode !== 'reservations' || member === undefined) return false;
  return reservedAddress(member, network) !== undefined;
}

/** A request for a script, before anything is done about it. */
export interface Asker {
  readonly request: ScriptRequest;
  /** The session that the URL names. */
  readonly named: LiveSession | undefined;
  /** The MAC that boots: from the request, else from the session. */
  readonly mac: Mac | undefined;
  readonly found: Recognition;
}

/**
 * True when the request belongs to no live session of the machine and comes from an address that
 * the machine neither leases nor has reserved. False where another DHCP server gives the addresses,
 * because nothing is known about them.
 */
export function isForeign(context: BootContext, { request, named, mac, found }: Asker): boolean {
  const { roster } = context;
  const name = found.kind === 'known' ? found.match.name : undefined;
  if (named !== undefined && roster.sessions.isLive(named)) {
    const { session } = named;
    if (session.machine === name || (mac !== undefined && session.mac === mac)) return false;
  }
  const member = name === undefined ? undefined : roster.get(name);
  const networks = request.network ? [request.network] : context.servedNetworks();
  if (!networks.some((network) => givesAddress(network, member))) return false;
  const peer = plainAddress(request.peer);
  // Addresses that were only seen do not count: a forged request may have brought them.
  const spec = member?.entry?.document.spec;
  if (spec?.addresses?.includes(peer)) return false;
  const macs = new Set([...(mac ? [mac] : []), ...((spec?.macs ?? []) as Mac[])]);
  return ![...macs].some((one) => context.leasedAddresses?.(one).includes(peer));
}

/**
 * The verdict for a request for which {@link isForeign} holds: always hold. The reason is that of
 * an unknown machine, a conflict, or a wrong address.
 */
export function verdictOnForeign(context: BootContext, { request, found }: Asker): Verdict {
  if (found.kind === 'conflict')
    return judge({ kind: 'conflict', machines: found.matches.map(({ name }) => name).sort() });
  const documented = found.kind === 'known' && context.roster.get(found.match.name)?.entry !== undefined;
  if (!documented) return judge({ kind: 'unknown' });
  return { kind: 'hold', reason: reason('address_mismatch', `(${plainAddress(request.peer)})`) };
}

/**
 * The verdict for a request in the name of a running machine: its agent was heard so recently that
 * the machine cannot be booting. A machine that lost its power and is already booting again has to
 * wait as long. Undefined for every other request, and when the profile ignores the machine.
 */
export function verdictOnAlive(context: BootContext, { request, found }: Asker): Verdict | undefined {
  if (found.kind !== 'known') return undefined;
  const member = context.roster.get(found.match.name);
  if (member === undefined || context.roster.heartbeats.alive(member.name) === undefined) return undefined;
  const selection = selectionOf(member, request.network?.name, context.profiles());
  const verdict = judge({ kind: 'known', selection, bootsWithoutReady: 0, alive: true });
  return verdict.reason.code === 'alive' ? verdict : undefined;
}
