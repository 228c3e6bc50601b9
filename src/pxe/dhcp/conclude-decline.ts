/** What a probed decline leads to. */
import type { Millis } from '../../base/duration.ts';
import { formatIpv4, type Ipv4 } from '../../base/ipv4.ts';
import type { Mac } from '../../base/mac.ts';
import type { EventSink } from '../../events/event.ts';
import type { LeaseBook } from './leases.ts';
import { DHCP_OUTCOMES } from './outcomes.ts';

/**
 * Ends the doubt about an address after it was probed. `answered` is the machine that uses the
 * address; undefined when none answered. The address is set aside only if that is another machine
 * than the client. If nobody answered, the client keeps its lease, but is offered another address
 * when it looks for one: a running client does not, and the one that declined does.
 */
export async function concludeDecline(
  parts: {
    readonly leases: LeaseBook;
    readonly events: EventSink;
    readonly now: Millis;
    /** Whether the address is reserved for a machine, which then gets no other one. */
    readonly reserved: boolean;
  },
  network: string,
  address: Ipv4,
  answered: Mac | undefined,
): Promise<void> {
  const { leases, events, now, reserved } = parts;
  const book = leases.network(network);
  const mac = book.doubts.take(address);
  if (mac === undefined) return;
  const text = formatIpv4(address);
  const used = answered !== undefined && answered !== mac;
  // Meanwhile the address may have become the one of the machine that answered.
  if (used && !book.isHeldBy(address, answered, now)) {
    if ((await leases.setAside(network, address, mac, 'declined')) !== 'stored') return;
  } else if (used) return;
  else if (answered === undefined && !reserved) book.doubts.shun(mac, address, now);
  const code = used ? 'declined' : 'decline_unproven';
  events.record({
    kind: 'dhcp.decline',
    subject: mac,
    network,
    reason: { code, text: DHCP_OUTCOMES[code].text },
    fields: { address: text, mac, ...(answered === undefined ? {} : { answered }) },
  });
}
