/**
 * Log-ins at the site's identity provider: by the browser, which comes back with a code, and by
 * device, for the command line.
 */
import { createHash } from 'node:crypto';
import type { Clock } from '../../base/clock.ts';
import { duration, type Millis } from '../../base/duration.ts';
import { MusterError } from '../../base/errors.ts';
import { textOf } from '../../base/foreign-json.ts';
import type { Checks, Provider } from './provider.socket.ts';
import { type ProviderSettings, type ProviderUser, userOf } from './provider-settings.ts';
import { Sealed } from './sealed.ts';

/** How long a person has to log in at the provider. */
const LASTS = duration('10m');
/** The most answers that are remembered, so that none counts twice. The provider accepted each. */
const MAX_USED = 10_000;

export interface ProviderLoginsDeps {
  readonly provider: Provider;
  readonly settings: ProviderSettings;
  readonly clock: Pick<Clock, 'now' | 'monotonic'>;
}

export class ProviderLogins {
  readonly #deps: ProviderLoginsDeps;
  readonly #browsers: Sealed;
  readonly #devices: Sealed;
  /** Hashes of the states of log-ins that are over, with the end of each, monotonic. */
  readonly #used = new Map<string, Millis>();

  constructor(deps: ProviderLoginsDeps) {
    this.#deps = deps;
    this.#browsers = new Sealed('a log-in of a browser', deps.clock);
    this.#devices = new Sealed('a log-in by device', deps.clock);
  }

  get name(): string {
    return this.#deps.settings.name;
  }

  /** Where the provider sends browsers back; `own` is the address of the listener. */
  returnTo(own: string): string {
    return `${this.#deps.settings.page ?? own}/v1/login/provider/return`;
  }

  /** Where the browser goes, and what it keeps until it comes back (secret). */
  async begin(own: string): Promise<{ readonly url: string; readonly kept: string; readonly lasts: Millis }> {
    const { provider } = this.#deps;
    const checks = await provider.newChecks();
    const url = await provider.authorize(checks, this.returnTo(own));
    return { url, kept: this.#browsers.seal(checks, LASTS), lasts: LASTS };
  }

  /** Whether a browser that keeps this began a log-in here, and not too long ago. */
  isBegun(kept: string): boolean {
    return this.#browsers.open(kept) !== undefined;
  }

  /**
   * The user of the answer with which a browser comes back.
   *
   * @param kept what {@link begin} gave the browser
   * @throws {MusterError} E_PROVIDER_LOGIN, E_PROVIDER, E_FORBIDDEN for a user without any role
   */
  async finish(query: URLSearchParams, kept: string, own: string): Promise<ProviderUser> {
    const { provider, settings } = this.#deps;
    const opened = this.#browsers.open(kept);
    if (opened === undefined)
      throw new MusterError('E_PROVIDER_LOGIN', 'this browser began no log-in, or too long ago');
    const checks: Checks = {
      state: textOf(opened.state),
      nonce: textOf(opened.nonce),
      verifier: textOf(opened.verifier),
    };
    const key = createHash('sha256').update(checks.state).digest('base64url');
    const answer = new URL(`${this.returnTo(own)}?${query}`);
    if (this.#used.has(key)) throw new MusterError('E_PROVIDER_LOGIN', 'this answer was used before');
    const claims = await provider.redeem(answer, checks);
    this.#remember(key);
    return userOf(settings, claims);
  }

  /** Begins a log-in by device; `device` of the answer is sealed. */
  async beginDevice() {
    const { provider, clock } = this.#deps;
    const { device, lasts, interval, ...shown } = await provider.beginDevice();
    const until = (clock.now() + lasts) as Millis;
    return { ...shown, device: this.#devices.seal({ device }, lasts as Millis), until, interval };
  }

  /**
   * Asks once whether the person has logged in.
   *
   * @throws {MusterError} as {@link finish}
   */
  async pollDevice(sealed: string): Promise<ProviderUser | 'waits' | 'slower'> {
    const { provider, settings } = this.#deps;
    const device = this.#devices.open(sealed)?.device;
    if (typeof device !== 'string')
      throw new MusterError('E_PROVIDER_LOGIN', 'this log-in was not begun here, or too long ago');
    const claims = await provider.pollDevice(device);
    return typeof claims === 'string' ? claims : userOf(settings, claims);
  }

  #remember(key: string): void {
    const now = this.#deps.clock.monotonic();
    for (const [old, ends] of this.#used) {
      if (ends > now && this.#used.size < MAX_USED) break;
      this.#used.delete(old);
    }
    this.#used.set(key, (now + LASTS) as Millis);
  }
}
