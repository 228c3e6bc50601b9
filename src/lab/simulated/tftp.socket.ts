/** A TFTP client as firmware has it: its block size and window, its time-outs, its patience. */
import { createSocket, type Socket } from 'node:dgram';
import { once } from 'node:events';
import { encodeAck, encodeError, encodeRead } from '../../pxe/tftp/codec.ts';
import type { TftpClient } from './personalities.ts';

export interface TftpFetch {
  /** The machine's address. */
  readonly from: string;
  readonly server: string;
  readonly file: string;
  readonly client: TftpClient;
  /** Called for each packet that is sent again because no answer came. */
  readonly again: () => void;
}

/** Fetches a file; resolves to its size. Rejects when the server refuses or the client gives up. */
export async function fetchByTftp(order: TftpFetch): Promise<number> {
  if (order.client.probes) await withSocket(order.from, (socket) => transfer(socket, order, true));
  return withSocket(order.from, (socket) => transfer(socket, order, false));
}

async function withSocket<T>(from: string, use: (socket: Socket) => Promise<T>): Promise<T> {
  const socket = createSocket({ type: 'udp4', lookup: (host, _options, done) => done(null, host, 4) });
  try {
    // With this look-up the event comes before `bind` returns.
    const listening = once(socket, 'listening');
    socket.bind(0, from);
    await listening;
    return await use(socket);
  } finally {
    socket.close();
  }
}

const OPCODE = { data: 3, error: 5, oack: 6 } as const;

/** The window that the server accepted: 1 when its OACK does not name the option (RFC 7440 §3). */
function windowOf(oack: Buffer): number {
  const words = oack.toString('latin1', 2).split('\0');
  const at = words.findIndex((word, n) => n % 2 === 0 && word.toLowerCase() === 'windowsize');
  return at < 0 ? 1 : Number(words[at + 1]);
}

/** One transfer. `probe`: it ends when the size is known. */
function transfer(socket: Socket, order: TftpFetch, probe: boolean): Promise<number> {
  const { server, file, client } = order;
  const options: [string, string][] = [
    ['tsize', '0'],
    ['blksize', String(client.blockSize)],
    ...(client.window > 1 ? ([['windowsize', String(client.window)]] as [string, string][]) : []),
  ];
  const { promise, resolve, reject } = Promise.withResolvers<number>();
  /** The last packet that was sent, and where to. */
  let last = encodeRead(file, 'octet', options);
  let port = 69;
  let attempts = 0;
  let timer: NodeJS.Timeout;
  let block = 0;
  let size = 0;
  let window = 1;
  const send = (packet: Buffer, to: number) => {
    clearTimeout(timer);
    last = packet;
    port = to;
    socket.send(packet, to, server);
    timer = setTimeout(silence, client.timeoutMs);
  };
  const silence = () => {
    if (++attempts >= client.attempts) {
      reject(new Error(`TFTP ${file}: no answer after block ${block}`));
      return;
    }
    order.again();
    send(last, port);
  };
  socket.on('message', (packet, { port: tid }) => {
    if (packet[1] === OPCODE.error) {
      reject(new Error(`TFTP ${file}: ${packet.toString('latin1', 4)}`));
    } else if (packet[1] === OPCODE.oack && block === 0) {
      attempts = 0;
      window = windowOf(packet);
      if (!probe) send(encodeAck(0), tid);
      else {
        socket.send(encodeError(8, 'User aborted the transfer'), tid, server);
        // Node sends a datagram to a literal address before it returns.
        resolve(0);
      }
    } else if (packet[1] === OPCODE.data && packet.readUInt16BE(2) === ((block + 1) & 0xffff)) {
      attempts = 0;
      block++;
      size += packet.length - 4;
      const over = packet.length - 4 < client.blockSize;
      if (over || block % window === 0) send(encodeAck(block), tid);
      if (over) resolve(size);
    }
  });
  send(last, port);
  return promise.finally(() => clearTimeout(timer));
}
