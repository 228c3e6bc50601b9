/**
 * Explains what a machine would get now, with the same functions that answer its packets. Nothing
 * is recorded and no session is opened.
 */
import { MusterError } from '../../base/errors.ts';
import { publicName } from '../../base/ids.ts';
import { formatIpv4 } from '../../base/ipv4.ts';
import type { Mac } from '../../base/mac.ts';
import type { MusterEvent } from '../../events/event.ts';
import { PREVIEW_SESSION } from '../../ignition/input.ts';
import type { Rendered } from '../../ignition/rendered.ts';
import { type Match, POINTS, type Recognition } from '../../machines/recognition.ts';
import type { Member } from '../../machines/roster.ts';
import type { Selection } from '../../machines/select.ts';
import { membershipsIn } from '../../resources/membership.ts';
import { firmwareCodes } from '../firmware/architectures.ts';
import type { ServedNetwork } from '../network.ts';
import { addressOf, type BootContext, isInline, reservedAddress } from './boot-context.ts';
import { type Preparation, type PrepareFor, prepareFor } from './boot-script.ts';
import { conflictOf, decide, judge, remedy } from './decide.ts';
import type { BootDecision } from './decision.ts';
import { verdictOnUnknown } from './discovery.ts';
import { dataDiskSteps, inventorySteps } from './explain-inventory.ts';
import { type ExplainStep, eventStep, stateSteps } from './explain-state.ts';
import { verdictOnMac } from './foreign.ts';
import { givesAddress } from './own-addresses.ts';
import { refusal } from './refusal.ts';
import { selectionOf } from './selection.ts';
import { trustSteps } from './trust.ts';

export interface ExplainQuestion {
  readonly machine?: string | undefined;
  readonly mac?: Mac | undefined;
  readonly network?: string | undefined;
  readonly arch?: Arch | undefined;
  readonly firmware?: Firmware | undefined;
}

/** The steps are for people, the other fields for programs. */
export interface Explanation {
  readonly subject: string;
  readonly steps: readonly ExplainStep[];
  readonly recognised: { readonly kind: Recognition['kind']; readonly matches: readonly Match[] };
  readonly profile?: string;
  readonly image?: string;
  /** What its script does. */
  readonly decision: BootDecision;
  /** What DHCP answers, by the software that asks, e.g. `firmware (bios)` or `iPXE`. */
  readonly answers: Readonly<Record<string, BootDecision>>;
  readonly phase?: string;
  readonly bootsWithoutReady: number;
  readonly session?: string;
  /** The command or change that ends a hold. */
  readonly remedy?: string;
  readonly faults: readonly string[];
  readonly events: readonly MusterEvent[];
}

type Arch = NonNullable<PrepareFor['arch']>;
type Firmware = NonNullable<PrepareFor['firmware']>;

/** Number of the last events that are shown. */
const EVENTS_SHOWN = 8;

/** The machine in question, and everything that was found about it. */
interface Case {
  readonly subject: string;
  readonly member: Member | undefined;
  readonly mac: Mac | undefined;
  readonly recognition: Recognition;
  readonly network: ServedNetwork | undefined;
  readonly arch: Arch | undefined;
  readonly firmware: Firmware | undefined;
  readonly prepared: Preparation;
}

/**
 * Answers a question about a machine.
 *
 * @throws {MusterError} E_NOT_FOUND for an unknown machine or network, E_USAGE when the question
 * names neither a machine nor an address, or a firmware that the architecture does not have.
 */
export function explain(context: BootContext, question: ExplainQuestion): Explanation {
  const examined = caseOf(context, question);
  const { member, network, prepared, recognition } = examined;
  const answers = answersTo(context, examined);
  const all = context.events.list({ subject: examined.subject });
  const events = all.slice(-EVENTS_SHOWN);
  const refused = refusal({
    firmware: examined.firmware && answers[firmwareName(examined.firmware)],
    events: all,
    arch: examined.arch,
    demanded: network !== undefined && pxeOf(context, examined, network).loader !== undefined,
  });
  const ends = remedy(refused ?? prepared.verdict.reason, {
    subject: examined.subject,
    recorded: context.roster.get(examined.subject) !== undefined,
    mac: examined.mac,
  });
  const { verdict } = prepared;
  const session = member?.status.session;
  return {
    subject: examined.subject,
    steps: [
      ...recognisedSteps(examined),
      ...clusterSteps(context, examined),
      ...trustSteps(context, member, network?.name),
      ...selectedSteps(context, examined),
      ...Object.entries(answers).map(([step, decision]) => decisionStep(step, decision)),
      decisionStep('script', verdict),
      ...stateSteps(context, examined.member),
      ...(ends === undefined ? [] : [{ step: 'to continue', result: ends }]),
      ...events.map(eventStep),
    ],
    recognised: { kind: recognition.kind, matches: matchesOf(recognition) },
    ...(verdict.kind === 'script' ? { profile: verdict.profile, image: verdict.image } : {}),
    decision: verdict,
    answers,
    ...(member ? { phase: member.status.phase } : {}),
    bootsWithoutReady: member?.status.bootsWithoutReady ?? 0,
    ...(session === undefined ? {} : { session: publicName(session) }),
    ...(ends === undefined ? {} : { remedy: ends }),
    faults: (prepared.faults ?? []).map((fault) => `${fault.code} ${fault.path ?? ''} ${fault.message}`),
    events,
  };
}

function matchesOf(recognition: Recognition): readonly Match[] {
  if (recognition.kind === 'known') return [recognition.match];
  return recognition.kind === 'conflict' ? recognition.matches : [];
}

function caseOf(context: BootContext, question: ExplainQuestion): Case {
  const { roster } = context;
  const named = question.machine === undefined ? undefined : roster.get(question.machine);
  if (question.machine !== undefined && named === undefined)
    throw new MusterError(
      'E_NOT_FOUND',
      `there is no machine "${question.machine}"; \`muster get machines\` lists those that have a document or were seen`,
    );
  const { macs: all = [], bootMacs = [] } = named?.status.seen ?? {};
  const mac =
    question.mac ?? bootMacs[0] ?? (named?.entry?.document.spec.macs[0] as Mac | undefined) ?? all[0];
  if (named === undefined && mac === undefined)
    throw new MusterError('E_USAGE', 'say which machine: a name or a hardware address');
  const owner = named ?? (mac && roster.byMac(mac));
  const seen = owner?.status.seen;
  const recognition = roster.recognise({
    bootMac: mac,
    macs: [...new Set([...(mac ? [mac] : []), ...(question.mac === undefined ? all : [])])],
    uuid: seen?.uuid,
    serial: seen?.serial,
  });
  const member = recognition.kind === 'known' ? roster.get(recognition.match.name) : undefined;
  const network = networkOf(context, member ?? owner, question.network);
  const arch = question.arch ?? seen?.arch;
  const firmware = firmwareOf(arch, question, seen?.firmware);
  const unlisted = verdictOnMac(context, network, recognition, question.mac);
  const prepared: Preparation =
    recognition.kind === 'conflict'
      ? { verdict: judge(conflictOf(recognition)) }
      : unlisted
        ? { verdict: unlisted }
        : member?.entry
          ? prepareFor(context, member, {
              ...preparation(member, network, arch, mac, firmware),
              alive: roster.heartbeats.alive(member.name) !== undefined,
            })
          : {
              verdict: verdictOnUnknown(
                context,
                network,
                { arch, serial: seen?.serial },
                owner?.status.bootsWithoutReady,
              ),
            };
  return {
    subject: (named ?? member)?.name ?? mac!,
    member: named ?? member,
    mac,
    recognition,
    network,
    arch,
    firmware,
    prepared,
  };
}

/** The firmware that the question names, else the one that was seen, if the architecture has it. */
function firmwareOf(
  arch: Arch | undefined,
  { firmware: asked }: ExplainQuestion,
  seen: Firmware | undefined,
): Firmware | undefined {
  const possible = [...codesOf(arch).keys()];
  if (asked !== undefined && !possible.includes(asked))
    throw new MusterError('E_USAGE', `${arch} has no firmware "${asked}": say "${possible.join('" or "')}"`);
  return asked ?? possible.find((firmware) => firmware === seen);
}

function preparation(
  member: Member,
  network: ServedNetwork | undefined,
  arch: PrepareFor['arch'],
  mac: Mac | undefined,
  firmware?: Firmware,
): PrepareFor {
  return {
    arch,
    firmware,
    network,
    bootsWithoutReady: member.status.bootsWithoutReady,
    mac: mac ?? (member.entry!.document.spec.macs[0] as Mac),
    session: PREVIEW_SESSION,
    baseUrl: baseUrlOf(network),
    peer: member.status.seen.address,
  };
}

function baseUrlOf(network: ServedNetwork | undefined): string {
  return network ? `http://${formatIpv4(network.serverAddress)}:${network.httpPort}` : 'http://127.0.0.1';
}

/**
 * The network that the question names; else the one on which the machine was seen, the one of its
 * reserved address, or the first.
 */
function networkOf(
  context: BootContext,
  member: Member | undefined,
  named: string | undefined,
): ServedNetwork | undefined {
  const served = context.servedNetworks();
  if (named !== undefined) {
    const network = served.find((one) => one.name === named);
    if (!network)
      throw new MusterError(
        'E_NOT_FOUND',
        `there is no served network "${named}"; \`muster get networks\` lists all`,
      );
    return network;
  }
  return (
    served.find((one) => one.name === member?.status.seen.network) ??
    served.find((one) => member !== undefined && reservedAddress(member, one) !== undefined) ??
    served[0]
  );
}

/** An unknown architecture is taken for x86_64. */
const codesOf = (arch: Arch = 'x86_64') => firmwareCodes(arch);

const firmwareName = (firmware: string): string => `firmware (${firmware})`;

const pxeOf = (context: BootContext, { member }: Case, network: ServedNetwork) =>
  context.pxeFor(member?.entry?.document.spec.pxe, network, undefined);

/** The DHCP decision for each kind of software that may ask: the machine's firmware, then iPXE. */
function answersTo(context: BootContext, examined: Case): Record<string, BootDecision> {
  const { network, member, recognition, prepared } = examined;
  if (!network) return {};
  const outline =
    recognition.kind === 'known' && member && prepared.verdict.reason.code !== 'alive'
      ? context.answerFor(member, network).outline
      : prepared.verdict;
  const facts = {
    mode: network.mode,
    verdict: outline,
    installed: (name: string) => context.assets.loader(name) !== undefined,
    loaderOverride: pxeOf(context, examined, network).loader,
  };
  const answers: Record<string, BootDecision> = {};
  for (const [firmware, archCode] of codesOf(examined.arch)) {
    if (examined.firmware !== undefined && examined.firmware !== firmware) continue;
    answers[firmwareName(firmware)] = decide({ ...facts, stage: 'pxe', archCode, loaderRan: false });
  }
  answers.iPXE = decide({ ...facts, stage: 'ipxe', loaderRan: true });
  return answers;
}

function recognisedSteps(examined: Case): readonly ExplainStep[] {
  const { recognition, member, mac, network } = examined;
  const matches = matchesOf(recognition);
  const points = ({ because }: Match) =>
    because
      .map((kind) => `${POINTS[kind].text} (${POINTS[kind].points > 0 ? '+' : ''}${POINTS[kind].points})`)
      .join('; ');
  const who: ExplainStep[] =
    recognition.kind === 'unknown'
      ? [{ step: 'recognised as', result: `no machine: no document lists ${mac ?? 'one of its addresses'}` }]
      : matches.map((match) => ({
          step: recognition.kind === 'known' ? 'recognised as' : 'could be',
          result: `${match.name} (${match.score} points)`,
          reason: { code: match.because.join(' '), text: points(match) },
        }));
  const origin = member?.entry?.origin;
  const from =
    origin === undefined
      ? member
        ? 'none: it was only seen'
        : 'none'
      : origin.from === 'file'
        ? `${origin.at.file}:${origin.at.line}`
        : 'from the API';
  return [
    ...who,
    { step: 'document', result: from },
    {
      step: 'network',
      result: network
        ? `${network.name} (${network.mode}, PXE style ${network.pxe.style ?? 'bypass'}, server ${formatIpv4(network.serverAddress)})`
        : 'none is served',
    },
  ];
}

/**
 * The Cluster that gives the machine a role, and the role; known before its agent was ever heard.
 */
function clusterSteps({ catalog }: BootContext, { member }: Case): readonly ExplainStep[] {
  if (!member) return [];
  const clusters = catalog.list('Cluster').map(({ document }) => document);
  const cluster = membershipsIn(clusters).get(member.name)?.cluster;
  const spec = clusters.find(({ metadata }) => metadata.name === cluster)?.spec.kubernetes;
  if (!spec) return [];
  const role = spec.controlPlanes.includes(member.name)
    ? 'a control plane'
    : spec.workers?.includes(member.name)
      ? 'a worker'
      : 'a member of etcd';
  return [{ step: 'cluster', result: `${cluster}, as ${role}` }];
}

function selectedSteps(context: BootContext, examined: Case): readonly ExplainStep[] {
  const { member, prepared, network } = examined;
  if (!member?.entry) return [];
  const selection = selectionOf(context, member, network?.name);
  const steps: ExplainStep[] = [
    { step: 'profile', result: selectionText(selection) },
    ...inventorySteps(context, member, network?.name, selection),
    ...dataDiskSteps(context, member, selection),
  ];
  const wanted = selection.kind === 'selected' ? selection.profile.spec.image : undefined;
  if (wanted !== undefined) {
    const { reason } = prepared.verdict;
    const wrong = reason.code === 'image_missing' || reason.code === 'arch_mismatch';
    steps.push({
      step: 'image',
      result: `${wanted}${prepared.image && !wrong ? ': complete' : ''}`,
      ...(wrong ? { reason } : {}),
    });
  }
  if (prepared.boot)
    steps.push({ step: 'configuration', result: `renders (${prepared.boot.rendered.format})` });
  if (isInline(context, member.name))
    steps.push({
      step: 'secrets',
      result:
        'inline: sent with its first configuration over plain HTTP, once per boot; its agent polls no server',
    });
  for (const fault of prepared.faults ?? [])
    steps.push({
      step: 'configuration',
      result: `does not render: ${fault.path ?? ''}`,
      reason: { code: fault.code, text: fault.message },
    });
  return steps;
}

function selectionText(selection: Selection): string {
  if (selection.kind === 'none') return 'none: the document names none and no selector fits';
  if (selection.kind === 'missing') return `"${selection.profile}", which does not exist`;
  const why = selection.explicit ? 'named by the document' : `selected by ${selection.matched.join(', ')}`;
  return `${selection.profile.name} (${why})`;
}

function decisionStep(step: string, decision: BootDecision): ExplainStep {
  const what = {
    ignore: 'no boot file',
    loader: decision.kind === 'loader' ? `loader ${decision.loader}` : '',
    script: decision.kind === 'script' ? `boots ${decision.image} as ${decision.profile}` : '',
    discovery: decision.kind === 'discovery' ? `boots the discovery system ${decision.image}` : '',
    disk: 'its own disk',
    hold: 'waits',
  }[decision.kind];
  return { step, result: what, reason: decision.reason };
}

/**
 * The configuration that a machine would get if it booted now, held or not.
 *
 * @throws {MusterError} E_NOT_FOUND, E_REFERENCE when it has no profile or image, E_CONFIG with all
 * faults when it does not render.
 */
export function renderPreview(context: BootContext, name: string): Rendered {
  const member = context.roster.get(name);
  if (!member?.entry)
    throw new MusterError(
      'E_NOT_FOUND',
      member
        ? `machine "${name}" was only seen; it has a configuration once it is accepted`
        : `there is no machine "${name}"`,
    );
  const network = networkOf(context, member, undefined);
  const selection = selectionOf(context, member, network?.name);
  if (selection.kind !== 'selected')
    throw new MusterError('E_REFERENCE', `machine "${name}" has no profile: ${selectionText(selection)}`);
  const { image } = selection.profile.spec;
  if (image === undefined)
    throw new MusterError(
      'E_REFERENCE',
      `profile "${selection.profile.name}" names no image, so there is nothing to configure`,
    );
  const base = preparation(member, network, undefined, member.status.seen.bootMacs?.[0]);
  const result = context.configurations.of({
    member,
    profile: selection.profile.name,
    image,
    mac: base.mac,
    session: base.session,
    baseUrl: base.baseUrl,
    network,
    address: addressOf(member, network, base.peer),
    ticketed: givesAddress(network, member),
  });
  if (result.ok) return result.value;
  throw new MusterError('E_CONFIG', `the configuration of "${name}" does not render`, {
    faults: result.faults,
  });
}

/** An explanation as text: a line per step, with the reason's sentence and code below. */
export function formatExplanation({ subject, steps }: Pick<Explanation, 'subject' | 'steps'>): string {
  const width = Math.max(0, ...steps.map(({ step }) => step.length));
  const lines = steps.flatMap(({ step, result, reason }) => [
    `  ${step.padEnd(width)}  ${result}`,
    ...(reason ? [`  ${' '.repeat(width)}  ${reason.text} [${reason.code}]`] : []),
  ]);
  return [subject, ...lines, ''].join('\n');
}
