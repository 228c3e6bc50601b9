/**
 * A bad network for TFTP: loses, duplicates and reorders datagrams between client and server on
 * loopback.
 */
import { createSocket, type Socket } from 'node:dgram';
import { once } from 'node:events';
import { systemClock } from '../../src/base/clock.ts';
import { millis } from '../../src/base/duration.ts';
import { xorshift } from '../unit/pxe/tftp/mutate.ts';

export interface BadNetwork {
  /** Percentage of datagrams, in each direction. */
  readonly loss: number;
  readonly doubling: number;
  /** Datagrams that are delayed until others have overtaken them. */
  readonly reorder: number;
  readonly seed: number;
}

export interface Proxy {
  readonly port: number;
  readonly dropped: () => number;
  close(): void;
}

async function open(): Promise<Socket> {
  const socket = createSocket('udp4');
  socket.bind(0, '127.0.0.1');
  await once(socket, 'listening');
  return socket;
}

/**
 * Listens on a free port for requests to `serverPort`. Requests always arrive, because clients wait
 * many seconds before they repeat one.
 */
export async function badNetwork(serverPort: number, how: BadNetwork): Promise<Proxy> {
  const random = xorshift(how.seed);
  const chance = (percent: number) => random() % 100 < percent;
  const sockets: Socket[] = [];
  let dropped = 0;
  const pass = (send: () => void) => {
    if (chance(how.loss)) {
      dropped++;
      return;
    }
    if (chance(how.reorder)) systemClock.after(millis(3), send);
    else send();
    if (chance(how.doubling)) systemClock.after(millis(1), send);
  };
  const front = await open();
  sockets.push(front);
  let closed = false;
  front.on('message', async (request, client) => {
    // One socket towards the server and one towards the client, whose port is the transfer's TID.
    const [up, down] = [await open(), await open()];
    sockets.push(up, down);
    let tid = 0;
    up.on('message', (packet, server) => {
      tid = server.port;
      pass(() => !closed && down.send(packet, client.port, client.address));
    });
    down.on('message', (packet) => pass(() => !closed && up.send(packet, tid, '127.0.0.1')));
    up.send(request, serverPort, '127.0.0.1');
  });
  return {
    port: front.address().port,
    dropped: () => dropped,
    close() {
      closed = true;
      for (const socket of sockets) socket.close();
    },
  };
}
