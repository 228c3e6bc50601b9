/** The server identifier, whether a client names it, and where a reply is sent. */
import { ANY, BROADCAST, contains, type Ipv4 } from '../../base/ipv4.ts';
import { AGENT, agentAddress } from './networks.ts';
import { OPTION } from './options.ts';
import { addressOption, type DhcpPacket, maximumFor } from './packet.ts';
import type { MemoryChange, Query, Reply } from './step.ts';

export const CLIENT_PORT = 68;
const SERVER_PORT = 67;

/**
 * The server identifier (option 54) for a client: the one that its relay demands (RFC 5107 §4),
 * else Muster's address on its network.
 */
export function serverId(query: Query): Ipv4 {
  const { packet, network, leases } = query;
  if (packet.giaddr !== ANY) {
    return agentAddress(packet.options.get(OPTION.relayAgent), AGENT.serverId) ?? network.serverAddress;
  }
  // A renewal bypasses the relay and lacks its option 82, so the lease keeps what the relay sent.
  const kept = packet.ciaddr === ANY ? undefined : leases.leaseOf(query.client.mac)?.lease?.agent;
  if (kept === undefined) return network.serverAddress;
  return agentAddress(Buffer.from(kept, 'hex'), AGENT.serverId) ?? network.serverAddress;
}

/** Whether `server`, the value of option 54, names this server. */
export function namesUs(query: Query, server: Ipv4): boolean {
  return query.state.networks.own.has(server) || server === serverId(query);
}

/**
 * Notes from a REQUEST to another server which address the client gets there. REQUESTs are
 * broadcast, so Muster hears it. It does not believe an address that one of its own leases gives to
 * another client.
 */
export function takesElsewhere(query: Query): MemoryChange {
  const { packet, network, leases, client, state } = query;
  const address = addressOption(packet, OPTION.requestedAddress) ?? packet.ciaddr;
  const credible = contains(network.subnet, address) && leases.isFreeFor(address, client.mac, state.now);
  return {
    kind: 'elsewhere',
    network: network.name,
    mac: client.mac,
    address: credible ? address : undefined,
  };
}

/**
 * Where a reply is sent (RFC 2131 §4.1). A client without an address is answered by broadcast
 * whatever its flag says: a unicast would need an entry in the ARP table, and all firmware that was
 * tried (EDK2, iPXE, U-Boot, SeaBIOS) accepts the broadcast (README.md).
 */
export function addressed(query: Query, packet: DhcpPacket, kind: 'reply' | 'nak'): Reply {
  const maximum = maximumFor(query.packet);
  const { giaddr } = query.packet;
  if (giaddr !== ANY) return { packet, to: { address: giaddr, port: SERVER_PORT }, maximum };
  if (kind === 'nak' || packet.ciaddr === ANY)
    return { packet, to: { address: BROADCAST, port: CLIENT_PORT }, maximum };
  const { source } = query.datagram;
  const port = source.address === packet.ciaddr && source.port !== 0 ? source.port : CLIENT_PORT;
  return { packet, to: { address: packet.ciaddr, port }, maximum };
}
