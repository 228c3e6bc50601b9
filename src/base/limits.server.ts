/**
 * Bounds on what clients can take of a listener for machines (HTTP, and HTTPS for agents), and its
 * orderly end.
 */
import type { Server as HttpServer } from 'node:http';
import type { Server as HttpsServer } from 'node:https';
import type { Socket } from 'node:net';
import type { Clock } from './clock.ts';
import type { Millis } from './duration.ts';
import type { Log } from './log.ts';

type Server = HttpServer | HttpsServer;

/**
 * Connections that the kernel queues until they are accepted (it caps this at
 * net.core.somaxconn, 4096 by default). A rack that is powered on at once fills Node's default of
 * 511.
 */
export const LISTEN_BACKLOG = 4096;

export interface HttpLimits {
  readonly connections: number;
  /** By client address. */
  readonly perClient: number;
  readonly headerBytes: number;
  /** Most octets that a request's body may have. */
  readonly bodyBytes: number;
  /** From the connection's, or the last answer's, end until all headers are here. */
  readonly headersTimeout: Millis;
  /** Until the whole request is here. */
  readonly requestTimeout: Millis;
  /** How often those two are looked at. */
  readonly checkEvery: Millis;
  /** How long an idle connection is kept: UEFI asks HEAD, thinks, then GET on the same one. */
  readonly keepAlive: Millis;
  /** A connection on which nothing moves for so long, in the middle of an answer, is cut. */
  readonly stalled: Millis;
  /** How long transfers may take to end after `close`. */
  readonly grace: Millis;
}

const ms = (n: number) => n as Millis;

export const MACHINE_HTTP_LIMITS: HttpLimits = {
  connections: 8192,
  perClient: 256,
  headerBytes: 16 * 1024,
  bodyBytes: 64 * 1024,
  headersTimeout: ms(15_000),
  requestTimeout: ms(60_000),
  checkEvery: ms(5_000),
  keepAlive: ms(75_000),
  stalled: ms(120_000),
  grace: ms(15_000),
};

/** Closes connections beyond the limits as they come, and logs that, at most once a minute. */
export function limitConnections(server: Server, limits: HttpLimits, log: Log): void {
  server.maxConnections = limits.connections;
  const perClient = new Map<string, number>();
  let lastWarning = Number.NEGATIVE_INFINITY;
  const warn = (fields: object) => {
    const now = performance.now();
    if (now - lastWarning < 60_000) return;
    lastWarning = now;
    log.warn(fields, 'HTTP connections were refused: too many');
  };
  server.on('drop', (data) => warn({ limit: limits.connections, peer: data?.remoteAddress }));
  server.on('connection', (socket: Socket) => {
    const peer = socket.remoteAddress ?? '';
    const open = (perClient.get(peer) ?? 0) + 1;
    if (open > limits.perClient) {
      warn({ limit: limits.perClient, peer });
      socket.destroy();
      return;
    }
    perClient.set(peer, open);
    socket.once('close', () => {
      const left = (perClient.get(peer) ?? 1) - 1;
      if (left > 0) perClient.set(peer, left);
      else perClient.delete(peer);
    });
  });
}

/**
 * Stops accepting, ends idle connections, lets the others finish what they do for `grace`, then
 * cuts them.
 */
export function closeGracefully(server: Server, clock: Clock, grace: Millis): Promise<void> {
  return new Promise((resolve) => {
    let over = false;
    const cut = clock.after(grace, () => server.closeAllConnections());
    // a kept connection becomes idle when its transfer ends: it is not waited for
    const sweep = () => {
      if (over) return;
      server.closeIdleConnections();
      clock.after(100 as Millis, sweep);
    };
    server.close(() => {
      over = true;
      cut();
      resolve();
    });
    sweep();
  });
}
