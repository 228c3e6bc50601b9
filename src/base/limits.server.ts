/**
 * Limits of the listeners for machines (HTTP, and HTTPS for agents), so that clients cannot exhaust
 * them; and their graceful shutdown.
 */
import type { Server as HttpServer } from 'node:http';
import type { Server as HttpsServer } from 'node:https';
import type { Socket } from 'node:net';
import type { Clock } from './clock.ts';
import type { Millis } from './duration.ts';
import type { Log } from './log.ts';

type Server = HttpServer | HttpsServer;

/**
 * Connections that the kernel queues until they are accepted (at most net.core.somaxconn, 4096 by
 * default). Node's default of 511 is too small for a rack of machines that are powered on together.
 */
export const LISTEN_BACKLOG = 4096;

/** What is known of a client's address: this host itself, a machine's, or nothing. */
export type Standing = 'host' | 'machine' | 'stranger';

/** How many connections a listener has, and for whom. */
export interface ConnectionLimits {
  readonly connections: number;
  /** The part of `connections` that no stranger gets. */
  readonly reserved: number;
  /** Connections per address of this host, and per any address of a listener that knows none. */
  readonly perClient: number;
  /** Connections per address of a machine. A host on the segment may have many leases. */
  readonly perMachine: number;
  /** Connections per other address. Firmware and loaders need two. */
  readonly perStranger: number;
}

export interface HttpLimits extends ConnectionLimits {
  readonly headerBytes: number;
  /** Size of a request's body. */
  readonly bodyBytes: number;
  /**
   * From the opening of the connection, or the end of the last answer, until all headers are here.
   */
  readonly headersTimeout: Millis;
  /** From the same moment until the whole request is here. */
  readonly requestTimeout: Millis;
  /** Interval at which those two timeouts are checked. */
  readonly checkEvery: Millis;
  /**
   * How long an idle connection is kept. UEFI sends HEAD, pauses, then sends GET on the same
   * connection.
   */
  readonly keepAlive: Millis;
  /** A connection that transfers nothing for this long in the middle of an answer is cut. */
  readonly stalled: Millis;
  /** How long transfers may continue after `close`. */
  readonly grace: Millis;
}

const ms = (n: number) => n as Millis;

export const MACHINE_HTTP_LIMITS: HttpLimits = {
  connections: 8192,
  reserved: 2048,
  perClient: 256,
  perMachine: 64,
  perStranger: 32,
  headerBytes: 16 * 1024,
  bodyBytes: 64 * 1024,
  headersTimeout: ms(15_000),
  requestTimeout: ms(60_000),
  checkEvery: ms(5_000),
  keepAlive: ms(75_000),
  stalled: ms(120_000),
  grace: ms(15_000),
};

/**
 * Closes new connections that exceed the limits, and logs this at most once a minute, and keeps the
 * server's time limits from counting against clients what this process needed itself. `standing`:
 * what is known of an address; default: every address counts as this host's.
 */
export function limitConnections(
  server: Server,
  limits: ConnectionLimits,
  log: Log,
  standing: (address: string) => Standing,
): void {
  server.maxConnections = limits.connections;
  countOwnDelay(server);
  const shares = { host: limits.perClient, machine: limits.perMachine, stranger: limits.perStranger };
  let strangers = 0;
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
    const kind = standing(peer);
    const limit = shares[kind];
    if (open > limit || (kind === 'stranger' && strangers >= limits.connections - limits.reserved)) {
      warn({ limit: open > limit ? limit : limits.connections - limits.reserved, peer });
      socket.destroy();
      return;
    }
    perClient.set(peer, open);
    if (kind === 'stranger') strangers++;
    socket.once('close', () => {
      if (kind === 'stranger') strangers--;
      const left = (perClient.get(peer) ?? 1) - 1;
      if (left > 0) perClient.set(peer, left);
      else perClient.delete(peer);
    });
  });
}

/**
 * Node judges by the clock whether a request is late, also one that is here and waits unread while
 * this thread is busy. So the server's time limits are longer by what the thread was late itself.
 */
function countOwnDelay(server: Server): void {
  for (const name of ['headersTimeout', 'requestTimeout'] as const) {
    const limit = server[name];
    Object.defineProperty(server, name, { get: () => limit + ownDelay(limit) });
  }
}

/** How often this thread looks whether it is late. */
const LOOK_EVERY_MS = 100;
/** Delays are remembered for so long: longer than any time limit of a machine. */
const REMEMBERED_MS = 120_000;

/** Moments at which this thread was late, the oldest first, and by how many milliseconds. */
let memoDelays: { readonly at: number; readonly late: number }[] | undefined;
let lookedAt = 0;

/** By how many milliseconds this thread was late in the last `span`, and is at this moment. */
function ownDelay(span: number): number {
  if (memoDelays === undefined) {
    memoDelays = [];
    lookedAt = performance.now();
    setInterval(look, LOOK_EVERY_MS).unref();
  }
  const now = performance.now();
  let sum = Math.max(0, now - lookedAt - LOOK_EVERY_MS);
  // What came before a delay counts too, because the request may be older by that delay.
  for (let n = memoDelays.length - 1; n >= 0 && memoDelays[n]!.at > now - span - sum; n--)
    sum += memoDelays[n]!.late;
  return sum;
}

function look(): void {
  const now = performance.now();
  const late = now - lookedAt - LOOK_EVERY_MS;
  lookedAt = now;
  if (late > LOOK_EVERY_MS) memoDelays!.push({ at: now, late });
  while (memoDelays!.length > 0 && memoDelays![0]!.at < now - REMEMBERED_MS) memoDelays!.shift();
}

/**
 * Stops accepting connections and closes the idle ones. The others may finish their requests within
 * `grace`, and are then cut. Resolves when all are closed.
 */
export function closeGracefully(server: Server, clock: Clock, grace: Millis): Promise<void> {
  return new Promise((resolve) => {
    let over = false;
    const cut = clock.after(grace, () => server.closeAllConnections());
    // A keep-alive connection becomes idle when its transfer ends, and can then be closed.
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
