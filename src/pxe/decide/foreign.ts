/**
 * Whether a request for a script can be the machine's own. A script that boots ends the machine's
 * session and counts; anybody who reaches the HTTP port can ask for one with a MAC that he read off
 * a label. Where we give the addresses, the address tells.
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

/** Whether it is we who give the machine its address there. */
export function givesAddress(network: ServedNetwork, member: Member | undefined): boolean {
  if (network.mode === 'server') return true;
  if (network.mode !== 'reservations' || member === undefined) return false;
  return reservedAddress(member, network) !== undefined;
}

/** A request for a script, before anything is done for it. */
export interface Asker {
  readonly request: ScriptRequest;
  /** The session of the URL. */
  readonly told: LiveSession | undefined;
  /** The address that boots: as the request says, else as its session does. */
  readonly mac: Mac | undefined;
  readonly found: Recognition;
}

/**
 * True when the request is made in no live session of the machine, and from an address that it
 * neither leases nor has reserved. Where another DHCP server gives the addresses nothing can be
 * said: false.
 */
export function isForeign(context: BootContext, { request, told, mac, found }: Asker): boolean {
  const { roster } = context;
  const name = found.kind === 'known' ? found.match.name : undefined;
  if (told !== undefined && roster.sessions.isLive(told)) {
    const { session } = told;
    if (session.machine === name || (mac !== undefined && session.mac === mac)) return false;
  }
  const member = name === undefined ? undefined : roster.get(name);
  const networks = request.network ? [request.network] : context.servedNetworks();
  if (!networks.some((network) => givesAddress(network, member))) return false;
  const peer = plainAddress(request.peer);
  // what was only seen of its addresses is not asked: a forged request may have said it
  const spec = member?.entry?.document.spec;
  if (spec?.addresses?.includes(peer)) return false;
  const macs = new Set([...(mac ? [mac] : []), ...((spec?.macs ?? []) as Mac[])]);
  return ![...macs].some((one) => context.leasedAddresses?.(one).includes(peer));
}

/** What such a request is told. */
export function verdictOnForeign(context: BootContext, { request, found }: Asker): Verdict {
  if (found.kind === 'conflict')
    return judge({ kind: 'conflict', machines: found.matches.map(({ name }) => name).sort() });
  const documented = found.kind === 'known' && context.roster.get(found.match.name)?.entry !== undefined;
  if (!documented) return judge({ kind: 'unknown' });
  return { kind: 'hold', reason: reason('address_mismatch', `(${plainAddress(request.peer)})`) };
}

/**
 * What one is told who asks in the name of a machine that runs: its agent was heard so lately that
 * it cannot be the one that boots. A machine that was cut off and is back already waits for as
 * long. Undefined for everybody else, and where the profile ignores it.
 */
export function verdictOnAlive(context: BootContext, { request, found }: Asker): Verdict | undefined {
  if (found.kind !== 'known') return undefined;
  const member = context.roster.get(found.match.name);
  if (member === undefined || context.roster.heartbeats.alive(member.name) === undefined) return undefined;
  const selection = selectionOf(member, request.network?.name, context.profiles());
  const verdict = judge({ kind: 'known', selection, bootsWithoutReady: 0, alive: true });
  return verdict.reason.code === 'alive' ? verdict : undefined;
}
