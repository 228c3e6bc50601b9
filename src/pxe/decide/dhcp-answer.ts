/**
 * Answers DHCP in memory: recognises the machine, selects its profile, decides. It never waits, and
 * the number of machines does not change its cost.
 */
import { formatIpv4 } from '../../base/ipv4.ts';
import type { Member } from '../../machines/roster.ts';
import type { LiveSession } from '../../machines/sessions.ts';
import type { BootAnswer, BootStep } from '../boot.ts';
import { type BootClient, DOCTOR_CLASS } from '../client.ts';
import { machinePath } from '../http/routes.ts';
import type { ServedNetwork } from '../network.ts';
import type { BootContext } from './boot-context.ts';
import { decide, judge, loaderFile, reason, type Verdict } from './decide.ts';
import type { BootDecision } from './decision.ts';

/**
 * An iPXE that asks this many ms or more after a loader was offered is that loader, or failed to
 * load it. An earlier packet is a retransmission: iPXE repeats a DISCOVER after 1, 2 and 4 s
 * (config/dhcp.h).
 */
const LOADER_STARTS_MS = 10_000;
/**
 * A client that asks later than this many ms after the offer is not that loader but another boot.
 */
const LOADER_FORGOTTEN_MS = 60_000;

const UNKNOWN: Verdict = judge({ kind: 'unknown' });

/** The machine that asks. */
interface Asker {
  /** Its name, or its MAC. */
  readonly subject: string;
  /** The owner of its session: the machine's name, or the MAC. */
  readonly opens: string;
  readonly member: Member | undefined;
  /** What its script would do. */
  readonly outline: Verdict;
}

/** Answers one DHCP packet; see {@link import('../boot.ts').BootService.answer}. */
export function answer(
  context: BootContext,
  client: BootClient,
  network: ServedNetwork,
  step: BootStep,
): BootAnswer {
  if (client.stage === 'none') return ordinary(context, client, network);
  if (client.userClass === DOCTOR_CLASS) return toDoctor(context, client, network);
  const asker = recognise(context, client, network);
  const { member, subject } = asker;
  const known = member && context.answerFor(member, network);
  const live = sessionOf(context, asker.opens, client, network);
  const asked: Asked = { client, network, known, outline: asker.outline };
  const { decision, pxe, bootFile } = decided(context, live, asked, step);
  if (decision.kind === 'loader') handed(context, live, client, step, decision.loader);
  context.decided(subject, live, client.stage, network.name, decision);
  return {
    decision,
    subject,
    pxe,
    session: live.session.id,
    ...(bootFile === undefined ? {} : { bootFile }),
    ...(known?.address === undefined ? {} : { reservedAddress: known.address }),
    ...(known?.hostname === undefined ? {} : { hostname: known.hostname }),
    ...(known?.options && { options: known.options }),
    ...(member?.entry ? { documented: true } : {}),
    // The session of an unknown machine is not stored: after a restart it starts over.
    writes:
      step !== 'offer' && member?.entry && asker.opens === subject && !live.stored
        ? [context.roster.sessionWrite(live)]
        : NO_WRITES,
  };
}

const NO_WRITES: readonly never[] = [];

/** Whether no document describes the client; see {@link import('../boot.ts').BootService}. */
export function isStranger({ roster, identify }: BootContext, { mac, uuid }: BootClient): boolean {
  const member = roster.byMac(mac);
  if (member !== undefined) return member.entry === undefined;
  const found = identify(roster.recognise({ bootMac: mac, macs: [mac], uuid }));
  return found.kind === 'known' ? found.member.entry === undefined : found.kind !== 'conflict';
}

/** Everything that a decision depends on, besides the session and the installed loaders. */
interface Asked {
  readonly client: BootClient;
  readonly network: ServedNetwork;
  readonly known: ReturnType<BootContext['answerFor']> | undefined;
  readonly outline: Verdict;
}

interface Decided {
  readonly decision: BootDecision;
  readonly pxe: BootAnswer['pxe'];
  readonly bootFile: string | undefined;
}

/** What the last OFFER of a session said. */
const memoOffers = new WeakMap<LiveSession, Asked & Decided>();

/** The software of both clients is the same. */
const alike = (one: BootClient, other: BootClient): boolean =>
  one.stage === other.stage &&
  one.archCode === other.archCode &&
  one.family === other.family &&
  one.vendorClass === other.vendorClass;

/**
 * Decides. The answer to a REQUEST is that of its OFFER if the same software asks and neither the
 * machine nor a document has changed since.
 */
function decided(context: BootContext, live: LiveSession, asked: Asked, step: BootStep): Decided {
  const { client, network, known, outline } = asked;
  const offer = step === 'offer' ? undefined : memoOffers.get(live);
  if (
    offer !== undefined &&
    offer.network === network &&
    offer.known === known &&
    offer.outline === outline &&
    alike(offer.client, client)
  )
    return offer;
  const pxe = context.pxeFor(known?.machinePxe, network, client.vendorClass);
  const decision = decide({
    stage: client.stage,
    archCode: client.archCode,
    family: client.family,
    mode: network.mode,
    verdict: outline,
    installed: (name) => context.assets.loader(name) !== undefined,
    loaderOverride: pxe.loader,
    loaderRan: loaderRan(context, live, client, step),
  });
  const made = { decision, pxe, bootFile: bootFileOf(client, network, live, decision) };
  if (step === 'offer') memoOffers.set(live, { ...asked, ...made });
  return made;
}

/**
 * The answer to a client that does not boot: reservation and host name. Only the time is recorded.
 */
function ordinary(context: BootContext, client: BootClient, network: ServedNetwork): BootAnswer {
  const member = context.roster.byMac(client.mac);
  if (member === undefined)
    return {
      decision: { kind: 'ignore', reason: reason('not_a_boot_client') },
      subject: client.mac,
      pxe: network.pxe,
      writes: NO_WRITES,
    };
  context.roster.see(member, {});
  return context.answerFor(member, network).ordinary;
}

/** The answer to `muster doctor`: the loader of an unknown machine, without a session. */
function toDoctor(context: BootContext, client: BootClient, network: ServedNetwork): BootAnswer {
  const pxe = context.pxeFor(undefined, network, client.vendorClass);
  const decision = decide({
    stage: client.stage,
    archCode: client.archCode,
    family: client.family,
    mode: network.mode,
    verdict: UNKNOWN,
    installed: (name) => context.assets.loader(name) !== undefined,
    loaderOverride: pxe.loader,
    loaderRan: false,
  });
  const bootFile =
    decision.kind === 'loader'
      ? loaderFile(client, decision.loader, formatIpv4(network.serverAddress), network.httpPort)
      : undefined;
  return {
    decision,
    subject: client.mac,
    pxe,
    ...(bootFile !== undefined && { bootFile }),
    writes: NO_WRITES,
  };
}

function recognise(context: BootContext, client: BootClient, network: ServedNetwork): Asker {
  const { roster } = context;
  let member = roster.byMac(client.mac);
  if (member === undefined) {
    const identified = context.identify(
      context.roster.recognise({ bootMac: client.mac, macs: [client.mac], uuid: client.uuid }),
    );
    if (identified.kind === 'conflict') {
      const verdict = judge(identified);
      return { subject: client.mac, opens: client.mac, member: undefined, outline: verdict };
    }
    member =
      identified.kind === 'known'
        ? identified.member
        : roster.discover(sightingOf(client, network, client.uuid));
    if (member === undefined)
      return { subject: client.mac, opens: client.mac, member: undefined, outline: UNKNOWN };
  }
  // DHCP records a UUID only if none is known. The request for the script carries more evidence and
  // decides about a UUID that differs.
  const known = member.entry?.document.spec.uuid ?? member.status.seen.uuid;
  roster.see(member, sightingOf(client, network, known === undefined ? client.uuid : undefined));
  const { outline, recognised } = context.answerFor(member, network);
  if (
    recognised.kind === 'known' &&
    outline.kind !== 'ignore' &&
    roster.heartbeats.alive(member.name) !== undefined
  )
    // A running machine gets no session. A client with its identity waits in a session of its MAC.
    return {
      subject: member.name,
      opens: client.mac,
      member,
      outline: judge({ ...recognised, alive: true }),
    };
  return { subject: member.name, opens: member.name, member, outline };
}

function sightingOf(client: BootClient, network: ServedNetwork, uuid: string | undefined) {
  return {
    bootMac: client.mac,
    arch: client.arch,
    firmware: client.firmware,
    network: network.name,
    uuid,
  };
}

/** The session of this packet: the one that is opening, or a new one. */
function sessionOf(
  context: BootContext,
  subject: string,
  client: BootClient,
  network: ServedNetwork,
): LiveSession {
  const { sessions } = context.roster;
  const opening = sessions.opening(subject);
  if (opening !== undefined) {
    sessions.touch(opening);
    if (opening.session.mac !== client.mac || opening.session.network !== network.name)
      sessions.set(opening, { mac: client.mac, network: network.name });
    return opening;
  }
  const live = sessions.open({ machine: subject, mac: client.mac, network: network.name });
  context.events.record({
    kind: 'boot.session',
    subject,
    session: live.session.id,
    network: network.name,
    fields: {
      mac: client.mac,
      stage: client.stage,
      ...(client.arch ? { arch: client.arch } : {}),
      ...(client.firmware ? { firmware: client.firmware } : {}),
    },
  });
  return live;
}

/**
 * Whether the client may be the loader that this session got before. The ACK repeats what the OFFER
 * assumed.
 */
function loaderRan(context: BootContext, live: LiveSession, client: BootClient, step: BootStep): boolean {
  const { stage } = client;
  if (step !== 'offer' && live.offered?.stage === stage) return live.offered.loaderRan;
  const ran = ((): boolean => {
    const { loader } = live;
    if (loader === undefined) return false;
    const since = context.clock.monotonic() - loader.at;
    if (since > LOADER_FORGOTTEN_MS) return false;
    return loader.stage !== stage || loader.acked || since > LOADER_STARTS_MS;
  })();
  live.offered = { stage, loaderRan: ran };
  return ran;
}

/** Records in the session that it got a loader. */
function handed(
  context: BootContext,
  live: LiveSession,
  client: BootClient,
  step: BootStep,
  loader: string,
): void {
  const acked = step !== 'offer';
  const before = live.loader;
  const again = before !== undefined && before.stage === client.stage && !before.acked;
  live.loader = { stage: client.stage, at: again ? before.at : context.clock.monotonic(), acked };
  if (live.session.loader === loader) return;
  context.roster.sessions.set(live, { loader });
  context.roster.sessions.mark(live, 'loader');
}

function bootFileOf(
  client: BootClient,
  network: ServedNetwork,
  live: LiveSession,
  decision: BootDecision,
): string | undefined {
  if (decision.kind === 'ignore') return undefined;
  const server = formatIpv4(network.serverAddress);
  if (decision.kind === 'loader') return loaderFile(client, decision.loader, server, network.httpPort);
  return `http://${server}:${network.httpPort}${machinePath('start', { boot: live.name })}`;
}
