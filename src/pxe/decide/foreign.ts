/**
 * Decides whether a request for a script can come from the machine that it names. A script that
 * boots ends the machine's session, counts as a boot and tells the session's id, and anyone who
 * reaches the HTTP port can request one with a MAC from a label. Where Muster gives the addresses,
 * the client's address decides.
 */

import { plainAddress } from '../../base/ip.ts';
import type { Mac } from '../../base/mac.ts';
import type { Match, Recognition } from '../../machines/recognition.ts';
import type { Member } from '../../machines/roster.ts';
import type { ScriptRequest } from '../boot.ts';
import type { ServedNetwork } from '../network.ts';
import type { BootContext } from './boot-context.ts';
import { conflictOf, judge, reason, type Verdict } from './decide.ts';
import { givesAddress, isOn, ownAddresses, trustedMacs } from './own-addresses.ts';
import { selectionOf } from './selection.ts';

/** A request for a script, before anything is done about it. */
export interface Asker {
  readonly request: ScriptRequest;
  /** The MAC that boots: from the request, else from the session. */
  readonly mac: Mac | undefined;
  readonly found: Recognition;
}

/**
 * Why a request cannot be its machine's own; undefined when it can be. A session in the URL proves
 * nothing, because DHCP broadcasts its name.
 *
 * - `address_mismatch`: it comes from an address that is not the machine's own. Where another DHCP
 *   server gives the addresses, firmware may have any address of the network's subnet.
 * - `mac_unlisted`: the address was leased to the asker, but the asker boots from a MAC that the
 *   machine's document does not list. UUID, serial and the addresses of further interfaces only
 *   name a machine: anyone can write them into a URL.
 */
export function foreignness(
  context: BootContext,
  { request, mac, found }: Asker,
): 'address_mismatch' | 'mac_unlisted' | undefined {
  const { network } = request;
  const peer = plainAddress(request.peer);
  const recognised = found.kind === 'known' ? context.roster.get(found.match.name) : undefined;
  const member = recognised?.entry && recognised;
  const leases = givesAddress(network, member);
  const asker = mac === undefined ? [] : [mac];
  if (found.kind !== 'known' || member === undefined)
    return isOn(network, peer) && (!leases || holds(context, asker, peer)) ? undefined : 'address_mismatch';
  const macs = macsOf(context, member, found.match, mac);
  if (ownAddresses(context, member, { macs, leases }).has(peer)) return undefined;
  if (!leases) return isOn(network, peer) ? undefined : 'address_mismatch';
  return mac !== undefined && !macs.includes(mac) && holds(context, asker, peer)
    ? 'mac_unlisted'
    : 'address_mismatch';
}

/** The MACs by which the asker is the machine; `mac` is the one that it boots from. */
const macsOf = (context: BootContext, member: Member, match: Match, mac: Mac | undefined): readonly Mac[] =>
  trustedMacs(context, member, match.because.includes('uuid-and-serial') ? mac : undefined);

/**
 * The verdict for a machine that boots from `mac`, if its document would have to list that;
 * undefined for every other machine, and where it is not known from which MAC it boots.
 */
export function verdictOnMac(
  context: BootContext,
  network: ServedNetwork | undefined,
  found: Recognition,
  mac: Mac | undefined,
): Verdict | undefined {
  if (found.kind !== 'known' || mac === undefined) return undefined;
  const member = context.roster.get(found.match.name);
  if (!member?.entry || !givesAddress(network, member)) return undefined;
  if (macsOf(context, member, found.match, mac).includes(mac)) return undefined;
  return { kind: 'hold', reason: reason('mac_unlisted', `(${mac})`) };
}

/** Whether one of these MACs holds a lease on the address. */
const holds = ({ leasedAddresses }: BootContext, macs: readonly Mac[], address: string): boolean =>
  macs.some((mac) => leasedAddresses(mac).includes(address));

/**
 * The verdict for a request that is not its machine's own: always hold. The reason is that of an
 * unknown machine, a conflict, or `why`.
 */
export function verdictOnForeign(
  context: BootContext,
  { request, mac, found }: Asker,
  why: NonNullable<ReturnType<typeof foreignness>>,
): Verdict {
  if (found.kind === 'conflict') return judge(conflictOf(found));
  const documented = found.kind === 'known' && context.roster.get(found.match.name)?.entry !== undefined;
  if (!documented) return judge({ kind: 'unknown' });
  const particulars = why === 'mac_unlisted' ? mac : plainAddress(request.peer);
  return { kind: 'hold', reason: reason(why, `(${particulars})`) };
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
  const selection = selectionOf(context, member, request.network?.name);
  const verdict = judge({ kind: 'known', selection, bootsWithoutReady: 0, alive: true });
  return verdict.reason.code === 'alive' ? verdict : undefined;
}
