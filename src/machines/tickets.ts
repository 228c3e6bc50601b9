/**
 * Tickets: the first configuration of a cluster's machine carries one, with which its agent gets a
 * certificate once. A ticket is derived from its session, so every document of the session carries
 * the same one, also after a restart of the server. No script, kernel command line, log, event or
 * API answer contains it.
 */
import { createHash, createHmac, timingSafeEqual } from 'node:crypto';
import { duration, type Millis } from '../base/duration.ts';
import { Secret } from '../base/secret.ts';
import type { BootSession } from './machine.ts';
import type { Trust } from './trust.ts';

/**
 * How long after the first document that carried it a ticket can be redeemed: a slow system needs
 * that long from its initrd to its agent.
 */
export const TICKET_LIFETIME = duration('15m');

/** What a ticket is bound to; the address is checked when it is redeemed. */
type TicketOf = Pick<BootSession, 'id' | 'machine'>;

export interface Tickets {
  /** The ticket of a session; the same one at each call, until the present key changes. */
  of(session: TicketOf): Secret;
  /** Whether `text` is the ticket of this session; compares in constant time. */
  fits(session: TicketOf, text: string): boolean;
  /** SHA-256 of the ticket in hexadecimal, which is what the store keeps. */
  hash(session: TicketOf): string;
}

/**
 * Makes tickets with this boot host's secret keys. `keys` returns the present one, then those whose
 * tickets are still accepted.
 *
 * @throws {RangeError} (its functions) when a key has fewer than 32 octets.
 */
export function createTickets(keys: () => readonly Uint8Array[]): Tickets {
  const textBy = (key: Uint8Array, { id, machine }: TicketOf): string => {
    if (key.length < 32) throw new RangeError('a key for tickets has at least 32 octets');
    return createHmac('sha256', key).update(`muster ticket\0${machine}\0${id}`).digest('base64url');
  };
  const text = (session: TicketOf): string => textBy(keys()[0]!, session);
  const digest = (ticket: string): Buffer => createHash('sha256').update(ticket).digest();
  return {
    of: (session) => new Secret(text(session)),
    fits(session, given) {
      const found = keys().map((key) => timingSafeEqual(digest(textBy(key, session)), digest(given)));
      return found.includes(true);
    },
    hash: (session) => digest(text(session)).toString('hex'),
  };
}

/**
 * Why an own address is no sign of the machine: none of its document's hardware addresses holds a
 * lease of Muster's now, or other hardware answers for the address.
 */
export type HardwareDoubt = 'no_lease' | 'other_hardware';

/** What is known about a boot session when its machine asks for a certificate. */
export interface TicketFacts {
  readonly session: TicketOf;
  /**
   * The session is its machine's current boot: live, or closed because the machine reported its
   * end.
   */
  readonly current: boolean;
  /**
   * The session installs a system on a disk, and that system has not reported from there: until
   * then nothing but the installing system can ask.
   */
  readonly unproven: boolean;
  /** The machine has a document, and a cluster that its agent works for. */
  readonly accepted: boolean;
  /**
   * Its documents carry a ticket. They do not where another server gives the addresses, because
   * they are then served to addresses of which nothing is known.
   */
  readonly ticketed: boolean;
  /** How long ago a document first carried the ticket; undefined when none has. */
  readonly age: Millis | undefined;
  /**
   * The machine's own addresses: what Muster leased to it or reserved for it, and what its document
   * and its configuration name. Never the address that asked.
   */
  readonly addresses: ReadonlySet<string>;
  /** Why nothing shows that the machine itself asks from one of these addresses. */
  readonly doubt: (address: string) => HardwareDoubt | undefined;
  /** The tier that counts for the machine in this boot. */
  readonly trust: Trust;
  /** CAs whose TPMs count for the machine, PEM; without any, every TPM does. */
  readonly vendorCas: readonly string[];
}

/** Why a ticket is refused: recorded as an event, and sent as the answer. */
export const TICKET_REFUSALS = {
  session_unknown: 'No boot session has this id.',
  ticket_wrong: 'The ticket is not that of this session.',
  session_over: 'The boot session is over, or the machine booted again since.',
  not_from_disk: 'The installed system has not reported yet from the disk on which it was installed.',
  not_accepted: 'The machine has no document, or is of no cluster.',
  foreign_address:
    "The request came from an address that is not this machine's. If it is, list it under the machine's spec.addresses.",
  no_lease:
    "No hardware address of the machine's document holds a lease of Muster's now, and its tier of trust is segment. Let its system take its address by DHCP, or write `trust: approved`.",
  other_hardware:
    "Hardware that the machine's document does not list answers for this address, and its tier of trust is segment. If it is the machine's (a bond, another port), list it under the machine's spec.macs.",
  too_late: `The ticket was not redeemed within ${TICKET_LIFETIME / 60_000} minutes; a new boot has a new one.`,
  other_key:
    'Another key has a certificate for this ticket already: two systems asked in the name of one machine.',
  alive: 'The machine runs and has a certificate: its agent was heard moments ago.',
  revoked:
    'The key had a certificate that was revoked when its machine was taken out; an operator decides with `muster machine rearm`.',
  quarantined: 'The machine is in quarantine; an operator ends that with `muster machine release`.',
  alarmed:
    'Somebody else may have asked in the name of this machine; an operator decides with `muster machine rearm`.',
  bad_request: 'The certificate request is not one that proves a key.',
  tpm_missing:
    'The machine showed no TPM, and a TPM is known for it or its tier of trust is tpm. If that is right (its image lacks tpm2-tools, its board was replaced), see docs/operating.md; `muster machine rearm` forgets the TPM.',
  tpm_changed:
    'The machine showed another TPM than the one that is known for it. If its board was replaced or its TPM was reset, `muster machine rearm` forgets the old one; if a document names the TPM, change spec.tpm.endorsementKey.',
  tpm_untrusted: 'No CA in tpm.vendorCAs certified the TPM of the machine.',
  tpm_proof:
    "The answer to the TPM's challenge is wrong, too old or used up; the agent asks for another challenge.",
} as const satisfies Record<string, string>;
export type TicketRefusal = keyof typeof TICKET_REFUSALS;

/** Refusals which show that two systems hold one machine's secrets. */
export const ALARMING: readonly TicketRefusal[] = ['other_key', 'alive'];

/** What a request shows of its machine before its key is looked at. */
export type Asker =
  | { readonly refused: TicketRefusal }
  /**
   * `known`: it has the ticket of its boot, or asks from an address of its machine. `unknown`: the
   * session has no ticket, and the address is not known to be the machine's.
   */
  | { readonly is: 'known' | 'unknown'; readonly doubt?: HardwareDoubt | undefined };

/**
 * Judges session, ticket and address of a request. The ticket's age is judged later, because it
 * does not matter for every key.
 */
export function judgeTicket(
  facts: TicketFacts | undefined,
  given: { readonly fits: boolean; readonly address: string },
): Asker {
  if (facts === undefined) return { refused: 'session_unknown' };
  if (facts.ticketed && !given.fits) return { refused: 'ticket_wrong' };
  if (!facts.current) return { refused: 'session_over' };
  if (facts.unproven) return { refused: 'not_from_disk' };
  if (!facts.accepted) return { refused: 'not_accepted' };
  if (!facts.addresses.has(given.address))
    return facts.ticketed ? { refused: 'foreign_address' } : { is: 'unknown' };
  if (facts.ticketed && facts.age === undefined) return { refused: 'ticket_wrong' };
  const doubt = facts.doubt(given.address);
  // Where another server gives the addresses, an operator looks at whoever is not known.
  return doubt && !facts.ticketed ? { is: 'unknown' } : { is: 'known', doubt };
}
