/**
 * Tickets: what the first configuration of a cluster's machine carries, so that its agent can ask
 * for a certificate once. A ticket is derived, so that every document of a session carries the same
 * one, also after a restart of ours; it says nothing without its session. It stands in no script,
 * kernel command line, log, event or answer to an operator.
 */
import { createHash, createHmac, timingSafeEqual } from 'node:crypto';
import { duration, type Millis } from '../base/duration.ts';
import { Secret } from '../base/secret.ts';
import type { BootSession } from './machine.ts';

/**
 * From the first document that carried it until it is no longer redeemed: a slow system's way from
 * its initrd to its agent.
 */
export const TICKET_LIFETIME = duration('15m');

/** What a ticket is bound to; its address is looked at when it is redeemed. */
export type TicketOf = Pick<BootSession, 'id' | 'machine'>;

export interface Tickets {
  of(session: TicketOf): Secret;
  /** Whether `text` is the ticket of this session; in the same time for every text. */
  fits(session: TicketOf, text: string): boolean;
  /** SHA-256 of the ticket in hexadecimal: what is stored of it. */
  hash(session: TicketOf): string;
}

/** `key`: secret, of this boot host's store; at least 32 octets. */
export function createTickets(key: Uint8Array): Tickets {
  if (key.length < 32) throw new RangeError('a key for tickets has at least 32 octets');
  const text = ({ id, machine }: TicketOf): string =>
    createHmac('sha256', key).update(`muster ticket\0${machine}\0${id}`).digest('base64url');
  const digest = (ticket: string): Buffer => createHash('sha256').update(ticket).digest();
  return {
    of: (session) => new Secret(text(session)),
    fits: (session, given) => timingSafeEqual(digest(text(session)), digest(given)),
    hash: (session) => digest(text(session)).toString('hex'),
  };
}

/** What redeeming looks at. */
export interface TicketFacts {
  readonly session: TicketOf;
  /**
   * The session is its machine's present boot: live, or over because the machine said how it ended.
   */
  readonly current: boolean;
  /** The machine has a document, and it is of a cluster that has agents. */
  readonly accepted: boolean;
  /** How long ago a document first carried it; undefined: none did. */
  readonly age: Millis | undefined;
  /** Addresses that are the machine's. */
  readonly addresses: ReadonlySet<string>;
}

/** Why a ticket is refused; recorded, and told to whoever asked. */
export const TICKET_REFUSALS = {
  session_unknown: 'No boot session has this id.',
  ticket_wrong: 'The ticket is not that of this session.',
  session_over: 'The boot session is over, or the machine booted again since.',
  not_accepted: 'The machine has no document, or is of no cluster.',
  foreign_address:
    "The request came from an address that is not this machine's. If it is, list it under the machine's spec.addresses.",
  too_late: `The ticket was not redeemed within ${TICKET_LIFETIME / 60_000} minutes; a new boot has a new one.`,
  other_key:
    'Another key has a certificate for this ticket already: two systems asked in the name of one machine.',
  alive: 'The machine runs and has a certificate: its agent was heard moments ago.',
  revoked:
    'The key had a certificate that was revoked when its machine was taken out; an operator decides with `muster machine rearm`.',
  alarmed:
    'Somebody else may have asked in the name of this machine; an operator decides with `muster machine rearm`.',
  bad_request: 'The certificate request is not one that proves a key.',
} as const satisfies Record<string, string>;
export type TicketRefusal = keyof typeof TICKET_REFUSALS;

/** Refusals that show that two systems hold one machine's secrets. */
export const ALARMING: readonly TicketRefusal[] = ['other_key', 'alive'];

/**
 * Why this ticket is no ticket, before anybody's key is looked at; undefined when it is one. `age`
 * is judged later: it counts only once.
 */
export function judgeTicket(
  facts: TicketFacts | undefined,
  given: { readonly fits: boolean; readonly address: string },
): TicketRefusal | undefined {
  if (facts === undefined) return 'session_unknown';
  if (!given.fits) return 'ticket_wrong';
  if (!facts.current) return 'session_over';
  if (!facts.accepted) return 'not_accepted';
  if (!facts.addresses.has(given.address)) return 'foreign_address';
  return facts.age === undefined ? 'ticket_wrong' : undefined;
}
