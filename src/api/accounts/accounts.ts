/**
 * Who asks: turns what a request over HTTPS carries (a session's cookie, or a token) into a
 * principal, and logs operators in and out.
 */

import type { Clock } from '../../base/clock.ts';
import type { Millis } from '../../base/duration.ts';
import { MusterError } from '../../base/errors.ts';
import type { Standing } from '../../base/limits.server.ts';
import type { Secret } from '../../base/secret.ts';
import { covers, type Grant, grantOf, type Principal, placesOf } from '../access.ts';
import { Attempts, networkOf } from './attempts.ts';
import type { Operator, Operators } from './operators.ts';
import { PasskeyLogins } from './passkey-logins.ts';
import type { Passkeys } from './passkeys.ts';
import type { Asker, Passwords } from './passwords.ts';
import type { ProviderLogins } from './provider-logins.ts';
import { ENDINGS, type Ending, type Owner, type Sessions } from './sessions.ts';

/**
 * The name of the cookie. Browsers take a cookie with this prefix only over HTTPS and send it only
 * to the host that set it (RFC 6265bis section 4.1.3.2).
 */
export const COOKIE = '__Host-muster';

interface Credentials {
  readonly cookie?: string | undefined;
  readonly authorization?: string | undefined;
  /** The name in a client's certificate that was verified. */
  readonly certificate?: string | undefined;
  /** Nobody asks by this: a session does not last longer because of it. */
  readonly unused?: boolean;
}

export interface LoggedIn {
  readonly principal: Principal;
  readonly session: Secret;
  readonly until: Millis;
}

export interface AccountsDeps {
  readonly operators: Operators;
  readonly passkeys: Passkeys;
  readonly passwords: Passwords;
  readonly sessions: Sessions;
  readonly clock: Pick<Clock, 'now' | 'monotonic'>;
  /** The site's identity provider, where it has one. */
  readonly provider?: ProviderLogins | undefined;
}

export class Accounts {
  readonly operators: Operators;
  readonly passkeys: Passkeys;
  readonly passkeyLogins: PasskeyLogins;
  readonly provider: ProviderLogins | undefined;
  readonly sessions: Sessions;
  readonly #attempts: Attempts;
  readonly #passwords: Passwords;

  constructor({ operators, passkeys, passwords, sessions, clock, provider }: AccountsDeps) {
    this.operators = operators;
    this.passkeys = passkeys;
    this.passkeyLogins = new PasskeyLogins({ passkeys, operators, clock });
    this.provider = provider;
    this.#passwords = passwords;
    this.sessions = sessions;
    this.#attempts = new Attempts(clock);
  }

  /** The operator whose token, session or certificate comes with the request; undefined: none. */
  authenticate(credentials: Credentials): Principal | undefined {
    const bearer = bearerIn(credentials.authorization);
    const token = bearer === undefined ? undefined : this.operators.bearer(bearer);
    const holder = token && this.operators.get(token.operator);
    if (token && holder) return principalOf(holder.name, 'token', narrowed(token.grants, holder.grants));
    // Programs send their session as a bearer token.
    const session = bearer ?? sessionIn(credentials.cookie);
    const found = session === undefined ? undefined : this.sessions.owner(session, credentials.unused);
    if (found !== undefined) return this.#ofSession(found.owner, found.age);
    const named =
      credentials.certificate === undefined ? undefined : this.operators.get(credentials.certificate);
    return named && principalOf(named.name, 'certificate', named.grants);
  }

  /** Why nobody is logged in with these credentials; its `reason` says it for programs. */
  nobody({ cookie, authorization, certificate }: Credentials): MusterError {
    const bearer = bearerIn(authorization);
    const session = bearer ?? sessionIn(cookie);
    const why = session === undefined ? certificate && 'certificate' : this.#endingOf(session);
    if (!why) return new MusterError('E_UNAUTHENTICATED', 'nobody is logged in with this request');
    return new MusterError('E_UNAUTHENTICATED', ENDINGS[why], { reason: why });
  }

  #endingOf(text: string): Ending {
    return this.operators.isToken(text) ? 'token' : this.sessions.whyEnded(text);
  }

  /**
   * What a client may take of the listener's connections by its address; one from which somebody
   * logged in counts as a machine does elsewhere.
   */
  standing(address: string): Standing {
    return this.#attempts.standing(address) === 'trusted' ? 'machine' : 'stranger';
  }

  /** Notes that somebody who is known asks from this address. */
  trust(address: string): void {
    this.#attempts.trust(address);
  }

  /** What an operator may do now; undefined when the account, or the last session, is gone. */
  grantsNow(name: string): readonly Grant[] | undefined {
    return (this.operators.get(name) ?? this.sessions.user(name))?.grants;
  }

  /**
   * Begins a session by name and password.
   *
   * @throws {MusterError} as {@link confirm}
   */
  async logIn(name: string, password: string, address: string): Promise<LoggedIn> {
    return this.#begin((await this.confirm(name, password, address)).name);
  }

  /**
   * Checks a password.
   *
   * @throws {MusterError} E_LOGIN when name and password do not fit; E_LOGIN_LIMIT
   */
  async confirm(name: string, password: string, address: string): Promise<Operator> {
    this.#limit(address, name);
    const operator = this.operators.get(name);
    const fits = await this.#passwords.fits(password, operator?.password, this.#asker(address));
    if (!fits || operator === undefined) {
      this.#attempts.failed(address, name);
      throw new MusterError('E_LOGIN', 'name and password do not fit');
    }
    this.#attempts.succeeded(address, name);
    return operator;
  }

  /**
   * Sets the password of the operator who was invited, and begins a session. All other sessions of
   * this operator end, and the passkeys are removed: somebody else may have added one.
   *
   * @throws {MusterError} E_LOGIN when the invitation is not open; E_USAGE for a password that is
   *   too short; E_LOGIN_LIMIT
   */
  async redeem(invitation: string, password: string, address: string): Promise<LoggedIn> {
    this.checkAddress(address);
    if (this.operators.invited(invitation) === undefined) {
      this.#attempts.failed(address, '');
      throw new MusterError('E_LOGIN', 'this invitation was redeemed or has ended');
    }
    const hash = await this.#passwords.hash(password, this.#asker(address));
    // Somebody else may have redeemed it while the hash was computed.
    const operator = this.operators.invited(invitation);
    if (operator === undefined) throw new MusterError('E_LOGIN', 'this invitation was redeemed or has ended');
    this.#attempts.succeeded(address, operator.name);
    await this.operators.setPassword(operator.name, hash);
    await this.passkeys.removeAll(operator.name);
    await this.sessions.endAll(operator.name, 'password');
    return this.#begin(operator.name);
  }

  /**
   * Sets another password for the operator who knows the present one, and begins a session; all
   * other sessions of this operator end. Passkeys stay, because only the password adds them, and an
   * open invitation stays, because it is an administrator's.
   *
   * @throws {MusterError} as {@link confirm}; E_USAGE for a password that is too short
   */
  async changePassword(name: string, password: string, next: string, address: string): Promise<LoggedIn> {
    await this.confirm(name, password, address);
    const hash = await this.#passwords.hash(next, this.#asker(address));
    await this.operators.setPassword(name, hash, { invited: 'still' });
    await this.sessions.endAll(name, 'password');
    return this.#begin(name);
  }

  /** The id of the session that a request carries; undefined: none. */
  sessionOf(credentials: Pick<Credentials, 'cookie' | 'authorization'>): string | undefined {
    const text = bearerIn(credentials.authorization) ?? sessionIn(credentials.cookie);
    return text === undefined ? undefined : this.sessions.idOf(text);
  }

  /**
   * Begins a session of the user that `work` finds, at the identity provider or by a passkey;
   * undefined while the person has not logged in there.
   *
   * @throws {MusterError} what `work` throws, which counts as a failed log-in; E_LOGIN_LIMIT
   */
  async logInAt(work: () => Promise<Owner | undefined>, address: string): Promise<LoggedIn | undefined> {
    this.checkAddress(address);
    try {
      const user = await work();
      if (typeof user === 'string') this.#attempts.succeeded(address, user);
      return user === undefined ? undefined : this.#begin(user);
    } catch (error) {
      // A provider that does not answer is not the fault of this address.
      const silent = error instanceof MusterError && error.code === 'E_PROVIDER';
      if (!silent) this.#attempts.failed(address, '');
      throw error;
    }
  }

  /** @throws {MusterError} E_LOGIN_LIMIT when too many log-ins from this address failed */
  checkAddress(address: string): void {
    this.#limit(address, '');
  }

  async logOut(credentials: Credentials): Promise<void> {
    const session = bearerIn(credentials.authorization) ?? sessionIn(credentials.cookie);
    if (session !== undefined) await this.sessions.end(session);
  }

  #asker(address: string): Asker {
    return { address: networkOf(address), standing: () => this.#attempts.standing(address) };
  }

  #limit(address: string, name: string): void {
    const retryAfterSeconds = Math.ceil(this.#attempts.wait(address, name) / 1000);
    if (retryAfterSeconds > 0)
      throw new MusterError(
        'E_LOGIN_LIMIT',
        `too many failed log-ins from this address; the next try is possible in ${retryAfterSeconds} s`,
        { retryAfterSeconds },
      );
  }

  async #begin(owner: Owner): Promise<LoggedIn> {
    const { text, until } = await this.sessions.begin(owner);
    const principal = this.#ofSession(owner, 0 as Millis);
    if (principal === undefined) throw new MusterError('E_LOGIN', 'the account was removed meanwhile');
    return { principal, session: text, until };
  }

  #ofSession(owner: Owner, age: Millis): Principal | undefined {
    if (typeof owner !== 'string')
      return { ...principalOf(owner.name, 'session', owner.grants), age, subject: owner.subject };
    const operator = this.operators.get(owner);
    return operator && { ...principalOf(operator.name, 'session', operator.grants), age };
  }
}

const principalOf = (name: string, by: Principal['by'], grants: readonly Grant[]): Principal => ({
  name,
  by,
  grants,
});

/**
 * The part of a token's grants that its owner still has. A token outlives a change of its owner's
 * roles, and must not give more than these.
 */
export function narrowed(wanted: readonly Grant[], had: readonly Grant[]): readonly Grant[] {
  return wanted.flatMap((one) =>
    had
      .filter(({ role }) => covers(role, one.role))
      .flatMap((owned): Grant[] => {
        if (placesOf(owned) === undefined) return [one];
        const all = placesOf(one) === undefined;
        const both = (limit: 'clusters' | 'pools'): readonly string[] | undefined => {
          const names = owned[limit]?.filter((name) => all || one[limit]?.includes(name));
          return names?.length === 0 ? undefined : names;
        };
        const [clusters, pools] = [both('clusters'), both('pools')];
        return clusters === undefined && pools === undefined ? [] : [grantOf(one.role, { clusters, pools })];
      }),
  );
}

function bearerIn(authorization: string | undefined): string | undefined {
  return /^Bearer ([A-Za-z0-9._~+/=-]{1,512})$/i.exec(authorization ?? '')?.[1];
}

const sessionIn = (cookie: string | undefined): string | undefined => cookieNamed(COOKIE, cookie);

/** The value of a cookie in the header of a request. */
export function cookieNamed(wanted: string, cookie: string | undefined): string | undefined {
  if (cookie === undefined || cookie.length > 8192) return undefined;
  const pairs = cookie.split(';').map((pair) => pair.trim().split('='));
  return pairs.find(([name]) => name === wanted)?.[1];
}
