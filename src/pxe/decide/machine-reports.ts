/** Serves first-boot documents of live sessions, and takes the reports of booting machines. */
import type { Plan } from '../../agent/wire/plan.ts';
import type { Millis } from '../../base/duration.ts';
import { plainAddress } from '../../base/ip.ts';
import { consolePart, withoutSecrets } from '../../machines/console.ts';
import { printable } from '../../machines/identity.ts';
import { type BootSession, type MachineReport, REPORT_STEPS } from '../../machines/machine.ts';
import { type Disbelief, judgeReport, logTail, MAX_DETAIL } from '../../machines/reports.ts';
import type { Member, StatusChange } from '../../machines/roster.ts';
import { CONFIG_TIMEOUT, type LiveSession } from '../../machines/sessions.ts';
import type { TicketFacts } from '../../machines/tickets.ts';
import { serialWord } from '../../resources/disk-spec.ts';
import type { ConfigAnswer, ConfigAsked, ConfigFile, ConsoleAnswer, ReportAnswer } from '../boot.ts';
import type { ServedNetwork } from '../network.ts';
import { addressOf, type BootContext, isInline } from './boot-context.ts';
import { configTimeout, faultText } from './boot-script.ts';
import type { ConfigurationResult } from './configuration.ts';
import {
  givesAddress,
  hardwareDoubt,
  isOn,
  onOtherHardware,
  ownAddresses,
  trustedMacs,
} from './own-addresses.ts';
import { machineTrust, vendorCasOf } from './trust.ts';

/** Content type of each first-boot document. */
export const CONTENT_TYPES: Readonly<Record<ConfigFile, string>> = {
  'user-data': 'text/plain; charset=utf-8',
  'meta-data': 'text/yaml; charset=utf-8',
  'vendor-data': 'text/plain; charset=utf-8',
  'network-config': 'text/yaml; charset=utf-8',
  ignition: 'application/vnd.coreos.ignition+json',
};

/** Why a document is not given to an address. */
const FOREIGN =
  "this address is not the machine's; if it is, list it under addresses in the Machine document, or its hardware address under macs";

/** Base URL for a configuration that is rendered only to read its addresses, after a restart. */
const NOWHERE = 'http://127.0.0.1';

/**
 * Renders a first-boot document of a live session, for an address of its machine. A document that
 * is not ready gives `wait`, because cloud-init and Ignition treat every other failure as final.
 */
export function config(
  context: BootContext,
  id: string,
  file: ConfigFile,
  { baseUrl, peer }: ConfigAsked,
): ConfigAnswer {
  const live = context.roster.sessions.get(id);
  if (live === undefined) return { ok: false, status: 'gone', why: 'no boot session has this id' };
  const subject = live.session.machine;
  const address = plainAddress(peer);
  const refused = (status: 'wait' | 'gone', why: string): ConfigAnswer => {
    context.events.record({
      kind: 'config.refused',
      subject,
      session: id,
      reason: { code: status, text: why },
      fields: { file, address },
    });
    return { ok: false, status, why, subject };
  };
  if (!context.roster.sessions.isLive(live))
    return refused('gone', `the boot session is over (${live.session.closed?.why ?? 'expired'})`);
  if (context.roster.get(subject)?.status.quarantine !== undefined)
    return refused('gone', 'the machine is in quarantine');
  const result = configurationOf(context, live, baseUrl);
  if (result === undefined) return refused('wait', 'this session has not been given a boot yet');
  if (!speaksFor(context, live, address)) return refused('gone', FOREIGN);
  if (!result.ok) return refused('wait', `the configuration does not render: ${faultText(result.faults)}`);
  const body = result.value.files[file];
  if (body === undefined)
    return refused('gone', `an image with format ${result.value.format} has no ${file}`);
  // One of these documents contains the ticket, so the ticket's time begins now. Where another
  // server gives the addresses there is no ticket, and the agent has as much time to ask.
  if (hasTicket(context, subject) && file !== 'meta-data' && file !== 'network-config')
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
 * Whether this address may read the documents of the session and report in it: the machine's own,
 * and where another server gives the addresses, all of the network's subnet. Such a server may give
 * the booted system another address than iPXE.
 */
export function speaksFor(context: BootContext, live: LiveSession, address: string): boolean {
  const member = context.roster.get(live.session.machine)!;
  const network = networkOf(context, live);
  if (!givesAddress(network, member) && isOn(network, address)) return true;
  return addressesIn(context, live, member).has(address);
}

const networkOf = (context: BootContext, { session }: LiveSession): ServedNetwork | undefined =>
  context.servedNetworks().find(({ name }) => name === session.network);

/**
 * The configuration of a session. Undefined when the session was not given a boot, or its machine
 * has no document. `withPeer`: templates get the address that fetched the script
 * where none is reserved.
 */
export function configurationOf(
  context: BootContext,
  live: LiveSession,
  baseUrl: string,
  { plan, withPeer = true }: { readonly plan?: Plan; readonly withPeer?: boolean } = {},
): ConfigurationResult | undefined {
  const { session } = live;
  const member = context.roster.get(session.machine);
  if (!member?.entry || session.profile === undefined || session.image === undefined) return undefined;
  const network = networkOf(context, live);
  return context.configurations.of({
    member,
    profile: session.profile,
    image: session.image,
    mac: session.mac,
    session: session.id,
    baseUrl,
    network,
    address: addressOf(member, network, withPeer ? session.peer : undefined),
    ticketed: givesAddress(network, member),
    ...(plan && { plan }),
  });
}

/** Judges a report and applies it. When the answer is `believed`, its changes are durable. */
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
    own: live !== undefined && member !== undefined && speaksFor(context, live, plainAddress(peer)),
    otherDisk: live !== undefined && member !== undefined && isFromOtherDisk(context, live, member, given),
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
  // A report may be repeated because the first one could not be stored.
  await roster.commit(member ? [member] : [], [live!]);
  return { believed: true, subject };
}

/** Whether a session installs a system on a disk. */
const installs = ({ catalog }: Pick<BootContext, 'catalog'>, { image }: BootSession): boolean =>
  catalog.get('Image', image ?? '')?.document.spec.disk !== undefined;

/** Whether a session installs a system, and the report is not of that system from its disk. */
function isFromOtherDisk(
  { catalog }: BootContext,
  { session }: LiveSession,
  { status: { install } }: Member,
  { disk = '' }: MachineReport,
): boolean {
  if (!installs({ catalog }, session)) return false;
  const written = install?.state === 'written' || install?.state === 'installed';
  return !written || install.disk !== serialWord(disk);
}

/**
 * Keeps lines of a machine's console. A session that ended with `ready` or `failed` still counts,
 * because what a machine printed about its failure comes after the report.
 *
 * @throws {MusterError} E_USAGE or E_TOO_LARGE for a form that is not as it should be
 */
export async function takeConsole(
  context: BootContext,
  id: string,
  form: ReadonlyMap<string, string>,
  peer: string,
): Promise<ConsoleAnswer> {
  const { sessions } = context.roster;
  const live = sessions.get(id);
  if (live === undefined || !live.given || sessions.current(live.session.machine) !== live) return 'refused';
  const member = context.roster.get(live.session.machine);
  if (member?.entry === undefined || member.status.quarantine !== undefined) return 'refused';
  if (!speaksFor(context, live, plainAddress(peer))) return 'refused';
  const part = consolePart({ boot: form.get('boot'), lines: form.get('lines') }, [id]);
  return (await context.consoles.take(member.name, part)) === false ? 'later' : 'kept';
}

/**
 * The machine's own addresses in this boot. Where another server gives the addresses, the one that
 * fetched the script does not count, not even in a template of the configuration.
 */
export function addressesIn(context: BootContext, live: LiveSession, member: Member): ReadonlySet<string> {
  const leases = givesAddress(networkOf(context, live), member);
  const rendered = configurationOf(context, live, live.baseUrl ?? NOWHERE, { withPeer: leases });
  const configured = rendered?.ok
    ? (rendered.value.merged.network?.interfaces ?? []).flatMap(({ addresses = [] }) =>
        addresses.map((address) => address.split('/')[0]!),
      )
    : [];
  return ownAddresses(context, member, {
    macs: trustedMacs(context, member, live.session.mac),
    configured,
    leases,
  });
}

/**
 * Whether the machine itself is at an address: one of its own in its present boot, else one that
 * its document names, for which no other hardware answers. Where no boot session is known, neither
 * is who gives the addresses, so leases do not count.
 */
export function isAt(context: BootContext, machine: string, address: string): boolean {
  const member = context.roster.get(machine);
  if (member === undefined) return false;
  const live = context.roster.sessions.current(machine);
  const own =
    live === undefined
      ? ownAddresses(context, member, { macs: trustedMacs(context, member, undefined), leases: false })
      : addressesIn(context, live, member);
  return own.has(address) && !onOtherHardware(context, member, address);
}

/** See {@link hardwareDoubt}, of the machine of a session. */
export function doubtOf(context: BootContext, live: LiveSession, member: Member, address: string) {
  return hardwareDoubt(context, member, { address, leases: givesAddress(networkOf(context, live), member) });
}

/**
 * The files of the first configuration that `machine` got in this boot session, also when the
 * session is over; undefined when it is not the machine's, or was forgotten. `baseUrl`: where the
 * machine reaches us, if this process has not seen it boot.
 */
export function configurationFiles(
  context: BootContext,
  { machine, session, baseUrl }: { machine: string; session: string; baseUrl: string },
): Readonly<Record<string, string>> | undefined {
  const live = context.roster.sessions.get(session);
  if (live?.session.machine !== machine) return undefined;
  const result = configurationOf(context, live, live.baseUrl ?? baseUrl);
  return result?.ok ? result.value.files : undefined;
}

/** What a ticket of this session permits; undefined when there is no such session. */
export function ticketed(context: BootContext, id: string): TicketFacts | undefined {
  const { sessions } = context.roster;
  const live = sessions.get(id);
  if (live === undefined) return undefined;
  const { session } = live;
  const member = context.roster.get(session.machine);
  const now = context.clock.monotonic();
  const trust = member && machineTrust(context, member, session);
  return {
    session,
    // An agent that cannot reach us reports `failed`, and one whose key waits for an operator may
    // wait for days. Both are still in their machine's boot.
    current: live.given && session.closed?.why !== 'superseded' && sessions.current(session.machine) === live,
    unproven: installs(context, session) && !session.steps.some(({ step }) => step === 'configured'),
    accepted: trust !== undefined,
    ticketed: givesAddress(networkOf(context, live), member),
    age: live.ticketAt === undefined ? undefined : ((now - live.ticketAt) as Millis),
    addresses: member === undefined ? new Set() : addressesIn(context, live, member),
    doubt: (address) => member && doubtOf(context, live, member, address),
    trust: trust ?? { tier: 'segment', from: 'default' },
    vendorCas: member === undefined ? [] : vendorCasOf(context, member, session),
  };
}

/** Whether the configuration of a machine carries a ticket, where Muster gives the addresses. */
const hasTicket = (context: BootContext, machine: string): boolean =>
  context.agents.hasAgent(machine) && !isInline(context, machine);

/** Applies a report. */
function believe(context: BootContext, live: LiveSession, member: Member, given: MachineReport): void {
  const { roster } = context;
  const { step } = given;
  // A log names the URLs that it asked.
  const hidden = (text: string): string => withoutSecrets(text, [live.session.id]);
  const detail = given.detail === undefined ? undefined : printable(hidden(given.detail), MAX_DETAIL);
  roster.sessions.mark(live, step);
  roster.sessions.touch(live);
  // The ticket on the disk counts from now on: the system there has shown where it runs.
  if (step === 'configured' && installs(context, live.session) && hasTicket(context, member.name))
    roster.sessions.ticketed(live, true);
  if (step === 'ready' || step === 'failed') roster.sessions.close(live, step);
  else if (step === 'kernel')
    roster.sessions.expect(live, (context.clock.monotonic() + timeoutOf(context, live)) as Millis);
  roster.move(member, step, {
    session: live.session.id,
    ...(step === 'ready' ? { bootsWithoutReady: 0, ...installedNow(member) } : {}),
    ...(step === 'failed'
      ? {
          reason: { code: 'reported', text: detail || 'The machine reported that its boot failed.' },
          logTail: given.logTail === undefined ? undefined : logTail(hidden(given.logTail)),
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

/** An installation counts once the system reports that it is ready. */
const installedNow = ({ status: { install } }: Member): Pick<StatusChange, 'install'> =>
  install?.state === 'written' ? { install: { ...install, state: 'installed' } } : {};

/** How long the machine of this session may be silent. */
function timeoutOf(context: BootContext, live: LiveSession): Millis {
  const rendered = configurationOf(context, live, live.baseUrl ?? NOWHERE);
  return rendered?.ok ? configTimeout(rendered.value) : CONFIG_TIMEOUT;
}

/**
 * Moves machines that fell silent to `failed`. A slow machine is still believed: its session stays.
 */
export function failSilent(context: BootContext): void {
  for (const live of context.roster.sessions.overdue()) {
    const member = context.roster.get(live.session.machine);
    if (member === undefined || member.status.session !== live.session.id) continue;
    const last = live.session.steps.at(-1);
    context.roster.move(member, 'timeout', {
      reason: {
        code: 'timed_out',
        text: `It sent no report within its configTimeout after "${last?.step ?? 'opened'}".`,
      },
    });
  }
}
