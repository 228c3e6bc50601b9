/**
 * Finds the machine that has an address, and the addresses of a MAC: joins leases, reservations and
 * addresses from other servers with machines.
 */
import { contains, formatIpv4, parseIpv4 } from '../base/ipv4.ts';
import type { Mac } from '../base/mac.ts';
import type { Member, Roster } from '../machines/roster.ts';
import type { LeaseBook } from './dhcp/leases.ts';
import type { ServedNetwork } from './network.ts';

interface AddressOwner {
  /** Machine name; the MAC when no machine is known for it. */
  readonly subject: string;
  readonly session?: string;
}

export interface AddressOwners {
  /** The owner of an address in dotted decimal; undefined when none is known. */
  subjectOf(address: string): AddressOwner | undefined;
  /** The addresses that a MAC holds leases on, in dotted decimal. */
  leasedAddresses(mac: Mac): readonly string[];
}

/** Reads leases and roster at each call. Takes constant time per network. */
export function createAddressOwners(deps: {
  readonly networks: () => readonly ServedNetwork[];
  readonly leases: Pick<LeaseBook, 'network'>;
  readonly roster: Pick<Roster, 'byAddress' | 'byMac'>;
}): AddressOwners {
  const { networks, leases, roster } = deps;
  const ownerOf = (member: Member): AddressOwner => ({
    subject: member.name,
    ...(member.status.session === undefined ? {} : { session: member.status.session }),
  });
  return {
    subjectOf(text) {
      const address = parseIpv4(text);
      if (address === undefined) return undefined;
      const reserved = roster.byAddress(address);
      if (reserved) return ownerOf(reserved);
      const network = networks().find(({ subnet }) => contains(subnet, address));
      const known = network && leases.network(network.name);
      const mac = known?.elsewhere(address) ?? known?.entry(address)?.lease?.mac;
      if (mac === undefined) return undefined;
      const member = roster.byMac(mac);
      return member ? ownerOf(member) : { subject: mac };
    },
    leasedAddresses: (mac) =>
      networks().flatMap(({ name }) => {
        const entry = leases.network(name).leaseOf(mac);
        return entry ? [formatIpv4(entry.address)] : [];
      }),
  };
}
