/**
 * The listener for the other boot hosts that share the store. Only a client with the certificate of
 * one of them gets an answer; the connection of any other is closed, unless a host is invited.
 */
import { constants } from 'node:crypto';
import { open } from 'node:fs/promises';
import type { IncomingMessage, ServerResponse } from 'node:http';
import https from 'node:https';
import type { AddressInfo } from 'node:net';
import { pipeline } from 'node:stream/promises';
import type { TLSSocket } from 'node:tls';
import { bounded } from '../../base/bounded.ts';
import type { Clock } from '../../base/clock.ts';
import { millis } from '../../base/duration.ts';
import { messageOf } from '../../base/error-text.ts';
import { MusterError } from '../../base/errors.ts';
import { plainAddress } from '../../base/ip.ts';
import { type ConnectionLimits, closeGracefully, limitConnections } from '../../base/limits.server.ts';
import type { Log } from '../../base/log.ts';
import type { OpenedAssets } from '../assets/assets.ts';
import { selectRange } from '../http/range.ts';
import { fingerprintOf, type Pair } from './pair.ts';
import { FILE_PATH, JOIN_PATH, WANTED_PATH, type Wanted } from './wire.ts';

export interface ListenerOptions {
  readonly port: number;
  readonly pair: Pair;
  readonly assets: Pick<OpenedAssets, 'find' | 'lost'>;
  /** The name of the sibling that has this certificate; undefined: none has. */
  readonly sibling: (fingerprint: string) => string | undefined;
  /** Whether an address is that of a sibling; the others share a part of the connections. */
  readonly isSibling: (address: string) => boolean;
  /** What this host wants the others to have; undefined while it does not act. */
  readonly wanted: () => Wanted | undefined;
  /** Whether a host is invited to join: only then, a stranger is listened to. */
  readonly invites: () => boolean;
  /** Answers a request to join; undefined: it is refused. `address` is where it came from. */
  readonly join: (body: string, address: string) => Promise<string | undefined>;
  readonly clock: Clock;
  readonly log: Log;
}

/** A sibling asks for one file at a time, and for the list. Strangers are soon gone. */
const LIMITS: ConnectionLimits = {
  ...{ connections: 64, reserved: 32, perClient: 16, perMachine: 16, perStranger: 4 },
};
const HANDSHAKE_MS = 5000;
const REQUEST_MS = 10_000;
const STALLED_MS = 30_000;
const GRACE = millis(500);

/**
 * Starts the listener. Resolves to its port, and what closes it.
 *
 * @throws {MusterError} E_PORT_IN_USE, E_SOCKET_OPEN
 */
export async function listenToSiblings(
  options: ListenerOptions,
): Promise<{ readonly port: number; readonly close: () => Promise<void> }> {
  const { pair, sibling, isSibling, invites, log, port, clock } = options;
  const server = https.createServer(
    {
      cert: pair.certificate,
      key: pair.key.pem(),
      minVersion: 'TLSv1.3',
      // No CA signs these certificates: the fingerprint decides, below.
      requestCert: true,
      rejectUnauthorized: false,
      secureOptions: constants.SSL_OP_NO_TICKET,
      handshakeTimeout: HANDSHAKE_MS,
      headersTimeout: REQUEST_MS,
      requestTimeout: REQUEST_MS,
      maxHeaderSize: 8192,
    },
    (request, response) =>
      void answer(request, response, options).catch((error: unknown) => {
        log.debug({ cause: messageOf(error) }, 'an answer to a boot host broke off');
        response.destroy();
      }),
  );
  server.setTimeout(STALLED_MS);
  server.on('secureConnection', (socket) => {
    if (siblingAt(socket, sibling) === undefined && !invites()) socket.destroy();
  });
  server.on('tlsClientError', (_error, socket) => socket.destroy());
  server.on('clientError', (_error, socket) => socket.destroy());
  limitConnections(server, LIMITS, log, (address) =>
    isSibling(plainAddress(address)) ? 'machine' : 'stranger',
  );
  await new Promise<void>((resolve, reject) => {
    server.once('error', (error: NodeJS.ErrnoException) => reject(openError(error, port)));
    server.listen({ port, host: '0.0.0.0' }, resolve);
  });
  server.on('error', (error) => log.error({ error: error.message }, 'the listener for boot hosts failed'));
  return {
    port: (server.address() as AddressInfo).port,
    close: () => closeGracefully(server, clock, GRACE),
  };
}

function openError(error: NodeJS.ErrnoException, port: number): MusterError {
  const taken = error.code === 'EADDRINUSE';
  return new MusterError(
    taken ? 'E_PORT_IN_USE' : 'E_SOCKET_OPEN',
    `listener for the other boot hosts, --sibling-port ${port}: ${taken ? 'already in use' : error.message}`,
    { cause: error },
  );
}

/** The sibling that proved in the handshake that it has the key of its certificate. */
function siblingAt(socket: TLSSocket, sibling: ListenerOptions['sibling']): string | undefined {
  const shown = socket.getPeerX509Certificate();
  return shown === undefined ? undefined : sibling(fingerprintOf(shown));
}

/** A request to join is shorter. */
const JOIN_OCTETS = 4096;

async function answer(
  request: IncomingMessage,
  response: ServerResponse,
  { sibling, wanted, assets, invites, join }: ListenerOptions,
): Promise<void> {
  response.on('error', () => {});
  response.shouldKeepAlive = false;
  const say = (status: number, body = ''): void => void response.writeHead(status).end(body);
  const { method, url = '' } = request;
  if (method === 'POST' && url === JOIN_PATH && invites()) {
    const body = await bounded(request, JOIN_OCTETS);
    const answered = body && (await join(body.toString(), plainAddress(request.socket.remoteAddress)));
    return answered === undefined ? say(403) : say(200, answered);
  }
  // A host that was removed meanwhile may still have its connection.
  if (siblingAt(request.socket as TLSSocket, sibling) === undefined) return say(403);
  if (method !== 'GET') return say(405);
  if (url === WANTED_PATH) {
    const all = wanted();
    return all === undefined ? say(503) : say(200, JSON.stringify(all));
  }
  if (!url.startsWith(FILE_PATH)) return say(404);
  const sha256 = url.slice(FILE_PATH.length);
  const file = assets.find(sha256);
  if (file === undefined) return say(404);
  const opened = await open(file.path).catch(() => undefined);
  if (opened === undefined) {
    assets.lost(sha256, file);
    return say(404);
  }
  try {
    const { size } = await opened.stat();
    const range = selectRange(request.headers.range, size);
    if (range.kind === 'unsatisfiable') return say(416);
    const { first, last } = range.kind === 'part' ? range : { first: 0, last: size - 1 };
    response.writeHead(range.kind === 'part' ? 206 : 200, {
      'content-length': last - first + 1,
      ...(range.kind === 'part' && { 'content-range': `bytes ${first}-${last}/${size}` }),
    });
    if (size === 0) response.end();
    else await pipeline(opened.createReadStream({ start: first, end: last, autoClose: false }), response);
  } finally {
    await opened.close();
  }
}
