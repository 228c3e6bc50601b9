/**
 * Recognises a machine: compares what a booting machine reports with what is known, by score. A
 * hardware address weighs most, UUID and serial together come next, either alone is too little
 * (blades of a C6100 share both: siderolabs/sidero#930). Where two machines fit, nothing is
 * guessed: the machine is held until an operator decides.
 */
import type { Mac } from '../base/mac.ts';
import { serialKey, uuidKey } from './identity.ts';
import { isFleetingMac, isUsableMac } from './placeholders.ts';

/** What a packet or request reports. `bootMac` is the interface that it came from. */
export interface Evidence {
  readonly bootMac?: Mac | undefined;
  readonly macs: readonly Mac[];
  readonly uuid?: string | undefined;
  readonly serial?: string | undefined;
}

/** What is known of one machine, from its document and from what was seen of it before. */
export interface Claim {
  readonly name: string;
  readonly documented: boolean;
  readonly macs: readonly Mac[];
  /** Those that it booted from before. */
  readonly seenMacs: readonly Mac[];
  readonly uuid?: string | undefined;
  readonly serial?: string | undefined;
  /** UUID and serial number are those of its document, not those that were seen. */
  readonly firm?: boolean;
}

/** Points for each kind of evidence; {@link THRESHOLD} points recognise a machine. */
export const POINTS = {
  'boot-mac': { points: 100, text: 'the address it boots from is in its document' },
  'other-mac': { points: 80, text: 'another of its addresses is in its document' },
  'boot-mac-seen': { points: 70, text: 'it booted from this address before' },
  'uuid-and-serial': { points: 60, text: 'UUID and serial are the same' },
  'other-mac-seen': { points: 30, text: 'another of its addresses was seen before' },
  uuid: { points: 30, text: 'the UUID is the same' },
  serial: { points: 10, text: 'the serial is the same' },
  'uuid-differs': { points: -40, text: 'the UUID differs' },
  'serial-differs': { points: -30, text: 'the serial differs' },
} as const;

const THRESHOLD = 50;

/**
 * A value that more machines than this claim distinguishes nothing and is ignored.
 */
const MAX_SHARED = 8;

type EvidenceKind = keyof typeof POINTS;

export interface Match {
  readonly name: string;
  readonly score: number;
  readonly because: readonly EvidenceKind[];
}

export type Recognition =
  /** `same`: discovered records that turned out to be this machine. */
  | { readonly kind: 'known'; readonly match: Match; readonly same: readonly string[] }
  | { readonly kind: 'unknown' }
  /** `contradicted`: its address is in a document whose UUID and serial number both differ. */
  | { readonly kind: 'conflict'; readonly matches: readonly Match[]; readonly contradicted?: true };

interface RecognitionIndex {
  /** Adds or replaces what is known of a machine. */
  set(claim: Claim): void;
  remove(name: string): void;
  /**
   * Recognises a machine. The result does not depend on the order of addresses or claims, the cost
   * not on the number of machines.
   *
   * @example
   * index.set({ name: 'n1', documented: true, macs: [mac], seenMacs: [] });
   * index.recognise({ bootMac: mac, macs: [mac] });
   * // { kind: 'known', match: { name: 'n1', score: 100, because: ['boot-mac'] }, same: [] }
   */
  recognise(evidence: Evidence): Recognition;
  /**
   * The machine that alone claims this boot address; undefined when none or several do, and {@link
   * recognise} has to decide.
   */
  owner(mac: Mac): string | undefined;
  /** The one documented machine that has this serial number. */
  withSerial(serial: string | undefined): string | undefined;
  /** Names of the machines that were seen with this address; none when more than eight were. */
  seenWith(mac: Mac): readonly string[];
}

interface Known extends Claim {
  readonly uuidKey: string | undefined;
  readonly serialKey: string | undefined;
}

interface Scored extends Match {
  readonly documented: boolean;
  /** Its document names the boot address and no evidence contradicts it. */
  readonly clear: boolean;
  /** Only UUID and serial fit, although the machine was seen before with other addresses. */
  readonly doubtful: boolean;
  /** Its document names the boot address, and another UUID and another serial number. */
  readonly contradicted: boolean;
}

/** Creates an empty index. */
export function createRecognitionIndex(): RecognitionIndex {
  const claims = new Map<string, Known>();
  const byMac = multimap();
  const bySeenMac = multimap();
  const byUuid = multimap();
  const bySerial = multimap();

  const remove = (name: string): void => {
    const known = claims.get(name);
    if (!known) return;
    claims.delete(name);
    for (const mac of known.macs) byMac.remove(mac, name);
    for (const mac of known.seenMacs) bySeenMac.remove(mac, name);
    if (known.uuidKey) byUuid.remove(known.uuidKey, name);
    if (known.serialKey) bySerial.remove(known.serialKey, name);
  };

  /** Whether two documents have this UUID or serial: firmware repeats it, so it is no evidence. */
  const shared = (names: ReadonlySet<string> | string | undefined): boolean => {
    if (typeof names !== 'object') return false;
    if (names.size > MAX_SHARED) return true;
    let documented = 0;
    for (const name of names) if (claims.get(name)?.documented) documented++;
    return documented > 1;
  };

  const macEvidence = (known: Known, evidence: Evidence): EvidenceKind | undefined => {
    const { bootMac } = evidence;
    if (bootMac && known.macs.includes(bootMac)) return 'boot-mac';
    if (evidence.macs.some((mac) => isUsableMac(mac) && known.macs.includes(mac))) return 'other-mac';
    const seen = (mac: Mac) => isUsableMac(mac) && known.seenMacs.includes(mac) && !byMac.has(mac);
    if (bootMac && seen(bootMac)) return 'boot-mac-seen';
    if (evidence.macs.some((mac) => !isFleetingMac(mac) && seen(mac))) return 'other-mac-seen';
    return undefined;
  };

  const score = (known: Known, evidence: Evidence, uuid?: string, serial?: string): Scored => {
    const mac = macEvidence(known, evidence);
    const sameUuid = uuid !== undefined && known.uuidKey === uuid && !shared(byUuid.get(uuid));
    const sameSerial = serial !== undefined && known.serialKey === serial && !shared(bySerial.get(serial));
    return scored(known, mac, { uuid: sameUuid, serial: sameSerial }, { uuid, serial });
  };

  const candidates = (evidence: Evidence, uuid?: string, serial?: string): ReadonlySet<string> => {
    const names = new Set<string>();
    const take = (found: ReadonlySet<string> | string | undefined) => {
      if (typeof found === 'string') names.add(found);
      else if (found && found.size <= MAX_SHARED) for (const name of found) names.add(name);
    };
    for (const mac of evidence.bootMac ? [evidence.bootMac, ...evidence.macs] : evidence.macs) {
      take(byMac.get(mac));
      take(bySeenMac.get(mac));
    }
    if (uuid) take(byUuid.get(uuid));
    if (serial) take(bySerial.get(serial));
    return names;
  };

  return {
    set(claim) {
      remove(claim.name);
      const known: Known = {
        ...claim,
        seenMacs: claim.seenMacs.filter(isUsableMac),
        uuidKey: uuidKey(claim.uuid),
        serialKey: serialKey(claim.serial),
      };
      claims.set(known.name, known);
      for (const mac of known.macs) byMac.add(mac, known.name);
      for (const mac of known.seenMacs) bySeenMac.add(mac, known.name);
      if (known.uuidKey) byUuid.add(known.uuidKey, known.name);
      if (known.serialKey) bySerial.add(known.serialKey, known.name);
    },
    remove,
    recognise(evidence) {
      const uuid = uuidKey(evidence.uuid);
      const serial = serialKey(evidence.serial);
      const fits: Scored[] = [];
      for (const name of candidates(evidence, uuid, serial))
        fits.push(score(claims.get(name)!, evidence, uuid, serial));
      return judge(fits.filter((one) => one.score >= THRESHOLD));
    },
    owner(mac) {
      const names = byMac.get(mac) ?? bySeenMac.get(mac);
      return typeof names === 'string' ? names : undefined;
    },
    withSerial(serial) {
      const names = bySerial.get(serialKey(serial) ?? '') ?? [];
      const documented = [...(typeof names === 'string' ? [names] : names)].filter(
        (name) => claims.get(name)?.documented,
      );
      return documented.length === 1 ? documented[0] : undefined;
    },
    seenWith(mac) {
      const names = bySeenMac.get(mac);
      if (typeof names === 'string') return [names];
      return names === undefined || names.size > MAX_SHARED ? [] : [...names];
    },
  };
}

/** Adds up the evidence for one machine. `keys` are the UUID and serial that were reported. */
function scored(
  known: Known,
  mac: EvidenceKind | undefined,
  same: { readonly uuid: boolean; readonly serial: boolean },
  keys: { readonly uuid: string | undefined; readonly serial: string | undefined },
): Scored {
  const because: EvidenceKind[] = mac ? [mac] : [];
  if (same.uuid && same.serial) because.push('uuid-and-serial');
  else if (same.uuid) because.push('uuid');
  else if (same.serial) because.push('serial');
  const against: EvidenceKind[] = [];
  if (keys.uuid !== undefined && known.uuidKey !== undefined && known.uuidKey !== keys.uuid)
    against.push('uuid-differs');
  if (keys.serial !== undefined && known.serialKey !== undefined && known.serialKey !== keys.serial)
    against.push('serial-differs');
  // When a board is replaced and its network card kept, one contradicting value does not outweigh
  // the address that the machine boots from. Where both are not those of the document, the card may
  // be in another machine.
  const both = known.firm === true && against.length === 2;
  const strong = mac === 'boot-mac' || (mac === 'boot-mac-seen' && !both);
  if (!strong) because.push(...against);
  const contradicted = mac === 'boot-mac' && both;
  return {
    name: known.name,
    score: because.reduce((sum, kind) => sum + POINTS[kind].points, 0),
    because: contradicted ? [...because, ...against] : because,
    contradicted,
    documented: known.documented,
    clear: mac === 'boot-mac' && against.length === 0,
    doubtful: mac === undefined && known.seenMacs.length > 0,
  };
}

/**
 * Decides among the machines that fit. A documented machine outweighs discovered records, which are
 * taken for the same machine seen twice.
 */
function judge(fits: readonly Scored[]): Recognition {
  const ordered = [...fits].sort((a, b) => b.score - a.score || (a.name < b.name ? -1 : 1));
  const documented = ordered.filter((one) => one.documented);
  const discovered = ordered.filter((one) => !one.documented);
  const known = (one: Scored, same: readonly Scored[]): Recognition => ({
    kind: 'known',
    match: plain(one),
    same: same.filter((other) => !other.doubtful).map((other) => other.name),
  });
  if (documented.length === 0) {
    const [best, ...rest] = discovered;
    return best ? known(best, rest) : { kind: 'unknown' };
  }
  const clear = documented.filter((one) => one.clear);
  const others = documented.filter((one) => !one.clear);
  if (clear.length === 1 && others.every((one) => one.doubtful)) return known(clear[0]!, discovered);
  if (documented.length === 1 && documented[0]!.contradicted)
    return { kind: 'conflict', matches: documented.map(plain), contradicted: true };
  if (documented.length === 1 && !documented[0]!.doubtful) return known(documented[0]!, discovered);
  return { kind: 'conflict', matches: documented.map(plain) };
}

const plain = ({ name, score, because }: Scored): Match => ({ name, score, because });

/** Names by key. Almost every key has one name; only a second name makes a set. */
function multimap() {
  const found = new Map<string, string | Set<string>>();
  return {
    /** The names, the one name, or undefined. */
    get: (key: string): ReadonlySet<string> | string | undefined => found.get(key),
    has: (key: string): boolean => found.has(key),
    add(key: string, name: string): void {
      const names = found.get(key);
      if (names === undefined) found.set(key, name);
      else if (typeof names !== 'string') names.add(name);
      else if (names !== name) found.set(key, new Set([names, name]));
    },
    remove(key: string, name: string): void {
      const names = found.get(key);
      if (names === name) found.delete(key);
      else if (typeof names === 'object' && names.delete(name) && names.size === 1)
        found.set(key, names.values().next().value!);
    },
  };
}
