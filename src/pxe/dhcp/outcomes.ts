/**
 * The outcomes of a DHCP packet: every packet has exactly one. The code is the metric's label
 * `outcome`. Outcomes with an event kind are recorded as events; the others are counted and logged
 * at level debug.
 */
import type { EventKind } from '../../events/event.ts';

interface Outcome {
  readonly text: string;
  readonly event?: EventKind;
}

export const DHCP_OUTCOMES = {
  // answered
  offered: { text: 'An address was offered.', event: 'dhcp.offer' },
  proxy_offered: {
    text: 'A boot file was offered; another DHCP server gives the address.',
    event: 'dhcp.offer',
  },
  acked: { text: 'The lease is confirmed and durable.', event: 'dhcp.ack' },
  renewed: { text: 'The lease is extended and durable.', event: 'dhcp.ack' },
  acked_unrecorded: {
    text: 'The address is confirmed for ten minutes at most: the store cannot write, and nobody else can get it.',
    event: 'dhcp.ack',
  },
  renewed_unrecorded: {
    text: 'The lease is extended by ten minutes at most: the store cannot write, and nobody else can get it.',
    event: 'dhcp.ack',
  },
  boot_server_acked: { text: 'The boot file was named on port 4011.', event: 'dhcp.ack' },
  informed: { text: 'A client that configured its own address got the options it asked for.' },
  nak_wrong_network: { text: 'The requested address belongs to another network.', event: 'dhcp.nak' },
  nak_not_yours: { text: "The requested address is not this client's.", event: 'dhcp.nak' },
  nak_unknown: { text: 'No lease is known for the requested address.', event: 'dhcp.nak' },
  nak_no_offer: {
    text: 'No offer to this client is known, and too many clients asked for an address without one.',
    event: 'dhcp.nak',
  },
  nak_reserved: { text: 'The requested address is reserved for another machine.', event: 'dhcp.nak' },
  // noted
  released: { text: 'The client gave its address back.', event: 'dhcp.release' },
  declined: { text: 'The client found its address in use; it is set aside.', event: 'dhcp.decline' },
  decline_probed: {
    text: 'The client says that its address is in use. The address is probed before that counts.',
    event: 'dhcp.decline',
  },
  other_server: { text: 'The client chose another server; the offer is withdrawn.' },
  // no reply
  exhausted: {
    text: 'No free address is left in the pools: enlarge dhcp.pools or shorten dhcp.leaseTime in the Network document.',
    event: 'dhcp.exhausted',
  },
  declines_all: {
    text: 'The client declined three addresses within a minute; it gets no pool address until a minute has passed.',
    event: 'dhcp.decline',
  },
  decline_unproven: {
    text: 'The client says that its address is in use, and nothing shows that it is. The address stays its own.',
    event: 'dhcp.decline',
  },
  release_foreign: {
    text: 'The address is given back by somebody who asks from another address. The lease stays.',
    event: 'dhcp.release',
  },
  no_pool: { text: 'No address is reserved for this client, and the network has no pool.' },
  reservation_held: {
    text: 'The address reserved for this client is still held by another one.',
    event: 'dhcp.exhausted',
  },
  in_flight: { text: 'The same request is already being stored; its reply follows.' },
  store_failed: {
    text: 'The lease could not be stored, so it was not confirmed.',
    event: 'dhcp.store',
  },
  store_failing: {
    text: 'The store cannot write, so that no new lease is offered; another server may give an address.',
    event: 'dhcp.store',
  },
  silent_unknown: { text: 'The lease is not known here, and another server may know it.' },
  not_ours: { text: 'The message is about an address that this client does not hold.' },
  not_boot_client: {
    text: 'The client does not boot or gets no boot file; another server gives the address.',
  },
  proxy_leaves: { text: 'The other DHCP server answers this message.' },
  network_off: { text: 'DHCP is off on this network.' },
  no_network: { text: 'No network is configured for the interface or relay that this came from.' },
  relay_refused: {
    text: 'The relay agent (giaddr) may not forward for any network here; the detail has the line to add.',
  },
  source_refused: {
    text: 'The packet came from an address or interface that is not served; the detail says what to add.',
  },
  no_file: { text: 'A request came on port 4011, and there is no boot file for this client.' },
  not_a_request: {
    text: 'The packet is a reply of another server, or has a message type that servers do not accept.',
  },
  bootp: { text: 'The packet is a BOOTP request without a DHCP message type.' },
  option_too_long: {
    text: 'An option that a reply has to repeat is longer than 255 octets; the detail names it.',
  },
  hardware_unsupported: { text: 'The hardware address is not an Ethernet address.' },
  internal: { text: 'Muster failed on this packet; the log has the packet and the error.' },
  malformed: { text: 'The packet is not a DHCP message; the detail says why.' },
} as const satisfies Record<string, Outcome>;

export type OutcomeCode = keyof typeof DHCP_OUTCOMES;

/** Outcomes that can go with a DHCPNAK. */
export type RefusedOutcome = Extract<OutcomeCode, `nak_${string}` | 'declines_all'>;

/** Outcomes that can go without a reply and without a change in the store. */
export type SilentOutcome = Exclude<
  OutcomeCode,
  | 'offered'
  | 'proxy_offered'
  | 'acked'
  | 'renewed'
  | 'acked_unrecorded'
  | 'renewed_unrecorded'
  | 'boot_server_acked'
  | 'informed'
  | 'released'
  | 'declined'
  | `nak_${string}`
>;

/** Text and event kind of an outcome. */
export function outcome(code: OutcomeCode): Outcome {
  return DHCP_OUTCOMES[code];
}
