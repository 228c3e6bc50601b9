/**
 * Who has an address, and which addresses somebody has: leases, reservations and what another
 * server gave, joined with machines.
 */
import { contains, formatIpv4, parseIpv4 } from '../base/ipv4.ts';
import type { Mac } from '../base/mac.ts';
import type { Member, Roster } from '../machines/roster.ts';
import type { LeaseBook } from './dhcp/leases.ts';
import type { ServedNetwork } from './network.ts';

export interface Holder {
  /** Machine name, else the MAC that has the address. */
  readonly subject: string;
  readonly session?: string;
}

export interface AddressOwners {
  /** By dotted decimal; undefined when nobody is known to have the address. */
  subjectOf(address: string): Holder | undefined;
  /** The addresses that a hardware address holds leases on. */
  leasedAddresses(mac: Mac): readonly string[];
}

/** Constant time a network; asks leases and roster as they are at each call. */
export function createAddressOwners(deps: {
  readonly networks: () => readonly ServedNetwork[];
  readonly leases: Pick<LeaseBook, 'network'>;
  readonly roster: Pick<Roster, 'byAddress' | 'byMac'>;
}): AddressOwners {
  const { networks, leases, roster } = deps;
  const holderOf = (member: Member): Holder => ({
    subject: member.name,
    ...(member.status.session === undefined ? {} : { session: member.status.session }),
  });
  return {
    subjectOf(text) {
      const address = parseIpv4(text);
      if (address === undefined) return undefined;
      const reserved = roster.byAddress(address);
      if (reserved) return holderOf(reserved);
      const network = networks().find(({ subnet }) => contains(subnet, address));
      const known = network && leases.network(network.name);
      const mac = known?.elsewhere(address) ?? known?.entry(address)?.lease?.mac;
      if (mac === undefined) return undefined;
      const member = roster.byMac(mac);
      return member ? holderOf(member) : { subject: mac };
    },
    leasedAddresses: (mac) =>
      networks().flatMap(({ name }) => {
        const entry = leases.network(name).leaseOf(mac);
        return entry ? [formatIpv4(entry.address)] : [];
      }),
  };
}
