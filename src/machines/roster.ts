/**
 * All machines in memory: those of the documents and those that were only seen, with status,
 * sessions and an index by identity. A packet is answered in constant time, whatever is known. The
 * store follows: what must not be lost is committed by the caller ({@link Roster.commit}); the rest
 * (sightings) is written behind, in batches.
 */
import type { Clock } from '../base/clock.ts';
import { duration, type Millis, millis } from '../base/duration.ts';
import type { Ipv4 } from '../base/ipv4.ts';
import type { Log } from '../base/log.ts';
import type { Mac } from '../base/mac.ts';
import type { Metrics } from '../base/metrics.ts';
import { beforeChange } from '../base/rehearsal.ts';
import { TokenBucket } from '../base/token-bucket.ts';
import type { EventSink } from '../events/event.ts';
import type { Catalog, CatalogChange, Entry } from '../resources/catalog.ts';
import type { Store, Write } from '../store/store.ts';
import { createHeartbeats, type Heartbeats } from './heartbeats.ts';
import type { KnownMachine } from './machine.ts';
import type { GoneRecord, Member, Roster, StatusChange } from './member.ts';
import { prune, viewOf } from './member-record.ts';
import { MemberTable, type MutableMember } from './members.ts';
import { type PhaseEvent, transition } from './phases.ts';
import type { Evidence, Recognition } from './recognition.ts';
import { RosterRecords, readRecords, type StoredMachine, sessionWrite } from './roster-records.ts';
import { createSessions, type LiveSession, type Sessions } from './sessions.ts';
import { addsNothing, foldSeen, mergeSighting, newStatus, type Sighting } from './status.ts';

export type { Member, Roster, StatusChange } from './member.ts';

/**
 * How many machines without a document are kept. One more drops the one that was not seen for
 * longest.
 */
export const MAX_DISCOVERED = 20_000;

/**
 * How many unknown machines are recorded at once, and then per second. Beyond that they are still
 * answered, but not recorded, so that a flood of invented addresses costs neither memory nor disk.
 */
export const DISCOVERY = { burst: 2_000, perSecond: 100 } as const;

/** A machine without a document that keeps asking is moved behind the others at most this often. */
const REFRESH_EVERY = duration('1m');

interface RosterDeps {
  readonly store: Store;
  readonly catalog: Catalog;
  readonly events: EventSink;
  readonly clock: Clock;
  readonly log: Log;
  readonly metrics: Metrics;
}

/** Reads statuses and sessions from the store, joins them with the documents, and follows both. */
export async function openRoster(deps: RosterDeps): Promise<Roster> {
  const { machines, sessions } = await readRecords(deps);
  const roster = new MemoryRoster(deps);
  roster.sessions.load(sessions);
  roster.start(machines);
  return roster;
}

class MemoryRoster implements Roster {
  readonly sessions: Sessions;
  readonly heartbeats: Heartbeats;
  readonly #deps: RosterDeps;
  readonly #table: MemberTable;
  readonly #records: RosterRecords;
  readonly #rate = new TokenBucket(DISCOVERY.burst, millis(1000 / DISCOVERY.perSecond));
  readonly #listeners = new Set<(gone: GoneRecord) => void>();
  #unsubscribe: () => void = () => {};
  #started = false;

  constructor(deps: RosterDeps) {
    this.#deps = deps;
    this.sessions = createSessions(deps);
    this.heartbeats = createHeartbeats(deps);
    this.#table = new MemberTable((name) => this.#records.memberLater(name));
    this.#records = new RosterRecords({
      ...deps,
      member: (name) => this.#table.get(name),
      session: (id) => this.sessions.get(id),
    });
  }

  start(stored: readonly StoredMachine[]): void {
    const { catalog, metrics } = this.#deps;
    const oldestFirst = [...stored].sort((a, b) => (a.value.lastSeen ?? 0) - (b.value.lastSeen ?? 0));
    for (const { name, value } of oldestFirst)
      this.#table.add({ name, entry: undefined, status: value, version: 0, lastSeen: value.lastSeen });
    for (const entry of catalog.list('Machine')) this.#registered(entry);
    // The documents of these machines were removed while the server was down.
    for (const member of this.#table.allDiscovered())
      if (member.status.phase !== 'discovered') this.#withoutDocument(member);
    this.#unsubscribe = catalog.subscribe((changes) => this.#follow(changes));
    this.#started = true;
    this.#table.countPhases((phase, count) => metrics.set('muster_machines', { phase }, count));
  }

  get size(): number {
    return this.#table.size;
  }

  get(name: string): Member | undefined {
    return this.#table.get(name);
  }

  list(): readonly KnownMachine[] {
    return [...this.#table.all()].sort((a, b) => (a.name < b.name ? -1 : 1)).map(viewOf);
  }

  view(member: Member): KnownMachine {
    return viewOf(member);
  }

  withSerial(serial: string | undefined): string | undefined {
    return this.#table.withSerial(serial);
  }

  recognise(evidence: Evidence): Recognition {
    return this.#table.recognise(evidence);
  }

  byMac(mac: Mac): Member | undefined {
    return this.#table.byMac(mac);
  }

  byAddress(address: Ipv4): Member | undefined {
    return this.#table.byAddress(address);
  }

  discover(sighting: Sighting & { readonly bootMac: Mac }): Member | undefined {
    const { clock, metrics } = this.#deps;
    if (!this.#rate.permits(clock.monotonic())) {
      metrics.add('muster_table_dropped_total', { table: 'discovery' });
      return undefined;
    }
    this.#rate.spend(clock.monotonic());
    const table = this.#table;
    if (table.discoveredSize >= MAX_DISCOVERED) {
      metrics.add('muster_table_dropped_total', { table: 'discovered' });
      const oldest = table.oldestDiscovered()!;
      table.remove(oldest);
      this.#gone({ name: oldest.name });
    }
    const now = this.#deps.clock.now();
    const plain = `m-${sighting.bootMac.replaceAll(':', '')}`;
    let name = plain;
    for (let n = 2; table.get(name) !== undefined; n++) name = `${plain}-${n}`;
    const status = newStatus('discovered', now);
    const seen = mergeSighting(status.seen, sighting);
    const member = table.add({
      name,
      entry: undefined,
      status: { ...status, firstSeen: now, seen },
      version: 0,
      lastSeen: now,
    });
    table.touch(member);
    this.#deps.events.record({
      kind: 'machine.discovered',
      subject: name,
      ...(sighting.network ? { network: sighting.network } : {}),
      fields: { mac: sighting.bootMac, ...(sighting.product ? { product: sighting.product } : {}) },
    });
    return member;
  }

  see(member: Member, sighting: Sighting): void {
    const own = mutable(member);
    const now = this.#deps.clock.now();
    if (!own.entry && now - (own.lastSeen ?? 0) > REFRESH_EVERY) this.#table.refresh(own);
    own.lastSeen = now;
    const { seen, firstSeen } = own.status;
    if (firstSeen !== undefined && addsNothing(seen, sighting)) return;
    this.#table.setStatus(own, {
      ...own.status,
      seen: mergeSighting(seen, sighting),
      firstSeen: firstSeen ?? now,
    });
    this.#table.claim(own);
  }

  fold(member: Member, names: readonly string[], accepted = false): void {
    const into = mutable(member);
    for (const name of names) {
      const other = this.#table.discovered(name);
      if (!other || other === into) continue;
      const { status } = other;
      this.#table.remove(other);
      this.sessions.rebind(name, into.name);
      this.#rebindWaiting(status.session, into.name);
      this.#gone({ name, ...(accepted && { into: into.name }) });
      const firstSeen = Math.min(into.status.firstSeen ?? Infinity, status.firstSeen ?? Infinity);
      this.#table.setStatus(into, {
        ...into.status,
        seen: foldSeen(into.status.seen, status.seen),
        ...(Number.isFinite(firstSeen) ? { firstSeen: firstSeen as Millis } : {}),
      });
      if ((other.lastSeen ?? 0) > (into.lastSeen ?? 0)) into.lastSeen = other.lastSeen;
    }
    this.#table.claim(into);
  }

  exchange(one: Member, other: Member): void {
    const [a, b] = [mutable(one), mutable(other)];
    const isOf = ({ entry }: Member, { status }: Member): boolean =>
      entry?.document.spec.macs.some((mac) => status.seen.bootMacs?.includes(mac as Mac)) === true;
    if (!isOf(a, b) && !isOf(b, a)) return;
    const [ofA, ofB] = [a.status, b.status];
    const hardware = ({ seen, firstSeen }: Member['status']) => ({ seen, firstSeen });
    this.#table.setStatus(a, prune({ ...ofA, ...hardware(ofB) }));
    this.#table.setStatus(b, prune({ ...ofB, ...hardware(ofA) }));
    for (const member of [a, b]) this.#table.claim(member);
  }

  onGone(listener: (gone: GoneRecord) => void): () => void {
    this.#listeners.add(listener);
    return () => this.#listeners.delete(listener);
  }

  #gone(gone: GoneRecord): void {
    for (const listener of this.#listeners) listener(gone);
  }

  /** A machine that waits in the discovery system learns its new name there. */
  #rebindWaiting(session: string | undefined, machine: string): void {
    const live = session === undefined ? undefined : this.sessions.get(session);
    if (live?.session.discovery) this.sessions.set(live, { machine });
  }

  move(member: Member, event: PhaseEvent, change: StatusChange = {}): boolean {
    beforeChange(`put machine/${member.name}`);
    const { events, clock } = this.#deps;
    const { name, status } = member;
    const before = status.phase;
    const phase = transition(before, event);
    if (phase === null) {
      events.record({
        kind: 'machine.phase',
        subject: name,
        reason: { code: 'impossible', text: `"${event}" cannot happen to a machine that is ${before}` },
        fields: { phase: before, event, applied: false },
      });
      return false;
    }
    const { reason: _, ...rest } = status;
    const since = phase === before ? status.since : clock.now();
    this.#table.setStatus(mutable(member), prune({ ...rest, ...change, phase, since }));
    if (phase !== before)
      events.record({
        kind: 'machine.phase',
        subject: name,
        ...(change.session ? { session: change.session } : {}),
        ...(change.reason ? { reason: change.reason } : {}),
        fields: { from: before, to: phase },
      });
    return true;
  }

  change(member: Member, change: StatusChange): void {
    beforeChange(`put machine/${member.name}`);
    this.#table.setStatus(mutable(member), prune({ ...member.status, ...change }));
  }

  forget(name: string): boolean {
    const member = this.#table.discovered(name);
    if (!member) return false;
    beforeChange(`delete machine/${name}`);
    this.#table.remove(member);
    this.#gone({ name });
    return true;
  }

  commit(
    members: readonly Member[],
    sessions: readonly LiveSession[],
    also: readonly Write[] = [],
  ): Promise<void> {
    return this.#records.commit(members, sessions, also);
  }

  sessionWrite(live: LiveSession): Write {
    return sessionWrite(live);
  }

  saveLater(live: LiveSession): void {
    live.stored = true;
    this.#records.sessionLater(live.session.id);
  }

  flush(): Promise<void> {
    return this.#records.flush();
  }

  sweep(): void {
    for (const id of this.sessions.sweep()) this.#records.sessionLater(id);
  }

  close(): Promise<void> {
    this.#unsubscribe();
    return this.#records.close();
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
    const before = this.#table.get(name);
    const isNew = before?.entry === undefined;
    const member = before ?? this.#newMember(name, entry);
    if (before) {
      this.#table.setEntry(before, entry);
      // Boots of the discovery system are not counted as boots of the machine.
      if (before.status.phase === 'discovered') this.move(before, 'accepted', { bootsWithoutReady: 0 });
      else this.#table.touch(before);
    }
    this.fold(
      member,
      macs.flatMap((mac) => this.#table.seenWith(mac as Mac)),
      isNew,
    );
    if (isNew && this.#started && member.status.firstSeen !== undefined)
      this.#deps.events.record({ kind: 'machine.accepted', subject: name, fields: { macs: macs.join(' ') } });
  }

  #newMember(name: string, entry: Entry<'Machine'>): MutableMember {
    const status = newStatus('registered', this.#deps.clock.now());
    const member = this.#table.add({ name, entry, status, version: 0, lastSeen: undefined });
    this.#table.touch(member);
    return member;
  }

  #unregistered(name: string): void {
    const member = this.#table.get(name);
    if (!member?.entry) return;
    this.#table.setEntry(member, undefined);
    this.#withoutDocument(member);
  }

  /** A machine that was seen stays, as discovered; one that was only documented is dropped. */
  #withoutDocument(member: MutableMember): void {
    if (member.status.firstSeen === undefined) this.#table.remove(member);
    else {
      // A machine that gets the name later is another one: nobody has released its disks.
      this.move(member, 'removed', { bootsWithoutReady: 0, install: undefined });
      this.#table.claim(member);
    }
  }
}

/** Every member was made by this roster, which alone may change it. */
const mutable = (member: Member): MutableMember => member as MutableMember;
