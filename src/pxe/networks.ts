/**
 * Network documents joined with the interfaces of this host: what is served where, and what cannot
 * be.
 */
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

export const DEFAULT_LEASE_TIME = duration('1h');
export const DEFAULT_BOOT_LEASE_TIME = duration('2m');

export interface JoinedNetworks {
  readonly networks: readonly ServedNetwork[];
  /** Networks that are not served, or not as their documents say; each names its document. */
  readonly faults: readonly Fault[];
}

/**
 * Joins documents and addresses. A network is served through the interface that its document names,
 * else through the one with an address inside its subnet; behind relays only, its document says
 * under which address of this host. `interfaces`, if given, are the only ones that Muster listens
 * on. Networks that cannot be served are faults, the others are served.
 */
export function joinNetworks(options: {
  readonly documents: readonly Entry<'Network'>[];
  readonly addresses: readonly HostAddress[];
  readonly interfaces?: readonly string[];
  /** Those of them that were made anew since they are listened on: nothing is heard there. */
  readonly remade?: readonly string[];
  readonly httpPort: number;
}): JoinedNetworks {
  const networks: ServedNetwork[] = [];
  const faults: Fault[] = [];
  for (const { document, origin } of options.documents) {
    const { name } = document.metadata;
    const { spec } = document;
    const found = heard(locate(spec, options.addresses, options.interfaces), options.remade ?? []);
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

interface Place {
  readonly address: Ipv4;
  readonly interface?: string;
}

/** The place, unless it is an interface that was made anew. */
function heard(
  place: Place | { readonly fault: string },
  remade: readonly string[],
): Place | { readonly fault: string } {
  if ('fault' in place || place.interface === undefined || !remade.includes(place.interface)) return place;
  return {
    fault: `interface ${place.interface} was made anew, and what Muster opened on the former one hears nothing any more; restart Muster (systemctl restart muster)`,
  };
}

function locate(
  spec: NetworkSpec,
  addresses: readonly HostAddress[],
  interfaces: readonly string[] | undefined,
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
  const chosen = attached.find((one) => one.address === wanted) ?? attached[0];
  if (chosen) {
    const several = new Set(attached.map((one) => one.interface));
    if (several.size > 1 && spec.interface === undefined)
      return {
        fault: `interfaces ${[...several].join(' and ')} both have an address inside ${spec.subnet}; name one with spec.interface`,
      };
    return { address: wanted ?? chosen.address, interface: chosen.interface };
  }
  if (spec.interface !== undefined) return withoutAddress(spec, spec.interface, addresses, wanted, listening);
  // Not attached: its machines speak through relays, and must be told an address that they can
  // route to.
  if (wanted !== undefined) return { address: wanted };
  return {
    fault: `no interface of this host has an address inside ${spec.subnet}; give one that has a link an address there, or, for a subnet behind relays, name this host's address with spec.address`,
  };
}

/**
 * The document names an interface that has no address inside the subnet: served if it says which
 * address to use.
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
    pools: (dhcp.pools ?? []).map((pool) => ({ start: ipv4(pool.start), end: ipv4(pool.end) })),
    ...(spec.gateway === undefined ? {} : { gateway: ipv4(spec.gateway) }),
    dns: (spec.dns ?? []).map(ipv4),
    ntp: (spec.ntp ?? []).map(ipv4),
    ...(spec.domain === undefined ? {} : { domain: spec.domain }),
    ...(spec.mtu === undefined ? {} : { mtu: spec.mtu }),
    probe: dhcp.probe !== 'off',
    authoritative: dhcp.authoritative ?? true,
    relays: (dhcp.relays ?? []).map(ipv4),
    pxe: spec.pxe ?? {},
    vendorClasses: spec.vendorClasses ?? [],
  };
}

/**
 * Two networks that give addresses on one segment: which of them a new client belongs to is not
 * known.
 */
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
