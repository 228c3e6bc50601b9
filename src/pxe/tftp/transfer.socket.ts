/**
 * One transfer at work: its sockets, its file, its timer around the state machine of `transfer.ts`.
 */
import type { RemoteInfo } from 'node:dgram';
import type { Clock } from '../../base/clock.ts';
import type { Millis } from '../../base/duration.ts';
import { BlockReader, type ByteSource, emptySource, netasciiSource, type OpenFiles } from './blocks.files.ts';
import { decodeTftp, encodeError, encodeOack, TFTP_ERROR, type TftpRequest } from './codec.ts';
import { type Agreed, agree, blockCount } from './request.ts';
import { bound, boundFor, type TransferSockets } from './sockets.socket.ts';
import {
  newTransfer,
  type Outcome,
  step,
  type TransferEvent,
  type TransferPlan,
  type TransferState,
} from './transfer.ts';

/** What to send to whom; plain data, so that it can be handed to another thread. */
export interface TransferJob {
  readonly request: TftpRequest;
  readonly peer: { readonly address: string; readonly port: number };
  /** The file; undefined: the empty one. */
  readonly path: string | undefined;
  /** Our address. */
  readonly from: string;
  readonly mtu: number;
}

/** How a transfer ended. */
export interface TransferEnd {
  readonly outcome: Outcome;
  readonly why: string;
  /** Octets of the file that the client has confirmed. */
  readonly octets: number;
  readonly elapsed: Millis;
}

export interface TransferOptions extends TransferJob {
  readonly files: OpenFiles;
  readonly clock: Clock;
  /** Called once. */
  readonly onEnd: (end: TransferEnd) => void;
}

/**
 * A request that comes again later than this, from a client that had already answered, is a client
 * that began anew.
 */
const DOUBLED_WITHIN = 1000;

/** What exists once socket and file are open. */
interface Running extends TransferSockets {
  readonly reader: BlockReader;
  readonly plan: TransferPlan;
  readonly agreed: Agreed;
  readonly size: number;
}

export class Transfer {
  readonly #options: TransferOptions;
  readonly #startedAt: Millis;
  #state: TransferState = newTransfer;
  #running: Running | undefined;
  #releaseFile: () => void = () => {};
  #cancelTimer: () => void = () => {};
  /** When the timer fires. */
  #timerDue = Number.POSITIVE_INFINITY as Millis;
  #ended = false;
  /** What went wrong here; the client is told less. */
  #fault: string | undefined;

  constructor(options: TransferOptions) {
    this.#options = options;
    this.#startedAt = options.clock.monotonic();
  }

  /**
   * Opens file and socket and sends the first packet. Never rejects: what fails ends the transfer.
   */
  start(): void {
    this.#open().catch((error: Error) => this.#fail(error));
  }

  /**
   * The same request came again. True: it is dealt with, by the first packet once more, or by
   * nothing because the network may well have doubled it. False: this transfer is over, or the
   * client began anew; the request wants a transfer of its own.
   */
  again(): boolean {
    if (this.#ended) return false;
    if (this.#state.acked > 0) {
      const elapsed = this.#options.clock.monotonic() - this.#startedAt;
      if (elapsed < DOUBLED_WITHIN) return true;
      this.supersede();
      return false;
    }
    this.#step({ kind: 'again' });
    return true;
  }

  /** The client asked for something else from its port. */
  supersede(): void {
    if (this.#running) this.#step({ kind: 'superseded' });
    else this.#end('superseded', 'another request came from the same port');
  }

  /** The server stops. */
  shutDown(): void {
    const message = 'the server is shutting down';
    if (this.#running) this.#step({ kind: 'stop', outcome: 'shutdown', code: TFTP_ERROR.undefined, message });
    else this.#end('shutdown', message);
  }

  async #open(): Promise<void> {
    const { request, path, from, mtu, files } = this.#options;
    let source: ByteSource = emptySource;
    if (path !== undefined) {
      const file = files.acquire(path);
      this.#releaseFile = file.release;
      source = file.source;
    }
    if (request.mode === 'netascii') source = netasciiSource(source);
    const sockets = await boundFor(from, this.#options.peer);
    const { client, strangers } = sockets;
    if (this.#ended) {
      client.close();
      strangers.close();
      return;
    }
    const agreed = agree(request, source.size, mtu);
    const blocks = blockCount(source.size, agreed.blockSize);
    const reader = new BlockReader({
      source,
      blockSize: agreed.blockSize,
      blocks,
      window: agreed.window,
    });
    const oack = agreed.acknowledged.length > 0;
    const plan = { blocks, window: agreed.window, oack, timeout: agreed.timeout };
    this.#running = { ...sockets, reader, plan, agreed, size: source.size };
    client.on('message', (datagram) => this.#receive(datagram));
    strangers.on('message', (datagram, peer) => this.#stranger(datagram, peer));
    // e.g. the client's host went away: its silence will end the transfer
    for (const socket of [client, strangers]) socket.on('error', () => {});
    this.#step({ kind: 'start' });
  }

  #stranger(datagram: Buffer, peer: RemoteInfo): void {
    const { peer: client } = this.#options;
    // What came before the other socket was there.
    if (peer.port === client.port && peer.address === client.address) {
      this.#receive(datagram);
      return;
    }
    const { kind } = decodeTftp(datagram);
    // An error is never answered by one: with a forged sender two transfers would tell each other
    // off for ever.
    if (kind === 'error' || kind === 'oack' || kind === 'malformed') return;
    // RFC 1350 §4: told off, and the transfer goes on undisturbed
    this.#running?.strangers.send(
      encodeError(TFTP_ERROR.unknownTid, 'this port belongs to another transfer'),
      peer.port,
      peer.address,
    );
  }

  #receive(datagram: Buffer): void {
    const packet = decodeTftp(datagram);
    if (packet.kind === 'ack' || packet.kind === 'error') this.#step(packet);
  }

  #step(event: TransferEvent): void {
    const running = this.#running;
    if (!running || this.#ended) return;
    const { state, effects } = step(running.plan, this.#state, event, this.#options.clock.monotonic());
    this.#state = state;
    if (state.deadline < this.#timerDue) this.#watch();
    for (const effect of effects) {
      switch (effect.do) {
        case 'data':
          this.#send(running, effect.from, effect.to);
          break;
        case 'oack':
          this.#put(running, encodeOack(running.agreed.acknowledged));
          break;
        case 'error':
          this.#put(running, encodeError(effect.code, effect.message));
          break;
        case 'end':
          this.#end(effect.outcome, effect.why);
          break;
      }
    }
  }

  #send(running: Running, from: number, to: number): void {
    try {
      for (let block = from; block <= to; block++) this.#put(running, running.reader.packet(block));
    } catch (error) {
      this.#fail(error as Error);
    }
  }

  #put(running: Running, packet: Buffer): void {
    // without a callback a packet that cannot be sent is a lost packet, which is what TFTP is made
    // for
    running.client.send(packet);
  }

  /**
   * One timer: deadlines move on with every packet, and it then finds out when it fires. Only one
   * that moves back sets it anew.
   */
  #watch(): void {
    this.#cancelTimer();
    this.#timerDue = this.#state.deadline;
    const wait = Math.max(this.#timerDue - this.#options.clock.monotonic(), 1);
    this.#cancelTimer = this.#options.clock.after(wait as Millis, () => {
      if (this.#ended) return;
      this.#timerDue = Number.POSITIVE_INFINITY as Millis;
      this.#step({ kind: 'timeout' });
    });
  }

  #fail(error: Error): void {
    this.#fault = error.message;
    if (this.#running) {
      const message = 'the file cannot be read';
      this.#step({ kind: 'stop', outcome: 'failed', code: TFTP_ERROR.undefined, message });
    } else {
      this.#refuse();
      this.#end('failed', 'the file cannot be read');
    }
  }

  /**
   * The transfer could not begin: the client is told from a socket of its own, if one can be had.
   */
  #refuse(): void {
    const { peer, from } = this.#options;
    bound(from).then(
      (socket) =>
        socket.send(
          encodeError(TFTP_ERROR.undefined, 'the file cannot be read'),
          peer.port,
          peer.address,
          () => socket.close(),
        ),
      () => {},
    );
  }

  #end(outcome: Outcome, why: string): void {
    if (this.#ended) return;
    this.#ended = true;
    this.#cancelTimer();
    this.#releaseFile();
    const running = this.#running;
    // after the turn: an error packet that is on its way out still leaves
    if (running)
      setImmediate(() => {
        running.client.close();
        running.strangers.close();
      });
    const octets = running ? Math.min(this.#state.acked * running.agreed.blockSize, running.size) : 0;
    this.#options.onEnd({
      outcome,
      why: this.#fault === undefined ? why : `${why}: ${this.#fault}`,
      octets,
      elapsed: (this.#options.clock.monotonic() - this.#startedAt) as Millis,
    });
  }
}
