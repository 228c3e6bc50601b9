/**
 * Quarantine: a machine that may be in somebody else's hands gets nothing from Muster. Its boots
 * are held, its agent is refused and its certificate revoked, until an operator releases it.
 */
import type { Clock } from '../../base/clock.ts';
import { MusterError } from '../../base/errors.ts';
import type { EventSink } from '../../events/event.ts';
import { printable } from '../../machines/identity.ts';
import type { KnownMachine } from '../../machines/machine.ts';
import { memberNamed } from '../../machines/member.ts';
import type { Roster } from '../../machines/roster.ts';
import type { Identities } from './identities.ts';

interface QuarantineDeps {
  readonly roster: Roster;
  readonly identities: Identities;
  readonly events: EventSink;
  readonly clock: Pick<Clock, 'now'>;
}

/** The code of the hold, the refusals and the revoked certificate. */
const QUARANTINED = 'quarantined';

const MAX_REASON = 300;

/**
 * `muster machine quarantine`: durable when it resolves. A machine that is in quarantine stays
 * there with its first time, and the new reason.
 *
 * @throws {MusterError} E_NOT_FOUND when no machine has this name, E_USAGE without a reason
 */
export async function quarantineMachine(
  { roster, identities, events, clock }: QuarantineDeps,
  name: string,
  { why, deletePods }: { readonly why: string; readonly deletePods: boolean },
): Promise<KnownMachine> {
  const member = memberNamed(roster, name);
  const text = printable(why, MAX_REASON);
  if (text === '')
    throw new MusterError('E_USAGE', 'say why with --reason: it is shown wherever the machine is');
  const at = member.status.quarantine?.at ?? clock.now();
  const pods = deletePods || member.status.quarantine?.deletePods === true;
  const record = identities.get(name);
  roster.change(member, { quarantine: { code: QUARANTINED, text, at, ...(pods && { deletePods: true }) } });
  // The state is durable first: a machine whose certificate is not revoked yet is refused by it.
  await roster.commit([member], []);
  await identities.withdraw(name, { at, code: QUARANTINED });
  roster.heartbeats.forget(name);
  events.record({
    kind: 'agent.quarantined',
    subject: name,
    reason: { code: QUARANTINED, text },
    ...(record && { fields: { serial: record.serial } }),
  });
  return roster.view(member);
}

/**
 * `muster machine release`: the machine boots again. Its old certificate stays worthless: the key
 * of its next boot gets a new one, by the rules of its tier of trust.
 *
 * @throws {MusterError} E_NOT_FOUND when no machine has this name, E_CONFLICT when it is not in
 *   quarantine
 */
export async function releaseMachine(
  { roster, identities, events }: QuarantineDeps,
  name: string,
): Promise<KnownMachine> {
  const member = memberNamed(roster, name);
  if (member.status.quarantine === undefined)
    throw new MusterError('E_CONFLICT', `${name} is not in quarantine`);
  const before = await identities.revoke(name);
  roster.change(member, { quarantine: undefined });
  await roster.commit([member], []);
  events.record({
    kind: 'agent.released',
    subject: name,
    ...(before && { fields: { serial: before.serial } }),
  });
  return roster.view(member);
}
