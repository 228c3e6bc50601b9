/**
 * Redeeming a ticket: a ticket and a key become a certificate, once, when the machine has shown
 * what its tier of trust asks for (redeem-decision.ts). The first key whose record is durable gets
 * it. The same key gets the same answer for as long as the boot session lasts, so a lost answer
 * locks no machine out. Another key is refused, recorded and alarmed, because the server cannot
 * know which of the two is the machine's own.
 */
import type { Clock } from '../../base/clock.ts';
import { type ErrorCode, MusterError } from '../../base/errors.ts';
import { plainAddress } from '../../base/ip.ts';
import type { EventSink, Reason } from '../../events/event.ts';
import type { Roster } from '../../machines/roster.ts';
import {
  ALARMING,
  type HardwareDoubt,
  judgeTicket,
  TICKET_LIFETIME,
  TICKET_REFUSALS,
  type TicketFacts,
  type TicketRefusal,
  type Tickets,
} from '../../machines/tickets.ts';
import { readCsr } from '../../pki/csr.ts';
import type { PublicKey } from '../../pki/keys.ts';
import type { Pki } from '../../pki/pki.ts';
import { NO_CLUSTER } from '../../pki/server-certificate.ts';
import { MUSTER_SCOPE } from '../../store/keys.ts';
import { raiseAlarm } from './alarm.ts';
import type { Identities, Redeemed } from './identities.ts';
import { decideRedeem, type RedeemFacts, type TpmFacts } from './redeem-decision.ts';
import { challengeFor, type TpmRequest, tpmShown, tpmToRecord } from './redeem-tpm.ts';
import type { TpmChallenges } from './tpm-challenges.ts';
import type { ShownTpm } from './tpm-shown.ts';
import type { Waiting } from './waiting.ts';

export interface RedeemDeps {
  readonly tickets: Tickets;
  readonly identities: Identities;
  readonly pki: Pki;
  readonly roster: Roster;
  readonly events: EventSink;
  readonly clock: Clock;
  /** What is known of a boot session that carries a ticket. */
  readonly ticketed: (session: string) => TicketFacts | undefined;
  readonly waiting: Waiting;
  readonly challenges: TpmChallenges;
}

interface RedeemRequest extends TpmRequest {
  readonly session: string;
  /** Undefined when the machine's documents carry none. */
  readonly ticket: string | undefined;
  /** PKCS #10, PEM. */
  readonly csr: string;
  /** Source address of the connection. */
  readonly address: string;
}

/**
 * How often a request is evaluated when a concurrent one changes the records meanwhile. After that
 * many conflicts it is refused.
 */
const ATTEMPTS = 4;

/** What a machine gets that asks for a certificate. */
export type RedeemAnswer =
  | { readonly kind: 'certificate'; readonly certificate: string }
  /** The key waits for an operator; from the nonce the machine computes the code that it shows. */
  | { readonly kind: 'hold'; readonly hold: 'approval'; readonly nonce: string }
  /** Only the machine's TPM can open the challenge. */
  | { readonly kind: 'hold'; readonly hold: 'tpm'; readonly challenge: string };

/**
 * Answers a machine that asks for a certificate. A certificate is durable when this resolves.
 *
 * @throws {MusterError} E_TICKET when the ticket or the request is refused; E_TICKET_KEY, with an
 * alarm, when another key has the ticket's certificate or the machine is running with one;
 * E_AGENT_WAIT when too many keys wait for approval; and what the store throws.
 */
export async function redeem(deps: RedeemDeps, request: RedeemRequest): Promise<RedeemAnswer> {
  const facts = deps.ticketed(request.session);
  const address = plainAddress(request.address);
  const fits =
    facts !== undefined && request.ticket !== undefined && deps.tickets.fits(facts.session, request.ticket);
  const asker = judgeTicket(facts, { fits, address });
  const doubt = 'is' in asker ? asker.doubt : undefined;
  const known = 'is' in asker && asker.is === 'known' && doubt === undefined;
  const refuse = (why: TicketRefusal, more = '', pinned = false): Promise<never> =>
    refused(deps, { facts, address, alarms: known && alarming(why, pinned) }, why, more);
  if ('refused' in asker || facts === undefined)
    return refuse('refused' in asker ? asker.refused : 'session_unknown');
  const read = readCsr(request.csr);
  if (!read.ok) return refuse('bad_request', ` (${read.text})`);
  const key = read.publicKey;
  const pin = key.pin();
  const tpm = tpmShown(deps, { facts, pin }, request);
  if (!tpm.ok) return refuse(tpm.why, tpm.text);
  // An operator is shown whether the address is a sign of the machine.
  const is = facts.trust.tier === 'approved' && doubt !== undefined ? 'unknown' : asker.is;
  const asked: Asked = { facts, address, asker: is, doubt, key, pin, tpm: tpm.facts };
  for (let attempt = 0; attempt < ATTEMPTS; attempt++) {
    const found = await knownOf(deps, asked);
    const decision = decideRedeem(found.facts);
    if (decision.do === 'refuse') return refuse(decision.code, '', asked.tpm.pinned);
    if (decision.do === 'repeat') return { kind: 'certificate', certificate: found.certificate! };
    if (decision.do === 'hold') return hold(deps, asked, found, decision.hold, tpm.shown);
    const certificate = await issue(deps, asked, { approved: false });
    if (certificate !== undefined) return { kind: 'certificate', certificate };
  }
  return refuse('other_key');
}

/**
 * Whether a refusal raises the machine's alarm. Without the TPM that is known for a machine,
 * somebody asks in its name; where none is known, a machine may just lack what its tier asks for.
 */
const alarming = (why: TicketRefusal, tpmPinned: boolean): boolean =>
  ALARMING.includes(why) || (tpmPinned && (why === 'tpm_missing' || why === 'tpm_changed'));

/** A request whose session, ticket and address were judged. */
export interface Asked {
  readonly facts: TicketFacts;
  readonly address: string;
  readonly asker: 'known' | 'unknown';
  readonly doubt: HardwareDoubt | undefined;
  readonly key: PublicKey;
  readonly pin: string;
  readonly tpm: TpmFacts;
}

interface Known {
  readonly facts: RedeemFacts;
  /** The certificate that this key got in this session. */
  readonly certificate?: string;
}

/** Collects what the decision depends on. */
export async function knownOf({ identities, roster, pki }: RedeemDeps, asked: Asked): Promise<Known> {
  const { facts, pin, asker, doubt } = asked;
  const { machine, id } = facts.session;
  const redeemed = await identities.redeemed(id);
  const current = identities.get(machine);
  const { alarm, quarantine } = roster.get(machine)?.status ?? {};
  const mine = redeemed !== undefined && redeemed.pin === pin && current?.serial === redeemed.serial;
  const ledger = mine ? await pki.issuedOne(MUSTER_SCOPE, redeemed.serial) : undefined;
  const holder = current === undefined ? 'none' : current.pin === pin ? 'same' : 'other';
  return {
    facts: {
      asker,
      doubt,
      late: asker === 'known' && (facts.age === undefined || facts.age > TICKET_LIFETIME),
      redeemed: redeemed === undefined ? 'no' : ledger === undefined ? 'other' : 'same',
      holder,
      revoked: holder === 'same' && current?.revoked !== undefined,
      quarantined: quarantine !== undefined,
      alarmed: alarm !== undefined,
      alarmedByTpm: alarm?.code === 'tpm_missing' || alarm?.code === 'tpm_changed',
      alive: roster.heartbeats.alive(machine)?.bootId !== undefined,
      tier: facts.trust.tier,
      tpm: asked.tpm,
    },
    ...(ledger && { certificate: ledger.certificate }),
  };
}

/** Lets a machine wait, and records that it does. */
function hold(
  deps: RedeemDeps,
  asked: Asked,
  known: Known,
  what: 'approval' | 'tpm',
  shown: ShownTpm | undefined,
): RedeemAnswer {
  if (what === 'tpm') return { kind: 'hold', hold: what, challenge: challengeFor(deps, asked, shown!) };
  const { facts, key, pin, address, tpm } = asked;
  const { machine, id } = facts.session;
  const replaces = known.facts.holder === 'other';
  const asks = { machine, facts, key, pin, tpm, address, replaces, known: asked.asker === 'known' };
  const waits = deps.waiting.ask(asks);
  if (waits === undefined)
    throw new MusterError('E_AGENT_WAIT', `too many keys wait for an approval of ${machine}`);
  if (waits.isNew)
    deps.events.record({
      kind: 'agent.waiting',
      subject: machine,
      session: id,
      reason: waitingReason(machine),
      fields: { address, key: pin, replaces, trust: facts.trust.tier, from: facts.trust.from },
    });
  return { kind: 'hold', hold: 'approval', nonce: waits.nonce };
}

/** What a machine waits for while its key is not approved. */
export const waitingReason = (machine: string): Reason => ({
  code: 'approval',
  text: `Its key waits for an operator: \`muster machine approve ${machine} CODE\`, with the code on its console.`,
});

/** Issues and records a certificate. Undefined when another request was faster. */
export async function issue(
  deps: Omit<RedeemDeps, 'ticketed' | 'waiting' | 'challenges'>,
  { facts, key: publicKey, address, tpm }: Pick<Asked, 'facts' | 'key' | 'address' | 'tpm'>,
  how: { readonly approved: boolean },
): Promise<string | undefined> {
  const { identities, pki, events, clock, tickets } = deps;
  const { session } = facts;
  const { machine, id } = session;
  const before = identities.get(machine)?.tpm;
  const shown = tpmToRecord(deps, machine, tpm, how);
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
      also: (issued) => identities.writes(redeemed(issued.serial), issued.issuer.generation, shown),
    });
    await identities.took(machine);
    events.record({
      kind: 'agent.certificate',
      subject: machine,
      session: id,
      fields: {
        serial,
        address,
        until: new Date(notAfter).toISOString(),
        ...(shown && { tpm: `sha256:${shown.ek}` }),
      },
    });
    if (shown && shown.ek !== before?.ek)
      events.record({
        kind: 'agent.tpm',
        subject: machine,
        session: id,
        fields: { tpm: `sha256:${shown.ek}`, vouched: shown.vouched },
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
  asked: { readonly facts: TicketFacts | undefined; readonly address: string; readonly alarms: boolean },
  why: TicketRefusal,
  more: string,
): Promise<never> {
  const { facts, address, alarms } = asked;
  const reason = { code: why, text: `${TICKET_REFUSALS[why]}${more}` };
  deps.events.record({
    kind: 'agent.refused',
    subject: facts?.session.machine ?? address,
    ...(facts === undefined ? {} : { session: facts.session.id }),
    reason,
    fields: { address },
  });
  // Without ticket and from an unknown address, anybody could raise alarms.
  if (alarms && facts !== undefined) await raiseAlarm(deps, facts.session.machine, reason, address);
  const code: ErrorCode = alarms || ALARMING.includes(why) ? 'E_TICKET_KEY' : 'E_TICKET';
  throw new MusterError(code, reason.text);
}
