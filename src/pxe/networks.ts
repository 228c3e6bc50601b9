/** Joins Network documents with the interfaces of this host: which are served, and where. */
import { duration } from '../base/duration.ts';
import type { Fault } from '../base/errors.ts';
import { type Cidr, cidr, contains, formatIpv4, type Ipv4, ipv4 } from '../base/ipv4.ts';
import type { Entry } from '../resources/catalog.ts';
import type { NetworkSpec } from '../resources/kinds.ts';
import type { ServedNetwork } from './network.ts';

/** An IPv4 address of this host. */
export interface HostAddress {
  readonly interface: string;
  readonly address: Ipv4;
}

const DEFAULT_LEASE_TIME = duration('1h');
/** For firmware and loaders; the system then asks for its own lease. */
const DEFAULT_BOOT_LEASE_TIME = duration('2m');

interface JoinedNetworks {
  readonly networks: readonly ServedNetwork[];
  /**
   * Networks that are not served, or not as their documents say. Each message names its document.
   */
  readonly faults: readonly Fault[];
}

/**
 * Joins documents and addresses. A network is served on the interface that its document names, else
 * on the one that has an address inside its subnet. The document of a network that is only reached
 * through relays names the address of this host. `interfaces`: the interfaces that Muster listens
 * on; default: all. Networks that cannot be served become faults.
 */
export function joinNetworks(options: {
  readonly documents: readonly Entry<'Network'>[];
  readonly addresses: readonly HostAddress[];
  readonly interfaces?: readonly string[];
  /** Addresses by which a network is served rather than by others of its interface. */
  readonly preferred?: readonly Ipv4[];
  /** Interfaces that were deleted and created again since Muster opened its sockets on them. */
  readonly remade?: readonly string[];
  readonly httpPort: number;
}): JoinedNetworks {
  const networks: ServedNetwork[] = [];
  const faults: Fault[] = [];
  for (const { document, origin } of options.documents) {
    const { name } = document.metadata;
    const { spec } = document;
    const place = locate(spec, options.addresses, options.interfaces, options.preferred ?? []);
    const found = reachable(place, options.remade ?? []);
    if ('fault' in found) {
      faults.push({
        code: 'E_NETWORK_UNSERVED',
        message: `Network/${name}: ${found.fault}`,
        ...(origin.from === 'file' ? { at: origin.at } : {}),
      });
      continue;
    }
    networks.push(served(name, spec, found, options.httpPort));
  }
  return { networks, faults: [...faults, ...sharing(networks)] };
}

/** Where a network is served. */
interface Place {
  readonly address: Ipv4;
  readonly interface?: string;
}

/** The place, unless its interface was created again. */
function reachable(
  place: Place | { readonly fault: string },
  remade: readonly string[],
): Place | { readonly fault: string } {
  if ('fault' in place || place.interface === undefined || !remade.includes(place.interface)) return place;
  return {
    fault: `interface ${place.interface} was deleted and created again, and the sockets on the former one receive nothing; restart Muster (systemctl restart muster)`,
  };
}

function locate(
  spec: NetworkSpec,
  addresses: readonly HostAddress[],
  interfaces: readonly string[] | undefined,
  preferred: readonly Ipv4[],
): Place | { readonly fault: string } {
  const subnet: Cidr = cidr(spec.subnet);
  const listening = (name: string) => interfaces === undefined || interfaces.includes(name);
  const inside = addresses.filter(
    (one) =>
      contains(subnet, one.address) && (spec.interface === undefined || one.interface === spec.interface),
  );
  const wanted = spec.address === undefined ? undefined : ipv4(spec.address);
  if (wanted !== undefined && !addresses.some((one) => one.address === wanted))
    return {
      fault: `this host has no address ${spec.address}; correct spec.address, or give the address to an interface`,
    };
  const attached = inside.filter((one) => listening(one.interface));
  if (attached.length === 0 && inside.length > 0)
    return {
      fault: `interface ${inside[0]!.interface} is attached to ${spec.subnet}, but Muster does not listen on it; add --interface ${inside[0]!.interface}`,
    };
  const chosen =
    attached.find((one) => one.address === wanted) ??
    attached.find((one) => preferred.includes(one.address)) ??
    attached[0];
  if (chosen) {
    const several = new Set(attached.map((one) => one.interface));
    if (several.size > 1 && spec.interface === undefined)
      return {
        fault: `interfaces ${[...several].join(' and ')} both have an address inside ${spec.subnet}; name one with spec.interface`,
      };
    return { address: wanted ?? chosen.address, interface: chosen.interface };
  }
  if (spec.interface !== undefined) return withoutAddress(spec, spec.interface, addresses, wanted, listening);
  // Not attached: its machines come through relays and need an address that they can route to.
  if (wanted !== undefined) return { address: wanted };
  return {
    fault: `no interface of this host has an address inside ${spec.subnet}; give one that has a link an address there, or, for a subnet behind relays, name this host's address with spec.address`,
  };
}

/**
 * The place of a network whose interface has no address inside the subnet: needs `spec.address`.
 */
function withoutAddress(
  spec: NetworkSpec,
  name: string,
  addresses: readonly HostAddress[],
  wanted: Ipv4 | undefined,
  listening: (name: string) => boolean,
): Place | { readonly fault: string } {
  const own = addresses.filter((one) => one.interface === name);
  if (own.length === 0) return { fault: `interface ${name} does not exist or has no IPv4 address` };
  if (!listening(name)) return { fault: `Muster does not listen on ${name}; add --interface ${name}` };
  if (wanted === undefined)
    return {
      fault: `interface ${name} has no address inside ${spec.subnet} (it has ${own.map((one) => formatIpv4(one.address)).join(', ')}); give it one, or name this host's address with spec.address`,
    };
  return { address: wanted, interface: name };
}

function served(name: string, spec: NetworkSpec, place: Place, httpPort: number): ServedNetwork {
  const { dhcp } = spec;
  return {
    name,
    subnet: cidr(spec.subnet),
    mode: dhcp.mode,
    serverAddress: place.address,
    httpPort,
    ...(place.interface === undefined ? {} : { interface: place.interface }),
    leaseTime: dhcp.leaseTime === undefined ? DEFAULT_LEASE_TIME : duration(dhcp.leaseTime),
    bootLeaseTime: dhcp.bootLeaseTime === undefined ? DEFAULT_BOOT_LEASE_TIME : duration(dhcp.bootLeaseTime),
    pools: (dhcp.pools ?? []).map(({ start, end, options }) => ({
      start: ipv4(start),
      end: ipv4(end),
      ...(options && { options }),
    })),
    ...(dhcp.options && { options: dhcp.options }),
    ...(spec.gateway === undefined ? {} : { gateway: ipv4(spec.gateway) }),
    dns: (spec.dns ?? []).map(ipv4),
    ntp: (spec.ntp ?? []).map(ipv4),
    ...(spec.domain === undefined ? {} : { domain: spec.domain }),
    ...(spec.mtu === undefined ? {} : { mtu: spec.mtu }),
    probe: dhcp.probe !== 'off',
    authoritative: dhcp.authoritative ?? true,
    relays: (dhcp.relays ?? []).map(ipv4),
    pxe: spec.pxe ?? {},
    ...(spec.discovery && { discovery: spec.discovery.image }),
    vendorClasses: spec.vendorClasses ?? [],
  };
}

/** Faults for networks that share an interface: a new client could belong to either. */
function sharing(networks: readonly ServedNetwork[]): readonly Fault[] {
  const first = new Map<string, ServedNetwork>();
  const faults: Fault[] = [];
  for (const network of networks) {
    if (network.interface === undefined || network.mode === 'off') continue;
    const other = first.get(network.interface);
    if (other === undefined) first.set(network.interface, network);
    else
      faults.push({
        code: 'E_NETWORK_SHARED',
        message: `Network/${network.name} and Network/${other.name} are both on interface ${network.interface}; clients without an address get ${other.name}`,
      });
  }
  return faults;
}
