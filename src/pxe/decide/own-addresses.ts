/**
 * Tells which addresses are a machine's own. Scripts, configurations, secrets and certificates are
 * given to these addresses, so the address that somebody asked from is never evidence in itself:
 * only what Muster leased, what an operator wrote, and what the machine's configuration sets.
 */
import { contains, parseIpv4 } from '../../base/ipv4.ts';
import type { Mac } from '../../base/mac.ts';
import type { Member } from '../../machines/roster.ts';
import type { HardwareDoubt } from '../../machines/tickets.ts';
import type { ServedNetwork } from '../network.ts';
import { type BootContext, reservedAddress } from './boot-context.ts';

/** Whether Muster gives the machine its address on this network. */
export function givesAddress(network: ServedNetwork | undefined, member: Member | undefined): boolean {
  if (network?.mode === 'server') return true;
  if (network?.mode !== 'reservations' || member === undefined) return false;
  return reservedAddress(member, network) !== undefined;
}

/** Whether the address lies in the network's subnet. */
export function isOn(network: ServedNetwork | undefined, address: string): boolean {
  const parsed = parseIpv4(address);
  return network !== undefined && parsed !== undefined && contains(network.subnet, parsed);
}

/** What counts besides the machine's document. */
interface Counting {
  /** The hardware addresses whose leases are the machine's. */
  readonly macs: Iterable<Mac>;
  /** The addresses that its configuration sets. */
  readonly configured?: readonly string[];
  /** False where another server gives the addresses: a lease of ours is no evidence there. */
  readonly leases: boolean;
}

/**
 * The machine's own addresses. An address that its document or configuration names does not count
 * while Muster leases it to hardware that is not the machine's.
 */
export function ownAddresses(
  { leasedAddresses, leaseHolder }: Pick<BootContext, 'leasedAddresses' | 'leaseHolder'>,
  member: Member,
  counting: Counting,
): ReadonlySet<string> {
  const macs = new Set(counting.macs);
  const own = new Set<string>();
  for (const address of [...(member.entry?.document.spec.addresses ?? []), ...(counting.configured ?? [])]) {
    const holder = leaseHolder(address);
    if (holder === undefined || macs.has(holder)) own.add(address);
  }
  if (counting.leases) for (const mac of macs) for (const address of leasedAddresses(mac)) own.add(address);
  return own;
}

/**
 * The hardware addresses by which a machine is trusted: those of its document. A machine without an
 * agent, which is given no secrets of Muster's, is also trusted by `booted`, from which it boots:
 * UUID and serial may have named it.
 */
export function trustedMacs(
  { agents }: Pick<BootContext, 'agents'>,
  member: Member,
  booted: Mac | undefined,
): readonly Mac[] {
  const listed = (member.entry?.document.spec.macs ?? []) as Mac[];
  const secrets = agents.hasAgent(member.name) === true;
  return booted === undefined || secrets ? listed : [...listed, booted];
}

const macsOf = (member: Member): readonly Mac[] => (member.entry?.document.spec.macs ?? []) as Mac[];

/**
 * Whether hardware that the machine's document does not list answers for an address. Behind a
 * router nobody can tell.
 */
export function onOtherHardware(
  { neighbour }: Pick<BootContext, 'neighbour'>,
  member: Member,
  address: string,
): boolean {
  const found = neighbour(address);
  if (found === 'host' || found === 'router') return false;
  const macs = macsOf(member);
  return found.length === 0 || !found.every((mac) => macs.includes(mac));
}

/**
 * Why nothing shows that the machine itself asks from an address of its own; undefined when the
 * hardware does. An address can be set by anybody. So the hardware that answers for it has to be in
 * the machine's document, and where Muster gives the addresses (`leases`), one of its document's
 * hardware addresses has to hold a lease now. Behind a router the lease is all that can be seen.
 */
export function hardwareDoubt(
  context: Pick<BootContext, 'leasedAddresses' | 'neighbour'>,
  member: Member,
  { address, leases }: { readonly address: string; readonly leases: boolean },
): HardwareDoubt | undefined {
  if (leases && !macsOf(member).some((mac) => context.leasedAddresses(mac).length > 0)) return 'no_lease';
  const unseen = !leases && context.neighbour(address) === 'router';
  return unseen || onOtherHardware(context, member, address) ? 'other_hardware' : undefined;
}
