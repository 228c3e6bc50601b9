/** What machines say of their boot: first-boot documents on the way out, reports on the way in. */
import type { Plan } from '../../agent/plan.ts';
import type { Millis } from '../../base/duration.ts';
import type { Mac } from '../../base/mac.ts';
import { printable } from '../../machines/identity.ts';
import { type MachineReport, REPORT_STEPS } from '../../machines/machine.ts';
import { type Disbelief, judgeReport, logTail, MAX_DETAIL, plainAddress } from '../../machines/reports.ts';
import type { Member } from '../../machines/roster.ts';
import { CONFIG_TIMEOUT, type LiveSession, MAX_SESSION_AGE } from '../../machines/sessions.ts';
import type { TicketFacts } from '../../machines/tickets.ts';
import type { ConfigAnswer, ConfigFile, ReportAnswer } from '../boot.ts';
import { addressOf, type BootContext, isInline } from './boot-context.ts';
import { configTimeout, faultText } from './boot-script.ts';
import type { ConfigurationResult } from './configuration.ts';
import { givesAddress } from './foreign.ts';

export const CONTENT_TYPES: Readonly<Record<ConfigFile, string>> = {
  'user-data': 'text/plain; charset=utf-8',
  'meta-data': 'text/yaml; charset=utf-8',
  'vendor-data': 'text/plain; charset=utf-8',
  'network-config': 'text/yaml; charset=utf-8',
  ignition: 'application/vnd.coreos.ignition+json',
};

/** Ends of a boot session that do not end its ticket. */
const SAID_BY_MACHINE: readonly string[] = ['ready', 'failed'];

/**
 * Base URL of what is rendered only to be looked into, after a restart and before the machine asked
 * again.
 */
const NOWHERE = 'http://127.0.0.1';

/**
 * A document of a live session. Not ready is `wait`: cloud-init and Ignition take anything else for
 * final.
 */
export function config(context: BootContext, id: string, file: ConfigFile, baseUrl: string): ConfigAnswer {
  const live = context.roster.sessions.get(id);
  if (live === undefined) return { ok: false, status: 'gone', why: 'no boot session has this id' };
  const subject = live.session.machine;
  const refused = (status: 'wait' | 'gone', why: string): ConfigAnswer => {
    context.events.record({
      kind: 'config.refused',
      subject,
      session: id,
      reason: { code: status, text: why },
      fields: { file },
    });
    return { ok: false, status, why, subject };
  };
  if (!context.roster.sessions.isLive(live))
    return refused('gone', `the boot session is over (${live.session.closed?.why ?? 'expired'})`);
  const result = configurationOf(context, live, baseUrl);
  if (result === undefined) return refused('wait', 'no script that boots was served in this session yet');
  if (!result.ok) return refused('wait', `the configuration does not render: ${faultText(result.faults)}`);
  const body = result.value.files[file];
  if (body === undefined)
    return refused('gone', `an image with format ${result.value.format} has no ${file}`);
  // From here its ticket's time runs; one of these documents carries it.
  const ticket = context.agents?.agentCluster(subject) !== undefined && !isInline(context, subject);
  if (ticket && file !== 'meta-data' && file !== 'network-config')
    if (context.roster.sessions.ticketed(live)) context.roster.saveLater(live);
  context.events.record({
    kind: 'config.served',
    subject,
    session: id,
    fields: { file, octets: Buffer.byteLength(body) },
  });
  return { ok: true, contentType: CONTENT_TYPES[file], body, subject };
}

/**
 * The configuration of a session that was given a boot; undefined when it was not, or its machine
 * has no document.
 */
export function configurationOf(
  context: BootContext,
  live: LiveSession,
  baseUrl: string,
  plan?: Plan,
): ConfigurationResult | undefined {
  const { session } = live;
  const member = context.roster.get(session.machine);
  if (!member?.entry || session.profile === undefined || session.image === undefined) return undefined;
  const network = context.servedNetworks().find((one) => one.name === session.network);
  return context.configurations.of({
    member,
    profile: session.profile,
    image: session.image,
    mac: session.mac,
    session: session.id,
    baseUrl,
    network,
    address: addressOf(member, network, session.peer),
    plan,
  });
}

/**
 * Judges, applies and makes durable; an answer `believed` means that it will survive a power cut.
 */
export async function report(
  context: BootContext,
  id: string,
  given: MachineReport,
  peer: string,
): Promise<ReportAnswer> {
  const { roster, metrics } = context;
  const live = roster.sessions.get(id);
  const member = live && roster.get(live.session.machine);
  const judged = judgeReport({
    session: live?.session,
    live: live !== undefined && roster.sessions.isLive(live),
    documented: member?.entry !== undefined,
    phase: member?.status.phase,
    step: given.step,
    peer,
    expected: live && member ? expectedPeers(context, live, member) : new Set(),
  });
  const step = REPORT_STEPS.includes(given.step) ? given.step : 'other';
  const disbelieve = (why: Disbelief): ReportAnswer => {
    metrics.add('muster_reports_total', { step, outcome: why.code });
    context.events.record({
      kind: 'report.disbelieved',
      subject: live?.session.machine ?? plainAddress(printable(peer, 64)),
      ...(live ? { session: live.session.id } : {}),
      reason: why,
      fields: { step, peer: printable(peer, 64) },
    });
    return { believed: false, why: why.text };
  };
  if (!judged.believed) return disbelieve(judged.reason);
  metrics.add('muster_reports_total', { step, outcome: judged.repeat ? 'repeated' : 'believed' });
  const subject = live!.session.machine;
  if (!judged.repeat) believe(context, live!, member!, given);
  // A repeated report may be here because the first one could not be made durable.
  await roster.commit(member ? [member] : [], [live!]);
  return { believed: true, subject };
}

/**
 * Addresses that this machine's reports may come from: where its script was fetched, what its
 * documents and leases give it. Empty, meaning any, where another DHCP server gives the addresses:
 * it may give the system another one than it gave iPXE.
 */
function expectedPeers(context: BootContext, live: LiveSession, member: Member): ReadonlySet<string> {
  const network = context.servedNetworks().find(({ name }) => name === live.session.network);
  if (network === undefined || !givesAddress(network, member)) return new Set();
  return ownAddresses(context, live, member);
}

/**
 * Addresses of this machine in this boot: where its script was fetched, what its documents,
 * configuration and leases give it.
 */
export function ownAddresses(context: BootContext, live: LiveSession, member: Member): ReadonlySet<string> {
  const expected = new Set<string>();
  if (live.session.peer !== undefined) expected.add(live.session.peer);
  const spec = member.entry?.document.spec;
  for (const address of spec?.addresses ?? []) expected.add(address);
  const rendered = configurationOf(context, live, live.baseUrl ?? NOWHERE);
  if (rendered?.ok)
    for (const one of rendered.value.merged.network?.interfaces ?? [])
      for (const address of one.addresses ?? []) expected.add(address.split('/')[0]!);
  if (context.leasedAddresses)
    for (const mac of new Set([...((spec?.macs ?? []) as Mac[]), ...member.status.seen.macs]))
      for (const address of context.leasedAddresses(mac)) expected.add(address);
  return expected;
}

/**
 * What a ticket of this session is good for; undefined when there is no such session. Wherever the
 * addresses come from, they are told apart.
 */
export function ticketed(context: BootContext, id: string): TicketFacts | undefined {
  const { sessions } = context.roster;
  const live = sessions.get(id);
  if (live === undefined) return undefined;
  const { session } = live;
  const member = context.roster.get(session.machine);
  // An agent that could not speak to us says so with the report `failed`; once it can, it is still
  // the machine's present boot.
  const over = session.closed !== undefined && !SAID_BY_MACHINE.includes(session.closed.why);
  const now = context.clock.monotonic();
  return {
    session,
    current:
      live.given &&
      !over &&
      sessions.current(session.machine) === live &&
      now - live.openedAt < MAX_SESSION_AGE,
    accepted: member?.entry !== undefined && context.agents?.agentCluster(session.machine) !== undefined,
    age: live.ticketAt === undefined ? undefined : ((now - live.ticketAt) as Millis),
    addresses: member === undefined ? new Set() : ownAddresses(context, live, member),
  };
}

function believe(context: BootContext, live: LiveSession, member: Member, given: MachineReport): void {
  const { roster } = context;
  const { step } = given;
  const detail = given.detail === undefined ? undefined : printable(given.detail, MAX_DETAIL);
  roster.sessions.mark(live, step);
  roster.sessions.touch(live);
  if (step === 'ready' || step === 'failed') roster.sessions.close(live, step);
  else if (step === 'kernel')
    roster.sessions.expect(live, (context.clock.monotonic() + timeoutOf(context, live)) as Millis);
  roster.move(member, step, {
    session: live.session.id,
    ...(step === 'ready' ? { bootsWithoutReady: 0 } : {}),
    ...(step === 'failed'
      ? {
          reason: { code: 'reported', text: detail || 'The machine reported that its boot failed.' },
          logTail: given.logTail === undefined ? undefined : logTail(given.logTail),
        }
      : {}),
  });
  context.events.record({
    kind: 'report.believed',
    subject: member.name,
    session: live.session.id,
    fields: { step, ...(detail ? { detail } : {}) },
  });
}

function timeoutOf(context: BootContext, live: LiveSession): Millis {
  const rendered = configurationOf(context, live, live.baseUrl ?? NOWHERE);
  return rendered?.ok ? configTimeout(rendered.value) : CONFIG_TIMEOUT;
}

/**
 * Machines that fell silent become `failed`. Their session stays live: one that was only slow is
 * believed when it speaks.
 */
export function failSilent(context: BootContext): void {
  for (const live of context.roster.sessions.overdue()) {
    const member = context.roster.get(live.session.machine);
    if (member === undefined || member.status.session !== live.session.id) continue;
    const last = live.session.steps.at(-1);
    context.roster.move(member, 'timeout', {
      reason: {
        code: 'timed_out',
        text: `Nothing was heard from it since "${last?.step ?? 'opened'}" within its configTimeout.`,
      },
    });
  }
}
