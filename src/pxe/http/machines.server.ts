/**
 * The HTTP/1.1 listener for machines: finds the route and the network of a request, asks the boot
 * service or the assets, and answers. Firmware (EDK2's HttpBootDxe, the Raspberry Pi's, iPXE)
 * requires Content-Length in every answer, HEAD like GET, no redirects, and connections that stay
 * open (quirks http-*). Every client is limited in time, size and number of connections.
 */
import http from 'node:http';
import type { AddressInfo, Socket } from 'node:net';
import { MusterError } from '../../base/errors.ts';
import { plainAddress } from '../../base/ip.ts';
import { contains, formatIpv4, type Ipv4, parseIpv4 } from '../../base/ipv4.ts';
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
import type { ServedNetwork } from '../network.ts';
import { type Answer, textAnswer, wait } from './answer.ts';
import { send } from './reply.server.ts';
import { MACHINE_ROUTES } from './routes.ts';
import { type ServeContext, type ServeDeps, serve } from './serve.server.ts';
import { parseTarget } from './target.ts';

export interface MachineHttpOptions extends ServeDeps {
  /** An inherited, listening socket, or an address to listen on; port 0 picks a free one. */
  readonly listen: { readonly fd: number } | { readonly host: string; readonly port: number };
  /** The networks that are served now; they give a machine's network and the base URL for it. */
  readonly networks: () => readonly ServedNetwork[];
  /** Whether a client's address may connect. */
  readonly admits: (address: string) => boolean;
  /** What is known of a client's address, for the limits of connections. */
  readonly standing: (address: string) => Standing;
  readonly log: Log;
  readonly limits?: Partial<HttpLimits>;
}

interface MachineHttp {
  readonly port: number;
  /** Requests that are being answered. */
  active(): number;
  /**
   * Accepts no new connections, lets running transfers end for a limited time, then cuts them.
   * Resolves when all connections are closed.
   */
  close(): Promise<void>;
}

/** Starts the listener. Rejects with the system's error when the address cannot be bound. */
export async function startMachineHttp(options: MachineHttpOptions): Promise<MachineHttp> {
  const limits = { ...MACHINE_HTTP_LIMITS, ...options.limits };
  const log = options.log.child({ room: 'http' });
  const own = { ...options, log };
  let closing = false;
  let active = 0;
  const server = http.createServer(
    {
      maxHeaderSize: limits.headerBytes,
      headersTimeout: limits.headersTimeout,
      requestTimeout: limits.requestTimeout,
      keepAliveTimeout: limits.keepAlive,
      connectionsCheckingInterval: limits.checkEvery,
      noDelay: true,
    },
    (request, response) => {
      if (closing) response.shouldKeepAlive = false;
      active++;
      response.once('close', () => active--);
      handle(request, response, own, limits);
    },
  );
  // Cuts a client that stops reading what it asked for.
  server.setTimeout(limits.stalled);
  // "Expect: 100-continue": a body that is too large is refused before it is sent.
  server.on('checkContinue', (request, response) => {
    if (Number(request.headers['content-length'] ?? 0) <= limits.bodyBytes) response.writeContinue();
    handle(request, response, own, limits);
  });
  server.on('clientError', (error: NodeJS.ErrnoException, socket) =>
    refuseNoise(error, socket as Socket, options.metrics),
  );
  const { admits, standing } = options;
  server.on('connection', (socket) => {
    if (!admits(plainAddress(socket.remoteAddress))) socket.destroy();
  });
  limitConnections(server, limits, log, (address) => standing(plainAddress(address)));
  await new Promise<void>((resolve, reject) => {
    server.once('error', reject);
    // The backlog is an argument, because Node ignores the option `backlog` for a descriptor, and
    // would shorten the queue to 511.
    server.listen(options.listen, LISTEN_BACKLOG, () => {
      server.off('error', reject);
      resolve();
    });
  });
  server.on('error', (error) => log.error({ error: error.message }, 'HTTP listener failed'));
  return {
    port: (server.address() as AddressInfo).port,
    active: () => active,
    close() {
      closing = true;
      return closeGracefully(server, options.clock, limits.grace);
    },
  };
}

function handle(
  request: http.IncomingMessage,
  response: http.ServerResponse,
  options: MachineHttpOptions,
  limits: HttpLimits,
): void {
  if (isCrowded(request.socket, response)) return;
  const target = parseTarget(request.url ?? '');
  const route = target.kind === 'route' ? target.route : target.kind;
  const done = (status: number) =>
    options.metrics.add('muster_http_requests_total', { route, status: String(status) });
  response.on('error', () => {});
  const early = refuseEarly(target, request);
  if (early || target.kind !== 'route') {
    done(send(response, early ?? textAnswer(404, 'E_NOT_FOUND')));
    return;
  }
  const context = contextOf(request, options, limits);
  void serve(target, request, response, context)
    .catch((error: unknown) => failure(error, response, options.log))
    .then((status) => done(status));
}

/**
 * Requests that one connection may send before their answers are out. No firmware or loader sends a
 * second one early, and each takes memory.
 */
const UNANSWERED = 4;
const memoUnanswered = new WeakMap<Socket, number>();

/** Counts a request, and cuts the connection that has too many unanswered ones. */
function isCrowded(socket: Socket, response: http.ServerResponse): boolean {
  const unanswered = (memoUnanswered.get(socket) ?? 0) + 1;
  memoUnanswered.set(socket, unanswered);
  response.once('close', () => memoUnanswered.set(socket, (memoUnanswered.get(socket) ?? 1) - 1));
  if (unanswered <= UNANSWERED) return false;
  socket.destroy();
  return true;
}

/** The answer to a request that no route handles: malformed, unknown path or method. */
function refuseEarly(
  target: ReturnType<typeof parseTarget>,
  request: http.IncomingMessage,
): Answer | undefined {
  switch (target.kind) {
    case 'malformed':
      return textAnswer(400, `E_USAGE: ${target.why}. See docs/ports.md for what is served here.`);
    case 'nowhere':
      return textAnswer(
        404,
        `E_NOT_FOUND: nothing is served at ${target.path.slice(0, 200)}. A machine begins at ${MACHINE_ROUTES.entry.path}; docs/ports.md lists the rest.`,
      );
    case 'route': {
      const wanted = MACHINE_ROUTES[target.route].method;
      const given = request.method === 'HEAD' ? 'GET' : request.method;
      if (given === wanted) return undefined;
      const allow = wanted === 'GET' ? 'GET, HEAD' : wanted;
      return textAnswer(405, `E_METHOD: this takes ${allow}.`, [['allow', allow]]);
    }
  }
}

function contextOf(
  request: http.IncomingMessage,
  options: MachineHttpOptions,
  limits: HttpLimits,
): ServeContext {
  const { socket } = request;
  const networks = options.networks();
  const before = memoContexts.get(socket);
  if (before?.networks === networks) return before.context;
  const peer = plainAddress(socket.remoteAddress);
  const local = plainAddress(socket.localAddress);
  const network = networkOf(networks, parseIpv4(peer), parseIpv4(local));
  // Not from the Host header: firmware omits its port (http-host-without-port), and clients forge
  // it.
  const baseUrl = network
    ? `http://${formatIpv4(network.serverAddress)}:${network.httpPort}`
    : `http://${local}:${socket.localPort}`;
  const { boot, assets, subjectOf, events, metrics, clock, cached } = options;
  const context: ServeContext = {
    boot,
    assets,
    subjectOf,
    events,
    metrics,
    clock,
    cached,
    peer,
    network,
    baseUrl,
    limits,
  };
  memoContexts.set(socket, { networks, context });
  return context;
}

/** The context of each connection, valid while the networks are the same array. */
const memoContexts = new WeakMap<
  Socket,
  { readonly networks: readonly ServedNetwork[]; readonly context: ServeContext }
>();

function networkOf(
  networks: readonly ServedNetwork[],
  peer: Ipv4 | undefined,
  local: Ipv4 | undefined,
): ServedNetwork | undefined {
  return (
    networks.find((network) => peer !== undefined && contains(network.subnet, peer)) ??
    networks.find((network) => network.serverAddress === local)
  );
}

/** Answers a request whose route threw, unless the answer has begun. Returns the status. */
function failure(error: unknown, response: http.ServerResponse, log: Log): number {
  const known = error instanceof MusterError;
  if (known) log.warn({ code: error.code, error: error.message }, 'a machine could not be answered');
  else log.error({ err: error }, 'a request of a machine failed');
  if (response.headersSent) {
    response.destroy();
    return 500;
  }
  // A store that cannot write now may write later, and an internal fault may be temporary: 503
  // makes the machine ask again.
  const code = known ? error.code : 'E_INTERNAL';
  return send(
    response,
    known && error.kind.http < 500 ? textAnswer(error.kind.http, `${code}: ${error.message}`) : wait(code),
  );
}

/** Answers and closes a connection whose request is not HTTP, is too slow or is too large. */
function refuseNoise(error: NodeJS.ErrnoException, socket: Socket, metrics: Metrics): void {
  const status =
    error.code === 'HPE_HEADER_OVERFLOW' ? 431 : error.code === 'ERR_HTTP_REQUEST_TIMEOUT' ? 408 : 400;
  if (error.code !== 'ECONNRESET')
    metrics.add('muster_http_requests_total', { route: 'malformed', status: String(status) });
  if (socket.writable && error.code !== 'ECONNRESET')
    socket.end(
      `HTTP/1.1 ${status} ${http.STATUS_CODES[status]}\r\nConnection: close\r\nContent-Length: 0\r\n\r\n`,
    );
  // With end() alone, a client that never stops sending would stay connected.
  socket.destroySoon();
}
