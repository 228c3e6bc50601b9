/**
 * Answers the request for a script: recognises the machine by everything that iPXE knows, and
 * checks that the machine may boot and that all files are there. Boots are given and counted only
 * here.
 */

import { timeToTell } from '../../base/clock.ts';
import { type Millis, parseDuration } from '../../base/duration.ts';
import { type Fault, firstOf, MusterError } from '../../base/errors.ts';
import { plainAddress } from '../../base/ip.ts';
import type { Mac } from '../../base/mac.ts';
import type { Rendered } from '../../ignition/rendered.ts';
import { endsRescue } from '../../machines/life/rescue.ts';
import type { Identity } from '../../machines/machine.ts';
import type { Member } from '../../machines/roster.ts';
import type { Selection } from '../../machines/select.ts';
import { CONFIG_TIMEOUT, type LiveSession } from '../../machines/sessions.ts';
import type { ImageSpec } from '../../resources/kinds.ts';
import type { ScriptAnswer, ScriptRequest } from '../boot.ts';
import { cannotWrite } from '../dhcp/leases.ts';
import { suits } from '../firmware/loaders.ts';
import { writerFor } from '../script/writers.ts';
import type { BootContext, Identified } from './boot-context.ts';
import { addressOf } from './boot-context.ts';
import { chosenDataDisk, disksFor } from './data-disk.ts';
import { judge, type Readiness, type Recognised, remedy, type Verdict } from './decide.ts';
import { giveDiscovery, verdictOnUnknown } from './discovery.ts';
import { type Asker, foreignness, verdictOnAlive, verdictOnForeign } from './foreign.ts';
import { imageState } from './image-state.ts';
import { givesAddress } from './own-addresses.ts';
import { considersInventory, selectionOf } from './selection.ts';
import { trialOf, wasTried } from './trial.ts';

/** MAC of a session whose client did not name its boot interface. */
const NO_MAC = '00:00:00:00:00:00' as Mac;

/** A boot that can be given. */
export interface Boot {
  readonly rendered: Rendered;
  readonly script: string;
}

/** A verdict, with the boot or the faults behind it. */
export interface Preparation {
  readonly verdict: Verdict;
  readonly image?: ImageSpec;
  /** Present when the verdict is to boot. */
  readonly boot?: Boot;
  /** The machine's inventory has decided something that must not change with a part. */
  readonly settles?: boolean;
  readonly faults?: readonly Fault[];
}

/** Makes the script for one request; see {@link import('../boot.ts').BootService.script}. */
export async function script(context: BootContext, asked: ScriptRequest): Promise<ScriptAnswer> {
  const { roster } = context;
  const { identity } = asked;
  const bootMac = asked.bootMac ?? identity.macs[0];
  const named = asked.boot === undefined ? undefined : roster.sessions.named(asked.boot);
  const mac = bootMac ?? (named?.session.mac === NO_MAC ? undefined : named?.session.mac);
  const evidence = { ...identity, bootMac: mac };
  const asker = { request: asked, mac, found: roster.recognise(evidence) };
  const foreign = foreignness(context, asker);
  if (foreign !== undefined) return turnAway(context, asker, verdictOnForeign(context, asker, foreign));
  const alive = verdictOnAlive(context, asker);
  if (alive !== undefined) return turnAway(context, asker, alive);
  const identified = context.identify(asker.found);
  const member = recorded(context, identified, asked, identity, bootMac);
  const subject = member?.name ?? bootMac ?? plainAddress(asked.peer);
  // The session of a wait in the discovery system is not that of the boot after it.
  const own = named?.session.discovery && member?.entry ? undefined : named;
  const live = sessionOf(context, subject, own, asked, bootMac);
  if (member !== undefined) endsRescue(context, member, true);
  const prepared = prepare(context, identified, live, asked, member);
  const { verdict } = prepared;
  const fresh = context.decided(subject, live, 'script', asked.network?.name, verdict);
  if (fresh && identified.kind === 'conflict')
    conflicting(context, subject, live, identified.machines, verdict);
  // Is called before the first await, so that what was considered is what settles.
  const settle = () => (prepared.settles && member ? context.inventories.settle(member.name) : undefined);
  if (verdict.kind === 'script' && member && prepared.boot) {
    const [answer] = await Promise.all([
      give(context, live, member, asked, verdict, prepared.boot),
      settle(),
    ]);
    return answer;
  }
  if (verdict.kind === 'discovery' && member) return giveDiscovery(context, live, member, asked, verdict);
  if (verdict.kind === 'disk' && member) {
    const { session } = await leaveToDisk(context, live, member);
    await settle();
    const { text } = verdict.reason;
    return {
      decision: verdict,
      session,
      script: writerFor(asked.loader).disk({ machine: subject, reason: text }),
    };
  }
  return refuse(context, live, member, subject, asked, verdict, fresh);
}

/**
 * Lets the machine boot from its disk. The first boots after an installation belong to its session,
 * in which the installed system reports; they are counted until it is ready.
 */
async function leaveToDisk(
  { roster, clock }: BootContext,
  live: LiveSession,
  member: Member,
): Promise<LiveSession> {
  const { sessions } = roster;
  const current = sessions.current(member.name);
  if (member.status.install?.state !== 'written' || current === undefined || !sessions.isLive(current)) {
    if (!live.given) sessions.promote(live);
    sessions.mark(live, 'script');
    roster.saveLater(live);
    return live;
  }
  if (live !== current) sessions.close(live, 'superseded');
  sessions.expect(current, (clock.monotonic() + CONFIG_TIMEOUT) as Millis);
  roster.change(member, { bootsWithoutReady: member.status.bootsWithoutReady + 1 });
  await roster.commit([member], [current]);
  return current;
}

/**
 * Holds a client whose address is not the machine's, or whose machine is running. Nothing of its
 * request is recorded for the machine, and it does not get the machine's session: it waits in a
 * session of its own address.
 */
function turnAway(context: BootContext, asker: Asker, verdict: Verdict): ScriptAnswer {
  const { request, mac, found } = asker;
  const { sessions } = context.roster;
  const peer = plainAddress(request.peer);
  const network = request.network?.name;
  const live =
    sessions.opening(peer) ?? sessions.open({ machine: peer, mac: NO_MAC, network: network ?? '' });
  sessions.touch(live);
  const subject = found.kind === 'known' ? found.match.name : (mac ?? peer);
  context.decided(subject, live, 'script', network, verdict, { address: peer });
  return refuse(context, live, undefined, subject, request, verdict, false);
}

/**
 * Finds or creates the record of the machine that asks, and adds what the request says about it.
 * Undefined when the request cannot be attributed to one record.
 */
function recorded(
  context: BootContext,
  identified: Identified,
  request: ScriptRequest,
  identity: Identity,
  bootMac: Mac | undefined,
): Member | undefined {
  const sighting = {
    ...identity,
    bootMac,
    arch: request.arch,
    firmware: request.firmware,
    network: request.network?.name,
    address: plainAddress(request.peer),
  };
  const { roster } = context;
  if (identified.kind === 'known') {
    roster.see(identified.member, sighting);
    return identified.member;
  }
  if (bootMac === undefined) return undefined;
  const seen = roster.byMac(bootMac);
  if (seen !== undefined) {
    // In a conflict, a documented machine must not take over what the request says.
    if (!seen.entry) roster.see(seen, sighting);
    return seen.entry ? undefined : seen;
  }
  return roster.discover({ ...sighting, bootMac });
}

/**
 * Continues the session of the URL if it is this machine's and still live; else opens a new one,
 * also for a forged or outdated name. A boot that was given is continued only for the address that
 * it was given to.
 */
function sessionOf(
  context: BootContext,
  subject: string,
  named: LiveSession | undefined,
  request: ScriptRequest,
  bootMac: Mac | undefined,
): LiveSession {
  const { sessions } = context.roster;
  const peer = named?.session.peer;
  const own =
    named !== undefined &&
    sessions.isLive(named) &&
    named.session.machine === subject &&
    (peer === undefined || peer === plainAddress(request.peer));
  const reported = own && named.session.steps.some(({ step }) => step === 'kernel' || step === 'configured');
  const opening = sessions.opening(subject);
  const live =
    own && !reported
      ? named
      : (opening ??
        sessions.open({
          machine: subject,
          mac: bootMac ?? named?.session.mac ?? NO_MAC,
          network: request.network?.name ?? '',
        }));
  sessions.touch(live);
  if (bootMac !== undefined && bootMac !== live.session.mac) sessions.set(live, { mac: bootMac });
  return live;
}

/** The verdict for the machine that asks, with everything that a boot needs. */
function prepare(
  context: BootContext,
  identified: Identified,
  live: LiveSession,
  request: ScriptRequest,
  member: Member | undefined,
): Preparation {
  if (identified.kind === 'conflict') return { verdict: judge(identified) };
  if (identified.kind === 'unknown' || !member?.entry) {
    const arch = request.arch ?? member?.status.seen.arch;
    // A machine that could not be recorded cannot be accepted either, so it is held.
    const network = member && request.network;
    const asks = { arch, serial: request.identity.serial };
    return { verdict: verdictOnUnknown(context, network, asks, member?.status.bootsWithoutReady) };
  }
  // A script that is requested again within one session (a lost answer, a retry) is the same boot.
  const boots = member.status.bootsWithoutReady - (live.given ? 1 : 0);
  return prepareFor(context, member, {
    arch: request.arch ?? member.status.seen.arch,
    firmware: request.firmware ?? member.status.seen.firmware,
    network: request.network,
    bootsWithoutReady: Math.max(0, boots),
    mac: live.session.mac,
    session: live.session.id,
    baseUrl: request.baseUrl,
    peer: plainAddress(request.peer),
    ...(request.loader && { loader: request.loader }),
  });
}

/** The circumstances of a boot. */
export interface PrepareFor {
  readonly arch: 'x86_64' | 'aarch64' | undefined;
  readonly firmware: 'bios' | 'uefi' | undefined;
  readonly network: ScriptRequest['network'];
  readonly bootsWithoutReady: number;
  readonly mac: Mac;
  readonly session: string;
  readonly baseUrl: string;
  readonly peer: string | undefined;
  /** The loader that runs the script; absent: iPXE. */
  readonly loader?: ScriptRequest['loader'];
  /** The machine's agent was heard so recently that the machine cannot be booting now. */
  readonly alive?: boolean;
}

/**
 * The verdict for a documented machine: selects its profile, then checks image, files, loader and
 * configuration. `muster explain` and `render` use it as well.
 */
export function prepareFor(context: BootContext, member: Member, on: PrepareFor): Preparation {
  const selection = selectionOf(context, member, on.network?.name);
  const { bootsWithoutReady, alive = false } = on;
  const { quarantine, life, install } = member.status;
  const { discovery } = on.network ?? {};
  const tried = wasTried(context.catalog, member, selection, on.session);
  const facts = { bootsWithoutReady, alive, life, discovery, install, tried };
  const known = { kind: 'known', selection, ...facts } as const;
  const machine: Recognised = { ...known, quarantine: quarantine?.text };
  const outline = judge(machine);
  const settles =
    considersInventory(selection, context.profiles()) || choosesDisk(context, member, selection);
  if (outline.kind === 'disk') return { verdict: outline, settles };
  if (outline.kind === 'discovery') {
    const image = imageState(context, outline.image);
    return { verdict: judge(machine, { arch: on.arch, image }) };
  }
  if (outline.kind !== 'script') return { verdict: outline };
  const image = context.catalog.get('Image', outline.image)?.document.spec;
  const base: Readiness = {
    arch: on.arch,
    image: imageState(context, outline.image),
    loaderMissing: missingLoader(context, member, on),
  };
  const able = judge(machine, base);
  if (able.kind !== 'script' || !image || selection.kind !== 'selected') return { verdict: able };
  const result = context.configurations.of({
    member,
    profile: able.profile,
    image: able.image,
    mac: on.mac,
    session: on.session,
    baseUrl: on.baseUrl,
    network: on.network,
    address: addressOf(member, on.network, on.peer),
    ticketed: givesAddress(on.network, member),
  });
  const refused = (faults: readonly Fault[]): Preparation => ({
    verdict: judge(machine, { ...base, configFault: faultText(faults) }),
    image,
    faults,
  });
  if (!result.ok) return refused(result.faults);
  const rendered = result.value;
  try {
    const script = textOf(context, member, on, selection, image, rendered);
    return { verdict: able, image, boot: { rendered, script }, settles };
  } catch (error) {
    if (!(error instanceof MusterError)) throw error;
    return refused(error.faults);
  }
}

/** Whether the inventory has chosen the machine's data disk. */
const choosesDisk = (context: BootContext, member: Member, selection: Selection): boolean =>
  chosenDataDisk(context, member.name, disksFor(context, member, selection))?.ok === true;

/** A loader that documents demand for this firmware, and that is not installed. */
function missingLoader(
  context: BootContext,
  member: Member,
  { network, firmware }: Pick<PrepareFor, 'network' | 'firmware'>,
): string | undefined {
  const wanted = member.entry?.document.spec.pxe?.loader ?? network?.pxe.loader;
  if (wanted === undefined || context.assets.loader(wanted) !== undefined) return undefined;
  const code = firmware === undefined ? undefined : firmware === 'bios' ? 0 : 7;
  return suits(wanted, code) ? wanted : undefined;
}

/** The first fault in words, and the number of the others. */
export function faultText(faults: readonly Fault[]): string {
  const path = faults[0]?.path;
  return `${path ? `${path}: ` : ''}${firstOf(faults)}`;
}

/**
 * The boot script's text.
 *
 * @throws {MusterError} E_KERNEL_ARGUMENT when the loader cannot pass the kernel command line.
 */
function textOf(
  context: BootContext,
  member: Member,
  { baseUrl, session, mac, loader }: PrepareFor,
  selection: Extract<Selection, { kind: 'selected' }>,
  image: ImageSpec,
  rendered: Rendered,
): string {
  const { name, spec } = selection.profile;
  return writerFor(loader).boot({
    baseUrl,
    session,
    mac,
    machine: member.name,
    profile: name,
    image: spec.image ?? '',
    kernel: image.kernel,
    initrds: image.initrds ?? [],
    root: image.root,
    bootDisk: disksFor(context, member, selection).boot !== undefined,
    kernelArguments: [
      ...(image.kernelArguments ?? []),
      ...(spec.kernelArguments ?? []),
      ...rendered.kernelArguments,
    ],
    time: timeToTell(context.clock),
  });
}

/**
 * Gives a boot: the session becomes the machine's current one and the boot is counted once. Both
 * are durable before the answer is sent.
 */
async function give(
  context: BootContext,
  live: LiveSession,
  member: Member,
  request: ScriptRequest,
  verdict: Extract<Verdict, { kind: 'script' }>,
  { rendered, script }: Boot,
): Promise<ScriptAnswer> {
  const { roster, events } = context;
  const { sessions } = roster;
  const first = !live.given;
  const root = context.catalog.get('Image', verdict.image)?.document.spec.root?.sha256;
  const superseded = first ? sessions.promote(live) : undefined;
  sessions.set(live, {
    profile: verdict.profile,
    image: verdict.image,
    network: request.network?.name ?? '',
    peer: plainAddress(request.peer),
  });
  sessions.mark(live, 'script');
  live.baseUrl = request.baseUrl;
  sessions.expect(live, (context.clock.monotonic() + configTimeout(rendered)) as Millis);
  if (first)
    roster.move(member, 'booted', {
      session: live.session.id,
      bootsWithoutReady: member.status.bootsWithoutReady + 1,
      logTail: undefined,
      trial: trialOf(member, root, live.session.id),
    });
  events.record({
    kind: 'boot.script',
    subject: member.name,
    session: live.session.id,
    ...(request.network ? { network: request.network.name } : {}),
    reason: verdict.reason,
    fields: { profile: verdict.profile, image: verdict.image, boots: member.status.bootsWithoutReady },
  });
  try {
    await roster.commit([member], superseded ? [live, superseded] : [live]);
  } catch (error) {
    // The boot is counted in memory, and its records stay queued until the store writes again.
    if (member.entry === undefined || !cannotWrite(error)) throw error;
  }
  return { decision: verdict, session: live.session, script };
}

/** How long a machine with this configuration may be silent before it counts as failed. */
export function configTimeout(rendered: Rendered): Millis {
  const text = rendered.merged.configTimeout;
  return (text === undefined ? undefined : parseDuration(text)) ?? CONFIG_TIMEOUT;
}

/** Records a conflict as an event of every machine that it concerns. */
function conflicting(
  context: BootContext,
  subject: string,
  live: LiveSession,
  machines: readonly string[],
  verdict: Verdict,
): void {
  for (const one of new Set([subject, ...machines]))
    context.events.record({
      kind: 'machine.conflict',
      subject: one,
      session: live.session.id,
      reason: verdict.reason,
      fields: { asked: subject, machines: machines.join(' ') },
    });
}

/** The script of a held machine, which says why. */
function refuse(
  context: BootContext,
  live: LiveSession,
  member: Member | undefined,
  subject: string,
  request: ScriptRequest,
  verdict: Verdict,
  fresh: boolean,
): ScriptAnswer {
  if (fresh && member) held(context, member, live, verdict);
  const { macs, manufacturer, product, serial } = request.identity;
  const mac = request.bootMac ?? macs[0];
  const recorded = context.roster.get(subject) !== undefined;
  const what = [mac, manufacturer, product, serial].filter(Boolean).join(', ');
  const text = writerFor(request.loader).hold({
    baseUrl: request.baseUrl,
    boot: live.name,
    machine: subject,
    identity: what === '' ? 'it sent no identity' : what,
    reason: verdict.reason.text,
    remedy: remedy(verdict.reason, { subject, recorded, mac }) ?? 'nothing to do',
    ...(verdict.reason.code === 'alive' && {
      againInSeconds: Math.floor(context.roster.heartbeats.remaining(subject) / 1000) + 1,
    }),
  });
  return { decision: verdict, session: live.session, script: text };
}

/**
 * Records once why a machine is held. A hold that an operator must end changes its phase as well.
 */
function held(context: BootContext, member: Member, live: LiveSession, decision: Verdict): void {
  if (member.status.reason?.code === decision.reason.code) return;
  const stops = decision.reason.code === 'boot_loop' || decision.reason.code === 'profile_holds';
  if (!stops || !member.entry || !context.roster.move(member, 'held', { reason: decision.reason }))
    context.roster.change(member, { reason: decision.reason });
  context.events.record({
    kind: 'machine.held',
    subject: member.name,
    session: live.session.id,
    reason: decision.reason,
  });
}
