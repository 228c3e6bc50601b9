/**
 * Serves the operators' API: express with the table of routes, on a unix socket and, where the
 * operator says so, over HTTPS. The health routes can also be served by TCP.
 */
import http from 'node:http';
import https from 'node:https';
import type { AddressInfo } from 'node:net';
import { TLSSocket } from 'node:tls';
import { createGzip, type Gzip } from 'node:zlib';
import express from 'express';
import { messageOf } from '../base/error-text.ts';
import { MusterError } from '../base/errors.ts';
import { type ConnectionLimits, limitConnections } from '../base/limits.server.ts';
import type { Log } from '../base/log.ts';
import type { Metrics } from '../base/metrics.ts';
import { rehearse } from '../base/rehearsal.ts';
import type { SystemCalls } from '../base/system-calls.socket.ts';
import { EVERYTHING, isForeign } from './access.ts';
import type { Actions } from './actions.ts';
import { CostlyReads } from './costly.ts';
import { placing } from './find-machine.ts';
import { type ApiRequest, type ApiResponse, flag, json, type Route } from './handler.ts';
import { listenOnSocket } from './listen.socket.ts';
import { noRoute } from './no-route.ts';
import { HEALTH } from './operations/boot-host.ts';
import { type OperationDeps, ROUTES } from './operations.ts';
import { othersOf, withoutOthers } from './others-names.ts';
import { withSecond } from './pending.ts';
import { type AccessDeps, asker, permit, watch } from './permit.ts';
import { problemOf, problemResponse, retryOf } from './problem.ts';

/** A certificate with its chain, and the key, as PEM. */
export interface TlsPair {
  readonly certificate: string;
  readonly key: string;
}

interface ApiServer {
  /** The port of the health listener, if there is one (port 0 lets the kernel choose). */
  readonly metricsPort?: number;
  /** The port of the HTTPS listener, if there is one. */
  readonly httpsPort?: number;
  /** Takes another certificate for the HTTPS listener; open connections keep theirs. */
  renew(pair: TlsPair): void;
  /** Stops listening and ends event streams; requests in progress may finish. */
  close(): Promise<void>;
}

/** The level of gzip: higher ones take longer than they save, also on slow links. */
const QUICK = 1;
/** The metric's status for a request whose client disconnected before the answer, as in nginx. */
const CLIENT_LEFT = 499;
/** Requests in progress may take this long after `close`; then their connections are cut. */
const CLOSE_GRACE_MS = 5_000;

/**
 * Starts the API on the unix socket `listen.socket`; over HTTPS, for operators who log in, when
 * `listen.https` is given; and the health routes (and nothing else) by TCP when `listen.metrics`
 * is given.
 *
 * @throws {MusterError} E_SOCKET_IN_USE when another server answers on the socket; E_PORT_IN_USE or
 * E_SOCKET_OPEN when the TCP port cannot be opened; E_USAGE when the path of the socket is too long
 */
export async function startApi(options: {
  readonly listen: {
    readonly socket: string;
    readonly metrics?: HostPort;
    /** `clientAuthority`: the CA (PEM) of the certificates with which operators log in. */
    readonly https?: HostPort & {
      readonly pair: TlsPair;
      readonly clientAuthority?: string | undefined;
    };
  };
  readonly deps: ApiDeps;
  /** Tests watch what operations take and answer. Default: all. */
  readonly operations?: readonly Route<OperationDeps>[];
  /** The files of the web page; only the HTTPS listener has them. */
  readonly page?: readonly Route<ApiDeps>[];
}): Promise<ApiServer> {
  const { listen, deps } = options;
  const stopping = new AbortController();
  const routes = (options.operations ?? ROUTES).map(withSecond);
  const placeOf = placing(deps);
  const isMachine = (name: string): boolean => deps.roster.get(name) !== undefined;
  const costly = new CostlyReads(deps.clock);
  const { clock } = deps;
  const operators = createServer(routes, deps, stopping.signal, {
    authenticate: bySocket(deps),
    placeOf,
    isMachine,
    clock,
    costly,
  });
  const removeSocket = await listenOnSocket(operators, listen.socket, deps.log);
  let health: http.Server | undefined;
  let secure: https.Server | undefined;
  try {
    if (listen.metrics) {
      health = createServer(HEALTH, deps, stopping.signal);
      await listening(health, listen.metrics, '--metrics-listen');
    }
    if (listen.https) {
      const access = { authenticate: byAccount(deps), placeOf, isMachine, clock, costly };
      const app = appOf([...(options.page ?? []), ...routes], deps, stopping.signal, access);
      secure = limited(https.createServer(tlsOptions(listen.https.pair, listen.https.clientAuthority), app));
      const { accounts, log } = deps;
      limitConnections(secure, OPERATOR_LIMITS, log, (address) => accounts.standing(address));
      await listening(secure, listen.https, '--operators-listen');
    }
  } catch (error) {
    operators.close();
    health?.close();
    await removeSocket();
    throw error;
  }
  return {
    ...(health && { metricsPort: (health.address() as AddressInfo).port }),
    ...(secure && { httpsPort: (secure.address() as AddressInfo).port }),
    renew: (pair) => secure?.setSecureContext(tlsOptions(pair, listen.https?.clientAuthority)),
    async close() {
      stopping.abort();
      await removeSocket();
      const servers = [operators, health, secure].filter((server) => server !== undefined);
      await Promise.all(servers.map(closeServer));
    },
  };
}

interface HostPort {
  readonly host: string;
  readonly port: number;
}

type Server = http.Server | https.Server;

/** Resolves when the server listens. */
function listening(server: Server, where: HostPort, flag: string): Promise<void> {
  return new Promise<void>((resolve, reject) => {
    server.once('error', (error: NodeJS.ErrnoException) => reject(listenError(error, where, flag)));
    server.listen(where.port, where.host, resolve);
  });
}

function listenError(error: NodeJS.ErrnoException, where: HostPort, flag: string) {
  const taken = error.code === 'EADDRINUSE';
  return new MusterError(
    taken ? 'E_PORT_IN_USE' : 'E_SOCKET_OPEN',
    `${flag} ${where.host}:${where.port}: ${taken ? 'already in use' : error.message}`,
    { cause: error },
  );
}

/**
 * Where operators may log in by certificate, clients are asked for one. A client without one logs
 * in by other means.
 */
const tlsOptions = ({ certificate, key }: TlsPair, clientAuthority: string | undefined) => ({
  ...({ cert: certificate, key, minVersion: 'TLSv1.2', handshakeTimeout: 10_000 } as const),
  ...(clientAuthority !== undefined && { ca: clientAuthority, requestCert: true, rejectUnauthorized: false }),
});

/** The operator whom a client's certificate names, if their CA signed it and it counts now. */
function certified({ socket }: http.IncomingMessage, now: number): string | undefined {
  if (!(socket instanceof TLSSocket) || !socket.authorized) return undefined;
  const { subject, valid_from, valid_to } = socket.getPeerCertificate();
  // A connection may outlive the certificate with which it began.
  const counts = Date.parse(valid_from) <= now && now < Date.parse(valid_to);
  return counts && typeof subject.CN === 'string' ? subject.CN : undefined;
}

/**
 * A page holds a few connections, and there are few operators; behind a proxy all of them have one
 * address, and so has a site's NAT.
 */
const OPERATOR_LIMITS: ConnectionLimits = {
  connections: 1_000,
  reserved: 400,
  perClient: 500,
  perMachine: 300,
  perStranger: 30,
};

/** Sets the limits of every listener of operators. */
function limited<S extends Server>(server: S): S {
  server.headersTimeout = 10_000;
  server.requestTimeout = 300_000;
  server.maxConnections = OPERATOR_LIMITS.connections;
  return server;
}

/** Operators log in over HTTPS, and no other site may use their browsers. */
const byAccount =
  ({ accounts, clock }: Pick<ApiDeps, 'accounts' | 'clock'>): AccessDeps['authenticate'] =>
  (request, _peer, unused = false) => {
    const { method = '', headers, socket } = request;
    const { cookie, authorization } = headers;
    const credentials = { cookie, authorization, certificate: certified(request, clock.now()), unused };
    const principal = accounts.authenticate(credentials);
    if (principal !== undefined && socket.remoteAddress !== undefined) accounts.trust(socket.remoteAddress);
    const byCookie = principal?.by === 'session' && authorization === undefined;
    if (isForeign(method, headers, byCookie))
      throw new MusterError('E_FORBIDDEN', 'the request does not come from the page of this server');
    return principal ? { principal } : { nobody: () => accounts.nobody(credentials) };
  };

/** The socket is the way in when all else fails: everybody who may open it may do everything. */
const bySocket =
  ({ actions }: Pick<ApiDeps, 'actions'>): AccessDeps['authenticate'] =>
  (_request, peer) => ({
    principal: { name: actions.actor(peer).user, by: 'socket', grants: EVERYTHING },
  });

function closeServer(server: Server): Promise<void> {
  return new Promise((resolve) => {
    // Busy connections become idle later; without this they would stay open until their keep-alive
    // timeout.
    const idle = setInterval(() => server.closeIdleConnections(), 50);
    const late = setTimeout(() => server.closeAllConnections(), CLOSE_GRACE_MS);
    server.close(() => {
      clearInterval(idle);
      clearTimeout(late);
      resolve();
    });
    server.closeIdleConnections();
  });
}

/** What the server needs of other rooms; src/wiring/operators.ts brings it. */
export type ApiDeps = OperationDeps & ServerDeps;

interface ServerDeps {
  readonly log: Log;
  readonly metrics: Pick<Metrics, 'add'>;
  /** Absent when system calls cannot be used: then the client process is unknown. */
  readonly systemCalls?: SystemCalls | undefined;
  /** Absent where no route changes anything: at the listener of metrics. */
  readonly actions?: Actions | undefined;
}

/**
 * Makes an HTTP server that answers `routes`, and all other requests with a problem. Exported for
 * tests that serve a table by TCP.
 *
 * @param access absent on the listener for monitoring, where everybody gets every route
 */
export function createServer<D extends ServerDeps>(
  routes: readonly Route<D>[],
  deps: D,
  stop: AbortSignal,
  access?: AccessDeps,
): http.Server {
  const app = appOf(routes, deps, stop, access);
  return limited(http.createServer({ maxHeaderSize: 16 * 1024 }, app));
}

function appOf<D extends ServerDeps>(
  routes: readonly Route<D>[],
  deps: D,
  stop: AbortSignal,
  access: AccessDeps | undefined,
): express.Express {
  const app = express();
  app.disable('x-powered-by');
  app.disable('etag');
  // Query strings are read with URLSearchParams: one meaning, no nested objects.
  app.set('query parser', false);
  for (const route of routes) {
    app[route.method.toLowerCase() as 'get'](route.path, (req, res) =>
      answer(route, req, res, { deps, stop, access }),
    );
  }
  app.use((req: express.Request, res: express.Response) => {
    const refusal = noRoute(routes, req);
    count(deps, 'none', refusal.status);
    return send(res, refusal);
  });
  app.use((error: unknown, _req: express.Request, res: express.Response, _next: express.NextFunction) => {
    if (res.headersSent) {
      res.destroy();
      return;
    }
    // Express threw it, e.g. for a path with an invalid percent escape.
    const status = (error as { status?: number }).status;
    const known = status !== undefined && status < 500;
    const problem = problemOf(known ? new MusterError('E_USAGE', messageOf(error)) : error);
    void send(res, problemResponse(problem));
  });
  return app;
}

async function answer<D extends ServerDeps>(
  route: Route<D>,
  req: express.Request,
  res: express.Response,
  context: { readonly deps: D; readonly stop: AbortSignal; readonly access: AccessDeps | undefined },
): Promise<void> {
  const gone = new AbortController();
  res.once('close', () => gone.abort());
  const ended = new AbortController();
  const peer = context.deps.systemCalls?.peerCredentials(req.socket);
  const request: ApiRequest = {
    method: req.method,
    params: req.params as Record<string, string>,
    query: new URL(req.url, 'http://muster').searchParams,
    headers: req.headers as Record<string, string | undefined>,
    // A handler that stops reading must still be able to answer, so the connection stays open.
    body: req.iterator({ destroyOnReturn: false }),
    signal: AbortSignal.any([gone.signal, ended.signal, context.stop]),
    ...(peer && { peer }),
    ...(req.socket.remoteAddress !== undefined && { address: req.socket.remoteAddress }),
  };
  const { deps, access } = context;
  const who = await asker(access, req, peer);
  // Pieces of a file that is not complete change nothing yet; the last one is recorded.
  const acted = async (status: number, code?: string): Promise<void> => {
    if (route.method === 'GET' || (status === 202 && route.method === 'PUT') || route.unrecorded) return;
    const known = 'principal' in who && who.principal !== undefined;
    if (!known && status >= 400) return deps.actions?.refused(request.address, code);
    const { method, path } = req;
    const by = peer ? { uid: peer.uid, pid: peer.pid } : {};
    deps.log.info({ method, path, status, ...by }, 'an operator requested a change');
    const { params, query } = request;
    const { path: pattern, summary, takes } = route;
    const signed = status < 400 && takes !== undefined && takes !== 'role';
    await deps.actions?.record({ method, route: pattern, params, query, status, code, summary, signed });
  };
  const respond = async (): Promise<ApiResponse | undefined> => {
    let response: ApiResponse;
    let code: string | undefined;
    try {
      if ('error' in who) throw who.error;
      const limits = access ? permit(route, request, who, access) : {};
      const work = () => route.handler({ ...request, ...who, ...limits }, deps);
      response =
        route.rehearsed && flag(request.query, 'dryRun')
          ? json({ dryRun: true, would: route.summary, changes: await rehearse(work) })
          : await work();
    } catch (error) {
      if (!(error instanceof MusterError) && req.destroyed && !req.complete) {
        // The client is gone, and the server has not failed.
        const { method } = request;
        deps.log.debug({ method, path: route.path }, 'the client disconnected during its request');
        count(deps, `${route.method} ${route.path}`, CLIENT_LEFT);
        await acted(CLIENT_LEFT);
        return undefined;
      }
      const problem = problemFor(error, request, route.path, deps.log);
      code = problem.code;
      response = problemResponse(problem, retryOf(error));
    }
    count(deps, `${route.method} ${route.path}`, response.status);
    await acted(response.status, code);
    return response;
  };
  const { actions } = deps;
  const response = await (actions && route.method !== 'GET'
    ? actions.run(actions.actor(peer, 'principal' in who ? who.principal : undefined), respond)
    : respond());
  if (response === undefined) return;
  const unwatch =
    access && 'principal' in who && typeof response.body === 'object'
      ? watch(route, req, peer, who.principal, access, () => ended.abort())
      : undefined;
  const said = [...Object.values(request.params), ...request.query.values()];
  const isOthers =
    access && 'principal' in who && othersOf(who.principal, access.placeOf, access.isMachine, said);
  try {
    await send(res, isOthers ? withoutOthers(response, isOthers) : response);
  } finally {
    unwatch?.();
  }
  // Discards what the handler did not read, so that the next request on this connection is found.
  if (!req.readableEnded) req.resume();
}

function problemFor(error: unknown, request: ApiRequest, path: string, log: Log) {
  if (!(error instanceof MusterError))
    log.error({ err: error, method: request.method, path }, 'a request failed');
  const conditional = request.headers['if-match'] ?? request.headers['if-none-match'];
  const precondition =
    error instanceof MusterError && error.code === 'E_CONFLICT' && conditional !== undefined;
  return problemOf(error, precondition ? 412 : undefined);
}

/** What every answer says, unless it says otherwise: it is kept nowhere, and nothing runs in it. */
const ALWAYS = {
  'x-content-type-options': 'nosniff',
  'cache-control': 'no-store',
  'content-security-policy': "default-src 'none'; frame-ancestors 'none'",
  'referrer-policy': 'no-referrer',
} as const;

async function send(res: express.Response, response: ApiResponse): Promise<void> {
  res.status(response.status);
  for (const [name, value] of Object.entries(ALWAYS)) res.setHeader(name, value);
  // A browser that was here once never asks without TLS again.
  if (res.socket instanceof TLSSocket) res.setHeader('strict-transport-security', 'max-age=31536000');
  for (const [name, value] of Object.entries(response.headers ?? {})) res.setHeader(name, value);
  const { body } = response;
  if (body === undefined || typeof body === 'string') {
    res.end(body);
    return;
  }
  const packed = response.compressible && /\bgzip\b/.test(res.req.headers['accept-encoding'] ?? '');
  if (response.compressible) res.setHeader('vary', 'accept-encoding');
  if (packed) res.setHeader('content-encoding', 'gzip');
  res.flushHeaders();
  if (res.req.method === 'HEAD') {
    res.end();
    return;
  }
  const out = packed ? packing(res) : res;
  for await (const piece of body) {
    if (res.destroyed) break;
    const room = out.write(piece);
    // Lets other work run between two pieces.
    await new Promise((resolve) => setImmediate(resolve));
    if (!room && out.writableNeedDrain && !res.destroyed)
      await new Promise((resolve) => {
        out.once('drain', resolve);
        res.once('close', resolve);
      });
  }
  out.end();
}

/** Compresses what is written to it, outside of the main thread. Ends with the connection. */
function packing(res: express.Response): Gzip {
  const gzip = createGzip({ level: QUICK });
  gzip.pipe(res);
  res.once('close', () => gzip.destroy());
  return gzip;
}

const count = (deps: ServerDeps, route: string, status: number): void =>
  deps.metrics.add('muster_api_requests_total', { route, status: String(status) });
