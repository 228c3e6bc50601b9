/**
 * The alarm of a machine whose credentials two systems may hold, and the operator's command that
 * ends it.
 */
import type { Clock } from '../../base/clock.ts';
import { beforeChange } from '../../base/rehearsal.ts';
import type { EventSink, Reason } from '../../events/event.ts';
import type { AgentStatus, KnownMachine } from '../../machines/machine.ts';
import { memberNamed } from '../../machines/member.ts';
import type { Roster } from '../../machines/roster.ts';
import type { Identities } from './identities.ts';
import { REVOKED } from './withdrawal.ts';

interface AlarmDeps {
  readonly roster: Roster;
  readonly identities: Identities;
  readonly events: EventSink;
  readonly clock: Clock;
}

/** Raises the alarm; durable when it resolves. The first reason stays, with its time. */
export async function raiseAlarm(
  { roster, events, clock }: Omit<AlarmDeps, 'identities'>,
  machine: string,
  reason: Reason,
  address: string,
): Promise<void> {
  const member = roster.get(machine);
  if (member === undefined) return;
  events.record({ kind: 'agent.alarm', subject: machine, reason, fields: { address } });
  if (member.status.alarm !== undefined) return;
  const text = `${reason.text} (from ${address})`;
  roster.change(member, { alarm: { code: reason.code, text, at: clock.now() } });
  await roster.commit([member], []);
}

/**
 * `muster machine rearm`: ends the alarm. With `keep` the operator confirms that the current
 * certificate is the machine's own: it stays, or counts again if it was revoked when the machine
 * was removed. Without `keep` the certificate is no longer believed, and the next key that comes
 * with the ticket of the machine's current boot gets one; the ticket's time starts again.
 *
 * @throws {MusterError} E_NOT_FOUND when no machine has this name.
 */
export async function rearmMachine(
  { roster, identities, events, clock }: AlarmDeps,
  name: string,
  { keep }: { readonly keep: boolean },
): Promise<KnownMachine> {
  const member = memberNamed(roster, name);
  beforeChange(`put machine/${name}`);
  const before = keep ? undefined : await identities.revoke(name);
  const current = roster.sessions.current(name);
  if (keep) await identities.restore(name);
  else {
    roster.heartbeats.forget(name);
    if (current?.ticketAt !== undefined) roster.sessions.ticketed(current, true);
  }
  const { agent } = member.status;
  const { hold, ...free } = agent ?? {};
  roster.change(member, {
    alarm: undefined,
    ...(agent && hold?.code === REVOKED && { agent: { ...(free as AgentStatus), since: clock.now() } }),
  });
  await roster.commit([member], !keep && current ? [current] : []);
  events.record({
    kind: 'agent.rearmed',
    subject: name,
    fields: { kept: keep, ...(before === undefined ? {} : { serial: before.serial }) },
  });
  return roster.view(member);
}
