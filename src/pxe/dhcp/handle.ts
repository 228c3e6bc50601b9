/**
 * The pure step of the DHCP server: a datagram and the present state give what is to be done. The
 * packet pipeline carries it out; `muster explain` calls the same function and prints the result.
 */
import { ANY, BROADCAST, contains } from '../../base/ipv4.ts';
import type { ServedNetwork } from '../network.ts';
import { type Asker, refusal, refusalText } from '../perimeter.ts';
import { addressed, CLIENT_PORT, serverId, takesElsewhere } from './addressing.ts';
import { classify, hasMac } from './classify.ts';
import { type Datagram, findNetwork } from './networks.ts';
import { type MessageName, messageName, OPTION } from './options.ts';
import type { SilentOutcome } from './outcomes.ts';
import { addOwnOptions } from './own-options.ts';
import { type DhcpPacket, decode, maximumFor, messageType } from './packet.ts';
import { addNetworkOptions, bootFields, replyTo, withBoot } from './reply.ts';
import { decline, discover, release, request } from './server.ts';
import type { DhcpState, Query, Reply, Result, Step } from './step.ts';

/**
 * Decides what to do about a datagram, without doing it. Never throws for anything that a client
 * can send.
 *
 * @example
 * const step = handle({ bytes, interface: 'eth1', port: 67, source }, state);
 * step.outcome; // 'offered', 'nak_not_yours', 'malformed' … (outcomes.ts)
 * step.durable; // to be stored before step.reply is sent
 */
export function handle(datagram: Datagram, state: DhcpState): Step {
  const decoded = decode(datagram.bytes);
  if (!decoded.ok) return { outcome: 'malformed', detail: decoded.fault };
  const packet = decoded.packet;
  const number = messageType(packet);
  const type = messageName(number);
  if (packet.op !== 1) return { outcome: 'not_a_request', packet };
  if (number === 0) return { outcome: 'bootp', packet };
  if (type === undefined || type === 'OFFER' || type === 'ACK' || type === 'NAK')
    return { outcome: 'not_a_request', packet, detail: `message type ${number}` };
  const long = tooLong(packet);
  if (long !== undefined) return { outcome: 'option_too_long', packet, type, detail: long };
  if (!hasMac(packet)) return { outcome: 'hardware_unsupported', packet, type };
  const network = findNetwork(datagram, packet, state.networks);
  const client = classify(packet);
  const outside = refused(datagram, packet, network, state);
  if (outside !== undefined) return { ...outside, packet, type, client };
  if (typeof network === 'string') return { outcome: network, packet, type, client };
  const rules = state.networks.rules.get(network)!;
  const leases = state.leases.network(network.name);
  leases.follow(rules);
  const query: Query = { datagram, packet, type, network, rules, client, leases, state };
  return { packet, type, network, client, ...dispatch(query, type) };
}

/** A lease keeps these options, and every reply repeats them. */
const REPEATED = [OPTION.clientId, OPTION.relayAgent] as const;
/**
 * An option has at most this many octets. RFC 3396 permits more, in pieces. No client or relay is
 * known to send that, and a lease would otherwise keep as much as a datagram holds.
 */
const REPEATED_MAXIMUM = 255;

/**
 * Which option is too long to be repeated. Its message gets no reply, because a reply without it
 * would violate RFC 6842 §3 or RFC 3046 §2.2.
 */
function tooLong(packet: DhcpPacket): string | undefined {
  for (const code of REPEATED) {
    const length = packet.options.get(code)?.length ?? 0;
    if (length > REPEATED_MAXIMUM) return `option ${code} has ${length} octets`;
  }
  return undefined;
}

/** The result of a packet whose sender gets no answer, whatever it asks. */
function refused(
  datagram: Datagram,
  { giaddr }: DhcpPacket,
  found: ServedNetwork | SilentOutcome,
  state: DhcpState,
): Result | undefined {
  if (found === 'no_network') return undefined;
  const network = typeof found === 'string' ? undefined : found;
  const { source, port, interface: via } = datagram;
  const asker: Asker = {
    port: port === 67 ? 'dhcp' : 'pxe',
    source: source.address,
    interface: via,
    ...(giaddr === ANY ? {} : { relay: { giaddr, network } }),
  };
  const why = refusal(state.networks.perimeter, asker);
  if (why === undefined) return undefined;
  return {
    outcome: giaddr === ANY ? 'source_refused' : 'relay_refused',
    detail: refusalText(why, asker),
    refused: { why, asker },
  };
}

function dispatch(query: Query, type: MessageName): Result {
  if (query.network.mode === 'off') return { outcome: 'network_off' };
  if (query.datagram.port === 4011) return bootServer(query);
  if (query.network.mode === 'proxy') return proxy(query);
  switch (type) {
    case 'DISCOVER':
      return discover(query);
    case 'REQUEST':
      return request(query);
    case 'DECLINE':
      return decline(query);
    case 'RELEASE':
      return release(query);
    case 'INFORM':
      return inform(query);
    default:
      return { outcome: 'not_a_request' };
  }
}

/**
 * Mode `proxy`: another DHCP server gives the addresses. Boot clients get an offer without an
 * address; every other message is left to that server.
 */
function proxy(query: Query): Result {
  if (query.type === 'REQUEST') return { outcome: 'proxy_leaves', memory: takesElsewhere(query) };
  if (query.type !== 'DISCOVER') return { outcome: 'proxy_leaves' };
  if (query.client.stage === 'none') return { outcome: 'not_boot_client' };
  const answer = query.state.boot.answer(query.client, query.network, 'offer');
  const boot = bootFields(query.packet, query.client, answer, query.network, 'proxy-offer');
  if (boot === undefined) return { outcome: 'not_boot_client', answer, detail: answer.decision.reason.code };
  const reply = withBoot(replyTo(query.packet, 'OFFER', serverId(query)), boot);
  return { outcome: 'proxy_offered', answer, reply: addressed(query, reply, 'reply') };
}

/**
 * A PXE request to port 4011: the client has an address and asks for the boot file only. The reply
 * goes to the address and port that the request came from.
 */
function bootServer(query: Query): Result {
  const { packet, network, client, datagram } = query;
  if (query.type !== 'REQUEST' && query.type !== 'INFORM' && query.type !== 'DISCOVER')
    return { outcome: 'not_a_request' };
  if (client.stage === 'none') return { outcome: 'no_file' };
  const answer = query.state.boot.answer(client, network, 'boot-server');
  const boot = bootFields(packet, client, answer, network, 'boot-server');
  if (boot === undefined) return { outcome: 'no_file', answer, detail: answer.decision.reason.code };
  const reply = withBoot({ ...replyTo(packet, 'ACK', serverId(query)), ciaddr: packet.ciaddr }, boot);
  const source = datagram.source.address === ANY ? packet.ciaddr : datagram.source.address;
  const to: Reply['to'] =
    source === ANY
      ? { address: BROADCAST, port: CLIENT_PORT }
      : { address: source, port: datagram.source.port };
  return {
    outcome: 'boot_server_acked',
    answer,
    ...(network.mode === 'server' ? {} : { memory: takesElsewhere(query) }),
    reply: { packet: reply, to, maximum: maximumFor(packet) },
    ...(answer.writes.length > 0 ? { durable: { kind: 'records', writes: answer.writes } as const } : {}),
  };
}

/**
 * A client that configured its address itself asks for the other options (RFC 2131 §4.3.5). No
 * lease is read, and no lease time is sent.
 */
function inform(query: Query): Result {
  const { packet, network, client, datagram } = query;
  const address = packet.ciaddr !== ANY ? packet.ciaddr : datagram.source.address;
  if (!contains(network.subnet, address)) return { outcome: 'not_ours' };
  const answer = query.state.boot.answer(client, network, 'offer');
  const plain = { ...replyTo(packet, 'ACK', serverId(query)), ciaddr: address };
  addNetworkOptions(plain.options, packet, network, answer.hostname);
  addOwnOptions(plain.options, {
    request: packet,
    network,
    vendorClass: client.vendorClass,
    machine: answer.options,
    address,
  });
  const reply = withBoot(plain, bootFields(packet, client, answer, network, 'ack'));
  return { outcome: 'informed', answer, address, reply: addressed(query, reply, 'reply') };
}
