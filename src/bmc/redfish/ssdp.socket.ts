/** Asks the segments of the boot host for Redfish services, when an operator orders it. */
import { createSocket, type Socket } from 'node:dgram';
import { once } from 'node:events';
import { isAt, readAnswer, SEARCH, SPREAD_SECONDS, SSDP, type SsdpAnswer } from './ssdp.ts';

/** A service that answered. */
export interface FoundService extends SsdpAnswer {
  readonly sender: string;
  /** It names a URL at another host than itself. */
  readonly elsewhere?: true;
}

/** The most senders that are listed, and the most datagrams that are read. */
const MOST = 1000;
const MAX_READ = 8 * MOST;
/** As DSP0266 says: beyond the next router nobody is asked. */
const HOPS = 2;
const AGAIN_MS = 500;
/** How long answers are waited for. */
const WITHIN_MS = SPREAD_SECONDS * 1000 + 2 * AGAIN_MS;

/**
 * Asks from each of these own addresses, twice, because datagrams are lost, and collects answers
 * for three seconds. The first answer of each sender counts.
 *
 * @param from addresses of the boot host; one that it does not have any more is left out
 */
export async function searchRedfish(from: readonly string[]): Promise<readonly FoundService[]> {
  const found = new Map<string, FoundService>();
  let read = 0;
  const sockets = await Promise.all(from.map(openAt));
  const open = sockets.filter((socket) => socket !== undefined);
  if (open.length === 0) return [];
  try {
    for (const socket of open)
      socket.on('message', (datagram, { address }) => {
        // A flood of answers costs no more than this.
        if (++read > MAX_READ || found.size >= MOST || found.has(address)) return;
        const answer = readAnswer(datagram);
        if (answer)
          found.set(address, {
            ...answer,
            sender: address,
            ...(!isAt(answer, address) && { elsewhere: true }),
          });
      });
    for (const wait of [AGAIN_MS, WITHIN_MS - AGAIN_MS]) {
      for (const socket of open) socket.send(SEARCH, SSDP.port, SSDP.address, () => {});
      await new Promise((done) => setTimeout(done, wait));
    }
  } finally {
    for (const socket of open) socket.close();
  }
  return [...found.values()];
}

async function openAt(address: string): Promise<Socket | undefined> {
  const socket = createSocket('udp4');
  try {
    socket.bind({ address, port: 0 });
    await once(socket, 'listening');
    socket.setMulticastInterface(address);
    socket.setMulticastTTL(HOPS);
    // What arrives late, such as a refusal of a router, concerns nobody.
    socket.on('error', () => {});
    return socket;
  } catch {
    socket.close();
    return undefined;
  }
}
