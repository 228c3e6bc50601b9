/**
 * What can become of a DHCP packet: every packet ends in exactly one of these. The code is the
 * metric's `outcome`; those with an event kind are recorded as events, the others are only logged
 * (debug) and counted.
 */
import type { EventKind } from '../../events/event.ts';

interface Outcome {
  readonly text: string;
  readonly event?: EventKind;
}

export const DHCP_OUTCOMES = {
  // answered
  offered: { text: 'An address was offered.', event: 'dhcp.offer' },
  proxy_offered: { text: 'A boot file was offered beside another DHCP server.', event: 'dhcp.offer' },
  acked: { text: 'The lease is confirmed and durable.', event: 'dhcp.ack' },
  renewed: { text: 'The lease is prolonged and durable.', event: 'dhcp.ack' },
  boot_server_acked: { text: 'The boot file was named on port 4011.', event: 'dhcp.ack' },
  informed: { text: 'A client with an address of its own got the options it asked for.' },
  nak_wrong_network: { text: 'The address asked for is of another network.', event: 'dhcp.nak' },
  nak_not_yours: { text: "The address asked for is not this client's.", event: 'dhcp.nak' },
  nak_unknown: { text: 'No lease is known for the address asked for.', event: 'dhcp.nak' },
  nak_reserved: { text: 'The address asked for is reserved for another machine.', event: 'dhcp.nak' },
  // taken note of
  released: { text: 'The client gave its address back.', event: 'dhcp.release' },
  declined: { text: 'The client found its address in use; it is set aside.', event: 'dhcp.decline' },
  other_server: { text: 'The client chose another server; the offer is withdrawn.' },
  // no answer
  exhausted: {
    text: 'No free address is left in the pools: enlarge dhcp.pools or shorten dhcp.leaseTime in the Network document.',
    event: 'dhcp.exhausted',
  },
  declines_all: {
    text: 'The client declined three addresses within a minute; it gets none of the pools until that is a minute ago.',
    event: 'dhcp.decline',
  },
  no_pool: { text: 'No address is reserved for this client, and the network has no pool.' },
  reservation_held: {
    text: 'The address reserved for this client is still held by another one.',
    event: 'dhcp.exhausted',
  },
  in_flight: { text: 'The same request is being made durable; its answer is under way.' },
  store_failed: {
    text: 'The lease could not be made durable, so it was not confirmed.',
    event: 'dhcp.store',
  },
  silent_unknown: { text: 'A lease that is not known here, on a network where others may answer.' },
  not_ours: { text: 'A message about an address that this client does not hold.' },
  not_boot_client: {
    text: 'An ordinary client, or one without a boot file; another server gives the address.',
  },
  proxy_leaves: { text: "The message is the other DHCP server's to answer." },
  network_off: { text: 'DHCP is off on this network.' },
  no_network: { text: 'No network is configured for where this came from.' },
  relay_refused: { text: 'The relay agent (giaddr) may not speak for any network here.' },
  no_file: { text: 'A request on port 4011, and there is no boot file for this client.' },
  not_a_request: { text: 'A reply of another server, or a message type that servers do not take.' },
  bootp: { text: 'A BOOTP request without a DHCP message type.' },
  hardware_unsupported: { text: 'Not an Ethernet hardware address.' },
  internal: { text: 'Muster failed on this packet; the log has it.' },
  malformed: { text: 'Not a DHCP message; the detail says why.' },
} as const satisfies Record<string, Outcome>;

export type OutcomeCode = keyof typeof DHCP_OUTCOMES;

export function outcome(code: OutcomeCode): Outcome {
  return DHCP_OUTCOMES[code];
}
