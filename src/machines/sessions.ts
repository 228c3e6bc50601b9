/**
 * Boot sessions in memory. A session is *opening* from the first DHCP answer, and becomes its
 * machine's *current* one when a script that boots (or leaves to the disk) is served: only then is
 * the session before it superseded, so that a stray or forged DISCOVER does not silence a machine
 * that is coming up. Ages are measured with the monotonic clock: a stepped wall clock ends nothing.
 */
import { AgedMap } from '../base/aged.ts';
import type { Clock } from '../base/clock.ts';
import { duration, type Millis } from '../base/duration.ts';
import { type Due, ExpiryQueue } from '../base/expiry.ts';
import { publicName, randomId } from '../base/ids.ts';
import type { Mac } from '../base/mac.ts';
import type { Metrics } from '../base/metrics.ts';
import type { BootSession, SessionStep } from './machine.ts';

/** A boot that is not ready at this age is over: its id is no longer believed. */
export const MAX_SESSION_AGE = duration('6h');
/** How long a closed or expired session is kept for `muster explain`. */
const KEEP_CLOSED = duration('1h');
/** How long a machine in the discovery system may be silent. It asks every few seconds. */
const DISCOVERY_SILENCE = duration('1h');
/**
 * A DISCOVER this soon after the last packet of an opening session belongs to that session: ROM,
 * loader and iPXE each send one.
 */
export const OPENING_WINDOW = duration('5m');
/**
 * How long a machine may take from script to kernel, and from kernel to ready, unless its document
 * has a `configTimeout`.
 */
export const CONFIG_TIMEOUT = duration('15m');
/**
 * How many sessions are kept in memory. One more drops the oldest that was given no boot, so that a
 * flood of DISCOVERs ends no boot.
 */
const MAX_SESSIONS = 50_000;
/**
 * How many of them may be sessions that were given no boot. Packets alone can open these, so a
 * flood fills the table within two minutes and takes no more memory afterwards.
 */
export const MAX_TENTATIVE = 20_000;

/**
 * How many sessions one call of `overdue` or `sweep` examines, so that packets do not wait while
 * the sessions of a whole silent rack are handled.
 */
const LOOKED_AT = 250;

/** A session with what only this process needs to know about it. */
export interface LiveSession {
  session: BootSession;
  /**
   * Its name in URLs that are broadcast. The session's id cannot be derived from it, and it permits
   * nothing: scripts, configurations and reports need more.
   */
  readonly name: string;
  /** These three times are monotonic. */
  openedAt: Millis;
  touchedAt: Millis;
  closedAt?: Millis;
  /** A record of it is in the store, or on the way there. */
  stored: boolean;
  /** A script that boots or leaves to the disk was served. */
  given: boolean;
  /**
   * The client's stage that a loader was last handed to, when that was first (monotonic), and
   * whether a REQUEST confirmed it.
   */
  loader?: { readonly stage: string; readonly at: Millis; readonly acked: boolean };
  /** What the last OFFER assumed; the ACK repeats it. */
  offered?: { readonly stage: string; readonly loaderRan: boolean };
  /** The last decision that became an event. */
  decided?: { readonly subject: string; readonly at: string; readonly kind: string; readonly code: string };
  /** When silence becomes failure; monotonic. Set by {@link Sessions.expect}. */
  deadline?: Millis;
  /** Its place in the queue of sessions to examine: a session has at most one. */
  queued?: Due<LiveSession> | undefined;
  /** When its machine last reported what it is made of, from the discovery system; monotonic. */
  inventoryAt?: Millis;
  /** When its configuration first carried a ticket; monotonic. */
  ticketAt?: Millis;
  /**
   * The URL at which its machine reaches us; for configurations that are rendered without a
   * request.
   */
  baseUrl?: string;
}

export interface Sessions {
  readonly size: number;
  /** How many sessions wait for their time; at most {@link size}. */
  readonly waiting: number;
  get(id: string): LiveSession | undefined;
  /** The session of this {@link LiveSession.name}. */
  named(name: string): LiveSession | undefined;
  /** The session that a next packet of this machine belongs to, if one is opening. */
  opening(machine: string): LiveSession | undefined;
  current(machine: string): LiveSession | undefined;
  open(of: { readonly machine: string; readonly mac: Mac; readonly network: string }): LiveSession;
  /** Whether its id is believed: not closed, not too old. */
  isLive(live: LiveSession): boolean;
  touch(live: LiveSession): void;
  /**
   * Records that the session's configuration carries a ticket; with `again` the ticket's time
   * starts again. True when that changed something.
   */
  ticketed(live: LiveSession, again?: boolean): boolean;
  /** Adds the step if it is not there yet. */
  mark(live: LiveSession, step: SessionStep): void;
  set(
    live: LiveSession,
    patch: Partial<
      Pick<BootSession, 'machine' | 'mac' | 'network' | 'profile' | 'image' | 'loader' | 'peer'>
    >,
  ): void;
  /**
   * Makes it the session of a machine that waits in the discovery system. It lasts as long as the
   * machine asks, and the next packet of a boot opens another session.
   */
  discover(live: LiveSession): void;
  /**
   * Makes the session its machine's current one. Returns the session that it superseded, if any.
   */
  promote(live: LiveSession): LiveSession | undefined;
  close(live: LiveSession, why: 'ready' | 'failed' | 'superseded' | 'expired'): void;
  /** Sets when (monotonic) the machine's silence becomes a failure. */
  expect(live: LiveSession, deadline: Millis): void;
  /**
   * Gives the sessions of one machine to another: a discovered record turned out to be an interface
   * of a known machine.
   */
  rebind(from: string, to: string): void;
  /** Sessions whose deadline has passed, each once. A long list is spread over several calls. */
  overdue(): readonly LiveSession[];
  /**
   * Expires sessions that are too old and drops those that are long over. If there are many, the
   * next call continues. Returns the ids whose records are to be deleted.
   */
  sweep(): readonly string[];
  /** Takes over the store's records when the server starts. */
  load(records: readonly BootSession[]): void;
}

/** Creates an empty table of at most `max` sessions. */
export function createSessions(options: {
  readonly clock: Clock;
  readonly max?: number;
  readonly metrics: Pick<Metrics, 'add'>;
}): Sessions {
  return new MemorySessions(options.clock, options.max ?? MAX_SESSIONS, options.metrics);
}

type Why = NonNullable<BootSession['closed']>['why'];

class MemorySessions implements Sessions {
  readonly #clock: Clock;
  readonly #max: number;
  readonly #metrics: Pick<Metrics, 'add'>;
  readonly #all = new Map<string, LiveSession>();
  readonly #named = new Map<string, LiveSession>();
  /** By machine: the session that its next packet belongs to. */
  readonly #openings = new Map<string, LiveSession>();
  /** By machine: the session in which it was last given a boot. */
  readonly #currents = new Map<string, LiveSession>();
  /**
   * Sessions by the time when they can expire, fall silent or be dropped. A session whose time has
   * moved since is queued again when it is taken out, and a dropped session leaves the queue.
   */
  readonly #due = new ExpiryQueue<LiveSession>();
  /** Sessions that were given no boot, oldest first. */
  readonly #tentative = new AgedMap<string, LiveSession>();
  /** Ids of dropped sessions whose records are still in the store. */
  readonly #dropped: string[] = [];
  /** Sessions whose deadline has passed, not yet returned by `overdue`. */
  readonly #silent: LiveSession[] = [];

  constructor(clock: Clock, max: number, metrics: Pick<Metrics, 'add'>) {
    this.#clock = clock;
    this.#max = max;
    this.#metrics = metrics;
  }

  get size(): number {
    return this.#all.size;
  }

  get waiting(): number {
    return this.#due.size;
  }

  get(id: string): LiveSession | undefined {
    return this.#all.get(id);
  }

  named(name: string): LiveSession | undefined {
    return this.#named.get(name);
  }

  opening(machine: string): LiveSession | undefined {
    const live = this.#openings.get(machine);
    if (live === undefined) return undefined;
    const recent = this.#clock.monotonic() - live.touchedAt <= OPENING_WINDOW;
    return recent && this.isLive(live) ? live : undefined;
  }

  current(machine: string): LiveSession | undefined {
    return this.#currents.get(machine);
  }

  open(of: { readonly machine: string; readonly mac: Mac; readonly network: string }): LiveSession {
    const { machine, mac, network } = of;
    const now = this.#clock.monotonic();
    const before = this.#openings.get(machine);
    if (before) this.close(before, 'superseded');
    const at = this.#clock.now();
    const steps = [{ step: 'opened', at }] as const;
    const id = randomId();
    const live: LiveSession = {
      session: { v: 1, id, machine, mac, network, openedAt: at, steps },
      name: publicName(id),
      openedAt: now,
      touchedAt: now,
      stored: false,
      given: false,
    };
    this.#admit(live);
    this.#openings.set(machine, live);
    return live;
  }

  isLive({ session, openedAt }: LiveSession): boolean {
    if (session.closed !== undefined) return false;
    return session.discovery === true || this.#clock.monotonic() - openedAt < MAX_SESSION_AGE;
  }

  touch(live: LiveSession): void {
    live.touchedAt = this.#clock.monotonic();
    // A flood of packets drops the sessions that were not heard for longest.
    if (live.session.discovery) this.#tentative.set(live.session.id, live);
  }

  ticketed(live: LiveSession, again = false): boolean {
    if (live.ticketAt !== undefined && !again) return false;
    live.ticketAt = this.#clock.monotonic();
    live.session = { ...live.session, ticketAt: this.#clock.now() };
    return true;
  }

  mark(live: LiveSession, step: SessionStep): void {
    const { steps } = live.session;
    if (steps.some((one) => one.step === step)) return;
    live.session = { ...live.session, steps: [...steps, { step, at: this.#clock.now() }] };
  }

  set(live: LiveSession, patch: Parameters<Sessions['set']>[1]): void {
    live.session = { ...live.session, ...patch };
  }

  discover(live: LiveSession): void {
    const { session } = live;
    live.session = { ...session, discovery: true };
    if (this.#openings.get(session.machine) === live) this.#openings.delete(session.machine);
  }

  promote(live: LiveSession): LiveSession | undefined {
    const { machine } = live.session;
    live.given = true;
    this.#tentative.delete(live.session.id);
    if (this.#openings.get(machine) === live) this.#openings.delete(machine);
    const before = this.#currents.get(machine);
    this.#currents.set(machine, live);
    if (before === undefined || before === live) return undefined;
    this.close(before, 'superseded');
    // The former session may have been closed before, and was kept only because it was current.
    this.#watch(before);
    return before;
  }

  close(live: LiveSession, why: Why): void {
    const { session } = live;
    if (session.closed !== undefined) return;
    live.session = { ...session, closed: { at: this.#clock.now(), why } };
    live.closedAt = this.#clock.monotonic();
    delete live.deadline;
    if (this.#openings.get(session.machine) === live) this.#openings.delete(session.machine);
    this.#watch(live);
  }

  expect(live: LiveSession, deadline: Millis): void {
    live.deadline = deadline;
    this.#watch(live);
  }

  rebind(from: string, to: string): void {
    const opening = this.#openings.get(from);
    const current = this.#currents.get(from);
    if (opening !== undefined) this.#rebind(this.#openings, opening, { from, to });
    if (current !== undefined) this.#rebind(this.#currents, current, { from, to });
  }

  overdue(): readonly LiveSession[] {
    this.#look();
    return this.#silent.splice(0);
  }

  sweep(): readonly string[] {
    this.#look();
    return this.#dropped.splice(0);
  }

  load(records: readonly BootSession[]): void {
    const now = this.#clock.monotonic();
    // One from the future was opened by a clock that was wrong, and is no later than the others.
    const opened = ({ openedAt }: BootSession): number => (openedAt > this.#clock.now() ? 0 : openedAt);
    for (const session of [...records].sort((a, b) => opened(a) - opened(b))) {
      const live = this.#restored(session, now);
      this.#admit(live);
      if (live.given) {
        const before = this.#currents.get(session.machine);
        if (before) this.close(before, 'superseded');
        this.#currents.set(session.machine, live);
        // No report could arrive while this server was down, so the machine's time starts again.
        if (session.closed === undefined) this.expect(live, (now + CONFIG_TIMEOUT) as Millis);
      } else if (session.closed === undefined && session.discovery !== true)
        this.#openings.set(session.machine, live);
    }
  }

  /** Makes a live session of a stored one. Its age is computed from the wall clock. */
  #restored(session: BootSession, now: Millis): LiveSession {
    const wall = this.#clock.now();
    const age = Math.min(Math.max(wall - session.openedAt, 0), 2 * MAX_SESSION_AGE);
    const openedAt = (now - age) as Millis;
    const given = session.steps.some((one) => one.step === 'script') && session.profile !== undefined;
    const name = publicName(session.id);
    const live: LiveSession = { session, name, openedAt, touchedAt: openedAt, stored: true, given };
    // Without a record, the configuration may have been sent just before this server went down.
    if (session.ticketAt !== undefined)
      live.ticketAt = (now - Math.max(0, wall - session.ticketAt)) as Millis;
    else if (given) live.ticketAt = now;
    if (session.closed) live.closedAt = openedAt;
    else if (!given) live.touchedAt = now;
    return live;
  }

  #rebind(
    index: Map<string, LiveSession>,
    live: LiveSession,
    { from, to }: { readonly from: string; readonly to: string },
  ): void {
    index.delete(from);
    const existing = index.get(to);
    live.session = { ...live.session, machine: to };
    if (existing !== undefined && index === this.#currents) {
      this.close(live, 'superseded');
      this.#watch(live);
    } else {
      if (existing !== undefined) this.close(existing, 'superseded');
      index.set(to, live);
    }
  }

  #admit(live: LiveSession): void {
    const most = live.given ? Infinity : MAX_TENTATIVE;
    if (this.#all.size >= this.#max || this.#tentative.size >= most) {
      this.#metrics.add('muster_table_dropped_total', { table: 'sessions' });
      this.#drop(this.#tentative.oldest()?.value ?? this.#all.values().next().value!);
    }
    this.#all.set(live.session.id, live);
    this.#named.set(live.name, live);
    if (!live.given) this.#tentative.set(live.session.id, live);
    this.#watch(live);
  }

  #drop(live: LiveSession): void {
    const { id, machine } = live.session;
    this.#all.delete(id);
    this.#named.delete(live.name);
    if (live.queued) this.#due.remove(live.queued);
    live.queued = undefined;
    this.#tentative.delete(id);
    if (this.#openings.get(machine) === live) this.#openings.delete(machine);
    if (this.#currents.get(machine) === live) this.#currents.delete(machine);
    if (live.stored) this.#dropped.push(id);
  }

  /** When an open session is over because no boot was given, or because it is too old. */
  #expiryOf(live: LiveSession): number {
    if (live.session.discovery) return live.touchedAt + DISCOVERY_SILENCE;
    return Math.min(
      live.openedAt + MAX_SESSION_AGE,
      live.given ? Infinity : live.touchedAt + OPENING_WINDOW + 1,
    );
  }

  /**
   * When a closed session is forgotten. A machine's current one stays: it says how its last boot
   * went.
   */
  #endOf(live: LiveSession): number {
    return this.#currents.get(live.session.machine) === live ? Infinity : live.closedAt! + KEEP_CLOSED;
  }

  /** Queues the session for the next time when it can expire, fall silent or be dropped. */
  #watch(live: LiveSession): void {
    const at = (
      live.closedAt === undefined
        ? Math.min(this.#expiryOf(live), live.deadline ?? Infinity)
        : this.#endOf(live)
    ) as Millis;
    if (at === Infinity || (live.queued !== undefined && live.queued.at <= at)) return;
    if (live.queued) this.#due.remove(live.queued);
    live.queued = this.#due.add(live, at);
  }

  /**
   * Handles the sessions whose time has come: notes silence, expires, drops or queues them again.
   */
  #look(): void {
    const now = this.#clock.monotonic();
    for (let looked = 0; looked < LOOKED_AT; looked++) {
      const live = this.#due.take(now);
      if (live === undefined) return;
      live.queued = undefined;
      if (live.closedAt === undefined) {
        if (live.deadline !== undefined && live.deadline <= now) {
          delete live.deadline;
          this.#silent.push(live);
        }
        if (this.#expiryOf(live) <= now) this.close(live, 'expired');
        else this.#watch(live);
      } else if (this.#endOf(live) <= now) this.#drop(live);
      else this.#watch(live);
    }
  }
}
