/** UDP sockets for TFTP: the inherited ones that requests come to, and one for each transfer. */
import { createSocket, type Socket } from 'node:dgram';

/**
 * Where requests arrive: an inherited socket (bound to its device before we started), or an address
 * of our own, for tests.
 */
export type TftpListener =
  | { readonly fd: number; readonly interface?: string }
  | { readonly address: string; readonly port: number; readonly interface?: string };

/**
 * dgram looks up every destination, even a literal address, and does so one turn of the event loop
 * later. Here all are literals: answering at once saves a quarter of the cost of sending.
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

/** Resolves to `socket` at its event `done`, which `begin` leads to; closes it when that fails. */
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

/**
 * Takes over a listener. Rejects when the descriptor is no UDP socket or the address is not ours.
 */
export function adopt(listener: TftpListener): Promise<Socket> {
  const socket = create();
  if (!('fd' in listener)) return bind(socket, listener.address, listener.port);
  return when('listening', socket, () => socket.bind({ fd: listener.fd }));
}

/** A socket on `address` and a port that the kernel picks. */
export const bound = (address: string): Promise<Socket> => bind(create(), address, 0);

/** The sockets of a transfer's TID, see {@link boundFor}. */
export interface TransferSockets {
  readonly client: Socket;
  readonly strangers: Socket;
}

/**
 * On `address` and a port that the kernel picks, a transfer's TID (RFC 1350 §4): a socket that is
 * connected to the client, so that the way there is looked up once and not for each packet, and one
 * that hears everybody else, who has to be answered with error 5. The kernel prefers the connected
 * one. It may give two transfers one port, and tells them apart by their clients.
 */
export async function boundFor(
  address: string,
  peer: { readonly address: string; readonly port: number },
): Promise<TransferSockets> {
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
