/**
 * What browsers answer when an operator adds a passkey or logs in with one: checked with the
 * challenge that was given, the page's name and origin, and the passkey's public key.
 *
 * @see https://www.w3.org/TR/webauthn-3/#sctn-rp-operations
 */
import type { AuthenticationResponseJSON, RegistrationResponseJSON } from '@simplewebauthn/server';
import type { Clock } from '../../base/clock.ts';
import { MusterError } from '../../base/errors.ts';
import { parseIp } from '../../base/ip.ts';
import type { Asserted, AssertionRequest, Created, Creation } from '../contract/passkeys.ts';
import { Challenges, LASTS } from './challenges.ts';
import type { Operator, Operators } from './operators.ts';
import type { Passkey, Passkeys } from './passkeys.ts';
import { printed } from './printed.ts';

/** The algorithms of keys, as COSE numbers: Ed25519, ECDSA with P-256, RSA with SHA-256. */
const ALGORITHMS = [-8, -7, -257] as const;

/** The authenticator finds the account by itself, and checks who holds it (PIN, finger, face). */
const USER_VERIFIED = {
  authenticatorSelection: {
    residentKey: 'required',
    requireResidentKey: true,
    userVerification: 'required',
  },
} as const;

/** For what passkeys count, as browsers see it. */
export interface Site {
  /** The name of the page: the ID of the relying party. */
  readonly id: string;
  /** `https://NAME:PORT`, without the port when it is 443. */
  readonly origin: string;
}

/**
 * The site of a page.
 *
 * @param page `https://NAME:PORT`; undefined without an HTTPS listener
 * @throws {MusterError} E_PASSKEY_NAME when the page has an address in place of a name
 */
export function siteOf(page: string | undefined): Site {
  if (page === undefined)
    throw new MusterError('E_PASSKEY_NAME', 'the server runs without --operators-listen, so it has no page');
  const { hostname, origin } = new URL(page);
  if (parseIp(hostname.replace(/^\[|\]$/g, '')) !== undefined)
    throw new MusterError('E_PASSKEY_NAME', `the page is at ${hostname}, which is an address and no name`);
  return { id: hostname, origin };
}

/** The library is loaded with the first passkey: most requests need nothing of it. */
const library = () => import('@simplewebauthn/server');
const decoders = () => import('@simplewebauthn/server/helpers');

export interface PasskeyLoginsDeps {
  readonly passkeys: Passkeys;
  readonly operators: Pick<Operators, 'get'>;
  readonly clock: Pick<Clock, 'monotonic'>;
}

export class PasskeyLogins {
  readonly #deps: PasskeyLoginsDeps;
  readonly #adding: Challenges<{ readonly operator: string; readonly handle: string }>;
  readonly #loggingIn: Challenges<true>;

  constructor(deps: PasskeyLoginsDeps) {
    this.#deps = deps;
    this.#adding = new Challenges(deps.clock);
    this.#loggingIn = new Challenges(deps.clock);
  }

  /**
   * What the browser needs to make a passkey.
   *
   * @throws {MusterError} E_USAGE when the operator has as many as are allowed
   */
  beginAdding(site: Site, operator: Operator, network: string): Creation {
    const { passkeys } = this.#deps;
    passkeys.checkRoom(operator);
    const { name } = operator;
    const handle = passkeys.handleOf(operator);
    return {
      rp: { id: site.id, name: 'Muster' },
      user: { id: handle, name, displayName: name },
      challenge: this.#adding.begin(network, { operator: name, handle }),
      pubKeyCredParams: ALGORITHMS.map((alg) => ({ type: 'public-key', alg })),
      timeout: LASTS,
      excludeCredentials: passkeys
        .of(operator)
        .map(({ credential, transports }) => ({ type: 'public-key', id: credential, transports })),
      ...USER_VERIFIED,
      attestation: 'none',
    };
  }

  /**
   * Adds the passkey that the browser made.
   *
   * @throws {MusterError} E_PASSKEY when the answer does not hold; E_USAGE for one too many
   */
  async add(
    site: Site,
    operator: Operator,
    { label, credential, network }: { label: string; credential: Created; network: string },
  ): Promise<Passkey> {
    const { id, publicKey, counter, handle } = await this.#made(site, operator, credential, network);
    return this.#deps.passkeys.add(operator, {
      label,
      credential: id,
      publicKey: Buffer.from(publicKey).toString('base64url'),
      counter,
      handle,
      transports: credential.response.transports ?? [],
    });
  }

  async #made(site: Site, { name }: Operator, credential: Created, network: string) {
    let handle: string | undefined;
    try {
      await refuseMakers(credential.response.attestationObject);
      const { verifyRegistrationResponse } = await library();
      const { registrationInfo } = await verifyRegistrationResponse({
        response: credential as unknown as RegistrationResponseJSON,
        expectedChallenge: (challenge) => {
          const begun = this.#adding.take(challenge, network);
          if (begun?.operator === name) handle = begun.handle;
          return handle !== undefined;
        },
        expectedOrigin: site.origin,
        expectedRPID: site.id,
        supportedAlgorithmIDs: [...ALGORITHMS],
      });
      if (registrationInfo === undefined || handle === undefined) throw new Error('its signature is wrong');
      return { ...registrationInfo.credential, handle };
    } catch (cause) {
      throw new MusterError('E_PASSKEY', `the browser's answer does not hold: ${printed(cause)}`, { cause });
    }
  }

  /** What the browser needs to log in. It is the same for everybody and names no operator. */
  begin(site: Site, network: string): AssertionRequest {
    const challenge = this.#loggingIn.begin(network, true);
    return { challenge, timeout: LASTS, rpId: site.id, userVerification: 'required' };
  }

  /**
   * The operator whose passkey answered.
   *
   * @throws {MusterError} E_PASSKEY_LOGIN, with the same text for all reasons
   */
  async finish(site: Site, credential: Asserted, network: string): Promise<Operator> {
    try {
      return await this.#checked(site, credential, network);
    } catch (cause) {
      const because = cause instanceof Error ? new Error(printed(cause)) : cause;
      throw new MusterError('E_PASSKEY_LOGIN', 'this passkey logs nobody in', { cause: because });
    }
  }

  async #checked(site: Site, credential: Asserted, network: string): Promise<Operator> {
    const { passkeys, operators } = this.#deps;
    const passkey = passkeys.byCredential(credential.id);
    if (passkey === undefined) throw new Error('no account has this passkey');
    const owner = operators.get(passkey.operator);
    if (owner?.createdAt !== passkey.account) throw new Error('the account of this passkey is gone');
    if (credential.response.userHandle !== passkey.handle) throw new Error('it names another account');
    const { verifyAuthenticationResponse } = await library();
    const { verified, authenticationInfo } = await verifyAuthenticationResponse({
      response: credential as unknown as AuthenticationResponseJSON,
      expectedChallenge: (challenge) => this.#loggingIn.take(challenge, network) !== undefined,
      expectedOrigin: site.origin,
      expectedRPID: site.id,
      credential: {
        id: passkey.credential,
        publicKey: octetsOf(passkey.publicKey),
        counter: passkey.counter,
      },
    });
    if (!verified) throw new Error('its signature is wrong');
    if (!(await passkeys.used(passkey, authenticationInfo.newCounter)))
      throw new Error('it was removed, or used again meanwhile');
    return owner;
  }
}

const octetsOf = (base64url: string) => new Uint8Array(Buffer.from(base64url, 'base64url'));

/**
 * An attestation of the maker was not asked for, and checking one would follow the addresses in its
 * certificates.
 */
async function refuseMakers(attestationObject: string): Promise<void> {
  const attestation = (await decoders()).decodeAttestationObject(octetsOf(attestationObject));
  const kind = attestation.get('fmt');
  if (kind === 'none' || (kind === 'packed' && attestation.get('attStmt').get('x5c') === undefined)) return;
  throw new Error('it has an attestation of its maker');
}
