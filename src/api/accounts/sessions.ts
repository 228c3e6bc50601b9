/**
 * Sessions of operators who logged in with a password. They are in memory: after a restart of the
 * server everybody logs in again. A session is a random text, of which only the hash is kept.
 */
import { randomBytes } from 'node:crypto';
import type { Clock } from '../../base/clock.ts';
import { duration, type Millis } from '../../base/duration.ts';
import { Secret } from '../../base/secret.ts';
import { hashOf } from './operators.ts';

/** A session ends after this time, and when it was not used for {@link IDLE}. */
export const LIFETIME = duration('12h');
const IDLE = duration('1h');
/** The most sessions; beyond that the one that was used longest ago ends. */
const MAX_SESSIONS = 2_000;

interface Session {
  readonly operator: string;
  readonly until: Millis;
  usedAt: Millis;
}

export class Sessions {
  readonly #clock: Pick<Clock, 'now'>;
  /** By hash; the one that was used last comes last. */
  readonly #sessions = new Map<string, Session>();

  constructor(clock: Pick<Clock, 'now'>) {
    this.#clock = clock;
  }

  begin(operator: string): { readonly text: Secret; readonly until: Millis } {
    const now = this.#clock.now();
    const text = randomBytes(32).toString('base64url');
    const until = (now + LIFETIME) as Millis;
    this.#sessions.set(hashOf(text), { operator, until, usedAt: now });
    for (const key of this.#sessions.keys()) {
      if (this.#sessions.size <= MAX_SESSIONS) break;
      this.#sessions.delete(key);
    }
    return { text: new Secret(text), until };
  }

  /** The operator of a session that has not ended; undefined for any other text. */
  operator(text: string): string | undefined {
    const key = hashOf(text);
    const session = this.#sessions.get(key);
    if (session === undefined) return undefined;
    const now = this.#clock.now();
    this.#sessions.delete(key);
    if (session.until <= now || session.usedAt + IDLE <= now) return undefined;
    session.usedAt = now;
    this.#sessions.set(key, session);
    return session.operator;
  }

  end(text: string): void {
    this.#sessions.delete(hashOf(text));
  }

  /** Ends all sessions of an operator, whose password or roles have changed. */
  endAll(operator: string): void {
    for (const [key, session] of this.#sessions)
      if (session.operator === operator) this.#sessions.delete(key);
  }

  get size(): number {
    return this.#sessions.size;
  }
}
