/**
 * Finds the machine that has an address, and the addresses of a MAC: joins leases, reservations and
 * addresses from other servers with machines.
 */
import type { Clock } from '../base/clock.ts';
import { contains, formatIpv4, parseIpv4 } from '../base/ipv4.ts';
import type { Standing } from '../base/limits.server.ts';
import type { Mac } from '../base/mac.ts';
import type { Member, Roster } from '../machines/roster.ts';
import { isOver } from './dhcp/lease.ts';
import type { LeaseBook } from './dhcp/leases.ts';
import type { AddressEntry } from './dhcp/network-leases.ts';
import type { ServedNetwork } from './network.ts';

interface AddressOwner {
  /** Machine name; the MAC when no machine is known for it. */
  readonly subject: string;
  readonly session?: string;
}

export interface AddressOwners {
  /**
   * What is known of an address in dotted decimal. It is a machine's if a lease binds it, or, where
   * another server gives the addresses, if it has an owner.
   */
  standing(address: string): Standing;
  /** The owner of an address in dotted decimal; undefined when none is known. */
  subjectOf(address: string): AddressOwner | undefined;
  /** The addresses that a MAC holds leases on now, in dotted decimal. */
  leasedAddresses(mac: Mac): readonly string[];
  /** The MAC that holds a lease on an address now; undefined when none does. */
  leaseHolder(address: string): Mac | undefined;
}

/** Reads leases and roster at each call. Takes constant time per network. */
export function createAddressOwners(deps: {
  readonly networks: () => readonly ServedNetwork[];
  readonly leases: Pick<LeaseBook, 'network'>;
  readonly roster: Pick<Roster, 'byAddress' | 'byMac'>;
  readonly clock: Pick<Clock, 'now'>;
}): AddressOwners {
  const { networks, leases, roster, clock } = deps;
  const ownerOf = (member: Member): AddressOwner => ({
    subject: member.name,
    ...(member.status.session === undefined ? {} : { session: member.status.session }),
  });
  /** What was released, has expired or is set aside is nobody's. */
  const holds = (entry: AddressEntry | undefined): entry is AddressEntry =>
    entry?.lease?.state === 'bound' && !isOver(entry.lease, clock.now());
  const owners: AddressOwners = {
    standing(text) {
      if (text.startsWith('127.')) return 'host';
      if (owners.leaseHolder(text) !== undefined) return 'machine';
      const address = parseIpv4(text);
      const network = networks().find(({ subnet }) => address !== undefined && contains(subnet, address));
      return network?.mode !== 'server' && owners.subjectOf(text) !== undefined ? 'machine' : 'stranger';
    },
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
        return holds(entry) ? [formatIpv4(entry.address)] : [];
      }),
    leaseHolder(text) {
      const address = parseIpv4(text);
      if (address === undefined) return undefined;
      for (const { name } of networks()) {
        const entry = leases.network(name).entry(address);
        if (holds(entry)) return entry.lease!.mac;
      }
      return undefined;
    },
  };
  return owners;
}
