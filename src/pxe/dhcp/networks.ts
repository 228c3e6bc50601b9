/**
 * Finds the network of a packet: by the interface that received it, the relay that forwarded it, or
 * the address that it names.
 */
import { ANY, contains, type Ipv4 } from '../../base/ipv4.ts';
import type { ServedNetwork } from '../network.ts';
import { type Perimeter, perimeterOf } from '../perimeter.ts';
import { OPTION } from './options.ts';
import type { SilentOutcome } from './outcomes.ts';
import { type DhcpPacket, subOptions } from './packet.ts';
import type { PoolRules } from './pool.ts';

/** A datagram and where it came from. */
export interface Datagram {
  readonly bytes: Uint8Array;
  /** The interface that received it. A replayed capture has none; its network is inferred. */
  readonly interface?: string;
  /** The local port: 67, or 4011 for PXE boot server requests. */
  readonly port: 67 | 4011;
  readonly source: { readonly address: Ipv4; readonly port: number };
}

/**
 * The networks with everything that is looked up for each packet. Replaced when documents change.
 */
export interface NetworkIndex {
  readonly all: readonly ServedNetwork[];
  readonly byInterface: ReadonlyMap<string, readonly ServedNetwork[]>;
  readonly rules: ReadonlyMap<ServedNetwork, PoolRules>;
  /** Who may send packets. */
  readonly perimeter: Perimeter;
  /** All addresses of this server. A client may name any as the server it chose (RFC 2131 §4.1). */
  readonly own: ReadonlySet<Ipv4>;
}

/** Indexes networks for {@link findNetwork}. */
export function indexNetworks(networks: readonly ServedNetwork[]): NetworkIndex {
  const byInterface = new Map<string, ServedNetwork[]>();
  const rules = new Map<ServedNetwork, PoolRules>();
  for (const network of networks) {
    if (network.interface !== undefined) {
      const shared = byInterface.get(network.interface);
      if (shared) shared.push(network);
      else byInterface.set(network.interface, [network]);
    }
    rules.set(network, {
      subnet: network.subnet,
      ranges: network.pools,
      taken: [network.serverAddress, ...(network.gateway === undefined ? [] : [network.gateway])],
    });
  }
  const own = new Set(networks.map((n) => n.serverAddress));
  return { all: networks, byInterface, rules, perimeter: perimeterOf(networks), own };
}

/**
 * Sub-options of option 82 that are addresses: 5 link selection (RFC 3527), 11 server identifier
 * override (RFC 5107).
 */
export const AGENT = { linkSelection: 5, serverId: 11 } as const;

/** The address in a sub-option of relay information; undefined when there is none, or zeros. */
export function agentAddress(agent: Buffer | undefined, code: number): Ipv4 | undefined {
  const value = agent && subOptions(agent, false)?.get(code);
  const address = value?.length === 4 ? (value.readUInt32BE() as Ipv4) : ANY;
  return address === ANY ? undefined : address;
}

/** A relay may speak for a network that contains its address, or whose document lists it. */
function speaksFor(relay: Ipv4, network: ServedNetwork): boolean {
  return contains(network.subnet, relay) || network.relays.includes(relay);
}

function relayed(packet: DhcpPacket, index: NetworkIndex): ServedNetwork | SilentOutcome {
  // With link selection, giaddr only says where to send the reply (RFC 3527 §3).
  const link = agentAddress(packet.options.get(OPTION.relayAgent), AGENT.linkSelection);
  if (link !== undefined) {
    const found = index.all.find((network) => contains(network.subnet, link));
    return found && speaksFor(packet.giaddr, found) ? found : 'relay_refused';
  }
  const inside = index.all.find((network) => contains(network.subnet, packet.giaddr));
  if (inside) return inside;
  const listing = index.all.filter((network) => network.relays.includes(packet.giaddr));
  // If several networks list the relay, only link selection could tell which one is meant.
  return listing.length === 1 ? listing[0]! : 'relay_refused';
}

/** The network of a packet, or the outcome that says why there is none. */
export function findNetwork(
  datagram: Datagram,
  packet: DhcpPacket,
  index: NetworkIndex,
): ServedNetwork | SilentOutcome {
  if (packet.giaddr !== ANY) return relayed(packet, index);
  const here =
    datagram.interface === undefined ? index.all : (index.byInterface.get(datagram.interface) ?? []);
  if (here.length === 1 && (packet.ciaddr === ANY || contains(here[0]!.subnet, packet.ciaddr)))
    return here[0]!;
  const named = packet.ciaddr !== ANY ? packet.ciaddr : datagram.source.address;
  if (named !== ANY) {
    const local = here.find((network) => contains(network.subnet, named));
    if (local) return local;
    // A client behind a relay renews by unicast, past its relay; its own address tells its network.
    if (datagram.source.address === named) {
      const far = index.all.find((network) => contains(network.subnet, named));
      if (far) return far;
    }
  }
  return here[0] ?? 'no_network';
}
