/** What an agent's facts change in its machine's record, and the events that say so. */
import { isDeepStrictEqual } from 'node:util';
import type { Clock } from '../../base/clock.ts';
import type { EventSink, NewEvent, Reason } from '../../events/event.ts';
import { printable } from '../../machines/identity.ts';
import type { AgentStatus } from '../../machines/machine.ts';
import type { Member, Roster } from '../../machines/roster.ts';
import { raiseAlarm } from '../identity/alarm.ts';
import { shortBuild } from '../scripts/bundle.ts';
import type { AgentFacts } from '../wire/facts.ts';

interface HeardDeps {
  readonly roster: Roster;
  readonly events: EventSink;
  readonly clock: Clock;
}

/** How many characters of a code or id are kept. */
export const MAX_CODE = 64;
/** How many characters of a reason's text are kept. */
const MAX_TEXT = 500;

/** Records that the machine is alive, and what is new in its facts. */
export async function heard(
  deps: HeardDeps,
  member: Member,
  facts: AgentFacts,
  address: string,
): Promise<void> {
  const { roster, events, clock } = deps;
  const before = member.status.agent;
  const kept = keptBy(before, facts);
  const agent = { since: clock.now(), ...statusOf(facts), ...(kept !== undefined && { kept }) };
  const beat = roster.heartbeats.beat(member.name, { bootId: agent.bootId, address });
  if (beat === 'returned') {
    const text = 'Two systems use one certificate of this machine in turns: it was copied.';
    await raiseAlarm(deps, member.name, { code: 'copied', text }, address);
  }
  const { trial } = member.status;
  const proved = trial !== undefined && facts.image === trial.image && facts.applied !== undefined;
  if (before !== undefined && !proved && isDeepStrictEqual({ ...before, since: agent.since }, agent)) return;
  roster.change(member, { agent, ...(proved && { trial: undefined }) });
  const { session } = member.status;
  for (const news of newsOf(before, agent, address))
    events.record({ subject: member.name, ...(session !== undefined && { session }), ...news });
}

/**
 * The root image that the machine's boot disk starts. A disk keeps what it has while the agent says
 * nothing else.
 */
function keptBy(before: AgentStatus | undefined, { bootDisk, image }: AgentFacts): string | undefined {
  if (bootDisk?.state === 'kept') return image;
  return bootDisk?.state === 'foreign' ? undefined : before?.kept;
}

/** The agent's status by its facts. Everything that a machine wrote is made printable and short. */
function statusOf(facts: AgentFacts): Omit<AgentStatus, 'since'> {
  const { step, hold, bootDisk, secrets, build, refused, ended, full } = facts;
  return {
    version: printable(facts.agent, MAX_CODE),
    bootId: printable(facts.bootId, MAX_CODE),
    ...(step !== undefined && { step: printable(step, MAX_CODE) }),
    ...(hold && { hold: shortReason(hold.code, hold.text) }),
    ...(bootDisk && { bootDisk: shortReason(bootDisk.state, bootDisk.text) }),
    ...(ended && { ended: wordsOf(ended) }),
    ...(full && { full }),
    ...(secrets && { secrets: Object.fromEntries(secrets) }),
    ...(build !== undefined && { build }),
    ...(refused && { refused }),
  };
}

const wordsOf = (ended: NonNullable<AgentFacts['ended']>): Readonly<Record<string, string>> =>
  Object.fromEntries(Object.entries(ended).map(([name, words]) => [name, printable(words, MAX_TEXT)]));

const shortReason = (code: string, text: string): Reason => ({
  code: printable(code, MAX_CODE),
  text: printable(text, MAX_TEXT),
});

/** The events of what differs between two statuses of one machine's agent. */
function* newsOf(
  before: AgentStatus | undefined,
  now: AgentStatus,
  address: string,
): Generator<Pick<NewEvent, 'kind' | 'reason' | 'fields'>> {
  const { step, hold, bootDisk, build, refused, ended = {} } = now;
  const rebooted = before?.bootId !== now.bootId;
  if (rebooted) yield { kind: 'agent.alive', fields: { address, version: now.version, boot: now.bootId } };
  if (step !== undefined && before?.step !== step) yield { kind: 'agent.step', fields: { step } };
  if (hold && numbersAside(before?.hold) !== numbersAside(hold)) yield { kind: 'agent.held', reason: hold };
  for (const [code, text] of Object.entries(ended)) {
    const words = before?.ended?.[code];
    const same = numbersAside(words === undefined ? undefined : { code, text: words });
    if (same !== numbersAside({ code, text })) yield { kind: 'agent.ended', reason: { code, text } };
  }
  if (!isDeepStrictEqual(before?.secrets ?? {}, now.secrets ?? {}))
    yield { kind: 'agent.secrets', fields: { secrets: Object.keys(now.secrets ?? {}).join(' ') } };
  if (!rebooted && build !== undefined && before?.build !== undefined && before.build !== build)
    yield {
      kind: 'agent.upgraded',
      fields: { from: shortBuild(before.build), to: shortBuild(build) },
    };
  if (refused && !isDeepStrictEqual(before?.refused, refused))
    yield {
      kind: 'agent.taken-back',
      reason: { code: refused.code, text: printable(refused.text, MAX_TEXT) },
      fields: { agent: shortBuild(refused.digest) },
    };
  if (bootDisk && !isDeepStrictEqual(before?.bootDisk, bootDisk))
    yield { kind: 'agent.boot-disk', reason: bootDisk };
}

/**
 * A hold with its digits replaced: two failures of a program that differ only in times and process
 * ids are the same hold.
 */
const numbersAside = (hold: Reason | undefined): string | undefined =>
  hold && `${hold.code} ${hold.text.replace(/\d+/g, '0')}`;
