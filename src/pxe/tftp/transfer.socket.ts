/** One running transfer: sockets, file and timer around the state machine of `transfer.ts`. */
import type { Clock } from '../../base/clock.ts';
import type { Millis } from '../../base/duration.ts';
import { BlockReader, type ByteSource, emptySource, netasciiSource, type OpenFiles } from './blocks.files.ts';
import { decodeTftp, encodeError, encodeOack, TFTP_ERROR, type TftpRequest } from './codec.ts';
import { type Agreed, agree, blockCount } from './request.ts';
import { bound, type Peer, type TransferOpener, type TransferSockets } from './sockets.socket.ts';
import {
  newTransfer,
  type Outcome,
  step,
  type TransferEvent,
  type TransferPlan,
  type TransferState,
} from './transfer.ts';

/** What to send to whom. Plain data, because it is passed to another thread. */
export interface TransferJob {
  readonly request: TftpRequest;
  readonly peer: Peer;
  /** The file; undefined: an empty file. */
  readonly path: string | undefined;
  /** The local address to send from. */
  readonly from: string;
  readonly mtu: number;
}

/** How a transfer ended. */
export interface TransferEnd {
  readonly outcome: Outcome;
  readonly why: string;
  /** Octets of the file that the client has acknowledged. */
  readonly octets: number;
  /** Windows of blocks that were sent again, in whole or in part, because packets were lost. */
  readonly resent: number;
  readonly elapsed: Millis;
}

interface TransferOptions extends TransferJob {
  readonly files: OpenFiles;
  readonly sockets: TransferOpener;
  readonly clock: Clock;
  /** Called once, if and when the client acknowledges something. */
  readonly onConfirmed: () => void;
  /** Called once. */
  readonly onEnd: (end: TransferEnd) => void;
}

/**
 * A repeated request within this many ms after the start, from a client that has already answered,
 * is a duplicate of the network; a later one means that the client has started over.
 */
const DOUBLED_WITHIN = 1000;

/** What exists once sockets and file are open. */
interface Running {
  readonly sockets: TransferSockets;
  readonly reader: BlockReader;
  readonly plan: TransferPlan;
  readonly agreed: Agreed;
  readonly size: number;
}

/** A transfer from its request to its end. `onEnd` is called exactly once. */
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
  #resent = 0;
  /** What went wrong on this side, for the log; the client gets a shorter message. */
  #fault: string | undefined;

  constructor(options: TransferOptions) {
    this.#options = options;
    this.#startedAt = options.clock.monotonic();
  }

  /** Opens file and sockets and sends the first packet. A failure ends the transfer. */
  start(): void {
    this.#open().catch((error: Error) => this.#fail(error));
  }

  /**
   * Handles a repeated request. Returns true when this transfer did (by sending the first packet
   * again, or by ignoring a duplicate), and false when it is over or the client has started over:
   * the request then needs a new transfer.
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

  /** Ends the transfer: the client asked for something else from the same port. */
  supersede(): void {
    if (this.#running) this.#step({ kind: 'superseded' });
    else this.#end('superseded', 'another request came from the same port');
  }

  /** Ends the transfer, whose client has acknowledged nothing: its place is needed. */
  displace(): void {
    if (this.#running) this.#step({ kind: 'displaced' });
    else this.#end('displaced', 'its place was needed before it began');
  }

  /** Ends the transfer: the server stops. */
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
    const { sockets: opener, peer } = this.#options;
    const sockets = await opener.open(from, peer, {
      onClient: (datagram) => this.#receive(datagram),
      onStranger: (datagram, stranger) => this.#stranger(datagram, stranger),
    });
    if (this.#ended) {
      sockets.close();
      return;
    }
    const agreed = agree(request, source.size, mtu);
    const blocks = blockCount(source.size, agreed.blockSize);
    const reader = new BlockReader({
      source,
      blockSize: agreed.blockSize,
      blocks,
      window: agreed.window,
      kernel: opener.kernel,
    });
    const oack = agreed.acknowledged.length > 0;
    const plan = { blocks, window: agreed.window, oack, timeout: agreed.timeout };
    this.#running = { sockets, reader, plan, agreed, size: source.size };
    this.#step({ kind: 'start' });
  }

  #stranger(datagram: Buffer, peer: Peer): void {
    const { peer: client } = this.#options;
    // A packet of the client that came before the connected socket was open.
    if (peer.port === client.port && peer.address === client.address) {
      this.#receive(datagram);
      return;
    }
    const { kind } = decodeTftp(datagram);
    // An error is never answered with an error: with a forged sender, two transfers would send each
    // other errors for ever.
    if (kind === 'error' || kind === 'oack' || kind === 'malformed') return;
    // RFC 1350 §4: the stranger gets an error, and the transfer continues undisturbed.
    const error = encodeError(TFTP_ERROR.unknownTid, 'this port belongs to another transfer');
    this.#running?.sockets.sendToStranger(error, peer);
  }

  #receive(datagram: Buffer): void {
    const packet = decodeTftp(datagram);
    if (packet.kind === 'ack' || packet.kind === 'error') this.#step(packet);
  }

  #step(event: TransferEvent): void {
    const running = this.#running;
    if (!running || this.#ended) return;
    const { state, effects } = step(running.plan, this.#state, event, this.#options.clock.monotonic());
    if (state.confirmed && !this.#state.confirmed) this.#options.onConfirmed();
    this.#state = state;
    if (state.deadline < this.#timerDue) this.#watch();
    for (const effect of effects) {
      switch (effect.do) {
        case 'data':
          if (!state.clean) this.#resent++;
          this.#send(running, effect.from, effect.to);
          break;
        case 'oack':
          running.sockets.send(encodeOack(running.agreed.acknowledged));
          break;
        case 'error':
          running.sockets.send(encodeError(effect.code, effect.message));
          break;
        case 'end':
          this.#end(effect.outcome, effect.why);
          break;
      }
    }
  }

  #send(running: Running, from: number, to: number): void {
    try {
      running.sockets.sendBlocks(running.reader, from, to);
    } catch (error) {
      this.#fail(error as Error);
    }
  }

  /**
   * Sets the one timer. Every packet moves the deadline forward; the timer finds that out when it
   * fires. Only a deadline that moves back sets the timer again.
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

  /** Sends an error to the client of a transfer that could not begin, from a new socket. */
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
    running?.sockets.close();
    const octets = running ? Math.min(this.#state.acked * running.agreed.blockSize, running.size) : 0;
    this.#options.onEnd({
      outcome,
      why: this.#fault === undefined ? why : `${why}: ${this.#fault}`,
      octets,
      resent: this.#resent,
      elapsed: (this.#options.clock.monotonic() - this.#startedAt) as Millis,
    });
  }
}
