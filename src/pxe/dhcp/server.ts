/** The part of the step that gives addresses (RFC 2131 §4.3). Pure: it proposes lease changes. */
import { hex } from '../../base/bytes.ts';
import { type Millis, type Seconds, toMillis, toSeconds } from '../../base/duration.ts';
import { ANY, contains, formatIpv4, type Ipv4 } from '../../base/ipv4.ts';
import type { BootAnswer } from '../boot.ts';
import type { BootClient } from '../client.ts';
import type { ServedNetwork } from '../network.ts';
import { addressed, namesUs, serverId, takesElsewhere } from './addressing.ts';
import { isOver, type Lease, UNRECORDED } from './lease.ts';
import { QUARANTINE } from './leases.ts';
import { OFFER_HOLD } from './network-leases.ts';
import { OPTION } from './options.ts';
import type { RefusedOutcome, SilentOutcome } from './outcomes.ts';
import { addOwnOptions } from './own-options.ts';
import { addressOption } from './packet.ts';
import { inPool } from './pool.ts';
import { addLeaseTimes, addNetworkOptions, bootFields, nak, replyTo, withBoot } from './reply.ts';
import type { Query, Result } from './step.ts';

/**
 * How many of the last addresses of the pools this client does not get: they are kept for
 * documented machines that have no reserved address, so that whoever invents clients does not take
 * them all.
 */
const keptFrom = ({ state, network }: Query, answer: Pick<BootAnswer, 'documented'>): number =>
  answer.documented ? 0 : (state.boot.withoutReservation?.(network) ?? 0);

/** The shortest lease that a client can ask for. */
const SHORTEST = 60 as Seconds;

/**
 * Whether the client may have the address now: no other client holds it, and it is either the
 * client's reservation, or in a pool and not reserved for another machine.
 */
function mayHave(
  query: Query,
  answer: Pick<BootAnswer, 'documented' | 'reservedAddress'>,
  address: Ipv4,
): boolean {
  const { network, leases, client, state } = query;
  if (!contains(network.subnet, address) || !leases.isFreeFor(address, client.mac, state.now)) return false;
  if (answer.reservedAddress === address) return true;
  if (network.mode !== 'server' || !inPool(query.rules, address)) return false;
  if (leases.isKept(address, keptFrom(query, answer)) && leases.leaseOf(client.mac)?.address !== address)
    return false;
  return state.boot.reservedFor?.(address, network) === undefined;
}

/**
 * Whether a running client keeps the address of its lease although it would not get it now. Changed
 * documents or pools do not take an address from a running system; it changes its address at its
 * next start. The client does not keep an address that became the server's, the gateway's or
 * another machine's.
 */
function keeps(query: Query, answer: BootAnswer, address: Ipv4): boolean {
  const { network, rules, leases, client, state } = query;
  const held = leases.leaseOf(client.mac);
  if (held?.address !== address || held.lease?.state !== 'bound') return false;
  if (rules.taken.includes(address) || !leases.isFreeFor(address, client.mac, state.now)) return false;
  const owner = state.boot.reservedFor?.(address, network);
  return owner === undefined || owner === answer.subject;
}

/**
 * The address to offer, in the order of RFC 2131 §4.3.1: the reservation, the address that the
 * client has or had, the one that it asks for, a free one. While another client still holds the
 * reserved address, the client gets one of the pool.
 */
function choose(query: Query, answer: BootAnswer): Ipv4 | SilentOutcome {
  const { network, leases, client, packet, state } = query;
  const { reservedAddress } = answer;
  if (reservedAddress !== undefined && mayHave(query, answer, reservedAddress)) return reservedAddress;
  if (network.mode !== 'server' || network.pools.length === 0)
    return reservedAddress === undefined ? 'no_pool' : 'reservation_held';
  const had = [leases.offerOf(client.mac, state.now)?.address, leases.leaseOf(client.mac)?.address];
  for (const address of had)
    if (address !== undefined && mayHave(query, answer, address)) {
      if (!leases.doubts.shuns(client.mac, address, state.now)) return address;
    }
  if (leases.declinesAll(client.mac, state.now)) return 'declines_all';
  const wanted = addressOption(packet, OPTION.requestedAddress);
  if (wanted !== undefined && mayHave(query, answer, wanted) && !leases.isAwaited(wanted, client.mac))
    if (!leases.doubts.shuns(client.mac, wanted, state.now)) return wanted;
  const free = leases.nextFree(
    state.now,
    (address) => state.boot.reservedFor?.(address, network) !== undefined,
    keptFrom(query, answer),
  );
  return free ?? 'exhausted';
}

function poolsText({ name, pools }: ServedNetwork): string {
  const ranges = pools.map(({ start, end }) => `${formatIpv4(start)}-${formatIpv4(end)}`);
  return `network ${name}, pools ${ranges.join(', ')}`;
}

/**
 * The lease time: short while firmware or a loader runs, else what the client asks for, up to the
 * network's lease time. An unknown client's first lease is short too while the pools are more than
 * half used, so that addresses that were taken for invented clients soon come back. Every lease is
 * short while the host's clock is in doubt.
 */
function leaseTime(query: Query, client: BootClient, answer: BootAnswer, unproven = false): Seconds {
  const { network, leases, state } = query;
  if (client.stage !== 'none') return toSeconds(network.bootLeaseTime);
  const settled =
    answer.documented ||
    answer.reservedAddress !== undefined ||
    leases.leaseOf(client.mac)?.lease?.state === 'bound';
  const short = unproven || state.clockDoubted || (!settled && leases.crowded);
  const longest = toSeconds(
    short && network.bootLeaseTime < network.leaseTime ? network.bootLeaseTime : network.leaseTime,
  );
  const wanted = query.packet.options.get(OPTION.leaseTime);
  if (wanted?.length !== 4) return longest;
  return Math.min(longest, Math.max(wanted.readUInt32BE(), SHORTEST)) as Seconds;
}

/** The packet that gives an address: OFFER and ACK differ in their type only. */
function grant(
  query: Query,
  client: BootClient,
  answer: BootAnswer,
  address: Ipv4,
  type: 'OFFER' | 'ACK',
  time: Seconds,
) {
  const { packet, network } = query;
  const reply = replyTo(packet, type, serverId(query));
  reply.yiaddr = address;
  if (type === 'ACK' && !addressOption(packet, OPTION.requestedAddress)) reply.ciaddr = packet.ciaddr;
  addLeaseTimes(reply.options, time);
  addNetworkOptions(reply.options, packet, network, answer.hostname);
  addOwnOptions(reply.options, {
    request: packet,
    network,
    vendorClass: client.vendorClass,
    machine: answer.options,
    address,
  });
  return withBoot(reply, bootFields(packet, client, answer, network, type === 'OFFER' ? 'offer' : 'ack'));
}

/**
 * Whether a client that no document describes would get no address. It then gets no boot session
 * either: whoever invents clients could fill the table of sessions with them, at the cost of
 * everybody else's.
 */
function isStarved(query: Query): boolean {
  const { network, leases, client, packet, state } = query;
  if (network.mode !== 'server' || network.pools.length === 0) return false;
  if (state.boot.isStranger?.(client) !== true) return false;
  if (leases.offerOf(client.mac, state.now) ?? leases.leaseOf(client.mac)) return false;
  const wanted = addressOption(packet, OPTION.requestedAddress);
  if (wanted !== undefined && mayHave(query, {}, wanted)) return false;
  const reserved = (address: Ipv4): boolean => state.boot.reservedFor?.(address, network) !== undefined;
  return leases.nextFree(state.now, reserved, keptFrom(query, {})) === undefined;
}

/** Answers a DISCOVER with an OFFER, held in memory. */
export function discover(query: Query): Result {
  const { client, network, packet, state } = query;
  if (isStarved(query)) return { outcome: 'exhausted', detail: poolsText(network) };
  const answer = state.boot.answer(client, network, 'offer');
  const address = choose(query, answer);
  if (address === 'exhausted') return { outcome: address, answer, detail: poolsText(network) };
  if (typeof address === 'string') return { outcome: address, answer };
  // An offer that cannot be kept would keep the client from another server.
  if (state.leases.failing && !mayPromise(query, answer, address))
    return { outcome: 'store_failing', answer, address };
  const reply = grant(query, client, answer, address, 'OFFER', leaseTime(query, client, answer));
  const until = (state.now + OFFER_HOLD) as Millis;
  return {
    outcome: 'offered',
    answer,
    address,
    memory: {
      kind: 'offer',
      network: network.name,
      address,
      offer: { mac: client.mac, until, xid: packet.xid, client },
    },
    reply: addressed(query, reply, 'reply'),
  };
}

/**
 * Whether the client may have the address without a record: it is its reservation, or it holds a
 * lease on it. See {@link UNRECORDED}.
 */
function mayPromise({ leases, client, state }: Query, answer: BootAnswer, address: Ipv4): boolean {
  const lease = leases.entry(address)?.lease;
  const holds = lease?.mac === client.mac && lease.state === 'bound' && !isOver(lease, state.now);
  return answer.reservedAddress === address || holds;
}

/** The text of option 56 in a DHCPNAK. */
const REFUSALS: Readonly<Record<RefusedOutcome, string>> = {
  nak_wrong_network: 'address is of another network',
  nak_not_yours: 'address is not yours',
  nak_unknown: 'lease is not known',
  nak_no_offer: 'no offer is known',
  nak_reserved: 'address is reserved',
  declines_all: 'too many addresses were declined',
};

function refuse(query: Query, outcome: RefusedOutcome, address: Ipv4, answer?: BootAnswer): Result {
  const reply = addressed(query, nak(query.packet, serverId(query), REFUSALS[outcome]), 'nak');
  return { outcome, address, reply, ...(answer ? { answer } : {}) };
}

/**
 * The client's state (RFC 2131 table 4). A SELECTING client names a server, an INIT-REBOOT client
 * only an address; RENEWING and REBINDING clients have their address in ciaddr.
 */
type RequestState = 'selecting' | 'init-reboot' | 'renewing';

/** Answers a REQUEST with an ACK, a NAK, or silence where another server may know the client. */
export function request(query: Query): Result {
  const { packet, network, leases, client, state } = query;
  const server = addressOption(packet, OPTION.serverId);
  const requested = addressOption(packet, OPTION.requestedAddress);
  const offered = leases.offerOf(client.mac, state.now);
  if (server !== undefined && !namesUs(query, server))
    return { outcome: 'other_server', memory: takesElsewhere(query) };
  const kind: RequestState =
    server !== undefined ? 'selecting' : requested !== undefined ? 'init-reboot' : 'renewing';
  const address = requested ?? packet.ciaddr;
  if (address === ANY) return { outcome: 'not_ours', detail: 'no address asked for' };
  if (leases.entry(address)?.busy) return { outcome: 'in_flight', address };

  // A REQUEST may lack the vendor class of its DISCOVER. The client is then what the DISCOVER said.
  const before = offered?.offer;
  const effectiveClient = client.stage === 'none' && before?.xid === packet.xid ? before.client : client;
  const answer = state.boot.answer(effectiveClient, network, 'ack');
  // Muster serves only reservations on this network; another server answers all other clients.
  if (network.mode === 'reservations' && answer.reservedAddress === undefined)
    return { outcome: 'no_pool', answer };
  const known = leases.leaseOf(client.mac);
  const mayRefuse = network.authoritative || kind === 'selecting' || known !== undefined;
  if (!contains(network.subnet, address))
    return mayRefuse
      ? refuse(query, 'nak_wrong_network', address, answer)
      : { outcome: 'silent_unknown', answer, address };
  if (!mayHave(query, answer, address) && !(kind === 'renewing' && keeps(query, answer, address))) {
    if (!mayRefuse) return { outcome: 'silent_unknown', answer, address };
    const owner = state.boot.reservedFor?.(address, network);
    const reserved = owner !== undefined && answer.reservedAddress !== address;
    return refuse(query, reserved ? 'nak_reserved' : 'nak_not_yours', address, answer);
  }
  // A machine whose document names another address moves at its next start, not while it runs.
  const moved = answer.reservedAddress !== undefined && answer.reservedAddress !== address;
  if (moved && kind !== 'renewing' && mayHave(query, answer, answer.reservedAddress!))
    return refuse(query, 'nak_not_yours', address, answer);
  const holds =
    known?.address === address || offered?.address === address || answer.reservedAddress === address;
  if (!holds && kind !== 'selecting')
    return network.authoritative
      ? refuse(query, 'nak_unknown', address, answer)
      : { outcome: 'silent_unknown', answer, address };
  if (holds) return acknowledge(query, effectiveClient, answer, address, kind);
  if (leases.declinesAll(client.mac, state.now)) return refuse(query, 'declines_all', address, answer);
  if (leases.isAwaited(address, client.mac)) return refuse(query, 'nak_not_yours', address, answer);
  // Without an offer of another address, anybody could move a running client by a REQUEST in its
  // name.
  if (known !== undefined && leases.isHeldBy(known.address, client.mac, state.now))
    return refuse(query, 'nak_not_yours', address, answer);
  // After a restart of Muster the offer is forgotten. A client that names us in option 54 gets the
  // address all the same, because it is free, as long as there are few such clients.
  const relay = relayNamed(query);
  if (!leases.permitsWithoutOffer(relay, state.now)) return refuse(query, 'nak_no_offer', address, answer);
  return acknowledge(query, effectiveClient, answer, address, kind, { withoutOffer: relay });
}

/**
 * The relay of the packet, if the network's document names it. All other relays count as one, with
 * the network's interface, because anybody may invent addresses of relays.
 */
function relayNamed({ packet, network, datagram }: Query): Ipv4 | undefined {
  if (packet.giaddr === ANY) return undefined;
  return [packet.giaddr, datagram.source.address].find((address) => network.relays.includes(address));
}

function acknowledge(
  query: Query,
  client: BootClient,
  answer: BootAnswer,
  address: Ipv4,
  kind: RequestState,
  unproven?: { readonly withoutOffer: Ipv4 | undefined },
): Result {
  const { packet, network, leases, state } = query;
  const usual = leaseTime(query, client, answer, unproven !== undefined);
  if (state.unwritable && !mayPromise(query, answer, address))
    return { outcome: 'store_failed', answer, address };
  const before = leases.entry(address)?.lease;
  const mine = before?.mac === client.mac && before.state === 'bound' ? before : undefined;
  const longest = Math.max(UNRECORDED, (mine?.expires ?? 0) - state.now) as Millis;
  const time = state.unwritable ? (Math.min(usual, toSeconds(longest)) as Seconds) : usual;
  let expires = (state.now + toMillis(time)) as Millis;
  // The machine's system may come back and rely on its longer lease.
  if ((client.stage !== 'none' || state.unwritable) && mine && mine.expires > expires) expires = mine.expires;
  const clientId = packet.options.get(OPTION.clientId);
  const agent = packet.giaddr === ANY ? undefined : packet.options.get(OPTION.relayAgent);
  const agentText = agent ? hex(agent) : packet.giaddr === ANY ? mine?.agent : undefined;
  const lease: Lease = {
    v: 1,
    mac: client.mac,
    state: 'bound',
    since: mine ? mine.since : state.now,
    at: state.now,
    expires,
    ...(clientId ? { clientId: hex(clientId) } : {}),
    ...(answer.hostname === undefined ? {} : { hostname: answer.hostname }),
    ...(answer.subject === client.mac ? {} : { machine: answer.subject }),
    ...(agentText === undefined ? {} : { agent: agentText }),
  };
  const reply = addressed(query, grant(query, client, answer, address, 'ACK', time), 'reply');
  if (state.unwritable)
    return {
      outcome: kind === 'renewing' ? 'renewed_unrecorded' : 'acked_unrecorded',
      ...{ answer, address, reply },
      memory: { kind: 'promise', network: network.name, address, lease },
    };
  return {
    outcome: kind === 'renewing' ? 'renewed' : 'acked',
    answer,
    address,
    durable: {
      kind: 'write',
      network: network.name,
      address,
      lease,
      writes: answer.writes,
      ...(unproven ? { unproven } : {}),
    },
    reply,
  };
}

/**
 * The client says that its address is in use. RFC 2131 §4.3.3 sets the address aside at once, which
 * lets anybody take an address from any client, since nothing in the message proves who sent it. So
 * the address is probed first ({@link import('./conclude-decline.ts').concludeDecline}). Where a
 * relay stands between, ARP cannot ask: there a decline counts if the document names the relay, at
 * a limited rate, and not for a reserved address.
 */
export function decline(query: Query): Result {
  const { packet, network, leases, client, state } = query;
  const server = addressOption(packet, OPTION.serverId);
  if (server !== undefined && !namesUs(query, server)) return { outcome: 'other_server' };
  const address = addressOption(packet, OPTION.requestedAddress) ?? packet.ciaddr;
  const holds =
    leases.offerOf(client.mac, state.now)?.address === address ||
    leases.leaseOf(client.mac)?.address === address;
  if (!holds) return { outcome: 'not_ours', detail: formatIpv4(address) };
  if (packet.giaddr === ANY) {
    if (network.interface === undefined)
      return { outcome: 'decline_unproven', address, detail: 'no interface is on this network' };
    return {
      outcome: 'decline_probed',
      address,
      memory: { kind: 'doubt', network: network.name, address, mac: client.mac },
    };
  }
  const distrusted = whyDistrusted(query, address);
  if (distrusted !== undefined) return { outcome: 'decline_unproven', address, detail: distrusted };
  const expires = (state.now + QUARANTINE) as Millis;
  const lease: Lease = { v: 1, mac: client.mac, state: 'declined', since: state.now, expires };
  return {
    outcome: 'declined',
    address,
    durable: {
      kind: 'write',
      network: network.name,
      address,
      lease,
      writes: [],
      unproven: 'relayed-decline',
    },
  };
}

/** Why a decline that a relay forwarded does not count; undefined when it does. */
function whyDistrusted(query: Query, address: Ipv4): string | undefined {
  const { packet, network, leases, state } = query;
  if (relayNamed(query) === undefined)
    return `dhcp.relays of network ${network.name} does not list the relay ${formatIpv4(packet.giaddr)}`;
  const owner = state.boot.reservedFor?.(address, network);
  if (owner !== undefined) return `the address is reserved for ${owner}`;
  if (!leases.permitsRelayedDecline(state.now)) return 'too many declines came through relays';
  return undefined;
}

/**
 * The client gives its address back. The record stays, so that the client gets the same address
 * again (RFC 2131 §4.3.4).
 */
export function release(query: Query): Result {
  const { packet, network, leases, client, state } = query;
  const server = addressOption(packet, OPTION.serverId);
  if (server !== undefined && !namesUs(query, server)) return { outcome: 'other_server' };
  const held = leases.leaseOf(client.mac);
  if (held?.lease?.state !== 'bound' || held.address !== packet.ciaddr)
    return { outcome: 'not_ours', detail: formatIpv4(packet.ciaddr) };
  // A client sends it from the address that it gives back (RFC 2131 §4.4.6). A relay that forwards
  // it all the same is believed if the document names it.
  const { source } = query.datagram;
  if (source.address !== packet.ciaddr && relayNamed(query) === undefined)
    return { outcome: 'release_foreign', address: held.address, detail: formatIpv4(source.address) };
  const lease: Lease = { ...held.lease, state: 'released', since: state.now, expires: state.now };
  return {
    outcome: 'released',
    address: held.address,
    durable: { kind: 'write', network: network.name, address: held.address, lease, writes: [] },
  };
}
