/**
 * The agents' listener: HTTPS with Muster's own CA on both sides. The handshake checks a client's
 * chain. For every request, the ledger (identities.ts) says to which machine the certificate
 * belongs and whether it still counts. Every client is limited as on the HTTP listener.
 */
import { constants, X509Certificate } from 'node:crypto';
import type { IncomingMessage, ServerResponse } from 'node:http';
import https from 'node:https';
import type { AddressInfo } from 'node:net';
import { pipeline } from 'node:stream/promises';
import type { TLSSocket } from 'node:tls';
import type { Clock } from '../../base/clock.ts';
import { MusterError } from '../../base/errors.ts';
import { plainAddress } from '../../base/ip.ts';
import {
  closeGracefully,
  type HttpLimits,
  LISTEN_BACKLOG,
  limitConnections,
  MACHINE_HTTP_LIMITS,
  type Standing,
} from '../../base/limits.server.ts';
import type { Log } from '../../base/log.ts';
import type { Metrics } from '../../base/metrics.ts';
import type { ServerCertificate } from '../../pki/server-certificate.ts';
import type { ShownCertificate } from '../identity/authenticate.ts';
import { AGENT_ROUTES, type AgentApiAnswer } from '../wire/protocol.ts';
import { type AgentApi, MAX_FORM_OCTETS } from './agent-api.ts';

interface AgentServerOptions {
  readonly listen: { readonly host: string; readonly port: number };
  readonly certificate: ServerCertificate;
  readonly api: AgentApi;
  readonly log: Log;
  readonly clock: Clock;
  readonly metrics: Metrics;
  readonly limits?: Partial<HttpLimits>;
  /** Whether an address may ask for a first certificate. */
  readonly admits: (address: string) => boolean;
  /** What is known of an address; strangers get no connection of the reserve. */
  readonly standing: (address: string) => Standing;
  /** Called with the address of every request whose certificate is an agent's. */
  readonly heard: (address: string) => void;
  /**
   * Answers requests that no route of agents takes: resolves to the status sent, or to undefined
   * when nothing was sent. Never rejects.
   */
  readonly others: Others;
}

export type Others = (request: IncomingMessage, response: ServerResponse) => Promise<number | undefined>;

export interface AgentServer {
  readonly port: number;
  /** Takes another certificate or CA; connections that are open keep theirs. */
  renew(certificate: ServerCertificate): void;
  close(): Promise<void>;
}

/**
 * An agent opens one connection at a time, but the machines of a rack behind a NAT share one
 * address, and so one limit.
 */
const AGENT_LIMITS: HttpLimits = {
  ...MACHINE_HTTP_LIMITS,
  bodyBytes: MAX_FORM_OCTETS,
  perClient: 64,
  perStranger: 64,
};

/** How long a TLS handshake may take. */
const HANDSHAKE_MS = 10_000;
const RETRY_AFTER_SECONDS = 5;
/** The longest time that an agent waits between two requests. */
const LIMITED_SECONDS = 300;

/** Everything that TLS is set to. A listener that is renewed gets all of it again, or loses it. */
const contextOf = ({ certificate, key, authority }: ServerCertificate) =>
  ({
    cert: certificate,
    key: key.pem(),
    ca: authority,
    minVersion: 'TLSv1.2',
    // A resumed session would keep the verdict of an older handshake.
    secureOptions: constants.SSL_OP_NO_TICKET | constants.SSL_OP_NO_RENEGOTIATION,
  }) as const satisfies https.ServerOptions;

/**
 * Starts the listener.
 *
 * @throws {MusterError} E_PORT_IN_USE when the port is taken, E_SOCKET_OPEN when it cannot be
 *   opened for another reason.
 */
export async function startAgentServer(options: AgentServerOptions): Promise<AgentServer> {
  const limits = { ...AGENT_LIMITS, ...options.limits };
  const log = options.log.child({ room: 'agents' });
  const served: Served = new Map([servedBy(options.certificate)]);
  const server = https.createServer(
    {
      ...contextOf(options.certificate),
      // A machine without a certificate redeems a ticket; one with a bad certificate gets an answer
      // instead of a closed connection.
      requestCert: true,
      rejectUnauthorized: false,
      handshakeTimeout: HANDSHAKE_MS,
      maxHeaderSize: limits.headerBytes,
      headersTimeout: limits.headersTimeout,
      requestTimeout: limits.requestTimeout,
      keepAliveTimeout: limits.keepAlive,
      connectionsCheckingInterval: limits.checkEvery,
    },
    (request, response) => void handle(request, response, { ...options, served }, limits, log),
  );
  server.setTimeout(limits.stalled);
  server.on('checkContinue', (request, response) => {
    if (Number(request.headers['content-length'] ?? 0) <= limits.bodyBytes) response.writeContinue();
    void handle(request, response, { ...options, served }, limits, log);
  });
  server.on('tlsClientError', () => count(options.metrics, 'handshake', 0));
  server.on('clientError', (_error, socket) => socket.destroy());
  limitConnections(server, limits, log, (address) => options.standing(plainAddress(address)));
  await new Promise<void>((resolve, reject) => {
    server.once('error', (error: NodeJS.ErrnoException) => reject(listenError(error, options.listen)));
    server.listen({ ...options.listen, backlog: LISTEN_BACKLOG }, resolve);
  });
  server.on('error', (error) => log.error({ error: error.message }, "the agents' listener failed"));
  return {
    port: (server.address() as AddressInfo).port,
    renew(certificate) {
      served.set(...servedBy(certificate));
      server.setSecureContext(contextOf(certificate));
    },
    close: () => closeGracefully(server, options.clock, limits.grace),
  };
}

/** Serial numbers of the listener's certificates since its start → the generation that signed. */
type Served = Map<string, string>;

const servedBy = ({ certificate, generation }: ServerCertificate): [string, string] => [
  new X509Certificate(certificate).serialNumber,
  generation,
];

function listenError(error: NodeJS.ErrnoException, where: AgentServerOptions['listen']): MusterError {
  const taken = error.code === 'EADDRINUSE';
  return new MusterError(
    taken ? 'E_PORT_IN_USE' : 'E_SOCKET_OPEN',
    `agents' listener, --agent-port ${where.port}: ${taken ? 'already in use' : error.message}`,
    { cause: error },
  );
}

const count = (metrics: Metrics, route: string, status: number): void =>
  metrics.add('muster_agent_requests_total', { route, status: String(status) });

type Route = keyof typeof AGENT_ROUTES;
type Handling = AgentServerOptions & { readonly served: Served };

async function handle(
  request: IncomingMessage,
  response: ServerResponse,
  options: Handling,
  limits: HttpLimits,
  log: Log,
): Promise<void> {
  response.on('error', () => {});
  const path = (request.url ?? '').split('?')[0];
  const route = (Object.keys(AGENT_ROUTES) as Route[]).find((name) => AGENT_ROUTES[name].path === path);
  if (route === undefined) {
    const status = await options.others(request, response);
    if (status !== undefined) {
      count(options.metrics, 'others', status);
      return;
    }
  }
  const answer = await answerTo(route, request, response, options, limits).catch((error: unknown) =>
    failure(error, log),
  );
  count(options.metrics, route ?? 'none', answer.status);
  await send(response, answer).catch((error: unknown) => {
    log.warn({ err: error }, 'an answer to an agent broke off');
    response.destroy();
  });
}

async function answerTo(
  route: Route | undefined,
  request: IncomingMessage,
  response: ServerResponse,
  { api, admits, heard, served }: Pick<Handling, 'api' | 'admits' | 'heard' | 'served'>,
  limits: HttpLimits,
): Promise<AgentApiAnswer> {
  if (route === undefined)
    return textAnswer(404, 'E_NOT_FOUND: there is no such route for agents; docs/ports.md lists the routes.');
  const { method } = AGENT_ROUTES[route];
  if (request.method !== method)
    return textAnswer(405, `E_METHOD: this route takes ${method}.`, { allow: method });
  const address = request.socket.remoteAddress ?? '';
  if (route === 'redeem' && !admits(plainAddress(address))) {
    response.shouldKeepAlive = false;
    throw new MusterError('E_SOURCE', `${plainAddress(address)} is in no subnet that this boot host serves`);
  }
  if (route === 'snapshotPart') {
    const { searchParams } = new URL(request.url ?? '/', 'https://muster');
    // The handler stops reading a body that it refuses; the rest of it is not awaited.
    response.shouldKeepAlive = false;
    const octets = limited(request.iterator({ destroyOnReturn: false }), MAX_PART_OCTETS);
    return api.snapshotPart(searchParams, octets, shownBy(request.socket as TLSSocket, served), address);
  }
  const body = await readBody(request, limits.bodyBytes);
  if (body === undefined) {
    response.shouldKeepAlive = false;
    return textAnswer(413, `E_TOO_LARGE: a form has at most ${limits.bodyBytes} octets.`);
  }
  if (route === 'redeem') return api.redeem(body, address);
  const answer = await api[route](body, shownBy(request.socket as TLSSocket, served), address);
  heard(plainAddress(address));
  return answer;
}

/** Parts of a snapshot, as agents send them (muster-snapshot.sh), are half as large. */
const MAX_PART_OCTETS = 64 * 1024 * 1024;

/**
 * The body in pieces.
 *
 * @throws {MusterError} E_TOO_LARGE when it has more than `limit` octets
 */
async function* limited(body: AsyncIterable<Buffer>, limit: number): AsyncGenerator<Uint8Array> {
  let octets = 0;
  for await (const piece of body) {
    octets += piece.length;
    if (octets > limit) throw new MusterError('E_TOO_LARGE', `a part has at most ${limit} octets`);
    yield piece;
  }
}

/**
 * OpenSSL's codes for a certificate that is not valid by this host's clock, which may be wrong.
 * They may hide another fault of the chain.
 */
const BY_CLOCK: ReadonlySet<string> = new Set(['CERT_HAS_EXPIRED', 'CERT_NOT_YET_VALID']);

/**
 * The client's certificate if the handshake verified its chain, or found only that its dates are
 * wrong, which is judged later ({@link AgentApi.poll}); any other is ignored. In both cases the
 * client has proved that it holds the key.
 */
function shownBy(socket: TLSSocket, served: Served): ShownCertificate | undefined {
  if (!socket.authorized && !BY_CLOCK.has(String(socket.authorizationError))) return undefined;
  const certificate = socket.getPeerX509Certificate();
  if (certificate === undefined) return undefined;
  const listener = served.get(socket.getX509Certificate()?.serialNumber ?? '');
  return {
    serial: certificate.serialNumber.toLowerCase(),
    notAfter: Date.parse(certificate.validTo),
    spki: certificate.publicKey.export({ type: 'spki', format: 'der' }),
    ...(listener !== undefined && { listener }),
  };
}

const textAnswer = (
  status: number,
  text: string,
  headers: AgentApiAnswer['headers'] = {},
): AgentApiAnswer => ({
  status,
  contentType: 'text/plain; charset=utf-8',
  body: `${text}\n`,
  headers,
});

/**
 * A refusal begins with its code, so that the agent's log and the operator's events name the same
 * code.
 */
function failure(error: unknown, log: Log): AgentApiAnswer {
  const known = error instanceof MusterError;
  if (!known) log.error({ err: error }, 'a request of an agent failed');
  const code = known ? error.code : 'E_INTERNAL';
  if (known && error.kind.http < 500)
    return textAnswer(
      error.kind.http,
      `${code}: ${error.message}`,
      code === 'E_CERTIFICATE_LIMIT' ? { 'retry-after': String(LIMITED_SECONDS) } : {},
    );
  // Muster is not ready or has failed: the machine should try again.
  const why = known && error.code === 'E_AGENT_WAIT' ? `: ${error.message}` : '';
  return textAnswer(503, `${code}${why}`, { 'retry-after': String(RETRY_AFTER_SECONDS) });
}

async function send(
  response: ServerResponse,
  { status, contentType, body, headers }: AgentApiAnswer,
): Promise<void> {
  const streamed = typeof body === 'object' && 'octets' in body ? body : undefined;
  const whole = streamed === undefined ? (body as string | Uint8Array | undefined) : undefined;
  const length = streamed?.size ?? (whole === undefined ? 0 : Buffer.byteLength(whole));
  response.writeHead(status, {
    ...(contentType === undefined ? {} : { 'content-type': contentType }),
    ...(status === 204 ? {} : { 'content-length': length }),
    'cache-control': 'no-store',
    ...headers,
  });
  if (streamed) await pipeline(streamed.octets, response);
  else response.end(whole);
}

/**
 * How many times the limit is read and thrown away of a form that is too large. A client reads the
 * answer only after it has sent its form, and a connection that is closed before that is reset.
 */
const THROWN_AWAY = 16;

/**
 * The body as UTF-8 text, or undefined when it has more than `limit` octets. A client that waits
 * for "100 Continue" has then not sent it.
 */
async function readBody(request: IncomingMessage, limit: number): Promise<string | undefined> {
  const waits = request.headers.expect !== undefined;
  if (waits && Number(request.headers['content-length'] ?? 0) > limit) return undefined;
  const parts: Buffer[] = [];
  let octets = 0;
  for await (const part of request.iterator({ destroyOnReturn: false })) {
    octets += (part as Buffer).length;
    if (octets > limit * THROWN_AWAY) return undefined;
    if (octets <= limit) parts.push(part as Buffer);
    else parts.length = 0;
  }
  if (octets > limit) return undefined;
  try {
    return new TextDecoder('utf-8', { fatal: true }).decode(Buffer.concat(parts));
  } catch (cause) {
    throw new MusterError('E_USAGE', 'the form is not UTF-8 text', { cause });
  }
}
