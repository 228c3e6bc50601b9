/** Datagrams by `node:dgram`, for hosts on which direct system calls cannot be used. */
import { createSocket, type Socket } from 'node:dgram';
import {
  type DatagramEdge,
  type DatagramHandlers,
  type DatagramListener,
  type Datagrams,
  MAX_DATAGRAM,
} from './datagrams.ts';
import { formatIpv4, type Ipv4, parseIpv4 } from './ipv4.ts';

/** Number of parsed source addresses that are kept. Beyond it all of them are dropped. */
const KNOWN_ADDRESSES = 4096;

export const nodeDatagrams: Datagrams = { native: false, openEdge };

async function openEdge(listener: DatagramListener, handlers: DatagramHandlers): Promise<DatagramEdge> {
  // Node would otherwise call its resolver for each packet, even for a literal address.
  const socket = createSocket({ type: 'udp4', lookup: (host, _options, done) => done(null, host, 4) });
  await new Promise<void>((resolve, reject) => {
    const failed = (error: Error) => {
      socket.close();
      reject(error);
    };
    socket.once('error', failed);
    socket.bind('fd' in listener ? { fd: listener.fd } : { ...listener, exclusive: true }, () => {
      socket.off('error', failed);
      resolve();
    });
  });
  return new NodeEdge(socket, handlers);
}

class NodeEdge implements DatagramEdge {
  readonly native = false;
  readonly local: { readonly address: string; readonly port: number };
  readonly #socket: Socket;
  readonly #handlers: DatagramHandlers;
  /** Datagrams that were given to Node and are not sent yet. */
  #sending = 0;
  #closed = false;

  constructor(socket: Socket, handlers: DatagramHandlers) {
    this.#socket = socket;
    this.#handlers = handlers;
    const { address, port } = socket.address();
    this.local = { address, port };
    const read = addressReader();
    socket.setBroadcast(true);
    // An error of a socket without a connection concerns one datagram, which is lost.
    socket.on('error', () => {});
    socket.on('message', (message, from) => {
      const bytes = message.length > MAX_DATAGRAM ? message.subarray(0, MAX_DATAGRAM) : message;
      const received = { bytes, address: read(from.address), port: from.port };
      handlers.take([{ ...received, interfaceIndex: 0, unicast: undefined }]);
    });
  }

  send(bytes: Uint8Array, address: Ipv4, port: number): void {
    if (this.#closed) return;
    if (bytes.length > MAX_DATAGRAM) {
      this.#handlers.failed(new Error(`longer than ${MAX_DATAGRAM} octets`), address, port);
      return;
    }
    this.#sending++;
    const sent = (error: Error | null) => {
      if (error) this.#handlers.failed(error, address, port);
      this.#sending--;
      if (this.#closed && this.#sending === 0) this.#socket.close();
    };
    try {
      this.#socket.send(bytes, port, formatIpv4(address), sent);
    } catch (error) {
      sent(error as Error);
    }
  }

  close(): void {
    if (this.#closed) return;
    this.#closed = true;
    this.#socket.removeAllListeners('message');
    if (this.#sending === 0) this.#socket.close();
  }
}

/** Parses source addresses, and keeps the results, because 0.0.0.0 and relays repeat. */
function addressReader(): (text: string) => Ipv4 {
  const known = new Map<string, Ipv4>();
  return (text) => {
    let address = known.get(text);
    if (address === undefined) {
      address = parseIpv4(text) ?? (0 as Ipv4);
      if (known.size >= KNOWN_ADDRESSES) known.clear();
      known.set(text, address);
    }
    return address;
  };
}
