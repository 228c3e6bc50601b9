/**
 * A serial console by a websocket: what comes is printed, as fast as a serial line may be, and what
 * is typed is sent. The frames of a BMC that sends faster stay in its own connection.
 */
import type { WebSocket } from 'ws';
import { type BmcConsole, BmcFault, type ConsoleUse } from '../bmc.ts';

/** A frame is what a BMC read from its serial port at once: OpenBMC reads 4096 octets. */
export const MAX_FRAME = 64 * 1024;
/** The fastest serial lines of servers print 115,200 octets in a second at most. */
const MOST_OF_A_SECOND = 256 * 1024;
/** Each frame costs, also an empty one. */
const MOST_FRAMES = 4096;
/** Typed text that a BMC has not taken; more is refused. */
const MAX_WAITING = 16 * 1024;
/** A BMC that restarts says nothing, so it is asked this often whether it is there. */
const ALIVE_MS = 20_000;

/** Waits until it is open, and passes it on. @throws {BmcFault} when it does not open */
export function consoleBy(socket: WebSocket, use: ConsoleUse): Promise<BmcConsole> {
  return new Promise((done, failed) => {
    // Its first octets come with its answer, so it is listened to at once.
    socket.once('open', () => done(new SocketConsole(socket, use)));
    socket.once('unexpected-response', (request, { statusCode = 0 }) => {
      request.destroy();
      // The log-in of the session was right, so this counts as no refusal of it.
      const isShut = statusCode === 401 || statusCode === 403;
      const why = isShut ? 'the account may not use its console' : `its console answers ${statusCode}`;
      failed(new BmcFault(statusCode === 503 ? 'busy' : 'refused', why));
    });
    socket.once('error', (error) =>
      failed(error instanceof BmcFault ? error : new BmcFault('unreachable', error.message)),
    );
  });
}

class SocketConsole implements BmcConsole {
  readonly #socket: WebSocket;
  readonly #use: ConsoleUse;
  readonly #timers: readonly NodeJS.Timeout[];
  #isOver = false;
  #octets = 0;
  #frames = 0;
  #hasAnswered = true;

  constructor(socket: WebSocket, use: ConsoleUse) {
    this.#socket = socket;
    this.#use = use;
    this.#timers = [setInterval(() => this.#nextSecond(), 1000), setInterval(() => this.#ask(), ALIVE_MS)];
    socket.on('message', (data) => this.#take(data as Buffer));
    socket.on('pong', () => {
      this.#hasAnswered = true;
      this.#count(0);
    });
    socket.on('ping', () => this.#count(0));
    // It would wait half a minute for the other end to close as well.
    socket.on('error', () => this.#over());
    socket.on('close', () => this.#over());
  }

  type(octets: Buffer): boolean {
    if (this.#isOver || this.#socket.bufferedAmount + octets.length > MAX_WAITING) return false;
    this.#socket.send(octets, { binary: true });
    return true;
  }

  async close(): Promise<void> {
    this.#isOver = true;
    for (const timer of this.#timers) clearInterval(timer);
    this.#socket.close();
    // A BMC that does not answer keeps no connection here.
    this.#socket.terminate();
  }

  #take(octets: Buffer): void {
    if (this.#isOver) return;
    this.#count(octets.length);
    if (octets.length > 0) this.#use.printed(octets);
  }

  /** Lets it wait until the next second where it sent too much. */
  #count(octets: number): void {
    this.#octets += octets;
    this.#frames++;
    if (this.#octets >= MOST_OF_A_SECOND || this.#frames >= MOST_FRAMES) this.#socket.pause();
  }

  #nextSecond(): void {
    [this.#octets, this.#frames] = [0, 0];
    if (this.#socket.isPaused) this.#socket.resume();
  }

  #ask(): void {
    if (this.#hasAnswered) this.#socket.ping();
    else this.#over();
    this.#hasAnswered = false;
  }

  #over(): void {
    if (this.#isOver) return;
    void this.close();
    this.#use.ended();
  }
}
