/** What a request shows of its machine's TPM, and what is recorded of a TPM that proved itself. */

import type { Clock } from '../../base/clock.ts';
import { MusterError } from '../../base/errors.ts';
import type { Roster } from '../../machines/roster.ts';
import type { TicketFacts } from '../../machines/tickets.ts';
import { endorsementFault } from '../../pki/tpm/endorsement-certificate.ts';
import { endorsementPin, vendorCas } from '../../resources/tpm-spec.ts';
import type { AgentRecord, Identities } from './identities.ts';
import { NO_TPM, type TpmFacts } from './redeem-decision.ts';
import type { TpmChallenges } from './tpm-challenges.ts';
import { readShownTpm, type ShownTpm } from './tpm-shown.ts';
import type { Waiting } from './waiting.ts';

export interface TpmDeps {
  readonly identities: Identities;
  readonly roster: Roster;
  readonly clock: Clock;
  readonly challenges: TpmChallenges;
  readonly waiting: Waiting;
}

/** The fields of a request that concern a TPM. */
export interface TpmRequest {
  /** See {@link readShownTpm}. */
  readonly tpm: string | undefined;
  /** The answer to a challenge, hexadecimal. */
  readonly proof: string | undefined;
}

interface AskedOf {
  readonly facts: TicketFacts;
  /** SHA-256 of the agent's key. */
  readonly pin: string;
}

/** The TPM that is known for a machine: its document's, else the one that it showed before. */
export interface KnownTpm {
  /** SHA-256 of the endorsement key (SPKI). */
  readonly ek: string;
  /** It is from a document, or was recorded when an operator had approved. */
  readonly vouched: boolean;
  readonly from: 'document' | 'boot';
  /** When it was recorded; absent before the machine showed it. */
  readonly since?: AgentRecord['at'];
}

/** See {@link KnownTpm}; undefined for a machine of which no TPM is known. */
export function knownTpm(
  { identities, roster }: Pick<TpmDeps, 'identities' | 'roster'>,
  machine: string,
): KnownTpm | undefined {
  const given = endorsementPin(roster.get(machine)?.entry?.document.spec.tpm?.endorsementKey ?? '');
  const recorded = identities.get(machine)?.tpm;
  if (given === undefined) return recorded && { ...recorded, from: 'boot' };
  return {
    ek: given,
    vouched: true,
    from: 'document',
    ...(recorded?.ek === given && { since: recorded.since }),
  };
}

type TpmShown =
  | { readonly ok: true; readonly facts: TpmFacts; readonly shown?: ShownTpm }
  | { readonly ok: false; readonly why: 'bad_request' | 'tpm_proof'; readonly text: string };

/** Finds out what a request shows. A proof is used up by that. */
export function tpmShown(deps: TpmDeps, { facts, pin }: AskedOf, request: TpmRequest): TpmShown {
  const { machine, id: session } = facts.session;
  const known = knownTpm(deps, machine);
  const base = { pinned: known !== undefined, vouches: known?.vouched ?? false };
  if (request.tpm === undefined) return { ok: true, facts: { ...NO_TPM, ...base } };
  const read = readShownTpm(request.tpm);
  if (!read.ok) return { ok: false, why: 'bad_request', text: ` (its TPM: ${read.text})` };
  const shown = read.tpm;
  const ek = shown.ek.publicKey.pin();
  const result = (what: TpmFacts['shown']): TpmShown => ({
    ok: true,
    facts: { ...base, shown: what, ek },
    shown,
  });
  if (known !== undefined && known.ek !== ek) return result('other');
  const cas = known === undefined && facts.vendorCas.length > 0 ? vendorCas(facts.vendorCas) : undefined;
  if (cas && endorsementFault(shown.certificate, shown.ek, cas, deps.clock.now()) !== undefined)
    return result('untrusted');
  // A machine that waits for an operator asks every few seconds; its TPM has proved this key
  // already.
  const waits = deps.waiting.of(machine).find((key) => key.pin === pin && key.facts.session.id === session);
  if (waits?.tpm.shown === 'proven' && waits.tpm.ek === ek) return result('proven');
  if (request.proof === undefined) return result('unproven');
  if (deps.challenges.proves({ session, pin, tpm: shown }, request.proof)) return result('proven');
  return { ok: false, why: 'tpm_proof', text: '' };
}

/**
 * Seals a new challenge to the TPM, and resolves to it in base64.
 *
 * @throws {MusterError} E_AGENT_WAIT when too many challenges are open.
 */
export function challengeFor(
  { challenges }: Pick<TpmDeps, 'challenges'>,
  { facts, pin }: AskedOf,
  tpm: ShownTpm,
): string {
  const made = challenges.make({ session: facts.session.id, pin, tpm });
  if (made === undefined) throw new MusterError('E_AGENT_WAIT', 'too many TPMs have challenges to open');
  return `${made.toString('base64').replace(/.{64}/g, '$&\n')}\n`;
}

/** What the record of a certificate says about the TPM that proved itself; undefined for none. */
export function tpmToRecord(
  { identities, roster, clock }: Pick<TpmDeps, 'identities' | 'roster' | 'clock'>,
  machine: string,
  { shown, ek }: TpmFacts,
  { approved }: { readonly approved: boolean },
): AgentRecord['tpm'] {
  if (shown !== 'proven' || ek === undefined) return undefined;
  const recorded = identities.get(machine)?.tpm;
  const since = recorded?.ek === ek ? recorded.since : clock.now();
  return { ek, since, vouched: approved || (knownTpm({ identities, roster }, machine)?.vouched ?? false) };
}
