/** Who we say we are, who the client says it is with, and where a reply goes. */
import { ANY, BROADCAST, contains, type Ipv4 } from '../../base/ipv4.ts';
import { AGENT, agentAddress } from './networks.ts';
import { OPTION } from './options.ts';
import { addressOption, type DhcpPacket, maximumFor } from './packet.ts';
import type { Ask, Reply, Step } from './step.ts';

export const CLIENT_PORT = 68;
const SERVER_PORT = 67;

/**
 * Our identity towards a client: what its relay wants us to be called (RFC 5107 §4), else our
 * address on its network.
 */
export function serverId(ask: Ask): Ipv4 {
  const { packet, network, leases } = ask;
  if (packet.giaddr !== ANY) {
    return agentAddress(packet.options.get(OPTION.relayAgent), AGENT.serverId) ?? network.serverAddress;
  }
  // A renewal comes past its relay and says nothing of it: what the relay said is remembered with
  // the lease.
  const kept = packet.ciaddr === ANY ? undefined : leases.leaseOf(ask.client.mac)?.lease?.agent;
  if (kept === undefined) return network.serverAddress;
  return agentAddress(Buffer.from(kept, 'hex'), AGENT.serverId) ?? network.serverAddress;
}

/** Whether option 54 names us. */
export function namesUs(ask: Ask, server: Ipv4): boolean {
  return ask.state.networks.own.has(server) || server === serverId(ask);
}

/**
 * What a REQUEST that another server is to answer tells: the address that the client has from
 * there. Requests are broadcast, so it is heard; an address that is somebody's by our own leases is
 * not believed to be the client's.
 */
export function takesElsewhere(ask: Ask): NonNullable<Step['memory']> {
  const { packet, network, leases, client, state } = ask;
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
 * Where a reply goes (RFC 2131 §4.1). A client without an address is answered by broadcast whatever
 * its flag says: unicast would need its address in the ARP table, and every firmware that was tried
 * takes the broadcast (netboot-protocols §B.6).
 */
export function addressed(ask: Ask, packet: DhcpPacket, kind: 'reply' | 'nak'): Reply {
  const maximum = maximumFor(ask.packet);
  const { giaddr } = ask.packet;
  if (giaddr !== ANY) return { packet, to: { address: giaddr, port: SERVER_PORT }, maximum };
  if (kind === 'nak' || packet.ciaddr === ANY)
    return { packet, to: { address: BROADCAST, port: CLIENT_PORT }, maximum };
  const { source } = ask.datagram;
  const port = source.address === packet.ciaddr && source.port !== 0 ? source.port : CLIENT_PORT;
  return { packet, to: { address: packet.ciaddr, port }, maximum };
}
