/** The steps of an explanation that say how a machine is: its phase, agent, session and events. */
import type { MusterEvent, Reason } from '../../events/event.ts';
import { nextIn } from '../../machines/life/life.ts';
import type { Member } from '../../machines/roster.ts';
import type { BootContext } from './boot-context.ts';
import { BOOT_LIMIT } from './decide.ts';

export interface ExplainStep {
  readonly step: string;
  readonly result: string;
  readonly reason?: Reason;
}

/** Its phase, what its agent said last, and its session; nothing for a machine without a record. */
export function stateSteps(context: BootContext, member: Member | undefined): readonly ExplainStep[] {
  if (!member) return [];
  const { phase, since, reason, bootsWithoutReady, session } = member.status;
  const steps: ExplainStep[] = [
    {
      step: 'phase',
      result: `${phase} since ${new Date(since).toISOString()}`,
      ...(reason ? { reason } : {}),
    },
    { step: 'boots', result: `${bootsWithoutReady} since it was last ready; held after ${BOOT_LIMIT}` },
  ];
  steps.push(...agentSteps(context, member));
  const live =
    context.roster.sessions.opening(member.name) ??
    (session === undefined ? undefined : context.roster.sessions.get(session));
  if (live) {
    const last = live.session.steps.at(-1)!;
    const state = live.session.closed ? `over (${live.session.closed.why})` : 'live';
    steps.push({
      step: 'session',
      result: `${live.name}, ${state}, last step ${last.step} at ${new Date(last.at).toISOString()}`,
    });
  }
  return steps;
}

/** What its agent said last, and whether the machine counts as running. */
function agentSteps(context: BootContext, { name, status }: Member): readonly ExplainStep[] {
  const { agent, alarm, quarantine, life } = status;
  const beat = context.roster.heartbeats.last(name);
  const runs = Math.ceil(context.roster.heartbeats.remaining(name) / 1000);
  const heard = [
    beat?.bootId === undefined
      ? 'not heard since this server started'
      : `${beat.left ? 'went down' : 'heard'} ${Math.round((context.clock.monotonic() - beat.at) / 1000)} s ago from ${beat.address}`,
    ...(runs > 0 ? [`counts as running for ${runs} s more`] : []),
  ].join(', ');
  return [
    ...(agent === undefined
      ? []
      : [
          {
            step: 'agent',
            result: `${heard}${agent.step === undefined ? '' : `, step ${agent.step}`}${agent.hold ? ', held' : ''}`,
            ...(agent.hold ? { reason: agent.hold } : {}),
          },
        ]),
    ...(agent?.bootDisk === undefined
      ? []
      : [{ step: 'boot disk', result: agent.bootDisk.code, reason: agent.bootDisk }]),
    ...(quarantine === undefined
      ? []
      : [
          {
            step: 'quarantine',
            result: `since ${new Date(quarantine.at).toISOString()}; muster machine release ${name} ends it`,
            reason: { code: quarantine.code, text: quarantine.text },
          },
        ]),
    ...(life === undefined
      ? []
      : [
          {
            step: 'life',
            result: `${life.state} since ${new Date(life.at).toISOString()}, by ${life.by}; next: ${nextIn(life.state, name)}`,
            reason: { code: life.state, text: life.text },
          },
        ]),
    ...(alarm === undefined
      ? []
      : [
          {
            step: 'alarm',
            result: `since ${new Date(alarm.at).toISOString()}; muster machine rearm ${name} ends it`,
            reason: { code: alarm.code, text: alarm.text },
          },
        ]),
  ];
}

export function eventStep(event: MusterEvent): ExplainStep {
  return {
    step: 'event',
    result: `${new Date(event.at).toISOString()} ${event.kind}`,
    ...(event.reason ? { reason: event.reason } : {}),
  };
}
