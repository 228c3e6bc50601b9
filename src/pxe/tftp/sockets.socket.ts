/** UDP sockets for TFTP: the inherited ones that receive requests, and two for each transfer. */
import { createSocket, type Socket } from 'node:dgram';

/**
 * Where requests arrive: an inherited socket, bound to its device before the start; or, in tests,
 * an address.
 */
export type TftpListener =
  | { readonly fd: number; readonly interface?: string }
  | { readonly address: string; readonly port: number; readonly interface?: string };

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

/**
 * Opens a listener. Rejects when the descriptor is not a UDP socket or the address is not local.
 */
export function adopt(listener: TftpListener): Promise<Socket> {
  const socket = create();
  if (!('fd' in listener)) return bind(socket, listener.address, listener.port);
  return when('listening', socket, () => socket.bind({ fd: listener.fd }));
}

/** Opens a socket on `address` and a port that the kernel picks. */
export const bound = (address: string): Promise<Socket> => bind(create(), address, 0);

/** The two sockets of a transfer, see {@link boundFor}. */
export interface TransferSockets {
  readonly client: Socket;
  readonly strangers: Socket;
}

/**
 * Opens a transfer's sockets on `address` and one port that the kernel picks, its TID (RFC 1350
 * §4). `client` is connected to the client, so that the route is looked up once and not for each
 * packet. `strangers` receives from everyone else, who must get error 5. The kernel prefers the
 * connected socket. It may give two transfers the same port, and tells them apart by their clients.
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
