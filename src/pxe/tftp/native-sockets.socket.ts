/**
 * The sockets of a transfer by system calls: a window of DATA packets goes to the kernel in one
 * call, which cuts it into packets (UDP segmentation offload), or with sendmmsg(2) where the kernel
 * cannot.
 */
import { formatIpv4, ipv4, parseIpv4 } from '../../base/ipv4.ts';
import { Kernel, SystemCallError } from '../../base/kernel/kernel.socket.ts';
import { type Descriptor, descriptor } from '../../base/kernel/memory.socket.ts';
import { type SocketWatcher, ThreadWaiter } from '../../base/kernel/waiter.socket.ts';
import type { BlockReader } from './blocks.files.ts';
import type { Peer, TransferHandlers, TransferOpener, TransferSockets } from './sockets.socket.ts';

/**
 * Smaller packets are not sent as segments, because an OACK or an error that is longer than a
 * segment would be cut too.
 */
const LEAST_SEGMENT = 512;
/** Octets of a client's datagram that are looked at: more than an ACK or error needs. */
const CLIENT_DATAGRAM = 1024;

/** Opens transfers' sockets by the system calls of this thread. */
export function nativeOpener(kernel: Kernel, watcher: SocketWatcher): TransferOpener {
  // One datagram is handled at a time.
  const received = kernel.region(CLIENT_DATAGRAM);
  return {
    kernel,
    async open(from, peer, handlers) {
      const open: Descriptor[] = [];
      try {
        const bound = (port: number) => {
          const socket = kernel.udp();
          open.push(socket);
          kernel.set(socket, 'reusePort', 1);
          kernel.bind(socket, ipv4(from), port);
          return socket;
        };
        const strangers = bound(0);
        const client = bound(kernel.local(strangers).port);
        kernel.connect(client, ipv4(peer.address), peer.port);
        return new NativeSockets({ kernel, watcher, received, client, strangers, handlers });
      } catch (error) {
        for (const socket of open) kernel.close(socket);
        throw error;
      }
    },
  };
}

/** The opener of a thread that runs transfers. */
export function threadOpener(waits: { readonly wake: number; readonly set: number }): TransferOpener {
  const kernel = new Kernel({ loop: false });
  const [wake, set] = [descriptor(waits.wake), descriptor(waits.set)];
  return nativeOpener(kernel, new ThreadWaiter(kernel, { wake, set }));
}

interface Parts {
  readonly kernel: Kernel;
  readonly watcher: SocketWatcher;
  readonly received: ReturnType<Kernel['region']>;
  readonly client: Descriptor;
  readonly strangers: Descriptor;
  readonly handlers: TransferHandlers;
}

class NativeSockets implements TransferSockets {
  readonly #parts: Parts;
  readonly #stopWatching: readonly (() => void)[];
  /** Octets of a segment that the client's socket is set to; 0: none yet. */
  #segment = 0;
  /** Whether the kernel has refused to cut segments for this transfer. */
  #refused = false;
  /** The last block of the window that is being sent, while the socket's buffer is full. */
  #until = 0;
  #closed = false;

  constructor(parts: Parts) {
    this.#parts = parts;
    const { watcher, client, strangers } = parts;
    this.#stopWatching = [
      watcher.watch(client, () => this.#fromClient()),
      watcher.watch(strangers, () => this.#fromStrangers()),
    ];
  }

  #fromClient(): void {
    const { kernel, client, received, handlers } = this.#parts;
    const octets = kernel.receive(client, received);
    if (octets >= 0) handlers.onClient(received.bytes.subarray(0, octets));
  }

  #fromStrangers(): void {
    const { kernel, strangers, handlers } = this.#parts;
    for (const { bytes, address, port } of kernel.receiveBatch(strangers)) {
      if (this.#closed) return;
      handlers.onStranger(bytes, { address: formatIpv4(address), port });
    }
  }

  send(packet: Buffer): void {
    const { kernel, client, received } = this.#parts;
    // The received datagram has been handled, so its memory is free.
    const octets = packet.copy(received.bytes);
    try {
      const run = { region: received, offset: 0, octets, packetSize: octets };
      kernel.sendRun(client, run, { segments: false });
    } catch (error) {
      ignoreLost(error);
    }
  }

  sendBlocks(reader: BlockReader, from: number, to: number): void {
    this.#until = to;
    for (let block = from; block <= to; ) {
      const run = reader.run(block, to);
      try {
        const sent = this.#sendRun(run);
        block = sent < run.octets ? block + Math.floor(sent / run.packetSize) : run.last + 1;
      } catch (error) {
        if (error instanceof SystemCallError && error.code === 'EAGAIN') {
          this.#later(reader, block, to);
          return;
        }
        ignoreLost(error);
        return;
      }
    }
  }

  /** Sends packets as segments, or, where the kernel refuses, one by one. Returns octets sent. */
  #sendRun(run: ReturnType<BlockReader['run']>): number {
    const { kernel, client } = this.#parts;
    const several = run.octets > run.packetSize;
    const segments = several && this.#canSegment(run.packetSize);
    try {
      return kernel.sendRun(client, run, { segments });
    } catch (error) {
      // For example because a packet is longer than the MTU of the path, or the route has no
      // checksum offload.
      if (!segments || !(error instanceof SystemCallError) || error.code === 'EAGAIN') throw error;
      this.#refused = true;
      kernel.set(client, 'segment', 0);
      return kernel.sendRun(client, run, { segments: false });
    }
  }

  #canSegment(size: number): boolean {
    if (this.#refused || size < LEAST_SEGMENT) return false;
    if (this.#segment === size) return true;
    try {
      this.#parts.kernel.set(this.#parts.client, 'segment', size);
      this.#segment = size;
    } catch (error) {
      if (!(error instanceof SystemCallError)) throw error;
      this.#refused = true;
    }
    return !this.#refused;
  }

  /** The socket's buffer is full: continues when it may have room, unless another window began. */
  #later(reader: BlockReader, block: number, to: number): void {
    this.#parts.watcher.soon(() => {
      if (this.#closed || this.#until !== to) return;
      try {
        this.sendBlocks(reader, block, to);
      } catch {
        // The file cannot be read: the next window will find that out.
      }
    });
  }

  sendToStranger(packet: Buffer, { address, port }: Peer): void {
    const { kernel, strangers } = this.#parts;
    const to = parseIpv4(address);
    if (to === undefined) return;
    try {
      kernel.sendBatch(strangers, [{ bytes: packet, address: to, port }]);
    } catch (error) {
      ignoreLost(error);
    }
  }

  close(): void {
    if (this.#closed) return;
    this.#closed = true;
    for (const stop of this.#stopWatching) stop();
    this.#parts.kernel.close(this.#parts.client);
    this.#parts.kernel.close(this.#parts.strangers);
  }
}

/** A packet that the kernel does not take is a lost packet. Anything else is a fault of ours. */
function ignoreLost(error: unknown): void {
  if (!(error instanceof SystemCallError)) throw error;
}
