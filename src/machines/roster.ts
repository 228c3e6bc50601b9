/**
 * All machines in memory: those of the documents and those that were only seen, with status,
 * sessions and an index by identity. Constant time for a packet, whatever is known. The store
 * follows: what must not be lost is committed by the caller ({@link Roster.commit}); the rest
 * (sightings) is written behind, in batches.
 */
import { AgedMap } from '../base/aged.ts';
import type { Clock } from '../base/clock.ts';
import type { Millis } from '../base/duration.ts';
import { type Ipv4, parseIpv4 } from '../base/ipv4.ts';
import type { Log } from '../base/log.ts';
import type { Mac } from '../base/mac.ts';
import type { Metrics } from '../base/metrics.ts';
import type { EventSink } from '../events/event.ts';
import type { Catalog, CatalogChange, Entry } from '../resources/catalog.ts';
import { KEYS, type Keys } from '../store/keys.ts';
import type { Store, Write } from '../store/store.ts';
import { DiscoveryRate } from './discovery-rate.ts';
import { createHeartbeats, type Heartbeats } from './heartbeats.ts';
import { type KnownMachine, type MachineStatus, PHASES, type Phase } from './machine.ts';
import type { Member, Roster, StatusChange } from './member.ts';
import { prune, statusWrite, viewOf } from './member-record.ts';
import { type PhaseEvent, transition } from './phases.ts';
import { createRecognitionIndex, type Evidence, type Recognition } from './recognition.ts';
import { createSessions, type LiveSession, type Sessions } from './sessions.ts';
import {
  addsNothing,
  foldSeen,
  mergeSighting,
  newStatus,
  readSession,
  readStatus,
  type Sighting,
} from './status.ts';
import { createWriteBehind, type WriteBehind } from './write-behind.ts';

export type { Member, Roster, StatusChange } from './member.ts';

/** At most this many machines that have no document; the one not seen for longest is dropped. */
export const MAX_DISCOVERED = 20_000;

type Own = { -readonly [K in keyof Member]: Member[K] };

export interface RosterDeps {
  readonly store: Store;
  readonly catalog: Catalog;
  readonly events: EventSink;
  readonly clock: Clock;
  readonly log: Log;
  readonly metrics?: Metrics;
}

/** Reads statuses and sessions from the store, joins them with the documents, and follows both. */
export async function openRoster(deps: RosterDeps): Promise<Roster> {
  const { store, log } = deps;
  const roster = new MemoryRoster(deps);
  const read = async <T>(keys: Keys<[string]>, parse: (text: string) => T | undefined) => {
    const found: { name: string; value: T }[] = [];
    for (const { key, value } of (await store.list(keys.prefix())).records) {
      const parsed = parse(value);
      if (parsed === undefined) log.warn({ key }, 'a stored record cannot be read and is passed over');
      else found.push({ name: keys.parse(key)![0], value: parsed });
    }
    return found;
  };
  roster.sessions.load((await read(KEYS.session, readSession)).map(({ value }) => value));
  roster.start(await read(KEYS.machine, readStatus));
  return roster;
}

class MemoryRoster implements Roster {
  readonly sessions: Sessions;
  readonly heartbeats: Heartbeats;
  readonly #deps: RosterDeps;
  readonly #members = new Map<string, Own>();
  /** Those without document, the one not seen for longest first. */
  readonly #discovered = new AgedMap<string, Own>();
  readonly #addresses = new Map<Ipv4, Own>();
  readonly #index = createRecognitionIndex();
  readonly #phases = new Map<Phase, number>(PHASES.map((phase) => [phase, 0]));
  readonly #behind: WriteBehind;
  readonly #rate: DiscoveryRate;
  #unsubscribe: () => void = () => {};
  #started = false;

  constructor(deps: RosterDeps) {
    this.#deps = deps;
    this.sessions = createSessions(deps);
    this.heartbeats = createHeartbeats(deps);
    this.#rate = new DiscoveryRate(deps.clock);
    this.#behind = createWriteBehind({ ...deps, writeOf: (key) => this.#writeOf(key) });
  }

  start(stored: readonly { readonly name: string; readonly value: MachineStatus }[]): void {
    const { catalog, metrics } = this.#deps;
    const longest = [...stored].sort((a, b) => (a.value.lastSeen ?? 0) - (b.value.lastSeen ?? 0));
    for (const { name, value } of longest)
      this.#add({ name, entry: undefined, status: value, version: 0, lastSeen: value.lastSeen });
    for (const entry of catalog.list('Machine')) this.#registered(entry);
    // Documents that went while the server was down.
    for (const [, member] of [...this.#discovered])
      if (member.status.phase !== 'discovered') this.#withoutDocument(member);
    this.#unsubscribe = catalog.subscribe((changes) => this.#follow(changes));
    this.#started = true;
    for (const [phase, n] of this.#phases) metrics?.set('muster_machines', { phase }, n);
  }

  get size(): number {
    return this.#members.size;
  }

  get(name: string): Member | undefined {
    return this.#members.get(name);
  }

  list(): readonly KnownMachine[] {
    return [...this.#members.values()].sort((a, b) => (a.name < b.name ? -1 : 1)).map(viewOf);
  }

  view(member: Member): KnownMachine {
    return viewOf(member);
  }

  recognise(evidence: Evidence): Recognition {
    return this.#index.recognise(evidence);
  }

  byMac(mac: Mac): Member | undefined {
    const name = this.#index.owner(mac);
    return name === undefined ? undefined : this.#members.get(name);
  }

  byAddress(address: Ipv4): Member | undefined {
    return this.#addresses.get(address);
  }

  discover(sighting: Sighting & { readonly bootMac: Mac }): Member | undefined {
    if (!this.#rate.take()) return undefined;
    if (this.#discovered.size >= MAX_DISCOVERED) this.#remove(this.#discovered.oldest()!.value);
    const now = this.#deps.clock.now();
    const plain = `m-${sighting.bootMac.replaceAll(':', '')}`;
    let name = plain;
    for (let n = 2; this.#members.has(name); n++) name = `${plain}-${n}`;
    const status = newStatus('discovered', now);
    const seen = mergeSighting(status.seen, sighting);
    const member = this.#add({
      name,
      entry: undefined,
      status: { ...status, firstSeen: now, seen },
      version: 0,
      lastSeen: now,
    });
    this.#touched(member);
    this.#deps.events.record({
      kind: 'machine.discovered',
      subject: name,
      ...(sighting.network ? { network: sighting.network } : {}),
      fields: { mac: sighting.bootMac, ...(sighting.product ? { product: sighting.product } : {}) },
    });
    return member;
  }

  see(member: Member, sighting: Sighting): void {
    const own = member as Own;
    const now = this.#deps.clock.now();
    if (!own.entry && now - (own.lastSeen ?? 0) > 60_000 && this.#discovered.has(own.name))
      this.#discovered.set(own.name, own);
    own.lastSeen = now;
    const { seen, firstSeen } = own.status;
    if (firstSeen !== undefined && addsNothing(seen, sighting)) return;
    this.#setStatus(own, { ...own.status, seen: mergeSighting(seen, sighting), firstSeen: firstSeen ?? now });
    this.#claim(own);
  }

  fold(member: Member, names: readonly string[]): void {
    const into = member as Own;
    for (const name of names) {
      const other = this.#discovered.get(name);
      if (!other || other === into) continue;
      const { status } = other;
      this.#remove(other);
      this.sessions.rebind(name, into.name);
      const firstSeen = Math.min(into.status.firstSeen ?? Infinity, status.firstSeen ?? Infinity);
      this.#setStatus(into, {
        ...into.status,
        seen: foldSeen(into.status.seen, status.seen),
        ...(Number.isFinite(firstSeen) ? { firstSeen: firstSeen as Millis } : {}),
      });
      if ((other.lastSeen ?? 0) > (into.lastSeen ?? 0)) into.lastSeen = other.lastSeen;
    }
    this.#claim(into);
  }

  move(member: Member, event: PhaseEvent, change: StatusChange = {}): boolean {
    const own = member as Own;
    const { events, clock } = this.#deps;
    const before = own.status.phase;
    const phase = transition(before, event);
    if (phase === null) {
      events.record({
        kind: 'machine.phase',
        subject: own.name,
        reason: { code: 'impossible', text: `"${event}" cannot happen to a machine that is ${before}` },
        fields: { phase: before, event, applied: false },
      });
      return false;
    }
    const { reason: _, ...rest } = own.status;
    const since = phase === before ? own.status.since : clock.now();
    this.#setStatus(own, prune({ ...rest, ...change, phase, since }));
    if (phase !== before)
      events.record({
        kind: 'machine.phase',
        subject: own.name,
        ...(change.session ? { session: change.session } : {}),
        ...(change.reason ? { reason: change.reason } : {}),
        fields: { from: before, to: phase },
      });
    return true;
  }

  change(member: Member, change: StatusChange): void {
    this.#setStatus(member as Own, prune({ ...member.status, ...change }));
  }

  forget(name: string): boolean {
    const member = this.#discovered.get(name);
    if (!member) return false;
    this.#remove(member);
    return true;
  }

  async commit(
    members: readonly Member[],
    sessions: readonly LiveSession[],
    also: readonly Write[] = [],
  ): Promise<void> {
    const versions = members.map(({ version }) => version);
    const writes = [...also, ...members.map(statusWrite), ...sessions.map((live) => this.sessionWrite(live))];
    // Until it is known that this took effect, it waits to be written again.
    for (const { name } of members) this.#behind.later(KEYS.machine.key(name));
    for (const { session } of sessions) this.#behind.later(KEYS.session.key(session.id));
    await this.#deps.store.commit(writes);
    for (const [n, { name, version }] of members.entries())
      if (version === versions[n]) this.#behind.done(KEYS.machine.key(name));
    for (const live of sessions) this.#behind.done(KEYS.session.key(live.session.id));
  }

  sessionWrite(live: LiveSession): Write {
    live.stored = true;
    return { key: KEYS.session.key(live.session.id), put: JSON.stringify(live.session) };
  }

  saveLater(live: LiveSession): void {
    live.stored = true;
    this.#behind.later(KEYS.session.key(live.session.id));
  }

  flush(): Promise<void> {
    return this.#behind.flush();
  }

  sweep(): void {
    for (const id of this.sessions.sweep()) this.#behind.later(KEYS.session.key(id));
  }

  async close(): Promise<void> {
    this.#unsubscribe();
    this.#behind.stop();
    await this.#behind.flush().catch((error: unknown) => {
      // What was seen is seen again; what mattered was committed when it happened.
      this.#deps.log.warn({ error: String(error) }, 'machine records could not be written');
    });
  }

  #writeOf(key: string): Write {
    const session = KEYS.session.parse(key);
    if (session) {
      const live = this.sessions.get(session[0]);
      return live ? this.sessionWrite(live) : { key, delete: true };
    }
    const member = this.#members.get(KEYS.machine.parse(key)![0]);
    return member ? statusWrite(member) : { key, delete: true };
  }

  #count(phase: Phase, by: number): void {
    const n = this.#phases.get(phase)! + by;
    this.#phases.set(phase, n);
    if (this.#started) this.#deps.metrics?.set('muster_machines', { phase }, n);
  }

  #touched(member: Own): void {
    member.version++;
    this.#behind.later(KEYS.machine.key(member.name));
  }

  #setStatus(member: Own, status: MachineStatus): void {
    if (status.phase !== member.status.phase) {
      this.#count(member.status.phase, -1);
      this.#count(status.phase, 1);
    }
    member.status = status;
    this.#touched(member);
  }

  /** Tells the index what document and sightings say of the machine. */
  #claim(member: Own): void {
    const spec = member.entry?.document.spec;
    const { seen } = member.status;
    this.#index.set({
      name: member.name,
      documented: spec !== undefined,
      macs: (spec?.macs ?? []) as Mac[],
      seenMacs: seen.macs,
      uuid: spec?.uuid ?? seen.uuid,
      serial: spec?.serial ?? seen.serial,
    });
  }

  #reserve(member: Own, yes: boolean): void {
    for (const text of member.entry?.document.spec.addresses ?? []) {
      const address = parseIpv4(text);
      if (address === undefined) continue;
      if (yes) this.#addresses.set(address, member);
      else if (this.#addresses.get(address) === member) this.#addresses.delete(address);
    }
  }

  #add(member: Own): Own {
    this.#members.set(member.name, member);
    if (!member.entry) this.#discovered.set(member.name, member);
    this.#reserve(member, true);
    this.#count(member.status.phase, 1);
    this.#claim(member);
    return member;
  }

  #remove(member: Own): void {
    this.#members.delete(member.name);
    this.#discovered.delete(member.name);
    this.#reserve(member, false);
    this.#index.remove(member.name);
    this.#count(member.status.phase, -1);
    this.#behind.later(KEYS.machine.key(member.name));
  }

  #follow(changes: readonly CatalogChange[]): void {
    for (const { kind, name, entry } of changes) {
      if (kind !== 'Machine') continue;
      if (entry) this.#registered(entry as Entry<'Machine'>);
      else this.#unregistered(name);
    }
  }

  /** A document came or changed. What was discovered under its addresses becomes its history. */
  #registered(entry: Entry<'Machine'>): void {
    const { name } = entry.document.metadata;
    const { macs } = entry.document.spec;
    const before = this.#members.get(name);
    const fresh = before?.entry === undefined;
    const member = before ?? this.#new(name, entry);
    if (before) {
      this.#reserve(before, false);
      before.entry = entry;
      this.#discovered.delete(name);
      this.#reserve(before, true);
      if (before.status.phase === 'discovered') this.move(before, 'accepted');
      else this.#touched(before);
    }
    this.fold(
      member,
      macs.flatMap((mac) => this.#index.seenWith(mac as Mac)),
    );
    if (fresh && this.#started && member.status.firstSeen !== undefined)
      this.#deps.events.record({ kind: 'machine.accepted', subject: name, fields: { macs: macs.join(' ') } });
  }

  #new(name: string, entry: Entry<'Machine'>): Own {
    const status = newStatus('registered', this.#deps.clock.now());
    const member = this.#add({ name, entry, status, version: 0, lastSeen: undefined });
    this.#touched(member);
    return member;
  }

  #unregistered(name: string): void {
    const member = this.#members.get(name);
    if (!member?.entry) return;
    this.#reserve(member, false);
    member.entry = undefined;
    this.#discovered.set(name, member);
    this.#withoutDocument(member);
  }

  /** A machine that was seen goes on as discovered; one that was only written down is gone. */
  #withoutDocument(member: Own): void {
    if (member.status.firstSeen === undefined) this.#remove(member);
    else {
      this.move(member, 'removed', { bootsWithoutReady: 0 });
      this.#claim(member);
    }
  }
}
