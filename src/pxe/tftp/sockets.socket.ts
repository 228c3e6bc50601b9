/** The two UDP sockets of a TFTP transfer. */
import { createSocket, type Socket } from 'node:dgram';
import type { Kernel } from '../../base/kernel/kernel.socket.ts';
import type { BlockReader } from './blocks.files.ts';

/**
 * Replaces dgram's look-up of destinations, which takes a turn of the event loop even for a literal
 * address. All addresses here are literal. This saves a quarter of the cost of sending.
 */
function literal(
  host: string,
  _family: unknown,
  done: (error: Error | null, address: string, family: number) => void,
): void {
  done(null, host, 4);
}

function create(reusePort = false): Socket {
  return createSocket({ type: 'udp4', lookup: literal as never, reusePort });
}

/**
 * Calls `begin` and resolves to `socket` at its event `done`. Closes the socket when that fails.
 */
function when(done: 'listening' | 'connect', socket: Socket, begin: () => void): Promise<Socket> {
  return new Promise((resolve, reject) => {
    const failed = (error: Error): void => {
      socket.close();
      reject(error);
    };
    socket.once('error', failed);
    socket.once(done, () => {
      socket.off('error', failed);
      resolve(socket);
    });
    begin();
  });
}

const bind = (socket: Socket, address: string, port: number): Promise<Socket> =>
  when('listening', socket, () => socket.bind({ address, port, exclusive: true }));

/** Opens a socket on `address` and a port that the kernel picks. */
export const bound = (address: string): Promise<Socket> => bind(create(), address, 0);

/** Address and port of a client. */
export interface Peer {
  readonly address: string;
  readonly port: number;
}

/**
 * The sockets of one transfer, on one local address and one port, its TID (RFC 1350 §4). One is
 * connected to the client, so that the route is looked up once and not for each packet. The other
 * receives from everyone else, who must get error 5. The kernel prefers the connected socket. It
 * may give two transfers the same port, and tells them apart by their clients.
 *
 * `node:dgram` implements it here, system calls do in `native-sockets.socket.ts`. A packet that
 * cannot be sent is a lost packet, which TFTP repairs.
 */
export interface TransferSockets {
  /** Sends a packet to the client. */
  send(packet: Buffer): void;
  /** Sends DATA packets to the client. Throws when the file cannot be read. */
  sendBlocks(reader: BlockReader, from: number, to: number): void;
  sendToStranger(packet: Buffer, peer: Peer): void;
  close(): void;
}

export interface TransferHandlers {
  /** The datagram may change after the call. */
  onClient(datagram: Buffer): void;
  onStranger(datagram: Buffer, peer: Peer): void;
}

export interface TransferOpener {
  /** The thread's system calls; undefined: `node:dgram` is used. */
  readonly kernel: Kernel | undefined;
  /** Opens the sockets of a transfer on address `from` and a port that the kernel picks. */
  open(from: string, peer: Peer, handlers: TransferHandlers): Promise<TransferSockets>;
}

/** Opens transfers' sockets by `node:dgram`. */
export const nodeOpener: TransferOpener = {
  kernel: undefined,
  async open(from, peer, handlers) {
    const { client, strangers } = await boundFor(from, peer);
    client.on('message', (datagram) => handlers.onClient(datagram));
    strangers.on('message', (datagram, source) => handlers.onStranger(datagram, source));
    // Errors are ignored. An example is an ICMP error from a client that is gone, whose silence
    // then ends the transfer.
    for (const socket of [client, strangers]) socket.on('error', () => {});
    // No callbacks: nobody waits for a packet to be sent.
    return {
      send: (packet) => client.send(packet),
      sendBlocks(reader, from, to) {
        for (let block = from; block <= to; block++) client.send(reader.packet(block));
      },
      sendToStranger: (packet, peer) => strangers.send(packet, peer.port, peer.address),
      // Closed in the next turn of the event loop, so that an error packet is still sent.
      close: () =>
        void setImmediate(() => {
          client.close();
          strangers.close();
        }),
    };
  },
};

async function boundFor(address: string, peer: Peer): Promise<{ client: Socket; strangers: Socket }> {
  const strangers = await bind(create(true), address, 0);
  try {
    const client = await bind(create(true), address, strangers.address().port);
    await when('connect', client, () => client.connect(peer.port, peer.address));
    return { client, strangers };
  } catch (error) {
    strangers.close();
    throw error;
  }
}
