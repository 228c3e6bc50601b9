/** The full server's part of the step: addresses (RFC 2131 §4.3). Pure: it looks and proposes. */
import { hex } from '../../base/bytes.ts';
import { type Millis, type Seconds, toMillis, toSeconds } from '../../base/duration.ts';
import { ANY, contains, formatIpv4, type Ipv4 } from '../../base/ipv4.ts';
import type { BootAnswer } from '../boot.ts';
import type { BootClient } from '../client.ts';
import type { ServedNetwork } from '../network.ts';
import { addressed, namesUs, serverId, takesElsewhere } from './addressing.ts';
import type { Lease } from './lease.ts';
import { QUARANTINE } from './leases.ts';
import { OFFER_HOLD } from './network-leases.ts';
import { OPTION } from './options.ts';
import type { OutcomeCode } from './outcomes.ts';
import { addressOption } from './packet.ts';
import { inPool } from './pool.ts';
import { addLeaseTimes, addNetworkOptions, bootFields, nak, replyTo, withBoot } from './reply.ts';
import type { Ask, Step } from './step.ts';

/** Whatever a client asks for, its lease is not shorter than this. */
const SHORTEST = 60 as Seconds;

/**
 * Whether the client may have the address now: free for it, and its own reservation or of a pool
 * and nobody's reservation.
 */
function mayHave(ask: Ask, answer: BootAnswer, address: Ipv4): boolean {
  const { network, leases, client, state } = ask;
  if (!contains(network.subnet, address) || !leases.isFreeFor(address, client.mac, state.now)) return false;
  if (answer.reservedAddress === address) return true;
  if (network.mode !== 'server' || !inPool(ask.rules, address)) return false;
  return state.boot.reservedFor?.(address, network) === undefined;
}

/**
 * Whether a client that runs keeps the address of its lease, although it would not get it now:
 * documents and pools that changed do not take an address from under a system, its next start moves
 * it. Not one that became another machine's, or our own.
 */
function keeps(ask: Ask, answer: BootAnswer, address: Ipv4): boolean {
  const { network, rules, leases, client, state } = ask;
  const held = leases.leaseOf(client.mac);
  if (held?.address !== address || held.lease?.state !== 'bound') return false;
  if (rules.taken.includes(address) || !leases.isFreeFor(address, client.mac, state.now)) return false;
  const owner = state.boot.reservedFor?.(address, network);
  return owner === undefined || owner === answer.subject;
}

/**
 * The address to offer, in RFC 2131 §4.3.1's order: the reservation, what the client has or had,
 * what it asks for, a free one. A reservation that somebody else still holds is waited for with an
 * address of the pool.
 */
function choose(ask: Ask, answer: BootAnswer): Ipv4 | OutcomeCode {
  const { network, leases, client, packet, state } = ask;
  const { reservedAddress } = answer;
  if (reservedAddress !== undefined && mayHave(ask, answer, reservedAddress)) return reservedAddress;
  if (network.mode !== 'server' || network.pools.length === 0)
    return reservedAddress === undefined ? 'no_pool' : 'reservation_held';
  const had = [leases.offerOf(client.mac, state.now)?.address, leases.leaseOf(client.mac)?.address];
  for (const address of had) if (address !== undefined && mayHave(ask, answer, address)) return address;
  if (leases.declinesAll(client.mac, state.now)) return 'declines_all';
  const wanted = addressOption(packet, OPTION.requestedAddress);
  if (wanted !== undefined && mayHave(ask, answer, wanted)) return wanted;
  const free = leases.nextFree(
    state.now,
    (address) => state.boot.reservedFor?.(address, network) !== undefined,
  );
  return free ?? 'exhausted';
}

function poolsText({ name, pools }: ServedNetwork): string {
  const ranges = pools.map(({ start, end }) => `${formatIpv4(start)}-${formatIpv4(end)}`);
  return `network ${name}, pools ${ranges.join(', ')}`;
}

/**
 * How long: short while firmware or a loader runs, else what the client wants up to the network's
 * time.
 */
function leaseTime(ask: Ask, client: BootClient): Seconds {
  if (client.stage !== 'none') return toSeconds(ask.network.bootLeaseTime);
  const longest = toSeconds(ask.network.leaseTime);
  const wanted = ask.packet.options.get(OPTION.leaseTime);
  if (wanted?.length !== 4) return longest;
  return Math.min(longest, Math.max(wanted.readUInt32BE(), SHORTEST)) as Seconds;
}

/** OFFER and ACK alike: address, times, network, boot. */
function grant(
  ask: Ask,
  client: BootClient,
  answer: BootAnswer,
  address: Ipv4,
  type: 'OFFER' | 'ACK',
  time: Seconds,
) {
  const { packet, network } = ask;
  const reply = replyTo(packet, type, serverId(ask));
  reply.yiaddr = address;
  if (type === 'ACK' && !addressOption(packet, OPTION.requestedAddress)) reply.ciaddr = packet.ciaddr;
  addLeaseTimes(reply.options, time);
  addNetworkOptions(reply.options, packet, network, answer.hostname);
  return withBoot(reply, bootFields(packet, client, answer, network, type === 'OFFER' ? 'offer' : 'ack'));
}

export function discover(ask: Ask): Step {
  const { client, network, packet, state } = ask;
  const answer = state.boot.answer(client, network, 'offer');
  const address = choose(ask, answer);
  if (address === 'exhausted') return { outcome: address, answer, detail: poolsText(network) };
  if (typeof address === 'string') return { outcome: address, answer };
  const reply = grant(ask, client, answer, address, 'OFFER', leaseTime(ask, client));
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
    reply: addressed(ask, reply, 'reply'),
  };
}

function refuse(ask: Ask, outcome: OutcomeCode, address: Ipv4, answer?: BootAnswer): Step {
  const texts: Partial<Record<OutcomeCode, string>> = {
    nak_wrong_network: 'address is of another network',
    nak_not_yours: 'address is not yours',
    nak_unknown: 'lease is not known',
    nak_reserved: 'address is reserved',
    declines_all: 'too many addresses were declined',
  };
  const reply = addressed(ask, nak(ask.packet, serverId(ask), texts[outcome] ?? outcome), 'nak');
  return { outcome, address, reply, ...(answer ? { answer } : {}) };
}

/**
 * SELECTING names a server, INIT-REBOOT an address, RENEWING and REBINDING have theirs in ciaddr
 * (RFC 2131 table 4).
 */
type RequestState = 'selecting' | 'init-reboot' | 'renewing';

export function request(ask: Ask): Step {
  const { packet, network, leases, client, state } = ask;
  const server = addressOption(packet, OPTION.serverId);
  const requested = addressOption(packet, OPTION.requestedAddress);
  const offered = leases.offerOf(client.mac, state.now);
  if (server !== undefined && !namesUs(ask, server))
    return { outcome: 'other_server', memory: takesElsewhere(ask) };
  const kind: RequestState =
    server !== undefined ? 'selecting' : requested !== undefined ? 'init-reboot' : 'renewing';
  const address = requested ?? packet.ciaddr;
  if (address === ANY) return { outcome: 'not_ours', detail: 'no address asked for' };
  if (leases.entry(address)?.busy) return { outcome: 'in_flight', address };

  const told = offered?.offer;
  const who = client.stage === 'none' && told?.xid === packet.xid ? told.client : client;
  const answer = state.boot.answer(who, network, 'ack');
  // Others' clients on a segment where only reservations are ours.
  if (network.mode === 'reservations' && answer.reservedAddress === undefined)
    return { outcome: 'no_pool', answer };
  const known = leases.leaseOf(client.mac);
  const speaks = network.authoritative || kind === 'selecting' || known !== undefined;
  if (!contains(network.subnet, address))
    return speaks
      ? refuse(ask, 'nak_wrong_network', address, answer)
      : { outcome: 'silent_unknown', answer, address };
  if (!mayHave(ask, answer, address) && !(kind === 'renewing' && keeps(ask, answer, address))) {
    if (!speaks) return { outcome: 'silent_unknown', answer, address };
    const owner = state.boot.reservedFor?.(address, network);
    const reserved = owner !== undefined && answer.reservedAddress !== address;
    return refuse(ask, reserved ? 'nak_reserved' : 'nak_not_yours', address, answer);
  }
  // A machine whose document gave it another address moves at its next start, not while it runs.
  const moved = answer.reservedAddress !== undefined && answer.reservedAddress !== address;
  if (moved && kind !== 'renewing' && mayHave(ask, answer, answer.reservedAddress!))
    return refuse(ask, 'nak_not_yours', address, answer);
  const holds =
    known?.address === address || offered?.address === address || answer.reservedAddress === address;
  // After a restart the offer is forgotten; the client says that it was ours, and the address is
  // free.
  if (!holds && kind !== 'selecting')
    return network.authoritative
      ? refuse(ask, 'nak_unknown', address, answer)
      : { outcome: 'silent_unknown', answer, address };
  if (!holds && leases.declinesAll(client.mac, state.now))
    return refuse(ask, 'declines_all', address, answer);
  return acknowledge(ask, who, answer, address, kind);
}

function acknowledge(
  ask: Ask,
  client: BootClient,
  answer: BootAnswer,
  address: Ipv4,
  kind: RequestState,
): Step {
  const { packet, network, leases, state } = ask;
  const time = leaseTime(ask, client);
  const before = leases.entry(address)?.lease;
  const mine = before?.mac === client.mac && before.state === 'bound' ? before : undefined;
  let expires = (state.now + toMillis(time)) as Millis;
  // The system that the machine may fall back to still counts on its longer lease.
  if (client.stage !== 'none' && mine && mine.expires > expires) expires = mine.expires;
  const clientId = packet.options.get(OPTION.clientId);
  const agent = packet.giaddr === ANY ? undefined : packet.options.get(OPTION.relayAgent);
  const agentText = agent ? hex(agent) : packet.giaddr === ANY ? mine?.agent : undefined;
  const lease: Lease = {
    v: 1,
    mac: client.mac,
    state: 'bound',
    since: mine ? mine.since : state.now,
    expires,
    ...(clientId ? { clientId: hex(clientId) } : {}),
    ...(answer.hostname === undefined ? {} : { hostname: answer.hostname }),
    ...(answer.subject === client.mac ? {} : { machine: answer.subject }),
    ...(agentText === undefined ? {} : { agent: agentText }),
  };
  return {
    outcome: kind === 'renewing' ? 'renewed' : 'acked',
    answer,
    address,
    durable: { kind: 'write', network: network.name, address, lease, writes: answer.writes },
    reply: addressed(ask, grant(ask, client, answer, address, 'ACK', time), 'reply'),
  };
}

/** The client found somebody else on the address: nobody gets it for a while (RFC 2131 §4.3.3). */
export function decline(ask: Ask): Step {
  const { packet, network, leases, client, state } = ask;
  const server = addressOption(packet, OPTION.serverId);
  if (server !== undefined && !namesUs(ask, server)) return { outcome: 'other_server' };
  const address = addressOption(packet, OPTION.requestedAddress) ?? packet.ciaddr;
  const holds =
    leases.offerOf(client.mac, state.now)?.address === address ||
    leases.leaseOf(client.mac)?.address === address;
  if (!holds) return { outcome: 'not_ours', detail: formatIpv4(address) };
  const expires = (state.now + QUARANTINE) as Millis;
  const lease: Lease = { v: 1, mac: client.mac, state: 'declined', since: state.now, expires };
  return {
    outcome: 'declined',
    address,
    durable: { kind: 'write', network: network.name, address, lease, writes: [] },
  };
}

/** The client gives its address back; it is remembered for it (RFC 2131 §4.3.4). */
export function release(ask: Ask): Step {
  const { packet, network, leases, client, state } = ask;
  const server = addressOption(packet, OPTION.serverId);
  if (server !== undefined && !namesUs(ask, server)) return { outcome: 'other_server' };
  const held = leases.leaseOf(client.mac);
  if (held?.lease?.state !== 'bound' || held.address !== packet.ciaddr)
    return { outcome: 'not_ours', detail: formatIpv4(packet.ciaddr) };
  const lease: Lease = { ...held.lease, state: 'released', since: state.now, expires: state.now };
  return {
    outcome: 'released',
    address: held.address,
    durable: { kind: 'write', network: network.name, address: held.address, lease, writes: [] },
  };
}
