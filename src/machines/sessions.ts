/**
 * Boot sessions in memory. A session is *opening* from the first DHCP answer, and becomes its
 * machine's *current* one when a script that boots (or leaves to the disk) is served: only then is
 * the session before it superseded, so that a stray or forged DISCOVER does not silence a machine
 * that is coming up. Ages are measured with the monotonic clock: a stepped wall clock ends nothing.
 */
import { AgedMap } from '../base/aged.ts';
import type { Clock } from '../base/clock.ts';
import { duration, type Millis } from '../base/duration.ts';
import { ExpiryQueue } from '../base/expiry.ts';
import { randomId } from '../base/ids.ts';
import type { Mac } from '../base/mac.ts';
import type { BootSession, SessionStep } from './machine.ts';

/** A boot that is not ready by then is over: its id is believed no longer. */
export const MAX_SESSION_AGE = duration('6h');
/** How long a closed or expired session is kept for `muster explain`. */
const KEEP_CLOSED = duration('1h');
/**
 * A DISCOVER this soon after the last sign of an opening belongs to it: ROM, loader and iPXE each
 * ask anew.
 */
export const OPENING_WINDOW = duration('5m');
/**
 * From script to kernel, and from kernel to ready, unless a document's configTimeout says
 * otherwise.
 */
export const CONFIG_TIMEOUT = duration('15m');
/**
 * At most this many sessions in memory; the oldest of those that were given no boot go first: a
 * flood of DISCOVERs ends no boot.
 */
export const MAX_SESSIONS = 50_000;

/**
 * So many sessions are looked at in one go, at most: where a rack fell silent all at once, packets
 * need not wait for all of it.
 */
const LOOKED_AT = 250;

/** A session with what only this process needs to know of it. */
export interface LiveSession {
  session: BootSession;
  /** Monotonic. */
  openedAt: Millis;
  touchedAt: Millis;
  closedAt?: Millis;
  /** A record of it is in the store, or on the way there. */
  stored: boolean;
  /** A script that boots or leaves to the disk was served. */
  given: boolean;
  /**
   * To which stage of client the loader was last handed, first when (monotonic), and whether a
   * REQUEST confirmed it.
   */
  loader?: { readonly stage: string; readonly at: Millis; readonly acked: boolean };
  /** What the last OFFER took for granted: the ACK repeats it. */
  offered?: { readonly stage: string; readonly loaderRan: boolean };
  /** The last decision that became an event. */
  decided?: { readonly subject: string; readonly at: string; readonly kind: string; readonly code: string };
  /** When silence becomes failure; monotonic. Set by {@link Sessions.expect}. */
  deadline?: Millis;
  /**
   * When it is looked at next; monotonic. Other places that it has in the queue count for nothing.
   */
  lookAt?: Millis | undefined;
  /** When its configuration first carried a ticket; monotonic. */
  ticketAt?: Millis;
  /** How its machine reaches us, for what is rendered without a request at hand. */
  baseUrl?: string;
}

export interface Sessions {
  readonly size: number;
  get(id: string): LiveSession | undefined;
  /** The session that a next packet of this machine belongs to, if one is opening. */
  opening(machine: string): LiveSession | undefined;
  current(machine: string): LiveSession | undefined;
  open(of: { readonly machine: string; readonly mac: Mac; readonly network: string }): LiveSession;
  /** Whether its id is believed: not closed, not too old. */
  isLive(live: LiveSession): boolean;
  touch(live: LiveSession): void;
  /**
   * Notes that its configuration carries a ticket; `again`: its time begins anew. True when that
   * changed something.
   */
  ticketed(live: LiveSession, again?: boolean): boolean;
  /** Adds the step if it is not there yet. */
  mark(live: LiveSession, step: SessionStep): void;
  set(
    live: LiveSession,
    patch: Partial<Pick<BootSession, 'mac' | 'network' | 'profile' | 'image' | 'loader' | 'peer'>>,
  ): void;
  /** Makes it its machine's current one; returns the one that this superseded. */
  promote(live: LiveSession): LiveSession | undefined;
  close(live: LiveSession, why: 'ready' | 'failed' | 'superseded' | 'expired'): void;
  /** From `deadline` (monotonic) on, its silence is a failure. */
  expect(live: LiveSession, deadline: Millis): void;
  /**
   * The session turns out to be another machine's: a discovered record was one of a known machine's
   * interfaces.
   */
  rebind(from: string, to: string): void;
  /** Sessions whose deadline has passed, each once; of many at a time some in the next call. */
  overdue(): readonly LiveSession[];
  /**
   * Expires what is too old and drops what is long over, some in the next call; returns ids whose
   * records are to be deleted.
   */
  sweep(): readonly string[];
  /** Takes over records of the store. */
  load(records: readonly BootSession[]): void;
}

export function createSessions({
  clock,
  max = MAX_SESSIONS,
}: {
  readonly clock: Clock;
  readonly max?: number;
}): Sessions {
  const all = new Map<string, LiveSession>();
  const openings = new Map<string, LiveSession>();
  const currents = new Map<string, LiveSession>();
  /**
   * By when something about it can end. A session that was heard of since is queued again when its
   * turn comes.
   */
  const due = new ExpiryQueue<LiveSession>();
  /** Those that were given no boot, oldest first. */
  const tentative = new AgedMap<string, LiveSession>();
  const dropped: string[] = [];
  const silent: LiveSession[] = [];

  const isLive = (live: LiveSession): boolean =>
    live.session.closed === undefined && clock.monotonic() - live.openedAt < MAX_SESSION_AGE;

  /** When an open session is over for want of a boot, or because it is too old. */
  const expiryOf = (live: LiveSession): number =>
    Math.min(live.openedAt + MAX_SESSION_AGE, live.given ? Infinity : live.touchedAt + OPENING_WINDOW + 1);

  /**
   * When a closed session is forgotten. A machine's current one stays: it says how its last boot
   * went.
   */
  const endOf = (live: LiveSession): number =>
    currents.get(live.session.machine) === live ? Infinity : live.closedAt! + KEEP_CLOSED;

  const watch = (live: LiveSession): void => {
    const at = (
      live.closedAt === undefined ? Math.min(expiryOf(live), live.deadline ?? Infinity) : endOf(live)
    ) as Millis;
    if (at === Infinity || (live.lookAt !== undefined && live.lookAt <= at)) return;
    live.lookAt = at;
    due.add(live, at);
  };

  const close = (live: LiveSession, why: 'ready' | 'failed' | 'superseded' | 'expired'): void => {
    if (live.session.closed !== undefined) return;
    live.session = { ...live.session, closed: { at: clock.now(), why } };
    live.closedAt = clock.monotonic();
    delete live.deadline;
    if (openings.get(live.session.machine) === live) openings.delete(live.session.machine);
    watch(live);
  };

  const drop = (live: LiveSession): void => {
    const { id, machine } = live.session;
    all.delete(id);
    live.lookAt = undefined;
    tentative.delete(id);
    if (openings.get(machine) === live) openings.delete(machine);
    if (currents.get(machine) === live) currents.delete(machine);
    if (live.stored) dropped.push(id);
  };

  const admit = (live: LiveSession): void => {
    if (all.size >= max) drop(tentative.oldest()?.value ?? all.values().next().value!);
    all.set(live.session.id, live);
    if (!live.given) tentative.set(live.session.id, live);
    watch(live);
  };

  /** Ends what has come to its end. */
  const look = (): void => {
    const now = clock.monotonic();
    for (let looked = 0; looked < LOOKED_AT; looked++) {
      const live = due.take(now);
      if (live === undefined) return;
      // It has an earlier place in the queue, or was dropped.
      if (live.lookAt === undefined || live.lookAt > now) continue;
      live.lookAt = undefined;
      if (live.closedAt === undefined) {
        if (live.deadline !== undefined && live.deadline <= now) {
          delete live.deadline;
          silent.push(live);
        }
        if (expiryOf(live) <= now) close(live, 'expired');
        else watch(live);
      } else if (endOf(live) <= now) drop(live);
      else watch(live);
    }
  };

  return {
    get size() {
      return all.size;
    },
    get: (id) => all.get(id),
    opening(machine) {
      const live = openings.get(machine);
      if (live === undefined) return undefined;
      return clock.monotonic() - live.touchedAt <= OPENING_WINDOW && isLive(live) ? live : undefined;
    },
    current: (machine) => currents.get(machine),
    open({ machine, mac, network }) {
      const now = clock.monotonic();
      const before = openings.get(machine);
      if (before) close(before, 'superseded');
      const at = clock.now();
      const live: LiveSession = {
        session: {
          v: 1,
          id: randomId(),
          machine,
          mac,
          network,
          openedAt: at,
          steps: [{ step: 'opened', at }],
        },
        openedAt: now,
        touchedAt: now,
        stored: false,
        given: false,
      };
      admit(live);
      openings.set(machine, live);
      return live;
    },
    isLive,
    touch(live) {
      live.touchedAt = clock.monotonic();
    },
    ticketed(live, again = false) {
      if (live.ticketAt !== undefined && !again) return false;
      live.ticketAt = clock.monotonic();
      live.session = { ...live.session, ticketAt: clock.now() };
      return true;
    },
    mark(live, step) {
      if (live.session.steps.some((one) => one.step === step)) return;
      live.session = { ...live.session, steps: [...live.session.steps, { step, at: clock.now() }] };
    },
    set(live, patch) {
      live.session = { ...live.session, ...patch };
    },
    promote(live) {
      const { machine } = live.session;
      live.given = true;
      tentative.delete(live.session.id);
      if (openings.get(machine) === live) openings.delete(machine);
      const before = currents.get(machine);
      currents.set(machine, live);
      if (before === undefined || before === live) return undefined;
      close(before, 'superseded');
      // One that was closed already stayed as the current one until now.
      watch(before);
      return before;
    },
    close,
    expect(live, deadline) {
      live.deadline = deadline;
      watch(live);
    },
    rebind(from, to) {
      for (const [index, live] of [
        [openings, openings.get(from)],
        [currents, currents.get(from)],
      ] as const) {
        if (live === undefined) continue;
        index.delete(from);
        const there = index.get(to);
        live.session = { ...live.session, machine: to };
        if (there !== undefined && index === currents) {
          close(live, 'superseded');
          watch(live);
        } else {
          if (there !== undefined) close(there, 'superseded');
          index.set(to, live);
        }
      }
    },
    overdue() {
      look();
      return silent.splice(0);
    },
    sweep() {
      look();
      return dropped.splice(0);
    },
    load(records) {
      const now = clock.monotonic();
      const wall = clock.now();
      for (const session of [...records].sort((a, b) => a.openedAt - b.openedAt)) {
        const age = Math.min(Math.max(wall - session.openedAt, 0), 2 * MAX_SESSION_AGE);
        const openedAt = (now - age) as Millis;
        const given = session.steps.some((one) => one.step === 'script') && session.profile !== undefined;
        const live: LiveSession = { session, openedAt, touchedAt: openedAt, stored: true, given };
        // A document may have left just before this server went down.
        if (session.ticketAt !== undefined)
          live.ticketAt = (now - Math.max(0, wall - session.ticketAt)) as Millis;
        else if (given) live.ticketAt = now;
        if (session.closed) live.closedAt = openedAt;
        else if (!given) live.touchedAt = now;
        admit(live);
        if (given) {
          const before = currents.get(session.machine);
          if (before) close(before, 'superseded');
          currents.set(session.machine, live);
          if (session.closed === undefined) {
            // Nothing could be heard while this server was down: its time starts anew.
            live.deadline = (now + CONFIG_TIMEOUT) as Millis;
            watch(live);
          }
        } else if (session.closed === undefined) openings.set(session.machine, live);
      }
    },
  };
}
