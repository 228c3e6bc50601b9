/** A session of Redfish with one BMC over HTTPS. It pins the certificate, and follows nothing. */
import { createHash } from 'node:crypto';
import type { ClientRequest } from 'node:http';
import https from 'node:https';
import { isIPv6, type Socket } from 'node:net';
import {
  type ConnectionOptions,
  connect,
  createSecureContext,
  type SecureContext,
  type TLSSocket,
} from 'node:tls';
import type { WebSocket } from 'ws';
import { fieldsOf, parsed, textOf } from '../../base/foreign-json.ts';
import { type Bmc, type BmcCertificates, BmcFault, type ConsoleUse, inTime } from '../bmc.ts';
import { LATER, quirksOf } from '../quirks.ts';
import { setAccount, switchAccountOff } from './accounts.ts';
import { certificatesBy } from './certificates.ts';
import { consoleBy, MAX_FRAME } from './console.socket.ts';
import { consolePath } from './console.ts';
import {
  bootChange,
  bootIn,
  errorCodeIn,
  errorIn,
  isOwnPath,
  membersOf,
  powerIn,
  type Resource,
  resetFor,
  settingsOf,
  vendorIn,
} from './model.ts';
import { managerOf, shownBy } from './views.ts';

/** Which certificate is the BMC's own: one with this pin, or one that a CA signed for it. */
export type RedfishTrust = {
  /** Is told the SHA-256 of what the BMC shows, once it counts. */
  readonly pinned?: (pin: string) => void;
  /** Certificates that count as well: those that Muster gave it. */
  readonly or?: readonly string[];
} & (
  | {
      /** SHA-256 of the certificate in DER, in hex. Absent: the first one counts. */
      readonly pin?: string | undefined;
    }
  | {
      /** PEM. */
      readonly ca: string;
      /** The DNS name that it signed. Absent: the address. */
      readonly name?: string;
    }
);

export interface RedfishAccess {
  readonly address: string;
  /** 443 by default. */
  readonly port?: number;
  readonly user: string;
  readonly password: string;
  readonly trust: RedfishTrust;
  /** The id of the system, where the BMC has several. */
  readonly system?: string;
}

/** The most octets of an answer: a system has some ten thousand. */
const MAX_ANSWER = 1024 * 1024;
/** BMCs that compute an answer take seconds. */
const ANSWER_MS = 20_000;
const BUSY_MS = 1000;
/** BMCs have this curve, and it costs half of what Node would offer first. */
const CURVES = { ecdhCurve: 'P-256:X25519:P-384:P-521' };
/** A context takes longer to make than all else of a connection. Its CAs are not asked. */
const ANY_CA = createSecureContext(CURVES);
const TRIES = 4;

interface Answered {
  readonly status: number;
  readonly headers: Readonly<Record<string, string | readonly string[] | undefined>>;
  readonly body: unknown;
}

/** Opens a session. @throws {BmcFault} when the BMC does not answer, or refuses */
export async function openRedfish(access: RedfishAccess): Promise<Bmc> {
  const link = new Link(access);
  try {
    await link.logIn();
    return new RedfishSession(link, await findSystem(link, access.system));
  } catch (error) {
    await link.logOut();
    throw error;
  }
}

interface FoundSystem {
  readonly path: string;
  /** Whether the BMC has no other. */
  readonly isOne: boolean;
}

/** Finds the system. @throws {BmcFault} when there are several and none is named */
async function findSystem(link: Link, wanted: string | undefined): Promise<FoundSystem> {
  const systems = membersOf(await link.get('/redfish/v1/Systems'));
  const idOf = (path: string): string => path.replace(/\/$/, '').split('/').at(-1)!;
  const found = wanted === undefined ? systems : systems.filter((path) => idOf(path) === wanted);
  if (found.length === 1) return { path: found[0]!, isOne: systems.length === 1 };
  if (systems.length === 0) throw new BmcFault('not-understood', 'it lists no system');
  const known = systems.map(idOf).join(', ') || 'none';
  throw new BmcFault(
    'refused',
    wanted === undefined
      ? `it has ${systems.length} systems (${known}): name one in bmc.system`
      : `it has no system ${wanted}, but ${known}`,
  );
}

class Link {
  readonly #access: RedfishAccess;
  readonly #agent: https.Agent;
  /** The first certificate counts for all connections of the session. */
  #first: string | undefined;
  readonly #context: SecureContext;
  /** What resumes TLS with whoever showed the right certificate. */
  #tls: Buffer | undefined;
  #token: string | undefined;
  #session: string | undefined;

  constructor(access: RedfishAccess) {
    this.#access = access;
    this.#context = 'ca' in access.trust ? createSecureContext({ ...CURVES, ca: access.trust.ca }) : ANY_CA;
    // One connection: BMCs have memory for few, and mix up concurrent requests. The agent would
    // also keep TLS sessions of those whose certificate is refused here, so it keeps none.
    this.#agent = new https.Agent({ keepAlive: true, maxSockets: 1, maxCachedSessions: 0 });
    this.#agent.createConnection = (options) =>
      connect({ ...(options as ConnectionOptions), session: this.#tls, secureContext: this.#context });
  }

  async logIn(): Promise<void> {
    const { user, password } = this.#access;
    const answer = await this.#send('POST', '/redfish/v1/SessionService/Sessions', {
      UserName: user,
      Password: password,
    });
    // Without sessions the password is shown each time.
    if (answer.status === 404 || answer.status === 405) {
      this.#token = '';
      return;
    }
    must(answer);
    this.#token = textOf(answer.headers['x-auth-token']);
    const location = textOf(answer.headers.location);
    const path = location.startsWith('/') ? location : (URL.parse(location)?.pathname ?? '');
    this.#session = isOwnPath(path) ? path : undefined;
  }

  /** Ends the session: a BMC has as few as eight, and forgets them late. Never rejects. */
  async logOut(): Promise<void> {
    if (this.#session !== undefined) await this.#send('DELETE', this.#session).catch(() => {});
    this.#session = undefined;
    this.#agent.destroy();
  }

  async get(path: string): Promise<Resource> {
    const answer = await this.#again(() => this.#send('GET', path));
    const etag = textOf(answer.headers.etag) || textOf(fieldsOf(answer.body)['@odata.etag']);
    return { path, body: fieldsOf(answer.body), ...(etag !== '' && { etag }) };
  }

  async post(path: string, body: object): Promise<Readonly<Record<string, unknown>>> {
    return fieldsOf((await this.#again(() => this.#send('POST', path, body))).body);
  }

  /** Changes a resource if it is still as it was read. */
  async patch(path: string, body: object, etag: string | undefined): Promise<void> {
    // Some tags are weak where a strong one is compared, and some BMCs do not know their own.
    for (const tag of etag === undefined ? [undefined] : [etag, etag.replace(/^W\//, ''), undefined]) {
      const answer = await this.#again(() => this.#send('PATCH', path, body, tag), [412]);
      if (answer.status !== 412) return;
    }
    throw new BmcFault('busy', 'what is to be changed changes meanwhile');
  }

  /** Asks again while the BMC says that it is busy. */
  async #again(send: () => Promise<Answered>, others: readonly number[] = []): Promise<Answered> {
    for (let attempt = 1; ; attempt++) {
      const answer = await send();
      if (others.includes(answer.status)) return answer;
      if (!isBusy(answer) || attempt === TRIES) return must(answer);
      await new Promise((done) => setTimeout(done, BUSY_MS * attempt));
    }
  }

  /** Opens a websocket in the session, behind the same certificate. It follows nothing. */
  async websocket(path: string): Promise<WebSocket> {
    const { address, port = 443 } = this.#access;
    const host = isIPv6(address) ? `[${address}]` : address;
    const { default: Socket } = await import('ws');
    return new Socket(`wss://${host}:${port}${path}`, {
      headers: this.#login(),
      ...this.#named(),
      rejectUnauthorized: false,
      // A connection of its own, which no session of TLS is kept of.
      createConnection: (options: object) =>
        connect({ ...(options as ConnectionOptions), secureContext: this.#context }),
      finishRequest: (request) => this.#whenTrusted(request, () => request.end()),
      handshakeTimeout: ANSWER_MS,
      followRedirects: false,
      maxPayload: MAX_FRAME,
      perMessageDeflate: false,
      // What a serial port prints is seldom UTF-8.
      skipUTF8Validation: true,
    });
  }

  /** The DNS name that its certificate has to have. */
  #named(): { readonly servername?: string } {
    const { trust } = this.#access;
    return 'name' in trust && trust.name !== undefined ? { servername: trust.name } : {};
  }

  /** What shows who asks. */
  #login(): Readonly<Record<string, string>> {
    const { user, password } = this.#access;
    if (this.#token) return { 'x-auth-token': this.#token };
    if (this.#token === undefined) return {};
    return { authorization: `Basic ${Buffer.from(`${user}:${password}`).toString('base64')}` };
  }

  /** Calls `then` once its certificate is known to be the right one; nothing is sent before. */
  #whenTrusted(request: ClientRequest, then: () => void): void {
    const check = (socket: TLSSocket): boolean => {
      const fault = this.#whyNotTrusted(socket);
      if (fault === undefined) then();
      else request.destroy(new BmcFault('pin-changed', fault));
      return fault === undefined;
    };
    request.on('socket', (socket: Socket) => {
      const known = socket as TLSSocket;
      if (!socket.connecting) return void check(known);
      let [session, isRight] = [this.#tls, false];
      known.on('session', (one: Buffer) => {
        session = one;
        if (isRight) this.#tls = one;
      });
      known.once('secureConnect', () => {
        isRight = check(known);
        if (isRight) this.#tls = session;
      });
    });
  }

  #send(method: string, path: string, body?: object, etag?: string): Promise<Answered> {
    const { address, port = 443 } = this.#access;
    const content = body && JSON.stringify(body);
    return new Promise((answered, failed) => {
      let answers = false;
      // For the whole answer, however slowly it comes. A signal of a time-out would be kept until
      // then, with all of the request.
      const timer = setTimeout(() => request.destroy(new Error('it takes too long')), ANSWER_MS);
      const done = (answer: Answered | Promise<Answered>): void => {
        clearTimeout(timer);
        answered(answer);
      };
      const fail = (error: Error): void => {
        clearTimeout(timer);
        failed(error);
      };
      const broken = (error: NodeJS.ErrnoException): void => {
        // A BMC may close a connection that was idle just when it is asked again.
        if (method === 'GET' && request.reusedSocket && !answers && error.code === 'ECONNRESET')
          done(this.#send(method, path));
        else fail(error instanceof BmcFault ? error : new BmcFault('unreachable', error.message));
      };
      const request = https.request(
        {
          host: address,
          port,
          method,
          path,
          agent: this.#agent,
          ...this.#named(),
          // Certificates of BMCs are mostly their own; `#whyNotTrusted` says which one is right.
          rejectUnauthorized: false,
          headers: {
            accept: 'application/json',
            'odata-version': '4.0',
            ...(content !== undefined && {
              'content-type': 'application/json',
              'content-length': Buffer.byteLength(content),
            }),
            ...(etag !== undefined && { 'if-match': etag }),
            ...this.#login(),
          },
        },
        (response) => {
          answers = true;
          const parts: Buffer[] = [];
          let octets = 0;
          response.on('data', (part: Buffer) => {
            octets += part.length;
            if (octets > MAX_ANSWER) request.destroy(new Error('its answer does not end'));
            else parts.push(part);
          });
          response.on('error', broken);
          response.on('end', () =>
            done({
              status: response.statusCode ?? 0,
              headers: response.headers,
              body: parsed(Buffer.concat(parts).toString('utf8')),
            }),
          );
        },
      );
      request.on('error', broken);
      this.#whenTrusted(request, () => request.end(content));
    });
  }

  /** Why the other end is not the BMC that is meant. A first certificate is told to `pinned`. */
  #whyNotTrusted(socket: TLSSocket): string | undefined {
    const { trust } = this.#access;
    // It has the keys of a connection that was checked; its certificate is not sent again.
    if (socket.isSessionReused()) return undefined;
    const certificate = socket.getPeerCertificate().raw as Buffer | undefined;
    if (certificate === undefined) return 'it shows no certificate';
    const seen = createHash('sha256').update(certificate).digest('hex');
    const isGiven = trust.or?.includes(seen) ?? false;
    if ('ca' in trust) {
      if (!socket.authorized && !isGiven)
        return `its certificate is not of the CA: ${socket.authorizationError}`;
    } else {
      const pin = this.#first ?? (isGiven ? seen : trust.pin);
      if (pin !== undefined && pin !== seen) return `it shows another certificate: ${seen}`;
    }
    this.#first = seen;
    trust.pinned?.(seen);
    return undefined;
  }
}

/** @throws {BmcFault} for an answer that is no success */
function must(answer: Answered): Answered {
  const { status, body } = answer;
  if (status >= 200 && status < 300) return answer;
  const says = errorIn(body) || `status ${status}`;
  if (errorCodeIn(body) === 'SessionLimitExceeded') throw new BmcFault('sessions-exhausted', says);
  // The log-in is right (DSP0266, "Password change required handling"), so it counts as no refusal.
  if (errorCodeIn(body) === 'PasswordChangeRequired')
    throw new BmcFault(
      'refused',
      'it does nothing before the password of this account is changed: set one there, then in its Secret',
    );
  if (status === 401 || status === 403) throw new BmcFault('password', says);
  if (status === 404) throw new BmcFault('not-understood', says);
  throw new BmcFault(isBusy(answer) ? 'busy' : 'refused', says);
}

const isBusy = ({ status, body }: Answered): boolean =>
  status === 409 || status === 503 || status === 429 || (status >= 400 && LATER.has(errorCodeIn(body)));

class RedfishSession implements Bmc {
  readonly protocol = 'redfish';
  readonly certificates: BmcCertificates;
  readonly #link: Link;
  readonly #system: string;
  readonly #isOne: boolean;

  constructor(link: Link, { path, isOne }: FoundSystem) {
    this.#link = link;
    this.#system = path;
    this.#isOne = isOne;
    this.certificates = certificatesBy(link, path);
  }

  async power() {
    return powerIn(await this.#link.get(this.#system));
  }

  async order(order: Parameters<Bmc['order']>[0]) {
    const reset = resetFor(await this.#link.get(this.#system), order);
    if (reset === undefined) throw new BmcFault('refused', `it allows nothing that does ${order}`);
    await this.#link.post(reset.path, { ResetType: reset.type });
  }

  async boot() {
    return bootIn(await this.#link.get(this.#system));
  }

  async bootOnce(target: Parameters<Bmc['bootOnce']>[0], how: { readonly uefi: boolean }) {
    const system = await this.#link.get(this.#system);
    const quirks = quirksOf(vendorIn(system));
    const place = settingsOf(system, quirks);
    const at = place === system.path ? system : await this.#link.get(place);
    await this.#link.patch(place, bootChange(system, target, how, quirks), at.etag);
  }

  async identify(seconds: number) {
    const { body, etag } = await this.#link.get(this.#system);
    const lit = seconds > 0;
    const change =
      body.LocationIndicatorActive === undefined
        ? { IndicatorLED: lit ? 'Blinking' : 'Off' }
        : { LocationIndicatorActive: lit };
    await this.#link.patch(this.#system, change, etag);
  }

  async console(use: ConsoleUse) {
    const system = await this.#link.get(this.#system);
    const manager = () => managerOf((path) => this.#link.get(path), system);
    return consoleBy(await this.#link.websocket(await consolePath(system, manager, this.#isOne)), use);
  }

  setAccount(login: Parameters<Bmc['setAccount']>[0]) {
    return setAccount(this.#link, login);
  }

  switchOff(user: string) {
    return switchAccountOff(this.#link, user);
  }

  show(view: Parameters<Bmc['show']>[0]) {
    return shownBy(
      view,
      inTime((path: string) => this.#link.get(path), performance.now.bind(performance)),
      this.#system,
    );
  }

  close() {
    return this.#link.logOut();
  }
}
