/**
 * The pure step: a datagram and what is known → what to do. The socket loop carries it out; `muster
 * explain` calls the same function and only prints it.
 */
import { ANY, BROADCAST, contains } from '../../base/ipv4.ts';
import { addressed, CLIENT_PORT, serverId, takesElsewhere } from './addressing.ts';
import { classify, hasMac } from './classify.ts';
import { type Datagram, findNetwork } from './networks.ts';
import { type MessageName, messageName } from './options.ts';
import { decode, maximumFor, messageType } from './packet.ts';
import { addNetworkOptions, bootFields, replyTo, withBoot } from './reply.ts';
import { decline, discover, release, request } from './server.ts';
import type { Ask, DhcpState, Reply, Step } from './step.ts';

/** What a datagram leads to. Never throws for anything a client can send. */
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
  if (!hasMac(packet)) return { outcome: 'hardware_unsupported', packet, type };
  const network = findNetwork(datagram, packet, state.networks);
  const client = classify(packet);
  if (typeof network === 'string') return { outcome: network, packet, type, client };
  const rules = state.networks.rules.get(network)!;
  const leases = state.leases.network(network.name);
  leases.follow(rules);
  const ask: Ask = { datagram, packet, type, network, rules, client, leases, state };
  return { packet, type, network, client, ...dispatch(ask, type) };
}

function dispatch(ask: Ask, type: MessageName): Step {
  if (ask.network.mode === 'off') return { outcome: 'network_off' };
  if (ask.datagram.port === 4011) return bootServer(ask);
  if (ask.network.mode === 'proxy') return proxy(ask);
  switch (type) {
    case 'DISCOVER':
      return discover(ask);
    case 'REQUEST':
      return request(ask);
    case 'DECLINE':
      return decline(ask);
    case 'RELEASE':
      return release(ask);
    case 'INFORM':
      return inform(ask);
    default:
      return { outcome: 'not_a_request' };
  }
}

/**
 * Beside another DHCP server: boot clients get an offer without an address, everything else is the
 * other server's.
 */
function proxy(ask: Ask): Step {
  if (ask.type === 'REQUEST') return { outcome: 'proxy_leaves', memory: takesElsewhere(ask) };
  if (ask.type !== 'DISCOVER') return { outcome: 'proxy_leaves' };
  if (ask.client.stage === 'none') return { outcome: 'not_boot_client' };
  const answer = ask.state.boot.answer(ask.client, ask.network, 'offer');
  const boot = bootFields(ask.packet, ask.client, answer, ask.network, 'proxy-offer');
  if (boot === undefined) return { outcome: 'not_boot_client', answer, detail: answer.decision.reason.code };
  const reply = withBoot(replyTo(ask.packet, 'OFFER', serverId(ask)), boot);
  return { outcome: 'proxy_offered', answer, reply: addressed(ask, reply, 'reply') };
}

/**
 * PXE's own request to port 4011: the client has an address and asks for the file alone. Answered
 * to where it came from.
 */
function bootServer(ask: Ask): Step {
  const { packet, network, client, datagram } = ask;
  if (ask.type !== 'REQUEST' && ask.type !== 'INFORM' && ask.type !== 'DISCOVER')
    return { outcome: 'not_a_request' };
  if (client.stage === 'none') return { outcome: 'no_file' };
  const answer = ask.state.boot.answer(client, network, 'boot-server');
  const boot = bootFields(packet, client, answer, network, 'boot-server');
  if (boot === undefined) return { outcome: 'no_file', answer, detail: answer.decision.reason.code };
  const reply = withBoot({ ...replyTo(packet, 'ACK', serverId(ask)), ciaddr: packet.ciaddr }, boot);
  const source = datagram.source.address === ANY ? packet.ciaddr : datagram.source.address;
  const to: Reply['to'] =
    source === ANY
      ? { address: BROADCAST, port: CLIENT_PORT }
      : { address: source, port: datagram.source.port };
  return {
    outcome: 'boot_server_acked',
    answer,
    ...(network.mode === 'server' ? {} : { memory: takesElsewhere(ask) }),
    reply: { packet: reply, to, maximum: maximumFor(packet) },
    ...(answer.writes.length > 0 ? { durable: { kind: 'records', writes: answer.writes } as const } : {}),
  };
}

/**
 * A client that configured its address itself asks for the rest (RFC 2131 §4.3.5): no lease is
 * looked at, no time is sent.
 */
function inform(ask: Ask): Step {
  const { packet, network, client, datagram } = ask;
  const address = packet.ciaddr !== ANY ? packet.ciaddr : datagram.source.address;
  if (!contains(network.subnet, address)) return { outcome: 'not_ours' };
  const answer = ask.state.boot.answer(client, network, 'offer');
  const plain = { ...replyTo(packet, 'ACK', serverId(ask)), ciaddr: address };
  addNetworkOptions(plain.options, packet, network, answer.hostname);
  const reply = withBoot(plain, bootFields(packet, client, answer, network, 'ack'));
  return { outcome: 'informed', answer, address, reply: addressed(ask, reply, 'reply') };
}
