/**
 * Sessions of operators who logged in. A session is a random text, of which only the hash is kept,
 * in memory and in the store, so that a restart of the server logs nobody out. While the server
 * runs, a session ends by the time that passes, because the clock may be set.
 */
import { z } from 'zod';
import { setBounded } from '../../base/aged.ts';
import type { Clock } from '../../base/clock.ts';
import { duration, type Millis } from '../../base/duration.ts';
import { MusterError } from '../../base/errors.ts';
import type { Log } from '../../base/log.ts';
import { Secret } from '../../base/secret.ts';
import { KEYS } from '../../store/keys.ts';
import type { Store } from '../../store/store.ts';
import { grant, hashOf } from './operators.ts';
import type { ProviderUser } from './provider-settings.ts';
import { decode, randomText, readRecords } from './records.ts';

/** A session ends after this time, and when it was not used for {@link IDLE}. */
export const LIFETIME = duration('12h');
const IDLE = duration('1h');
/** The last use is written to the store at most this often; after a restart it counts as newer. */
const NOTE_USE = duration('5m');
/** The most sessions; beyond that the one that was used longest ago ends. */
const MAX_SESSIONS = 2_000;

/** Why a session, token or certificate logs nobody in, for the page and the command line. */
export const ENDINGS = {
  idle: 'the session ended because it was not used for an hour',
  over: 'the session ended after 12 hours',
  ended: 'an operator ended the session',
  roles: 'the session ended because the roles of the account changed',
  password: 'the session ended because a new password was set',
  removed: 'the account was removed',
  logged_out: 'the session was logged out',
  displaced: 'the session ended because too many others began after it',
  unknown: 'this server does not know the session: it ended long ago, or the store was replaced',
  token: 'the token has ended, or it or its account was removed',
  certificate: 'no account has the name of the certificate',
} as const;
export type Ending = keyof typeof ENDINGS;

/** Why a session ended is known of the last ones, in memory. */
const MAX_ENDED = 2_000;

/** The owner of a session: an account, by its name, or a user of the identity provider. */
export type Owner = string | ProviderUser;

const nameOf = (owner: Owner): string => (typeof owner === 'string' ? owner : owner.name);

const sessionRecord = z.strictObject({
  v: z.literal(1),
  owner: z.union([
    z.string(),
    z.strictObject({ name: z.string(), subject: z.string(), grants: z.array(grant) }),
  ]),
  begun: z.int(),
  used: z.int(),
});

interface Session {
  readonly owner: Owner;
  /** When somebody logged in: for people, and for the store. */
  readonly begun: Millis;
  /** The same, monotonic, as `usedAt` and `notedAt`. */
  readonly begunAt: Millis;
  usedAt: Millis;
  notedAt: Millis;
}

/** A session as `muster operator sessions ls` shows it. */
export interface SessionView {
  readonly id: string;
  readonly operator: string;
  readonly begun: Millis;
  /** How long nobody has used it, in milliseconds. */
  readonly idle: Millis;
}

interface SessionsDeps {
  readonly store: Store;
  readonly clock: Pick<Clock, 'now' | 'monotonic'>;
  readonly log: Log;
}

/** Opens the sessions. A record that this version cannot read is logged and left alone. */
export async function openSessions(deps: SessionsDeps): Promise<Sessions> {
  const sessions = new Sessions(deps);
  await sessions.load();
  return sessions;
}

export class Sessions {
  readonly #deps: SessionsDeps;
  /** By hash; the one that was used last comes last. */
  readonly #sessions = new Map<string, Session>();
  /** Why others ended, by hash. */
  readonly #ended = new Map<string, Ending>();

  constructor(deps: SessionsDeps) {
    this.#deps = deps;
  }

  /** Reads what earlier processes left; what has ended meanwhile goes. */
  async load(): Promise<void> {
    const { clock } = this.#deps;
    const [now, monotonic] = [clock.now(), clock.monotonic()];
    const read = (key: string, value: string) => {
      const record = decode(sessionRecord, value);
      return record && { key, ...record };
    };
    const records = await readRecords(this.#deps, KEYS.operatorSession, read, 'a session');
    for (const { key, owner, begun, used } of records) {
      // A time in the future comes from a clock that was ahead: then nobody knows how old it is.
      const [age, idle] = [now - begun, now - used];
      if (age < 0 || age >= LIFETIME || idle >= IDLE) {
        await this.#delete(key, idle >= IDLE ? 'idle' : 'over');
        continue;
      }
      const usedAt = (monotonic - Math.max(0, idle)) as Millis;
      const begunAt = (monotonic - age) as Millis;
      this.#sessions.set(key, {
        ...{ owner: owner as Owner, begun: begun as Millis },
        ...{ begunAt, usedAt, notedAt: usedAt },
      });
    }
  }

  /** Begins a session; `until` is its end for people. */
  async begin(owner: Owner): Promise<{ readonly text: Secret; readonly until: Millis }> {
    const { clock } = this.#deps;
    const now = clock.monotonic();
    const text = randomText();
    const key = hashOf(text);
    const session = { owner, begun: clock.now(), begunAt: now, usedAt: now, notedAt: now };
    await this.#note(key, session);
    this.#sessions.set(key, session);
    for (const oldest of this.#sessions.keys()) {
      if (this.#sessions.size <= MAX_SESSIONS) break;
      await this.#delete(oldest, 'displaced');
    }
    return { text: new Secret(text), until: (session.begun + LIFETIME) as Millis };
  }

  /**
   * The owner of a session that has not ended, and how long ago they logged in; undefined for any
   * other text. The session counts as used, unless it is `unused`.
   */
  owner(text: string, unused = false): { readonly owner: Owner; readonly age: Millis } | undefined {
    const key = hashOf(text);
    const session = this.#sessions.get(key);
    if (session === undefined) return undefined;
    const now = this.#deps.clock.monotonic();
    const ending = endingOf(session, now);
    if (ending !== undefined) {
      void this.#delete(key, ending).catch(() => {});
      return undefined;
    }
    if (!unused) this.#use(key, session, now);
    return { owner: session.owner, age: (now - session.begunAt) as Millis };
  }

  #use(key: string, session: Session, now: Millis): void {
    session.usedAt = now;
    this.#sessions.delete(key);
    this.#sessions.set(key, session);
    if (now - session.notedAt < NOTE_USE) return;
    session.notedAt = now;
    // A store that fails logs nobody out while the server runs.
    void this.#note(key, session).catch(() => {});
  }

  /** The user of the identity provider with this name who has a session, as of the last log-in. */
  user(name: string): ProviderUser | undefined {
    const now = this.#deps.clock.monotonic();
    const found = [...this.#sessions.values()].findLast(
      (one) => typeof one.owner !== 'string' && one.owner.name === name && endingOf(one, now) === undefined,
    );
    return found?.owner as ProviderUser | undefined;
  }

  /** All sessions that have not ended, the one that was used last first. */
  list(): readonly SessionView[] {
    const now = this.#deps.clock.monotonic();
    return [...this.#sessions]
      .filter(([, session]) => endingOf(session, now) === undefined)
      .map(([key, { owner, begun, usedAt }]) => ({
        ...{ id: idOf(key), operator: nameOf(owner), begun },
        idle: (now - usedAt) as Millis,
      }))
      .reverse();
  }

  async end(text: string): Promise<void> {
    if (this.#sessions.has(hashOf(text))) await this.#delete(hashOf(text), 'logged_out');
  }

  /** Why a text that is no session is none. */
  whyEnded(text: string): Ending {
    return this.#ended.get(hashOf(text)) ?? 'unknown';
  }

  /**
   * Ends the session with this id.
   *
   * @throws {MusterError} E_NOT_FOUND
   */
  async endById(id: string): Promise<SessionView> {
    const view = this.list().find((one) => one.id === id);
    if (view === undefined) throw new MusterError('E_NOT_FOUND', `there is no session "${id}"`);
    for (const key of [...this.#sessions.keys()]) if (idOf(key) === id) await this.#delete(key, 'ended');
    return view;
  }

  /** What people call the session with this text by. */
  idOf(text: string): string {
    return idOf(hashOf(text));
  }

  /** Ends all sessions of an operator. */
  async endAll(operator: string, why: Ending): Promise<void> {
    for (const [key, session] of [...this.#sessions])
      if (nameOf(session.owner) === operator) await this.#delete(key, why);
  }

  get size(): number {
    return this.#sessions.size;
  }

  async #delete(key: string, why: Ending): Promise<void> {
    setBounded(this.#ended, key, why, MAX_ENDED);
    await this.#deps.store.commit([{ key: KEYS.operatorSession.key(key), delete: true }]);
    this.#sessions.delete(key);
  }

  async #note(key: string, { owner, begun, begunAt, usedAt }: Session): Promise<void> {
    const used = begun + (usedAt - begunAt);
    await this.#deps.store.commit([
      { key: KEYS.operatorSession.key(key), put: JSON.stringify({ v: 1, owner, begun, used }) },
    ]);
  }
}

/** What people call a session by; nobody can log in with it. */
const idOf = (key: string): string => key.slice(0, 12);

/** Why a session has ended by the time that passed; undefined while it lasts. */
function endingOf({ begunAt, usedAt }: Session, now: Millis): Ending | undefined {
  if (usedAt + IDLE <= now) return 'idle';
  return begunAt + LIFETIME <= now ? 'over' : undefined;
}
