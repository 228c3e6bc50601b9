/** A machine's status as a value: creating it, merging sightings, reading it from the store. */
import type { Millis } from '../base/duration.ts';
import { type Mac, parseMac } from '../base/mac.ts';
import { MAX_MACS } from './identity.ts';
import { OUT_STATES } from './life/life.ts';
import type { BootSession, Identity, MachineStatus } from './machine.ts';
import { INSTALL_STATES, PHASES, SESSION_ENDS, SESSION_STEPS } from './machine.ts';

export type Seen = MachineStatus['seen'];

/** What a packet or request adds to what is known of a machine. */
export interface Sighting extends Partial<{ readonly [K in keyof Identity]: Identity[K] | undefined }> {
  readonly bootMac?: Mac | undefined;
  readonly arch?: 'x86_64' | 'aarch64' | undefined;
  readonly firmware?: 'bios' | 'uefi' | undefined;
  readonly network?: string | undefined;
  readonly address?: string | undefined;
}

/** The status of a machine that enters the roster at wall-clock time `now`. */
export function newStatus(phase: 'discovered' | 'registered', now: Millis): MachineStatus {
  return { v: 1, phase, since: now, seen: { macs: [] }, bootsWithoutReady: 0 };
}

/**
 * `list` with `more` in front, without repetitions, at most {@link MAX_MACS} items; the same list
 * object when nothing is new.
 */
function joined(list: readonly Mac[], more: readonly Mac[]): readonly Mac[] {
  if (more.every((mac) => list.includes(mac))) return list;
  return [...new Set([...more, ...list])].slice(0, MAX_MACS);
}

/**
 * Whether a sighting adds nothing to what is known. Called for every packet, so it allocates
 * nothing.
 */
export function addsNothing(seen: Seen, sighting: Sighting): boolean {
  const { bootMac, macs } = sighting;
  if (bootMac !== undefined && !seen.bootMacs?.includes(bootMac)) return false;
  if (macs !== undefined && !macs.every((mac) => seen.macs.includes(mac))) return false;
  const same = (value: string | undefined, known: string | undefined) =>
    value === undefined || value === known;
  return (
    same(sighting.arch, seen.arch) &&
    same(sighting.firmware, seen.firmware) &&
    same(sighting.network, seen.network) &&
    same(sighting.address, seen.address) &&
    same(sighting.uuid, seen.uuid) &&
    same(sighting.serial, seen.serial) &&
    same(sighting.manufacturer, seen.manufacturer) &&
    same(sighting.product, seen.product) &&
    same(sighting.assetTag, seen.assetTag)
  );
}

/**
 * Merges a sighting into `seen`; the same object when it adds nothing. Newer values replace older
 * ones, lists are united.
 */
export function mergeSighting(seen: Seen, sighting: Sighting): Seen {
  const { bootMac, macs, ...fields } = sighting;
  const all = joined(seen.macs, bootMac ? [bootMac, ...(macs ?? [])] : (macs ?? []));
  const boot = bootMac ? joined(seen.bootMacs ?? [], [bootMac]) : seen.bootMacs;
  let changed = all !== seen.macs || boot !== seen.bootMacs;
  const next: Record<string, unknown> = { ...seen, macs: all };
  if (boot) next.bootMacs = boot;
  for (const [name, value] of Object.entries(fields)) {
    if (value === undefined || next[name] === value) continue;
    next[name] = value;
    changed = true;
  }
  return changed ? (next as unknown as Seen) : seen;
}

/** Adds to `into` what only `from` has: two records turned out to be one machine. */
export function foldSeen(into: Seen, from: Seen): Seen {
  const merged = { ...from, ...into };
  return {
    ...merged,
    macs: joined(into.macs, from.macs),
    ...(from.bootMacs ? { bootMacs: joined(into.bootMacs ?? [], from.bootMacs) } : {}),
  };
}

type Fields = Readonly<Record<string, unknown>>;

const isObject = (value: unknown): value is Fields =>
  typeof value === 'object' && value !== null && !Array.isArray(value);
const isMac = (value: unknown): boolean => typeof value === 'string' && parseMac(value) === value;
const areMacs = (value: unknown): boolean => Array.isArray(value) && value.every(isMac);
const isTime = (value: unknown): boolean => typeof value === 'number' && Number.isFinite(value);
/** Whether a value is absent, or fits. */
const maybe = (value: unknown, fits: (value: unknown) => boolean): boolean =>
  value === undefined || fits(value);
const isText = (value: unknown): boolean => typeof value === 'string';
const oneOf = (values: readonly string[]) => (value: unknown) => values.includes(value as string);
const isReason = (value: unknown): boolean => isObject(value) && isText(value.code) && isText(value.text);
const areTexts = (value: unknown): boolean => isObject(value) && Object.values(value).every(isText);
const isAgent = (value: unknown): boolean =>
  isObject(value) &&
  isTime(value.since) &&
  isText(value.version) &&
  isText(value.bootId) &&
  maybe(value.step, isText) &&
  maybe(value.hold, isReason) &&
  maybe(value.bootDisk, isReason) &&
  maybe(value.kept, isText) &&
  [value.ended, value.full].every((one) => maybe(one, areTexts));
const isTrial = (value: unknown): boolean => isObject(value) && [value.image, value.session].every(isText);
const isAlarm = (value: unknown): boolean => isReason(value) && isTime((value as Fields).at);

const isLife = (value: unknown): boolean =>
  isObject(value) &&
  oneOf(OUT_STATES)(value.state) &&
  isTime(value.at) &&
  [value.text, value.by].every(isText);

const isInstall = (value: unknown): boolean =>
  isObject(value) &&
  isTime(value.at) &&
  oneOf(INSTALL_STATES)(value.state) &&
  ['image', 'disk', 'released', 'step'].every((name) => maybe(value[name], isText));

const SEEN_TEXTS = ['uuid', 'serial', 'manufacturer', 'product', 'assetTag', 'network', 'address'];

function isSeen(seen: unknown): boolean {
  return (
    isObject(seen) &&
    areMacs(seen.macs) &&
    maybe(seen.bootMacs, areMacs) &&
    maybe(seen.arch, oneOf(['x86_64', 'aarch64'])) &&
    maybe(seen.firmware, oneOf(['bios', 'uefi'])) &&
    SEEN_TEXTS.every((name) => maybe(seen[name], isText))
  );
}

/**
 * Reads a status from the store; undefined when the text is not one (the caller logs and skips it).
 */
export function readStatus(text: string): MachineStatus | undefined {
  const status = readVersioned(text);
  const sound =
    status !== undefined &&
    oneOf(PHASES)(status.phase) &&
    isTime(status.since) &&
    Number.isSafeInteger(status.bootsWithoutReady) &&
    isSeen(status.seen) &&
    maybe(status.firstSeen, isTime) &&
    maybe(status.lastSeen, isTime) &&
    maybe(status.reason, isReason) &&
    maybe(status.session, isText) &&
    maybe(status.logTail, isText) &&
    maybe(status.agent, isAgent) &&
    maybe(status.trial, isTrial) &&
    maybe(status.install, isInstall) &&
    maybe(status.alarm, isAlarm) &&
    maybe(status.quarantine, isAlarm) &&
    maybe(status.life, isLife);
  return sound ? (status as unknown as MachineStatus) : undefined;
}

const SESSION_TEXTS = ['profile', 'image', 'loader', 'peer'];

/** As {@link readStatus}, for sessions. */
export function readSession(text: string): BootSession | undefined {
  const session = readVersioned(text);
  const isStep = (one: unknown) => isObject(one) && oneOf(SESSION_STEPS)(one.step) && isTime(one.at);
  const isEnd = (end: unknown) => isObject(end) && isTime(end.at) && oneOf(SESSION_ENDS)(end.why);
  const sound =
    session !== undefined &&
    [session.id, session.machine, session.network].every(isText) &&
    isMac(session.mac) &&
    isTime(session.openedAt) &&
    Array.isArray(session.steps) &&
    session.steps.every(isStep) &&
    maybe(session.closed, isEnd) &&
    maybe(session.ticketAt, isTime) &&
    maybe(session.discovery, (value) => value === true) &&
    SESSION_TEXTS.every((name) => maybe(session[name], isText));
  return sound ? (session as unknown as BootSession) : undefined;
}

function readVersioned(text: string): Fields | undefined {
  try {
    const value: unknown = JSON.parse(text);
    return isObject(value) && value.v === 1 ? value : undefined;
  } catch {
    return undefined;
  }
}
