/**
 * What machines fetch, over plain HTTP/1.1: request → which route? → whose network? → ask the boot
 * service or the assets → answer. Firmware decides the manners: always Content-Length, HEAD like
 * GET, no redirects, connections kept, short texts that say what to do (netboot-protocols §B.4).
 * Every client is bounded in time, in size and in number of connections.
 */
import http from 'node:http';
import type { AddressInfo, Socket } from 'node:net';
import { MusterError } from '../../base/errors.ts';
import { contains, formatIpv4, type Ipv4, parseIpv4 } from '../../base/ipv4.ts';
import {
  closeGracefully,
  type HttpLimits,
  limitConnections,
  MACHINE_HTTP_LIMITS,
} from '../../base/limits.server.ts';
import type { Log } from '../../base/log.ts';
import type { Metrics } from '../../base/metrics.ts';
import type { ServedNetwork } from '../network.ts';
import { type Answer, textAnswer, wait } from './answer.ts';
import type { MachineHttpOptions } from './options.ts';
import { send } from './reply.server.ts';
import { MACHINE_ROUTES } from './routes.ts';
import { type ServeContext, serve } from './serve.server.ts';
import { parseTarget } from './target.ts';

export interface MachineHttp {
  readonly port: number;
  /**
   * Takes no new connections, lets transfers end for a bounded time, then cuts them. Resolves when
   * all is closed.
   */
  close(): Promise<void>;
}

/** Starts the listener. Rejects with the system's error when the address cannot be bound. */
export async function startMachineHttp(options: MachineHttpOptions): Promise<MachineHttp> {
  const limits = { ...MACHINE_HTTP_LIMITS, ...options.limits };
  const log = options.log.child({ room: 'http' });
  const own = { ...options, log };
  let closing = false;
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
      handle(request, response, own, limits);
    },
  );
  // a client that stops taking what it asked for
  server.setTimeout(limits.stalled);
  // "Expect: 100-continue": a body that would be refused is refused before it is sent
  server.on('checkContinue', (request, response) => {
    if (Number(request.headers['content-length'] ?? 0) <= limits.bodyBytes) response.writeContinue();
    handle(request, response, own, limits);
  });
  server.on('clientError', (error: NodeJS.ErrnoException, socket) =>
    refuseNoise(error, socket as Socket, options.metrics),
  );
  limitConnections(server, limits, log);
  await new Promise<void>((resolve, reject) => {
    server.once('error', reject);
    // As an argument: for a descriptor, Node does not look at `backlog` among the options and
    // shortens the queue to 511.
    server.listen(options.listen, 4096, () => {
      server.off('error', reject);
      resolve();
    });
  });
  server.on('error', (error) => log.error({ error: error.message }, 'HTTP listener failed'));
  return {
    port: (server.address() as AddressInfo).port,
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
  const target = parseTarget(request.url ?? '');
  const route = target.kind === 'route' ? target.route : target.kind;
  const done = (status: number) =>
    options.metrics.add('muster_http_requests_total', { route, status: String(status) });
  response.on('error', () => {});
  const early = refuseEarly(target, request, options);
  if (early || target.kind !== 'route') {
    done(send(response, early ?? textAnswer(404, 'E_NOT_FOUND')));
    return;
  }
  const context = contextOf(request, options, limits);
  void serve(target, request, response, context)
    .catch((error: unknown) => failure(error, response, options.log))
    .then((status) => done(status));
}

/** Answers that need no route's own work. */
function refuseEarly(
  target: ReturnType<typeof parseTarget>,
  request: http.IncomingMessage,
  options: MachineHttpOptions,
): Answer | undefined {
  if (options.ready?.() === false) return wait('not ready yet; ask again');
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
  const before = contexts.get(socket);
  if (before?.networks === networks) return before.context;
  const peer = plainAddress(socket.remoteAddress);
  const local = plainAddress(socket.localAddress);
  const network = networkOf(networks, parseIpv4(peer), parseIpv4(local));
  // not the Host header: firmware leaves the port out of it (§B.4), and it is the client's text
  const baseUrl = network
    ? `http://${formatIpv4(network.serverAddress)}:${network.httpPort}`
    : `http://${local}:${socket.localPort}`;
  const context = { ...options, peer, network, baseUrl, limits };
  contexts.set(socket, { networks, context });
  return context;
}

/** A connection's ends do not change; its network can, with the documents. */
const contexts = new WeakMap<
  Socket,
  { readonly networks: readonly ServedNetwork[]; readonly context: ServeContext }
>();

/** IPv4 in its own spelling, also when it came over a dual-stack socket. */
function plainAddress(address: string | undefined): string {
  return address?.startsWith('::ffff:') ? address.slice(7) : (address ?? '');
}

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

/** Turns what a route threw into an answer, if one can still be sent. Returns the status. */
function failure(error: unknown, response: http.ServerResponse, log: Log): number {
  const known = error instanceof MusterError;
  if (known) log.warn({ code: error.code, error: error.message }, 'a machine could not be answered');
  else log.error({ err: error }, 'a request of a machine failed');
  if (response.headersSent) {
    response.destroy();
    return 500;
  }
  // a store that cannot write now will again; the rest is our fault and no reason for a machine to
  // give up either
  const code = known ? error.code : 'E_INTERNAL';
  return send(
    response,
    known && error.kind.http < 500 ? textAnswer(error.kind.http, `${code}: ${error.message}`) : wait(code),
  );
}

/** What is no HTTP, or too slow, or too large to be looked at. */
function refuseNoise(error: NodeJS.ErrnoException, socket: Socket, metrics: Metrics): void {
  const status =
    error.code === 'HPE_HEADER_OVERFLOW' ? 431 : error.code === 'ERR_HTTP_REQUEST_TIMEOUT' ? 408 : 400;
  if (error.code !== 'ECONNRESET')
    metrics.add('muster_http_requests_total', { route: 'malformed', status: String(status) });
  if (socket.writable && error.code !== 'ECONNRESET')
    socket.end(
      `HTTP/1.1 ${status} ${http.STATUS_CODES[status]}\r\nConnection: close\r\nContent-Length: 0\r\n\r\n`,
    );
  // end() alone would leave a client that sends on for ever connected
  socket.destroySoon();
}
