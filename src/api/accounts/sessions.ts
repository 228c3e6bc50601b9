/**
 * Sessions of operators who logged in. They are in memory: after a restart of the server everybody
 * logs in again. A session is a random text, of which only the hash is kept. It ends by the time
 * that passes, because the clock may be set.
 */
import { randomBytes } from 'node:crypto';
import type { Clock } from '../../base/clock.ts';
import { duration, type Millis } from '../../base/duration.ts';
import { Secret } from '../../base/secret.ts';
import { hashOf } from './operators.ts';
import type { ProviderUser } from './provider-settings.ts';

/** A session ends after this time, and when it was not used for {@link IDLE}. */
export const LIFETIME = duration('12h');
const IDLE = duration('1h');
/** The most sessions; beyond that the one that was used longest ago ends. */
const MAX_SESSIONS = 2_000;

/** The owner of a session: an account, by its name, or a user of the identity provider. */
export type Owner = string | ProviderUser;

const nameOf = (owner: Owner): string => (typeof owner === 'string' ? owner : owner.name);

interface Session {
  readonly owner: Owner;
  /** Monotonic, as `usedAt`. */
  readonly until: Millis;
  usedAt: Millis;
}

export class Sessions {
  readonly #clock: Pick<Clock, 'now' | 'monotonic'>;
  /** By hash; the one that was used last comes last. */
  readonly #sessions = new Map<string, Session>();

  constructor(clock: Pick<Clock, 'now' | 'monotonic'>) {
    this.#clock = clock;
  }

  /** Begins a session; `until` is its end for people. */
  begin(owner: Owner): { readonly text: Secret; readonly until: Millis } {
    const now = this.#clock.monotonic();
    const text = randomBytes(32).toString('base64url');
    this.#sessions.set(hashOf(text), { owner, until: (now + LIFETIME) as Millis, usedAt: now });
    for (const key of this.#sessions.keys()) {
      if (this.#sessions.size <= MAX_SESSIONS) break;
      this.#sessions.delete(key);
    }
    return { text: new Secret(text), until: (this.#clock.now() + LIFETIME) as Millis };
  }

  /** The owner of a session that has not ended; undefined for any other text. */
  owner(text: string): Owner | undefined {
    const key = hashOf(text);
    const session = this.#sessions.get(key);
    if (session === undefined) return undefined;
    const now = this.#clock.monotonic();
    this.#sessions.delete(key);
    if (session.until <= now || session.usedAt + IDLE <= now) return undefined;
    session.usedAt = now;
    this.#sessions.set(key, session);
    return session.owner;
  }

  /** The user of the identity provider with this name who has a session, as of the last log-in. */
  user(name: string): ProviderUser | undefined {
    const now = this.#clock.monotonic();
    const found = [...this.#sessions.values()].findLast(
      ({ owner, until }) => typeof owner !== 'string' && owner.name === name && until > now,
    );
    return found?.owner as ProviderUser | undefined;
  }

  end(text: string): void {
    this.#sessions.delete(hashOf(text));
  }

  /** Ends all sessions of an operator, whose password or roles have changed. */
  endAll(operator: string): void {
    for (const [key, session] of this.#sessions)
      if (nameOf(session.owner) === operator) this.#sessions.delete(key);
  }

  get size(): number {
    return this.#sessions.size;
  }
}
