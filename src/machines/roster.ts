/**
 * All machines in memory: those of the documents and those that were only seen, with status, sessions and an index by identity.
 * Constant time for a packet, whatever is known. The store follows: what must not be lost is committed by the caller
 * ({@link Roster.commit}); the rest (sightings) is written behind, in batches.
 */
import type { Clock } from '../base/clock.ts';
import { duration, type Millis } from '../base/duration.ts';
import { type Ipv4, parseIpv4 } from '../base/ipv4.ts';
import type { Log } from '../base/log.ts';
import type { Mac } from '../base/mac.ts';
import type { Metrics } from '../base/metrics.ts';
import type { EventSink, Reason } from '../events/event.ts';
import type { Catalog, CatalogChange, Entry } from '../resources/catalog.ts';
import { KEY, MAX_OPERATIONS, type Store, type Write } from '../store/store.ts';
import { type KnownMachine, type MachineStatus, PHASES, type Phase } from './machine.ts';
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

/** At most this many machines that have no document; the one not seen for longest is dropped. */
export const MAX_DISCOVERED = 20_000;
/** New discoveries: this many at once, then this many a second. More is a flood; those machines are answered, not recorded. */
export const DISCOVERY = { burst: 2_000, perSecond: 100 } as const;
const WRITE_BEHIND = duration('1s');
const WRITE_RETRY = duration('10s');

/** A machine in the roster. Only the roster changes it. */
export interface Member {
  readonly name: string;
  readonly entry: Entry<'Machine'> | undefined;
  readonly status: MachineStatus;
  /** Increases whenever document or status changed: what was derived from them is then stale. */
  readonly version: number;
  readonly lastSeen: Millis | undefined;
}

type Mutable = { -readonly [K in keyof Member]: Member[K] };

export interface StatusChange {
  readonly reason?: Reason | undefined;
  readonly session?: string;
  readonly bootsWithoutReady?: number;
  readonly logTail?: string | undefined;
}

export interface Roster {
  readonly sessions: Sessions;
  readonly size: number;
  get(name: string): Member | undefined;
  /** Ordered by name. */
  list(): readonly KnownMachine[];
  view(member: Member): KnownMachine;
  recognise(evidence: Evidence): Recognition;
  /** The machine that alone claims this boot address. */
  byMac(mac: Mac): Member | undefined;
  /** The machine whose document reserves this address. */
  byAddress(address: Ipv4): Member | undefined;
  /** Records a machine that nobody knows; undefined when it is one too many at once. */
  discover(sighting: Sighting & { readonly bootMac: Mac }): Member | undefined;
  /** Adds what was seen of it; free when it adds nothing. */
  see(member: Member, sighting: Sighting): void;
  /** Discovered records that are this machine too: what was seen moves over, they go. */
  fold(into: Member, names: readonly string[]): void;
  /** Moves the phase by the table; false (and an event) when it cannot move so. Other fields change in either case but that. */
  move(member: Member, event: PhaseEvent, change?: StatusChange): boolean;
  /** Changes status without moving the phase. */
  change(member: Member, change: StatusChange): void;
  /** Drops a machine without document. False when there is none. */
  forget(name: string): boolean;
  /** Commits status and session, with `also`, durably; rejects as the store does (nothing is lost in memory then). */
  commit(
    members: readonly Member[],
    sessions: readonly LiveSession[],
    also?: readonly Write[],
  ): Promise<void>;
  /** The write of a session, for somebody else's commit. */
  sessionWrite(live: LiveSession): Write;
  /** Marks a session to be written behind. */
  saveLater(live: LiveSession): void;
  /** Writes what is still to be written. */
  flush(): Promise<void>;
  /** Expires sessions, drops old records. The boot service calls it by its timer. */
  sweep(): void;
  /** Ends the catalog's subscription and writes what is left. */
  close(): Promise<void>;
}

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
  const statuses = new Map<string, MachineStatus>();
  for (const { key, value } of (await store.list('machine/')).records) {
    const status = readStatus(value);
    if (status) statuses.set(key.slice('machine/'.length), status);
    else log.warn({ key }, 'a stored machine status cannot be read and is passed over');
  }
  const sessions = createSessions(deps);
  sessions.load(
    (await store.list('session/')).records.flatMap(({ key, value }) => {
      const session = readSession(value);
      if (!session) log.warn({ key }, 'a stored boot session cannot be read and is passed over');
      return session ? [session] : [];
    }),
  );
  return createRoster(deps, statuses, sessions);
}

function createRoster(
  deps: RosterDeps,
  statuses: ReadonlyMap<string, MachineStatus>,
  sessions: Sessions,
): Roster {
  const { store, catalog, events, clock, log, metrics } = deps;
  const members = new Map<string, Mutable>();
  /** Those without document, the one not seen for longest first. */
  const discovered = new Map<string, Mutable>();
  const addresses = new Map<Ipv4, Mutable>();
  const index = createRecognitionIndex();
  const phases = new Map<Phase, number>(PHASES.map((phase) => [phase, 0]));
  const dirty = new Set<string>();
  const dirtySessions = new Set<LiveSession>();
  const deletes = new Set<string>();
  let tokens: number = DISCOVERY.burst;
  let filledAt = clock.monotonic();
  let cancelFlush: (() => void) | undefined;
  let flushing: Promise<void> = Promise.resolve();
  let started = false;

  const count = (phase: Phase, by: number): void => {
    phases.set(phase, phases.get(phase)! + by);
    if (started) metrics?.set('muster_machines', { phase }, phases.get(phase)!);
  };

  const later = (span: Millis = WRITE_BEHIND): void => {
    cancelFlush ??= clock.after(span, () => {
      cancelFlush = undefined;
      flush().catch((error: unknown) => {
        log.warn({ error: String(error) }, 'machine records could not be written; trying again');
        later(WRITE_RETRY);
      });
    });
  };

  const touched = (member: Mutable): void => {
    member.version++;
    dirty.add(member.name);
    deletes.delete(KEY.machine(member.name));
    if (started) later();
  };

  const claim = (member: Mutable): void => {
    const spec = member.entry?.document.spec;
    const { seen } = member.status;
    index.set({
      name: member.name,
      documented: spec !== undefined,
      macs: (spec?.macs ?? []) as Mac[],
      seenMacs: seen.macs,
      uuid: spec?.uuid ?? seen.uuid,
      serial: spec?.serial ?? seen.serial,
    });
  };

  const reserve = (member: Mutable, spec: Entry<'Machine'> | undefined, yes: boolean): void => {
    for (const text of spec?.document.spec.addresses ?? []) {
      const address = parseIpv4(text);
      if (address === undefined) continue;
      if (yes) addresses.set(address, member);
      else if (addresses.get(address) === member) addresses.delete(address);
    }
  };

  const add = (member: Mutable): Mutable => {
    members.set(member.name, member);
    if (!member.entry) discovered.set(member.name, member);
    reserve(member, member.entry, true);
    count(member.status.phase, 1);
    claim(member);
    return member;
  };

  const remove = (member: Mutable): void => {
    members.delete(member.name);
    discovered.delete(member.name);
    reserve(member, member.entry, false);
    index.remove(member.name);
    count(member.status.phase, -1);
    dirty.delete(member.name);
    deletes.add(KEY.machine(member.name));
    later();
  };

  const setStatus = (member: Mutable, status: MachineStatus): void => {
    if (status.phase !== member.status.phase) {
      count(member.status.phase, -1);
      count(status.phase, 1);
    }
    member.status = status;
    touched(member);
  };

  const move = (member: Mutable, event: PhaseEvent, change: StatusChange = {}): boolean => {
    const before = member.status.phase;
    const phase = transition(before, event);
    if (phase === null) {
      events.record({
        kind: 'machine.phase',
        subject: member.name,
        reason: { code: 'impossible', text: `"${event}" cannot happen to a machine that is ${before}` },
        fields: { phase: before, event, applied: false },
      });
      return false;
    }
    const { reason: _, ...rest } = member.status;
    const since = phase === before ? member.status.since : clock.now();
    setStatus(member, prune({ ...rest, ...change, phase, since }));
    if (phase !== before) {
      events.record({
        kind: 'machine.phase',
        subject: member.name,
        ...(change.session ? { session: change.session } : {}),
        ...(change.reason ? { reason: change.reason } : {}),
        fields: { from: before, to: phase },
      });
    }
    return true;
  };

  const fold = (into: Mutable, names: readonly string[]): void => {
    for (const name of names) {
      const other = discovered.get(name);
      if (!other || other === into) continue;
      const { status } = other;
      remove(other);
      sessions.rebind(name, into.name);
      const firstSeen = Math.min(into.status.firstSeen ?? Infinity, status.firstSeen ?? Infinity);
      setStatus(into, {
        ...into.status,
        seen: foldSeen(into.status.seen, status.seen),
        ...(Number.isFinite(firstSeen) ? { firstSeen: firstSeen as Millis } : {}),
      });
      if (status.lastSeen && !(into.lastSeen && into.lastSeen > status.lastSeen))
        into.lastSeen = other.lastSeen;
    }
    claim(into);
  };

  /** A document came or changed. What was discovered under its addresses becomes its history. */
  const registered = (entry: Entry<'Machine'>): void => {
    const { name } = entry.document.metadata;
    let member = members.get(name);
    const fresh = member?.entry === undefined;
    if (!member) {
      member = add({
        name,
        entry,
        status: newStatus('registered', clock.now()),
        version: 0,
        lastSeen: undefined,
      });
      touched(member);
    } else {
      reserve(member, member.entry, false);
      member.entry = entry;
      discovered.delete(name);
      reserve(member, entry, true);
      if (member.status.phase === 'discovered') move(member, 'accepted');
      else touched(member);
    }
    const seenAs = (entry.document.spec.macs as Mac[]).flatMap((mac) => index.seenWith(mac));
    fold(member, [...new Set(seenAs)]);
    if (fresh && started && member.status.firstSeen !== undefined)
      events.record({
        kind: 'machine.accepted',
        subject: name,
        fields: { macs: entry.document.spec.macs.join(' ') },
      });
  };

  const unregistered = (name: string): void => {
    const member = members.get(name);
    if (!member?.entry) return;
    reserve(member, member.entry, false);
    member.entry = undefined;
    if (member.status.firstSeen === undefined) remove(member);
    else {
      discovered.set(name, member);
      move(member, 'removed', { bootsWithoutReady: 0 });
      claim(member);
    }
  };

  const follow = (changes: readonly CatalogChange[]): void => {
    for (const { kind, name, entry } of changes) {
      if (kind !== 'Machine') continue;
      if (entry) registered(entry as Entry<'Machine'>);
      else unregistered(name);
    }
  };

  const allowed = (): boolean => {
    const now = clock.monotonic();
    tokens = Math.min(DISCOVERY.burst, tokens + ((now - filledAt) / 1000) * DISCOVERY.perSecond);
    filledAt = now;
    if (tokens < 1) return false;
    tokens--;
    return true;
  };

  const statusWrite = (member: Mutable): Write => ({
    key: KEY.machine(member.name),
    put: JSON.stringify(withLastSeen(member)),
  });
  const sessionWrite = (live: LiveSession): Write => {
    live.stored = true;
    dirtySessions.delete(live);
    return { key: KEY.session(live.session.id), put: JSON.stringify(live.session) };
  };

  const flush = (): Promise<void> => {
    flushing = flushing.catch(() => {}).then(writeBehind);
    return flushing;
  };
  const writeBehind = async (): Promise<void> => {
    while (dirty.size + dirtySessions.size + deletes.size > 0) {
      const names = [...dirty].slice(0, MAX_OPERATIONS);
      const live = [...dirtySessions].slice(0, MAX_OPERATIONS - names.length);
      const gone = [...deletes].slice(0, MAX_OPERATIONS - names.length - live.length);
      const writes = names.flatMap((name) => {
        const member = members.get(name);
        return member ? [statusWrite(member)] : [];
      });
      for (const one of live) writes.push(sessionWrite(one));
      for (const key of gone) writes.push({ key, delete: true });
      for (const name of names) dirty.delete(name);
      for (const key of gone) deletes.delete(key);
      try {
        await store.commit(writes);
      } catch (error) {
        for (const name of names) if (members.has(name)) dirty.add(name);
        for (const one of live) dirtySessions.add(one);
        for (const key of gone) if (!members.has(key.slice('machine/'.length))) deletes.add(key);
        throw error;
      }
    }
  };

  const roster: Roster = {
    sessions,
    get size() {
      return members.size;
    },
    get: (name) => members.get(name),
    list: () => [...members.values()].sort((a, b) => (a.name < b.name ? -1 : 1)).map(view),
    view,
    recognise: index.recognise,
    byMac(mac) {
      const name = index.owner(mac);
      return name === undefined ? undefined : members.get(name);
    },
    byAddress: (address) => addresses.get(address),
    discover(sighting) {
      if (!allowed()) return undefined;
      if (discovered.size >= MAX_DISCOVERED) remove(discovered.values().next().value!);
      const now = clock.now();
      const plain = `m-${sighting.bootMac.replaceAll(':', '')}`;
      let name = plain;
      for (let n = 2; members.has(name); n++) name = `${plain}-${n}`;
      const status = newStatus('discovered', now);
      const seen = mergeSighting(status.seen, sighting);
      const member = add({
        name,
        entry: undefined,
        status: { ...status, firstSeen: now, seen },
        version: 0,
        lastSeen: now,
      });
      touched(member);
      events.record({
        kind: 'machine.discovered',
        subject: name,
        ...(sighting.network ? { network: sighting.network } : {}),
        fields: { mac: sighting.bootMac, ...(sighting.product ? { product: sighting.product } : {}) },
      });
      return member;
    },
    see(member, sighting) {
      const own = member as Mutable;
      const now = clock.now();
      if (!own.entry && now - (own.lastSeen ?? 0) > 60_000 && discovered.delete(own.name))
        discovered.set(own.name, own);
      own.lastSeen = now;
      if (own.status.firstSeen !== undefined && addsNothing(own.status.seen, sighting)) return;
      const seen = mergeSighting(own.status.seen, sighting);
      if (seen === own.status.seen && own.status.firstSeen !== undefined) return;
      setStatus(own, { ...own.status, seen, firstSeen: own.status.firstSeen ?? now });
      claim(own);
    },
    fold: (into, names) => fold(into as Mutable, names),
    move: (member, event, change) => move(member as Mutable, event, change),
    change(member, change) {
      setStatus(member as Mutable, prune({ ...member.status, ...change }));
    },
    forget(name) {
      const member = discovered.get(name);
      if (!member) return false;
      remove(member);
      return true;
    },
    async commit(changed, live, also = []) {
      const writes = [
        ...also,
        ...changed.map((one) => statusWrite(one as Mutable)),
        ...live.map(sessionWrite),
      ];
      try {
        await store.commit(writes);
        for (const one of changed) dirty.delete(one.name);
      } catch (error) {
        for (const one of live) dirtySessions.add(one);
        later(WRITE_RETRY);
        throw error;
      }
    },
    sessionWrite,
    saveLater(live) {
      dirtySessions.add(live);
      later();
    },
    flush,
    sweep() {
      for (const id of sessions.sweep()) deletes.add(KEY.session(id));
      if (deletes.size > 0) later();
    },
    async close() {
      unsubscribe();
      cancelFlush?.();
      cancelFlush = undefined;
      await flush();
    },
  };

  for (const [name, status] of statuses) {
    add({ name, entry: undefined, status, version: 0, lastSeen: status.lastSeen });
  }
  for (const entry of catalog.list('Machine')) registered(entry);
  // A document that went while the server was down.
  for (const member of [...discovered.values()])
    if (member.status.phase !== 'discovered') unregisteredMeanwhile(member);
  const unsubscribe = catalog.subscribe(follow);
  started = true;
  for (const [phase, n] of phases) metrics?.set('muster_machines', { phase }, n);
  if (dirty.size + deletes.size > 0) later();
  return roster;

  function unregisteredMeanwhile(member: Mutable): void {
    if (member.status.firstSeen === undefined) remove(member);
    else move(member, 'removed', { bootsWithoutReady: 0 });
  }
}

function withLastSeen(member: Member): MachineStatus {
  return member.lastSeen === undefined ? member.status : { ...member.status, lastSeen: member.lastSeen };
}

function view(member: Member): KnownMachine {
  const document = member.entry?.document;
  return {
    name: member.name,
    ...(document ? { spec: document.spec } : {}),
    ...(document?.metadata.labels ? { labels: document.metadata.labels } : {}),
    status: withLastSeen(member),
  };
}

/** Without the fields that a change set to undefined. */
function prune(status: { [K in keyof MachineStatus]: MachineStatus[K] | undefined }): MachineStatus {
  return Object.fromEntries(
    Object.entries(status).filter(([, value]) => value !== undefined),
  ) as unknown as MachineStatus;
}
