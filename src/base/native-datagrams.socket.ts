/** Datagrams by direct system calls: batches by recvmmsg(2) and sendmmsg(2), on the main thread. */
import {
  BATCH,
  type DatagramEdge,
  type DatagramHandlers,
  type DatagramListener,
  type Datagrams,
  MAX_DATAGRAM,
} from './datagrams.ts';
import { formatIpv4, type Ipv4, ipv4 } from './ipv4.ts';
import { type Kernel, SystemCallError } from './kernel/kernel.socket.ts';
import { type Descriptor, descriptor } from './kernel/memory.socket.ts';
import type { Outgoing } from './kernel/slots.socket.ts';

/** Datagrams that wait for room in the kernel. Later ones are refused. */
const MAX_WAITING = 4096;
/** When a full socket buffer is tried again. */
const RETRY_MS = 1;

/** Edges that use `kernel`. */
export function nativeDatagrams(kernel: Kernel): Datagrams {
  return {
    native: true,
    openEdge: async (listener, handlers) => new NativeEdge(kernel, listener, handlers),
  };
}

class NativeEdge implements DatagramEdge {
  readonly native = true;
  readonly local: { readonly address: string; readonly port: number };
  readonly #kernel: Kernel;
  readonly #socket: Descriptor;
  readonly #handlers: DatagramHandlers;
  readonly #stopWatching: () => void;
  #waiting: Outgoing[] = [];
  /** Whether `#flush` will be called anyway: after this batch, or by an immediate or a timer. */
  #flushDue = false;
  #closed = false;

  constructor(kernel: Kernel, listener: DatagramListener, handlers: DatagramHandlers) {
    this.#kernel = kernel;
    this.#handlers = handlers;
    this.#socket = 'fd' in listener ? descriptor(listener.fd) : bound(kernel, listener);
    const { address, port } = kernel.local(this.#socket);
    this.local = { address: formatIpv4(address), port };
    kernel.set(this.#socket, 'broadcast', 1);
    kernel.set(this.#socket, 'packetInfo', 1);
    this.#stopWatching = kernel.watch(this.#socket, () => this.#receive());
  }

  /** One batch a turn, so that the rest of the process gets its turn under a flood. */
  #receive(): void {
    const batch = this.#kernel.receiveBatch(this.#socket);
    if (batch.length === 0) return;
    this.#flushDue = true;
    this.#handlers.take(batch);
    this.#flush();
  }

  send(bytes: Uint8Array, address: Ipv4, port: number): void {
    if (this.#closed) return;
    if (bytes.length > MAX_DATAGRAM || this.#waiting.length >= MAX_WAITING) {
      const why =
        bytes.length > MAX_DATAGRAM ? `longer than ${MAX_DATAGRAM} octets` : 'too many wait to be sent';
      this.#handlers.failed(new Error(why), address, port);
      return;
    }
    this.#waiting.push({ bytes, address, port });
    if (this.#flushDue) return;
    this.#flushDue = true;
    setImmediate(() => this.#flush());
  }

  #flush(): void {
    this.#flushDue = false;
    while (this.#waiting.length > 0 && !this.#closed) {
      const batch = this.#waiting.slice(0, BATCH);
      try {
        this.#waiting.splice(0, this.#kernel.sendBatch(this.#socket, batch));
      } catch (error) {
        if (error instanceof SystemCallError && error.code === 'EAGAIN') {
          this.#flushDue = true;
          setTimeout(() => this.#flush(), RETRY_MS);
          return;
        }
        // The error is the first datagram's; the others are tried again.
        const refused = this.#waiting.shift()!;
        this.#handlers.failed(error as Error, refused.address, refused.port);
      }
    }
  }

  close(): void {
    if (this.#closed) return;
    this.#flush();
    this.#closed = true;
    this.#stopWatching();
    this.#kernel.close(this.#socket);
  }
}

/** Opens a socket on an address. */
function bound(kernel: Kernel, { address, port }: { readonly address: string; readonly port: number }) {
  const socket = kernel.udp();
  try {
    kernel.bind(socket, ipv4(address), port);
    return socket;
  } catch (error) {
    kernel.close(socket);
    throw error;
  }
}
