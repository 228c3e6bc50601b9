/**
 * DHCP on the wire: one inherited socket for each interface and port. Receives datagrams, passes
 * them to the packet pipeline, and sends the replies.
 */
import { createSocket, type Socket } from 'node:dgram';
import { millis } from '../../base/duration.ts';
import type { InheritedSocket } from '../../base/inherited.ts';
import { formatIpv4, type Ipv4, parseIpv4 } from '../../base/ipv4.ts';
import type { Log } from '../../base/log.ts';
import { encode } from './packet.ts';
import { PacketPipeline, type PacketPipelineParts } from './packet-pipeline.ts';
import { startProbing } from './probe.socket.ts';
import type { Step } from './step.ts';

interface DhcpParts extends PacketPipelineParts {
  /**
   * All inherited sockets. Those named `dhcp-IFACE` (port 67) and `pxe-IFACE` (port 4011) are used.
   */
  readonly sockets: readonly InheritedSocket[];
  readonly signal: AbortSignal;
}

interface DhcpServer {
  /** Stops receiving. Replies that wait for the store are still sent for {@link LAST_REPLIES}. */
  close(): Promise<void>;
}

const NAME = /^(dhcp|pxe)-(.+)$/;
/** Number of parsed source addresses that are kept. Beyond it all of them are dropped. */
const KNOWN_ADDRESSES = 4096;
/** How long a stop waits for replies that the store holds up. */
const LAST_REPLIES = millis(1_000);

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

function send(step: Step, socket: Socket, log: Log): void {
  if (step.reply === undefined) return;
  const { packet, to, maximum } = step.reply;
  const { bytes, dropped } = encode(packet, maximum);
  const address = formatIpv4(to.address);
  if (dropped.length > 0)
    log.debug({ dropped, to: address }, 'options dropped: the client accepts no larger reply');
  const failed = (error: Error | null) => {
    if (error) log.warn({ err: error, to: address, mac: step.client?.mac }, 'a DHCP reply could not be sent');
  };
  try {
    socket.send(bytes, to.port, address, failed);
  } catch (error) {
    failed(error as Error);
  }
}

async function adopt(inherited: InheritedSocket, log: Log): Promise<Socket> {
  // Node would otherwise call its resolver for each packet, even for a literal address.
  const socket = createSocket({
    type: 'udp4',
    lookup: (host, _options, done) => done(null, host, 4),
  });
  await new Promise<void>((resolve, reject) => {
    socket.once('error', reject);
    socket.bind({ fd: inherited.fd }, () => {
      socket.off('error', reject);
      resolve();
    });
  });
  socket.on('error', (error) => log.error({ err: error, socket: inherited.name }, 'DHCP socket'));
  socket.setBroadcast(true);
  return socket;
}

/** Starts the DHCP server on the inherited sockets. Resolves when all of them receive. */
export async function startDhcp(parts: DhcpParts): Promise<DhcpServer> {
  const log = parts.log.child({ room: 'dhcp' });
  const pipeline = new PacketPipeline(parts);
  const read = addressReader();
  const open: Socket[] = [];
  for (const inherited of parts.sockets) {
    const [, kind, via] = NAME.exec(inherited.name) ?? [];
    if (kind === undefined || via === undefined) continue;
    const socket = await adopt(inherited, log);
    const port = kind === 'dhcp' ? 67 : 4011;
    socket.on('message', (bytes, from) => {
      const source = { address: read(from.address), port: from.port };
      const step = pipeline.receive({ bytes, interface: via, port, source });
      if (step instanceof Promise) void step.then((settled) => send(settled, socket, log));
      else send(step, socket, log);
    });
    open.push(socket);
  }
  const stopProbing = startProbing({ ...parts, log, index: () => pipeline.index });
  let closing: Promise<void> | undefined;
  const close = () => {
    closing ??= (async () => {
      stopProbing();
      for (const socket of open) socket.removeAllListeners('message');
      const late = new Promise<void>((resolve) => {
        parts.clock.after(LAST_REPLIES, resolve);
      });
      await Promise.race([pipeline.drain(), late]);
      for (const socket of open) socket.close();
    })();
    return closing;
  };
  parts.signal.addEventListener('abort', () => void close(), { once: true });
  return { close };
}
