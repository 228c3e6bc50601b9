/** Routes with which operators log in at the site's identity provider. */
import { MusterError } from '../../base/errors.ts';
import { LOG_IN } from '../contract/log-in.ts';
import type { ApiDeps } from '../deps.ts';
import { type ApiResponse, type Handler, json } from '../handler.ts';
import { timestamp } from '../times.ts';
import { cookieNamed } from './accounts.ts';
import { attempt, bodyOf, loggedIn, NO_STORE, sessionCookie } from './logged-in.ts';
import { siteOf } from './passkey-logins.ts';
import type { ProviderLogins } from './provider-logins.ts';
import type { ProviderUser } from './provider-settings.ts';

type H = Handler<ApiDeps>;

/**
 * What the browser keeps while it is at the provider. It comes back by a link of another site, with
 * which browsers send no cookie that is `Strict`.
 */
const BEGUN = '__Host-muster-login';
const begun = (value: string, seconds: number): string =>
  `${BEGUN}=${value}; Path=/; Secure; HttpOnly; SameSite=Lax; Max-Age=${seconds}`;

function providerOf({ accounts }: ApiDeps): ProviderLogins {
  if (accounts.provider) return accounts.provider;
  throw new MusterError('E_NOT_FOUND', 'this site has no identity provider: the server runs without --oidc');
}

/** @throws {MusterError} E_NOT_FOUND without the HTTPS listener, which the browser comes back to */
function ownAddress({ page }: ApiDeps): string {
  if (page !== undefined) return page;
  throw new MusterError('E_NOT_FOUND', 'the server runs without --operators-listen');
}

const ways: H = (_request, { accounts, page }) => {
  const passkeys = pageForPasskeys(page);
  const { provider } = accounts;
  return json(
    { ...(provider && { provider: { name: provider.name } }), ...(passkeys && { passkeys }) },
    200,
    NO_STORE,
  );
};

/** Undefined where browsers keep no passkeys, because the page has no name. */
function pageForPasskeys(page: string | undefined): { readonly page: string } | undefined {
  try {
    return { page: siteOf(page).origin };
  } catch {
    return undefined;
  }
}

const seeOther = (location: string, cookies: Readonly<Record<string, string>>): ApiResponse => ({
  status: 303,
  headers: {
    ...NO_STORE,
    ...cookies,
    location,
    'content-type': 'text/plain',
    'referrer-policy': 'no-referrer',
  },
  body: 'See other\n',
});

const begin: H = async (_request, deps) => {
  const { url, kept, lasts } = await providerOf(deps).begin(ownAddress(deps));
  return seeOther(url, { 'set-cookie': begun(kept, lasts / 1000) });
};

/**
 * A person sees what this answers, so a refusal is shown by the page: the code of the error is in
 * the address, behind the #.
 */
const finish: H = async (request, deps) => {
  const provider = providerOf(deps);
  const kept = cookieNamed(BEGUN, request.headers.cookie) ?? '';
  const work = () => provider.finish(request.query, kept, ownAddress(deps));
  try {
    const done = await attempt(request, deps, BY_PROVIDER, () =>
      deps.accounts.logInAt(work, request.address ?? ''),
    );
    if (done === undefined) throw new MusterError('E_PROVIDER_LOGIN', 'nobody logged in');
    return seeOther('/', { 'set-cookie': sessionCookie(done, deps.clock.now()) });
  } catch (error) {
    if (!(error instanceof MusterError)) throw error;
    deps.log.warn({ code: error.code, err: error.message }, 'a log-in at the identity provider failed');
    return seeOther(`/#refused=${error.code}`, { 'set-cookie': begun('', 0) });
  }
};

const BY_PROVIDER = { as: 'unknown', by: 'identity-provider' } as const;

const beginDevice: H = async (request, deps) => {
  await bodyOf(request, LOG_IN['POST /v1/login/device'].body, '{}');
  const { until, ...rest } = await providerOf(deps).beginDevice();
  return json({ ...rest, until: timestamp(until) }, 200, NO_STORE);
};

const finishDevice: H = async (request, deps) => {
  const body = await bodyOf(request, LOG_IN['POST /v1/login/device/finish'].body, '{"device": "…"}');
  const provider = providerOf(deps);
  let slower = false;
  const work = async (): Promise<ProviderUser | undefined> => {
    const found = await provider.pollDevice(body.device);
    slower = found === 'slower';
    return typeof found === 'string' ? undefined : found;
  };
  const done = await attempt(request, deps, BY_PROVIDER, () =>
    deps.accounts.logInAt(work, request.address ?? ''),
  );
  if (done === undefined) return json({ waits: true, slower }, 202, NO_STORE);
  return loggedIn(done, 'program', deps.clock.now());
};

export const LOG_IN_HANDLERS = {
  'GET /v1/login': ways,
  'GET /v1/login/provider': begin,
  'GET /v1/login/provider/return': finish,
  'POST /v1/login/device': beginDevice,
  'POST /v1/login/device/finish': finishDevice,
} as const;
