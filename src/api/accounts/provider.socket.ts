/**
 * Speaks to the site's identity provider: OpenID Connect Core 1.0 with PKCE (RFC 7636), and the
 * device flow (RFC 8628). The library is loaded at the first log-in.
 */
import https from 'node:https';
import type {
  Configuration,
  CustomFetchOptions,
  ServerMetadata,
  TokenEndpointResponse,
  TokenEndpointResponseHelpers,
} from 'openid-client';
import type { Clock } from '../../base/clock.ts';
import { duration, type Millis } from '../../base/duration.ts';
import { MusterError } from '../../base/errors.ts';
import { fieldsOf, textOf } from '../../base/foreign-json.ts';
import type { Secret } from '../../base/secret.ts';
import { printed } from './printed.ts';
import type { Claims, ProviderSettings } from './provider-settings.ts';

/** What ties an answer of the provider to the log-in that was begun. */
export interface Checks {
  readonly state: string;
  readonly nonce: string;
  readonly verifier: string;
}

/** A log-in by device that was begun. */
export interface DeviceLogin {
  /** Secret: with it the token is fetched. */
  readonly device: string;
  /** What the person types, or compares, at `url`. */
  readonly code: string;
  readonly url: string;
  /** The same address with the code in it. */
  readonly complete?: string;
  readonly lasts: Millis;
  readonly interval: Millis;
}

/** The provider. All methods throw E_PROVIDER when it cannot be asked. */
export interface Provider {
  newChecks(): Promise<Checks>;
  /** Where the browser logs in. */
  authorize(checks: Checks, redirect: string): Promise<string>;
  /** @throws {MusterError} E_PROVIDER_LOGIN when the answer logs nobody in */
  redeem(answer: URL, checks: Checks): Promise<Claims>;
  beginDevice(): Promise<DeviceLogin>;
  /** @throws {MusterError} E_PROVIDER_LOGIN as {@link redeem} */
  pollDevice(device: string): Promise<Claims | 'waits' | 'slower'>;
}

export interface ProviderDeps {
  readonly settings: ProviderSettings;
  readonly secret?: Secret | undefined;
  /** The CA of its certificate, PEM; undefined: those that this host trusts. */
  readonly authority?: string | undefined;
  readonly clock: Pick<Clock, 'now' | 'monotonic'>;
}

/** How much the clocks of provider and boot host may differ. */
const TOLERANCE = duration('5m');
/** The provider's description is fetched again after this time. */
const DESCRIPTION_LASTS = duration('10m');
const PATIENCE_S = 10;
const MAX_ANSWER = 512 * 1024;

/**
 * Makes the client of a provider, which is not asked before the first log-in.
 *
 * @throws {MusterError} its methods: E_PROVIDER, E_PROVIDER_LOGIN
 */
export function openProvider({ settings, secret, authority, clock }: ProviderDeps): Provider {
  const library = () => import('openid-client');
  const fetch = fetchBy(authority);
  let known: { readonly description: ServerMetadata; readonly at: number } | undefined;
  const metadata = async () => {
    const { clockSkew, clockTolerance } = await library();
    return {
      [clockSkew]: Math.round((clock.now() - Date.now()) / 1000),
      [clockTolerance]: TOLERANCE / 1000,
    };
  };
  const description = async (): Promise<ServerMetadata> => {
    if (known && clock.monotonic() - known.at < DESCRIPTION_LASTS) return known.description;
    const { discovery, customFetch } = await library();
    const found = await discovery(new URL(settings.issuer), settings.clientId, undefined, undefined, {
      [customFetch]: fetch,
      timeout: PATIENCE_S,
    });
    // Its helper functions cannot be copied into the next configuration.
    const plain = JSON.parse(JSON.stringify(found.serverMetadata())) as ServerMetadata;
    known = { description: plain, at: clock.monotonic() };
    return known.description;
  };
  const authenticationTo = async ({ token_endpoint_auth_methods_supported: methods }: ServerMetadata) => {
    const { ClientSecretBasic, ClientSecretPost, None } = await library();
    if (secret === undefined) return None();
    // A provider that lists no method has this one (OpenID Connect Discovery 1.0 section 3).
    const basic = methods?.includes('client_secret_basic') ?? true;
    return basic ? ClientSecretBasic(secret.reveal()) : ClientSecretPost(secret.reveal());
  };
  /** Each log-in reads the provider's keys again, so that it may have new ones at any time. */
  const fresh = async (): Promise<Configuration> => {
    const oidc = await library();
    const server = await description();
    const auth = await authenticationTo(server);
    const config = new oidc.Configuration(server, settings.clientId, await metadata(), auth);
    config[oidc.customFetch] = fetch;
    config.timeout = PATIENCE_S;
    oidc.enableNonRepudiationChecks(config);
    return config;
  };
  /** The claims of an ID token, with the user information where the provider has any. */
  const claimsOf = async (config: Configuration, tokens: Tokens): Promise<Claims> => {
    const claims = tokens.claims();
    if (claims === undefined) throw new MusterError('E_PROVIDER_LOGIN', 'the answer has no ID token');
    const apart = Math.abs(claims.iat * 1000 - clock.now());
    if (apart > TOLERANCE)
      throw new MusterError(
        'E_PROVIDER_LOGIN',
        `the clocks of identity provider and boot host differ by ${Math.round(apart / 1000)} s`,
      );
    if (config.serverMetadata().userinfo_endpoint === undefined) return claims;
    const { fetchUserInfo } = await library();
    return { ...(await fetchUserInfo(config, tokens.access_token, claims.sub)), ...claims };
  };
  return {
    async newChecks() {
      const { randomNonce, randomPKCECodeVerifier, randomState } = await library();
      return { state: randomState(), nonce: randomNonce(), verifier: randomPKCECodeVerifier() };
    },
    authorize: ({ state, nonce, verifier }, redirect) =>
      asked(async () => {
        const { buildAuthorizationUrl, calculatePKCECodeChallenge } = await library();
        return buildAuthorizationUrl(await fresh(), {
          redirect_uri: redirect,
          scope: settings.scopes.join(' '),
          state,
          nonce,
          code_challenge: await calculatePKCECodeChallenge(verifier),
          code_challenge_method: 'S256',
        }).href;
      }),
    redeem: (answer, { state, nonce, verifier }) =>
      asked(async () => {
        const { authorizationCodeGrant } = await library();
        const config = await fresh();
        const checks = { expectedState: state, expectedNonce: nonce, pkceCodeVerifier: verifier };
        return claimsOf(config, await authorizationCodeGrant(config, answer, checks));
      }),
    beginDevice: () =>
      asked(async () => {
        const { initiateDeviceAuthorization } = await library();
        const begun = await initiateDeviceAuthorization(await fresh(), { scope: settings.scopes.join(' ') });
        return {
          device: begun.device_code,
          code: begun.user_code,
          url: begun.verification_uri,
          ...(begun.verification_uri_complete !== undefined && { complete: begun.verification_uri_complete }),
          lasts: (begun.expires_in * 1000) as Millis,
          interval: ((begun.interval ?? 5) * 1000) as Millis,
        };
      }),
    pollDevice: (device) =>
      asked(async () => {
        const { genericGrantRequest } = await library();
        const config = await fresh();
        const grant = 'urn:ietf:params:oauth:grant-type:device_code';
        try {
          return await claimsOf(config, await genericGrantRequest(config, grant, { device_code: device }));
        } catch (error) {
          const { error: code } = fieldsOf(error);
          if (code === 'authorization_pending') return 'waits';
          if (code === 'slow_down') return 'slower';
          throw error;
        }
      }),
  };
}

type Tokens = TokenEndpointResponse & TokenEndpointResponseHelpers;

/** Turns the library's errors into ours. What the provider wrote is cut, and only printed. */
async function asked<T>(work: () => Promise<T>): Promise<T> {
  try {
    return await work();
  } catch (error) {
    if (error instanceof MusterError) throw error;
    const { error: code, error_description: about, code: kind } = fieldsOf(error);
    if (typeof code === 'string')
      throw new MusterError('E_PROVIDER_LOGIN', `it answered "${printed(code)}": ${printed(textOf(about))}`, {
        cause: error,
      });
    const { message = '', cause } = error as Error;
    // The library's own message is the same for many faults; that of its cause says which.
    const wrong = cause instanceof Error ? cause.message : message;
    if (typeof kind === 'string' && JUDGED.test(kind)) {
      const claim = claimIn(error);
      throw new MusterError('E_PROVIDER_LOGIN', `${printed(wrong)}${claim && ` (${printed(claim)})`}`, {
        cause: error,
      });
    }
    throw new MusterError('E_PROVIDER', `the identity provider cannot be asked: ${printed(wrong)}`, {
      cause: error,
    });
  }
}

/** Codes of errors about an answer that arrived and does not hold. */
const JUDGED =
  /^OAUTH_(JWT_|INVALID_RESPONSE|KEY_SELECTION|PARSE_ERROR|UNSUPPORTED_OPERATION|JSON_ATTRIBUTE)/;

/** The claim that did not hold, which the library keeps with the cause of the cause. */
function claimIn(error: unknown): string {
  let inner = error;
  for (let depth = 0; depth < 4; depth++) {
    const { claim, cause } = fieldsOf(inner);
    if (typeof claim === 'string') return claim;
    inner = cause;
  }
  return '';
}

/**
 * Requests by HTTPS only, with a limit of octets and without redirects. Node's own `fetch` cannot
 * be given a CA.
 */
const fetchBy =
  (authority: string | undefined) =>
  (address: string, { method, headers, body, signal }: CustomFetchOptions): Promise<Response> =>
    new Promise((resolve, reject) => {
      const url = new URL(address);
      if (url.protocol !== 'https:') throw new Error(`${url.protocol}//${url.host} is not reached by HTTPS`);
      const ca = authority === undefined ? {} : { ca: authority };
      const options = { method, headers, ...ca, agent: false, ...(signal && { signal }) };
      const request = https.request(url, options, (response) => {
        const parts: Buffer[] = [];
        let octets = 0;
        response.on('data', (part: Buffer) => {
          octets += part.length;
          if (octets > MAX_ANSWER) request.destroy(new Error(`more than ${MAX_ANSWER} octets came`));
          else parts.push(part);
        });
        response.once('error', reject);
        response.once('end', () => {
          const status = response.statusCode ?? 500;
          const type = response.headers['content-type'];
          const empty = [204, 205, 304].includes(status);
          resolve(
            new Response(empty ? null : Buffer.concat(parts), {
              status,
              headers: type === undefined ? {} : { 'content-type': type },
            }),
          );
        });
      });
      request.once('error', reject);
      request.end(body === undefined || body === null ? undefined : String(body));
    });
