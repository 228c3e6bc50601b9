/** Asks time servers what time it is. */
import { randomBytes } from 'node:crypto';
import dgram from 'node:dgram';
import { decodeSntpAnswer, encodeSntpRequest } from './sntp.ts';

const PORT = 123;
/** How long an answer may take. */
const PATIENCE_MS = 2000;

/**
 * Asks each server once. Resolves to the times now of those that answered, ms since 1970; never
 * rejects.
 */
export async function askTimeServers(servers: readonly string[]): Promise<readonly number[]> {
  const told = await Promise.all(servers.map(askOne));
  return told.flatMap((one) => (one === undefined ? [] : [one.time + performance.now() - one.heardAt]));
}

interface Answer {
  readonly time: number;
  /** Monotonic. */
  readonly heardAt: number;
}

function askOne(server: string): Promise<Answer | undefined> {
  const { host, port } = partsOf(server);
  const nonce = randomBytes(8);
  return new Promise((resolve) => {
    const socket = dgram.createSocket(host.includes(':') ? 'udp6' : 'udp4');
    const timer = setTimeout(() => done(undefined), PATIENCE_MS);
    const done = (answer: Answer | undefined): void => {
      clearTimeout(timer);
      socket.removeAllListeners();
      socket.on('error', () => {});
      socket.close();
      resolve(answer);
    };
    socket.on('error', () => done(undefined));
    socket.on('message', (packet) => {
      const time = decodeSntpAnswer(packet, nonce);
      // Anything else is not from that server, or does not help.
      if (time !== undefined) done({ time, heardAt: performance.now() });
    });
    // A connected socket takes datagrams of that server only.
    socket.connect(port, host, () => socket.send(encodeSntpRequest(nonce)));
  });
}

/** `HOST`, `HOST:PORT`, `[IPv6]:PORT` or an IPv6 address. */
function partsOf(server: string): { readonly host: string; readonly port: number } {
  const [, host, port] = /^\[?([^\]]*?)\]?(?::([0-9]+))?$/.exec(server) ?? [];
  const plain = server.split(':').length > 2 && !server.startsWith('[');
  return plain ? { host: server, port: PORT } : { host: host ?? server, port: Number(port ?? PORT) };
}
