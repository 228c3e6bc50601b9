/** UDP sockets for TFTP: the inherited ones that requests come to, and one for each transfer. */
import { createSocket, type Socket } from 'node:dgram';

/** Where requests arrive: an inherited socket (bound to its device before we started), or an address of our own, for tests. */
export type TftpListener =
  | { readonly fd: number; readonly interface?: string }
  | { readonly address: string; readonly port: number; readonly interface?: string };

/**
 * dgram looks up every destination, even a literal address, and does so one turn of the event loop later. Here all are literals:
 * answering at once saves a quarter of the cost of sending.
 */
function literal(
  host: string,
  _family: unknown,
  done: (error: Error | null, address: string, family: number) => void,
): void {
  done(null, host, 4);
}

function create(): Socket {
  return createSocket({ type: 'udp4', lookup: literal as never });
}

function opened(socket: Socket, bind: () => void): Promise<Socket> {
  return new Promise((resolve, reject) => {
    socket.once('error', reject);
    socket.once('listening', () => {
      socket.off('error', reject);
      resolve(socket);
    });
    bind();
  });
}

/** Takes over a listener. Rejects when the descriptor is no UDP socket or the address is not ours. */
export function adopt(listener: TftpListener): Promise<Socket> {
  const socket = create();
  return opened(socket, () => {
    if ('fd' in listener) socket.bind({ fd: listener.fd });
    else socket.bind({ address: listener.address, port: listener.port, exclusive: true });
  });
}

/**
 * A socket on `address` and a port that the kernel picks: a transfer's TID (RFC 1350 §4). It is not connected, because a connected
 * one would never see the datagrams of strangers that have to be answered with error 5.
 */
export function bound(address: string): Promise<Socket> {
  const socket = create();
  return opened(socket, () => socket.bind({ address, port: 0, exclusive: true }));
}
