/**
 * Redeeming a ticket: a ticket and a key become a certificate, once. The first key whose record is
 * durable gets it. The same key gets the same answer for as long as the boot session lasts, so a
 * lost answer locks no machine out. Another key is refused, recorded and alarmed, because the
 * server cannot know which of the two is the machine's own.
 */
import type { Clock } from '../base/clock.ts';
import { type ErrorCode, MusterError } from '../base/errors.ts';
import type { EventSink } from '../events/event.ts';
import { plainAddress } from '../machines/reports.ts';
import type { Roster } from '../machines/roster.ts';
import {
  ALARMING,
  judgeTicket,
  TICKET_LIFETIME,
  TICKET_REFUSALS,
  type TicketFacts,
  type TicketRefusal,
  type Tickets,
} from '../machines/tickets.ts';
import { readCsr } from '../pki/csr.ts';
import type { PublicKey } from '../pki/keys.ts';
import type { Pki } from '../pki/pki.ts';
import { NO_CLUSTER } from '../pki/server-certificate.ts';
import { MUSTER_SCOPE } from '../store/keys.ts';
import { raiseAlarm } from './alarm.ts';
import type { Identities, Redeemed } from './identities.ts';

export interface RedeemDeps {
  readonly tickets: Tickets;
  readonly identities: Identities;
  readonly pki: Pki;
  readonly roster: Roster;
  readonly events: EventSink;
  readonly clock: Clock;
  /** What is known of a boot session that carries a ticket. */
  readonly ticketed: (session: string) => TicketFacts | undefined;
}

interface RedeemRequest {
  readonly session: string;
  readonly ticket: string;
  /** PKCS #10, PEM. */
  readonly csr: string;
  /** Source address of the connection. */
  readonly address: string;
}

/**
 * How often a ticket is evaluated when a concurrent request changes the records meanwhile. After
 * that many conflicts the ticket is refused.
 */
const ATTEMPTS = 4;

/**
 * Redeems a ticket. Resolves to the certificate, PEM, when its record is durable.
 *
 * @throws {MusterError} E_TICKET when the ticket or the request is refused; E_TICKET_KEY, with an
 * alarm, when another key has the ticket's certificate or the machine is running with one; and what
 * the store throws.
 */
export async function redeem(deps: RedeemDeps, request: RedeemRequest): Promise<string> {
  const facts = deps.ticketed(request.session);
  const address = plainAddress(request.address);
  const fits = facts !== undefined && deps.tickets.fits(facts.session, request.ticket);
  const refuse = (why: TicketRefusal, more = ''): Promise<never> =>
    refused(deps, { facts, address, session: request.session }, why, more);
  const wrong = judgeTicket(facts, { fits, address });
  if (wrong !== undefined || facts === undefined) return refuse(wrong ?? 'session_unknown');
  const read = readCsr(request.csr);
  if (!read.ok) return refuse('bad_request', ` (${read.text})`);
  const key = read.publicKey;
  for (let attempt = 0; attempt < ATTEMPTS; attempt++) {
    const found = await existingCertificate(deps, facts, key.pin());
    if (typeof found === 'string') return refuse(found);
    if (found !== undefined) return found.certificate;
    const made = await issue(deps, facts, key, address);
    if (made !== undefined) return made;
  }
  return refuse('other_key');
}

/**
 * The certificate that this key has already, or why the key gets none; undefined when it may get
 * one.
 */
async function existingCertificate(
  { identities, roster, pki }: RedeemDeps,
  { session, age }: TicketFacts,
  pin: string,
): Promise<{ readonly certificate: string } | TicketRefusal | undefined> {
  const { machine, id } = session;
  const redeemed = await identities.redeemed(id);
  const current = identities.get(machine);
  if (current?.revoked !== undefined && current.pin === pin) return 'revoked';
  if (redeemed !== undefined) {
    if (redeemed.pin !== pin || current?.serial !== redeemed.serial) return 'other_key';
    const ledger = await pki.issuedOne(MUSTER_SCOPE, redeemed.serial);
    return ledger === undefined ? 'other_key' : { certificate: ledger.certificate };
  }
  if (roster.get(machine)?.status.alarm !== undefined) return 'alarmed';
  if (age === undefined || age > TICKET_LIFETIME) return 'too_late';
  if (current !== undefined && current.pin !== pin && roster.heartbeats.alive(machine)?.bootId !== undefined)
    return 'alive';
  return undefined;
}

/** Issues and records a certificate. Undefined when another request was faster. */
async function issue(
  { identities, pki, events, clock, tickets }: RedeemDeps,
  { session }: TicketFacts,
  publicKey: PublicKey,
  address: string,
): Promise<string | undefined> {
  const { machine, id } = session;
  const redeemed = (serial: string): Redeemed => ({
    session: id,
    machine,
    ticket: tickets.hash(session),
    pin: publicKey.pin(),
    serial,
    address,
    at: clock.now(),
  });
  try {
    const { certificate, serial, notAfter } = await pki.issue(MUSTER_SCOPE, {
      leaf: 'agent',
      holder: { name: machine, addresses: [] },
      cluster: NO_CLUSTER,
      publicKey,
      also: (issued) => identities.writes(redeemed(issued.serial), issued.issuer.generation),
    });
    await identities.took(machine);
    events.record({
      kind: 'agent.certificate',
      subject: machine,
      session: id,
      fields: { serial, address, until: new Date(notAfter).toISOString() },
    });
    return certificate;
  } catch (error) {
    if (!(error instanceof MusterError) || error.code !== 'E_CONFLICT') throw error;
    await identities.took(machine);
    return undefined;
  }
}

/**
 * Records the refusal for the machine that it concerns, raises the alarm where the refusal calls
 * for one, and throws.
 */
async function refused(
  deps: RedeemDeps,
  asked: { readonly facts: TicketFacts | undefined; readonly address: string; readonly session: string },
  why: TicketRefusal,
  more: string,
): Promise<never> {
  const { facts, address } = asked;
  const reason = { code: why, text: `${TICKET_REFUSALS[why]}${more}` };
  // A wrong ticket says nothing about the machine: anybody on the segment can send one.
  const known = facts !== undefined && why !== 'ticket_wrong';
  deps.events.record({
    kind: 'agent.refused',
    subject: facts?.session.machine ?? address,
    ...(facts === undefined ? {} : { session: facts.session.id }),
    reason,
    fields: { address },
  });
  if (known && ALARMING.includes(why)) await raiseAlarm(deps, facts.session.machine, reason, address);
  const code: ErrorCode = ALARMING.includes(why) ? 'E_TICKET_KEY' : 'E_TICKET';
  throw new MusterError(code, reason.text);
}
