/** Which machine an agent's request comes from, by the client certificate of its connection. */
import { createHash } from 'node:crypto';
import type { Clock } from '../../base/clock.ts';
import { MusterError } from '../../base/errors.ts';
import type { EventSink } from '../../events/event.ts';
import type { Member, Roster } from '../../machines/roster.ts';
import type { AgentIdentity } from '../wire/protocol.ts';
import { raiseAlarm } from './alarm.ts';
import type { AgentRecord, Identities } from './identities.ts';

export interface AuthenticateDeps {
  readonly identities: Identities;
  readonly roster: Roster;
  readonly events: EventSink;
  readonly clock: Clock;
  /** Ids of the transport CA's generations that are trusted. */
  readonly trusted: () => ReadonlySet<string>;
  /** Whether an agent may work on a machine; see AgentBoot. Constant time. */
  readonly hasAgent: (machine: string) => boolean;
}

/**
 * A client certificate for whose key the handshake has a signature. Its chain was checked against
 * the trusted generations unless it has ended; the ledger decides in both cases.
 */
export interface ShownCertificate {
  /** Hexadecimal, lower case. */
  readonly serial: string;
  /** DER of its SubjectPublicKeyInfo. */
  readonly spki: Buffer;
  /** Ms since 1970. */
  readonly notAfter: number;
  /**
   * The generation of the transport CA whose certificate the listener showed on this connection.
   * The client accepted it, or it would not have sent a request. Absent: it is not known any more.
   */
  readonly listener?: string;
}

/**
 * Whether the certificate has ended by now, maybe since the handshake. A clock that may be wrong
 * ends none.
 */
export function hasEnded({ clock }: Pick<AuthenticateDeps, 'clock'>, shown: ShownCertificate): boolean {
  const doubt = clock.doubt();
  return (doubt === undefined || doubt.time !== undefined) && shown.notAfter <= clock.now();
}

/** Reasons why a client certificate is not accepted. */
const REFUSALS = {
  no_certificate: "The client presented no certificate of Muster's transport CA.",
  not_current: 'The certificate was never issued to an agent, or its machine has a newer one by now.',
  other_key: 'The key is not the one that this certificate was issued for.',
  distrusted: 'The certificate is of a generation of the transport CA that is distrusted.',
  revoked:
    'The certificate was revoked when its machine was removed from the cluster; decide with `muster machine rearm`.',
  ended: 'The certificate has ended. A poll with it brings another one for the same key.',
  quarantined: 'The machine is in quarantine; an operator ends that with `muster machine release`.',
  machine_gone: 'The machine has no document any more.',
  no_cluster: 'No cluster names the machine any more, and its documents refer to no Secret.',
} as const;

/**
 * Finds the machine that the ledger gave this certificate to. The certificate's subject is not
 * read: the ledger alone says whose key it is. `ended`: a certificate that has ended is accepted,
 * too.
 *
 * @throws {MusterError} E_AGENT_CERTIFICATE when the certificate is not accepted ({@link
 * REFUSALS})
 */
export function authenticate(
  deps: AuthenticateDeps,
  shown: ShownCertificate | undefined,
  address: string,
  { ended = false }: { readonly ended?: boolean } = {},
): {
  readonly identity: AgentIdentity;
  readonly member: Member;
  readonly shown: ShownCertificate;
  readonly record: AgentRecord;
} {
  const { identities, roster, events, trusted, hasAgent } = deps;
  const record = shown && identities.holder(shown.serial);
  const member = record && roster.get(record.machine);
  const refuse = (code: keyof typeof REFUSALS): never => {
    const reason = { code, text: REFUSALS[code] };
    events.record({
      kind: 'agent.refused',
      subject: record?.machine ?? address,
      reason,
      fields: { address, ...(shown ? { serial: shown.serial } : {}) },
    });
    throw new MusterError('E_AGENT_CERTIFICATE', reason.text);
  };
  if (shown === undefined) return refuse('no_certificate');
  if (record === undefined) return refuse('not_current');
  if (createHash('sha256').update(shown.spki).digest('hex') !== record.pin) return refuse('other_key');
  const generation = record.next?.serial === shown.serial ? record.next.generation : record.generation;
  if (!trusted().has(generation)) return refuse('distrusted');
  if (member?.status.quarantine !== undefined) return refuse('quarantined');
  if (record.revoked !== undefined) return refuse('revoked');
  if (member?.entry === undefined) return refuse('machine_gone');
  if (!hasAgent(record.machine)) return refuse('no_cluster');
  if (!ended && hasEnded(deps, shown)) return refuse('ended');
  return { identity: { machine: record.machine, serial: shown.serial, address }, member, shown, record };
}

/**
 * Raises the alarm when a system polls with the certificate that its machine had before, while
 * another polls with the current one: something booted in the machine's name while its agent could
 * not be heard.
 */
export async function takenOver(
  deps: AuthenticateDeps,
  shown: ShownCertificate | undefined,
  address: string,
): Promise<void> {
  const { identities, roster } = deps;
  const machine = shown && identities.replaced(shown.serial);
  if (machine === undefined || roster.get(machine)?.status.alarm !== undefined) return;
  if (roster.heartbeats.alive(machine)?.bootId === undefined) return;
  const text =
    'Two systems run in the name of this machine: one speaks with the certificate that it had before.';
  await raiseAlarm(deps, machine, { code: 'taken_over', text }, address);
}
