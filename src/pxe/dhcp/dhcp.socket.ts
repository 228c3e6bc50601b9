/**
 * DHCP on the wire: one inherited socket for each interface and port. Receives datagrams, passes
 * them to the packet pipeline, and sends the replies.
 */
import type { DatagramEdge, Datagrams } from '../../base/datagrams.ts';
import { millis } from '../../base/duration.ts';
import type { InheritedSocket } from '../../base/inherited.ts';
import { formatIpv4 } from '../../base/ipv4.ts';
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
  readonly datagrams: Datagrams;
}

interface DhcpServer {
  /** Stops receiving. Replies that wait for the store are still sent for {@link LAST_REPLIES}. */
  close(): Promise<void>;
}

const NAME = /^(dhcp|pxe)-(.+)$/;
/** How long a stop waits for replies that the store holds up. */
const LAST_REPLIES = millis(1_000);

function send(step: Step, edge: DatagramEdge, log: Log): void {
  if (step.reply === undefined) return;
  const { packet, to, maximum } = step.reply;
  const { bytes, dropped } = encode(packet, maximum);
  if (dropped.length > 0)
    log.debug({ dropped, to: formatIpv4(to.address) }, 'options dropped: the client accepts no larger reply');
  edge.send(bytes, to.address, to.port);
}

/** Starts the DHCP server on the inherited sockets. Resolves when all of them receive. */
export async function startDhcp(parts: DhcpParts): Promise<DhcpServer> {
  const log = parts.log.child({ room: 'dhcp' });
  const pipeline = new PacketPipeline(parts);
  const open: DatagramEdge[] = [];
  let receiving = true;
  for (const inherited of parts.sockets) {
    const [, kind, via] = NAME.exec(inherited.name) ?? [];
    if (kind === undefined || via === undefined) continue;
    const port = kind === 'dhcp' ? 67 : 4011;
    const edge = await parts.datagrams.openEdge(inherited, {
      take(batch) {
        if (!receiving) return;
        for (const { bytes, address, port: from } of batch) {
          const source = { address, port: from };
          const step = pipeline.receive({ bytes, interface: via, port, source });
          if (step instanceof Promise) void step.then((settled) => send(settled, edge, log));
          else send(step, edge, log);
        }
      },
      failed: (error, address) =>
        log.warn({ err: error, to: formatIpv4(address) }, 'a DHCP reply could not be sent'),
    });
    open.push(edge);
  }
  const stopProbing = startProbing({ ...parts, log, index: () => pipeline.index });
  let closing: Promise<void> | undefined;
  const close = () => {
    closing ??= (async () => {
      stopProbing();
      receiving = false;
      const late = new Promise<void>((resolve) => {
        parts.clock.after(LAST_REPLIES, resolve);
      });
      await Promise.race([pipeline.drain(), late]);
      for (const edge of open) edge.close();
    })();
    return closing;
  };
  return { close };
}
