/** Log-ins at the site's identity provider. */
import { z } from 'zod';
import type { Clock } from '../../base/clock.ts';
import { MusterError } from '../../base/errors.ts';
import type { Log } from '../../base/log.ts';
import type { Metrics } from '../../base/metrics.ts';
import type { EventLog } from '../../events/event.ts';
import type { Accounts } from '../accounts/accounts.ts';
import { cookieNamed } from '../accounts/accounts.ts';
import { attempt, loggedIn as loggedInAs, sessionCookie } from '../accounts/logged-in.ts';
import { siteOf } from '../accounts/passkey-logins.ts';
import type { ProviderLogins } from '../accounts/provider-logins.ts';
import type { ProviderUser } from '../accounts/provider-settings.ts';
import type { Actions } from '../actions.ts';
import { loggedIn } from '../contract/accounts.ts';
import { raw as rawType, time, word } from '../contract/contract.ts';
import { operation, raw, reply } from '../operation.ts';
import { timestamp } from '../times.ts';

interface Deps {
  readonly events: EventLog;
  /** Operators, their sessions and tokens. */
  readonly accounts: Accounts;
  /** Where operators log in, `https://HOST:PORT`; undefined without an HTTPS listener. */
  readonly page?: string | undefined;
  /** Records who asked for what. */
  readonly actions: Actions;
  readonly metrics: Metrics;
  readonly clock: Clock;
  readonly log: Log;
}

type ProviderDeps = Pick<Deps, 'accounts' | 'page' | 'events' | 'metrics' | 'actions' | 'clock' | 'log'>;

/**
 * What the browser keeps while it is at the provider. It comes back by a link of another site, with
 * which browsers send no cookie that is `Strict`.
 */
const BEGUN = '__Host-muster-login';
const begun = (value: string, seconds: number): string =>
  `${BEGUN}=${value}; Path=/; Secure; HttpOnly; SameSite=Lax; Max-Age=${seconds}`;

function providerOf({ accounts }: Pick<Deps, 'accounts'>): ProviderLogins {
  if (accounts.provider) return accounts.provider;
  throw new MusterError('E_NOT_FOUND', 'this site has no identity provider: the server runs without --oidc');
}

/** @throws {MusterError} E_NOT_FOUND without the HTTPS listener, which the browser comes back to */
function ownAddress({ page }: Pick<Deps, 'page'>): string {
  if (page !== undefined) return page;
  throw new MusterError('E_NOT_FOUND', 'the server runs without --operators-listen');
}

/** Undefined where browsers keep no passkeys, because the page has no name. */
function pageForPasskeys(page: string | undefined): { readonly page: string } | undefined {
  try {
    return { page: siteOf(page).origin };
  } catch {
    return undefined;
  }
}

const seeOther = (location: string, cookies: Readonly<Record<string, string>>) =>
  raw({
    status: 303,
    headers: {
      ...cookies,
      location,
      'content-type': 'text/plain',
      'referrer-policy': 'no-referrer',
    },
    body: 'See other\n',
  });

const BY_PROVIDER = { as: 'unknown', by: 'identity-provider' } as const;

export const LOG_IN = [
  operation(
    'GET /v1/login',
    {
      access: 'open',
      summary: 'Shows in which ways operators can log in.',
      answer: z.strictObject({
        provider: z
          .strictObject({ name: z.string() })
          .optional()
          .meta({ description: 'The identity provider, where the site has one.' }),
        passkeys: z
          .strictObject({ page: z.string() })
          .optional()
          .meta({ description: 'The address of the page by which passkeys count, where there are any.' }),
      }),
    },
    (_asked, { accounts, page }: Pick<ProviderDeps, 'accounts' | 'page'>) => {
      const passkeys = pageForPasskeys(page);
      const { provider } = accounts;
      return { ...(provider && { provider: { name: provider.name } }), ...(passkeys && { passkeys }) };
    },
  ),
  operation(
    'GET /v1/login/provider',
    {
      access: 'open',
      summary: 'Sends the browser to the identity provider (OpenID Connect, authorization code with PKCE).',
      answer: rawType('text/plain', 'The address is in the header Location.'),
      statuses: [303],
    },
    async (_asked, deps: Pick<ProviderDeps, 'accounts' | 'page'>) => {
      const { url, kept, lasts } = await providerOf(deps).begin(ownAddress(deps));
      return seeOther(url, { 'set-cookie': begun(kept, lasts / 1000) });
    },
  ),
  operation(
    'GET /v1/login/provider/return',
    {
      access: 'open',
      summary:
        'Where the identity provider sends the browser back; logs in, and sends it to the page. A refusal is in the address, behind the #.',
      // Providers add parameters of their own.
      query: z.looseObject({ code: word('The code.'), state: word('The state of the log-in.') }),
      answer: rawType('text/plain', 'The address is in the header Location.'),
      statuses: [303],
    },
    async (asked, deps: ProviderDeps) => {
      const provider = providerOf(deps);
      const kept = cookieNamed(BEGUN, asked.headers.cookie) ?? '';
      const returned = new URLSearchParams(asked.query as Record<string, string>);
      // Any page can send a browser here, as an image for example: that is nobody's failed log-in.
      if (!provider.isBegun(kept)) return seeOther('/#refused=E_PROVIDER_LOGIN', {});
      const work = () => provider.finish(returned, kept, ownAddress(deps));
      try {
        const done = await attempt(asked, deps, BY_PROVIDER, () =>
          deps.accounts.logInAt(work, asked.address ?? ''),
        );
        if (done === undefined) throw new MusterError('E_PROVIDER_LOGIN', 'nobody logged in');
        return seeOther('/', { 'set-cookie': sessionCookie(done, deps.clock.now()) });
      } catch (error) {
        if (!(error instanceof MusterError)) throw error;
        deps.log.warn({ code: error.code, err: error.message }, 'a log-in at the identity provider failed');
        return seeOther(`/#refused=${error.code}`, { 'set-cookie': begun('', 0) });
      }
    },
  ),
  operation(
    'POST /v1/login/device',
    {
      access: 'open',
      unrecorded: true,
      summary: 'Begins a log-in of a program at the identity provider (device flow, RFC 8628).',
      body: z.strictObject({}),
      answer: z.strictObject({
        device: z.string().meta({ description: 'Secret; the program keeps it.' }),
        code: z.string().meta({ description: 'What the person compares or types.' }),
        url: z.string().meta({ description: 'Where the person logs in.' }),
        complete: z.string().optional().meta({ description: 'The same, with the code in it.' }),
        until: time,
        interval: z.int().meta({ description: 'Milliseconds between two questions.' }),
      }),
    },
    async (_asked, deps: Pick<ProviderDeps, 'accounts'>) => {
      const { until, ...rest } = await providerOf(deps).beginDevice();
      return { ...rest, until: timestamp(until) };
    },
  ),
  operation(
    'POST /v1/login/device/finish',
    {
      access: 'open',
      unrecorded: true,
      summary: 'Asks once whether the person has logged in; 202 when not.',
      body: z.strictObject({ device: z.string().max(4096) }),
      answer: z.union([loggedIn, z.strictObject({ waits: z.literal(true), slower: z.boolean() })]),
      statuses: [200, 202],
    },
    async (asked, deps: ProviderDeps) => {
      const provider = providerOf(deps);
      let slower = false;
      const work = async (): Promise<ProviderUser | undefined> => {
        const found = await provider.pollDevice(asked.body.device);
        slower = found === 'slower';
        return typeof found === 'string' ? undefined : found;
      };
      const done = await attempt(asked, deps, BY_PROVIDER, () =>
        deps.accounts.logInAt(work, asked.address ?? ''),
      );
      if (done === undefined) return reply({ waits: true as const, slower }, 202);
      return loggedInAs(done, 'program', deps.clock.now());
    },
  ),
] as const;
