/**
 * The table behind the roster: machines by name, by identity and by reserved address, how many are
 * in which phase, and which undocumented one was not seen for longest. Pure; the roster decides.
 */
import { AgedMap } from '../base/aged.ts';
import { type Ipv4, parseIpv4 } from '../base/ipv4.ts';
import type { Mac } from '../base/mac.ts';
import type { Entry } from '../resources/catalog.ts';
import { type MachineStatus, PHASES, type Phase } from './machine.ts';
import type { Member } from './member.ts';
import { createRecognitionIndex, type Evidence, type Recognition } from './recognition.ts';

/** A member as the table changes it; everybody else reads it as {@link Member}. */
export type MutableMember = { -readonly [K in keyof Member]: Member[K] };

/** All members of the roster, with the indexes that follow from them. */
export class MemberTable {
  readonly #members = new Map<string, MutableMember>();
  /** Members without a document, the one not seen for longest first. */
  readonly #discovered = new AgedMap<string, MutableMember>();
  readonly #byAddress = new Map<Ipv4, MutableMember>();
  readonly #index = createRecognitionIndex();
  readonly #phases = new Map<Phase, number>(PHASES.map((phase) => [phase, 0]));
  readonly #changed: (name: string) => void;
  #counted: (phase: Phase, count: number) => void = () => {};

  /** `changed` is called with the name of each member whose record is to be written or deleted. */
  constructor(changed: (name: string) => void) {
    this.#changed = changed;
  }

  get size(): number {
    return this.#members.size;
  }

  /** How many members have no document. */
  get discoveredSize(): number {
    return this.#discovered.size;
  }

  get(name: string): MutableMember | undefined {
    return this.#members.get(name);
  }

  /** All members, in no order. */
  all(): Iterable<MutableMember> {
    return this.#members.values();
  }

  /** The member of that name, if it has no document. */
  discovered(name: string): MutableMember | undefined {
    return this.#discovered.get(name);
  }

  allDiscovered(): readonly MutableMember[] {
    return [...this.#discovered].map(([, member]) => member);
  }

  /** The undocumented member that was not seen for longest. */
  oldestDiscovered(): MutableMember | undefined {
    return this.#discovered.oldest()?.value;
  }

  recognise(evidence: Evidence): Recognition {
    return this.#index.recognise(evidence);
  }

  /** The member that alone claims this boot address. */
  byMac(mac: Mac): MutableMember | undefined {
    const name = this.#index.owner(mac);
    return name === undefined ? undefined : this.#members.get(name);
  }

  /** The one documented member that has this serial number. */
  withSerial(serial: string | undefined): string | undefined {
    return this.#index.withSerial(serial);
  }

  /** Names of the members that were seen with this hardware address. */
  seenWith(mac: Mac): readonly string[] {
    return this.#index.seenWith(mac);
  }

  /** The member whose document reserves this address. */
  byAddress(address: Ipv4): MutableMember | undefined {
    return this.#byAddress.get(address);
  }

  /** Adds a member; its record counts as written. */
  add(member: MutableMember): MutableMember {
    this.#members.set(member.name, member);
    if (!member.entry) this.#discovered.set(member.name, member);
    this.#reserve(member);
    this.#count(member.status.phase, 1);
    this.claim(member);
    return member;
  }

  remove(member: Member): void {
    this.#members.delete(member.name);
    this.#discovered.delete(member.name);
    this.#release(member);
    this.#index.remove(member.name);
    this.#count(member.status.phase, -1);
    this.#changed(member.name);
  }

  /** Gives a member its document, or takes it away. Does not claim its identity. */
  setEntry(member: MutableMember, entry: Entry<'Machine'> | undefined): void {
    this.#release(member);
    member.entry = entry;
    if (entry === undefined) this.#discovered.set(member.name, member);
    else this.#discovered.delete(member.name);
    this.#reserve(member);
  }

  setStatus(member: MutableMember, status: MachineStatus): void {
    if (status.phase !== member.status.phase) {
      this.#count(member.status.phase, -1);
      this.#count(status.phase, 1);
    }
    member.status = status;
    this.touch(member);
  }

  /** Marks a member as changed. */
  touch(member: MutableMember): void {
    member.version++;
    this.#changed(member.name);
  }

  /** Moves an undocumented member behind those that were seen before it. */
  refresh(member: MutableMember): void {
    if (this.#discovered.has(member.name)) this.#discovered.set(member.name, member);
  }

  /** Enters into the index what the member's document and its sightings say of its identity. */
  claim(member: Member): void {
    const spec = member.entry?.document.spec;
    const { seen } = member.status;
    this.#index.set({
      name: member.name,
      documented: spec !== undefined,
      macs: (spec?.macs ?? []) as Mac[],
      // What it only claims in a request is no evidence: anybody can claim any address.
      seenMacs: seen.bootMacs ?? [],
      uuid: spec?.uuid ?? seen.uuid,
      serial: spec?.serial ?? seen.serial,
      firm: spec?.uuid !== undefined && spec.serial !== undefined,
    });
  }

  /** Calls `counted` for every phase now, and from now on whenever the count of one changes. */
  countPhases(counted: (phase: Phase, count: number) => void): void {
    this.#counted = counted;
    for (const [phase, count] of this.#phases) counted(phase, count);
  }

  #count(phase: Phase, by: number): void {
    const count = this.#phases.get(phase)! + by;
    this.#phases.set(phase, count);
    this.#counted(phase, count);
  }

  #reserve(member: MutableMember): void {
    for (const address of addressesOf(member)) this.#byAddress.set(address, member);
  }

  #release(member: Member): void {
    for (const address of addressesOf(member))
      if (this.#byAddress.get(address) === member) this.#byAddress.delete(address);
  }
}

/** The IPv4 addresses that the member's document reserves. */
const addressesOf = ({ entry }: Member): readonly Ipv4[] =>
  (entry?.document.spec.addresses ?? []).flatMap((text) => parseIpv4(text) ?? []);
