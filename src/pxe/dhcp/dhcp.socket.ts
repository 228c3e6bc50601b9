/**
 * The loop around the pure step: one inherited socket for each interface and port; receive, handle, make durable, send. Every packet
 * ends in exactly one outcome, counted, and recorded as an event or logged.
 */
import { createSocket, type Socket } from 'node:dgram';
import type { Clock } from '../../base/clock.ts';
import type { InheritedSocket } from '../../base/inherited.ts';
import { formatIpv4, type Ipv4, parseIpv4 } from '../../base/ipv4.ts';
import type { Log } from '../../base/log.ts';
import type { Metrics } from '../../base/metrics.ts';
import type { EventSink } from '../../events/event.ts';
import type { Store } from '../../store/store.ts';
import type { BootService } from '../boot.ts';
import type { ServedNetwork } from '../network.ts';
import { handle } from './handle.ts';
import type { LeaseBook, WriteResult } from './leases.ts';
import { type Datagram, indexNetworks, type NetworkIndex } from './networks.ts';
import { DHCP_OUTCOMES, type OutcomeCode } from './outcomes.ts';
import { encode } from './packet.ts';
import { startProbing } from './probe.socket.ts';
import type { DhcpState, Reply, Step } from './step.ts';

export interface DhcpParts {
  /** All inherited sockets; those named `dhcp-IFACE` (port 67) and `pxe-IFACE` (port 4011) are taken. */
  readonly sockets: readonly InheritedSocket[];
  /** The networks in force. The same array again means that nothing changed. */
  readonly networks: () => readonly ServedNetwork[];
  readonly boot: Pick<BootService, 'answer' | 'reservedFor'>;
  readonly leases: LeaseBook;
  /** For the records that an answer on port 4011 wants durable. */
  readonly store: Pick<Store, 'commit'>;
  readonly events: EventSink;
  readonly metrics: Metrics;
  readonly log: Log;
  readonly clock: Clock;
  readonly signal: AbortSignal;
}

export interface DhcpServer {
  /** Stops receiving; answers that wait for the store are still sent, at most for a second. */
  close(): Promise<void>;
}

const NAME = /^(dhcp|pxe)-(.+)$/;
const ADDRESSES_REMEMBERED = 4096;

/** Text → number for the source addresses that keep coming (the gateway, relays, 0.0.0.0), bounded. */
function addressReader(): (text: string) => Ipv4 {
  const known = new Map<string, Ipv4>();
  return (text) => {
    let address = known.get(text);
    if (address === undefined) {
      address = parseIpv4(text) ?? (0 as Ipv4);
      if (known.size >= ADDRESSES_REMEMBERED) known.clear();
      known.set(text, address);
    }
    return address;
  };
}

class Loop {
  readonly #parts: DhcpParts;
  readonly #log: Log;
  #networks: readonly ServedNetwork[] | undefined;
  #index: NetworkIndex = indexNetworks([]);
  readonly #under = new Set<Promise<void>>();

  constructor(parts: DhcpParts) {
    this.#parts = parts;
    this.#log = parts.log.child({ room: 'dhcp' });
  }

  get index(): NetworkIndex {
    const networks = this.#parts.networks();
    if (networks !== this.#networks) {
      this.#networks = networks;
      this.#index = indexNetworks(networks);
    }
    return this.#index;
  }

  #state(): DhcpState {
    const { boot, leases, clock } = this.#parts;
    return { networks: this.index, boot, leases, now: clock.now() };
  }

  receive(datagram: Datagram, socket: Socket): void {
    const step = this.#handle(datagram);
    if (step.memory) this.#parts.leases.apply(step.memory);
    if (step.durable === undefined) {
      this.#finish(step, socket);
      return;
    }
    const work: Promise<void> = this.#settle(datagram, step, step.durable).then((settled) => {
      this.#under.delete(work);
      this.#finish(settled, socket);
    });
    this.#under.add(work);
  }

  #handle(datagram: Datagram): Step {
    try {
      return handle(datagram, this.#state());
    } catch (error) {
      // Not reachable by any packet that a test or the fuzzer found; one machine's packet must not stop the others.
      this.#log.error(
        { err: error, packet: Buffer.from(datagram.bytes).toString('hex') },
        'a DHCP packet could not be handled',
      );
      return { outcome: 'internal', detail: String(error) };
    }
  }

  /** Makes a step durable. When another host was faster, the same packet is looked at once more in the light of that. */
  async #settle(datagram: Datagram, step: Step, durable: NonNullable<Step['durable']>): Promise<Step> {
    let current = step;
    let wanted: Step['durable'] = durable;
    for (let attempt = 0; attempt < 2 && wanted; attempt++) {
      let result: WriteResult;
      try {
        result = await this.#write(wanted);
      } catch (error) {
        return {
          ...current,
          outcome: 'store_failed',
          detail: error instanceof Error ? error.message : String(error),
        };
      }
      if (result === 'stored' || result === 'unchanged') return current;
      if (result === 'in_flight') return { ...current, outcome: 'in_flight' };
      current = this.#handle(datagram);
      if (current.memory) this.#parts.leases.apply(current.memory);
      wanted = current.durable;
    }
    return wanted ? { ...current, outcome: 'store_failed', detail: 'the store kept refusing' } : current;
  }

  async #write(durable: NonNullable<Step['durable']>): Promise<WriteResult> {
    if (durable.kind === 'write') return this.#parts.leases.write(durable);
    const result = await this.#parts.store.commit(durable.writes);
    return result.ok ? 'stored' : 'stale';
  }

  #finish(step: Step, socket: Socket): void {
    const sends = step.outcome !== 'store_failed' && step.outcome !== 'in_flight';
    if (step.reply && sends) this.#send(step.reply, socket);
    this.#account(step);
  }

  #send(reply: Reply, socket: Socket): void {
    const { bytes, dropped } = encode(reply.packet, reply.maximum);
    if (dropped.length > 0) this.#log.debug({ dropped }, 'options left out: the client takes no more');
    try {
      socket.send(bytes, reply.to.port, formatIpv4(reply.to.address), (error) => {
        if (error)
          this.#log.warn({ err: error, to: formatIpv4(reply.to.address) }, 'a DHCP reply could not be sent');
      });
    } catch (error) {
      // The socket is closed: we are stopping.
      this.#log.debug({ err: error }, 'a DHCP reply could not be sent');
    }
  }

  #account(step: Step): void {
    const { outcome, network, type, client, answer, address } = step;
    this.#parts.metrics.add('muster_dhcp_packets_total', {
      network: network?.name ?? '',
      type: type ?? '',
      outcome,
    });
    const about: { text: string; event?: Parameters<EventSink['record']>[0]['kind'] } =
      DHCP_OUTCOMES[outcome as OutcomeCode];
    if (about.event === undefined || client === undefined) {
      if (this.#log.isLevelEnabled('debug'))
        this.#log.debug(
          { outcome, type, mac: client?.mac, network: network?.name, detail: step.detail },
          about.text,
        );
      return;
    }
    this.#parts.events.record({
      kind: about.event,
      subject: answer?.subject ?? client.mac,
      reason: { code: outcome, text: about.text },
      ...(network ? { network: network.name } : {}),
      ...(answer?.session === undefined ? {} : { session: answer.session }),
      fields: {
        mac: client.mac,
        stage: client.stage,
        ...(address === undefined ? {} : { address: formatIpv4(address) }),
        ...(answer?.bootFile === undefined ? {} : { file: answer.bootFile }),
        ...(step.detail === undefined ? {} : { detail: step.detail }),
      },
    });
  }

  /** Waits for the answers that are under way. */
  async drain(): Promise<void> {
    await Promise.all(this.#under);
  }
}

async function adopt(inherited: InheritedSocket, log: Log): Promise<Socket> {
  // An address needs no look-up: without this, Node asks its resolver for each packet (netboot-protocols §B.6).
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

/** Starts to answer on the inherited sockets. Resolves when all of them receive. */
export async function startDhcp(parts: DhcpParts): Promise<DhcpServer> {
  const loop = new Loop(parts);
  const read = addressReader();
  const open: Socket[] = [];
  for (const inherited of parts.sockets) {
    const found = NAME.exec(inherited.name);
    if (!found) continue;
    const socket = await adopt(inherited, parts.log);
    const port = found[1] === 'dhcp' ? 67 : 4011;
    const via = found[2]!;
    socket.on('message', (bytes, from) =>
      loop.receive(
        { bytes, interface: via, port, source: { address: read(from.address), port: from.port } },
        socket,
      ),
    );
    open.push(socket);
  }
  const stopProbing = startProbing({ ...parts, index: () => loop.index });
  const close = async () => {
    stopProbing();
    for (const socket of open) socket.removeAllListeners('message');
    const late = new Promise<void>((resolve) => void parts.clock.after(1000 as never, resolve));
    await Promise.race([loop.drain(), late]);
    for (const socket of open.splice(0)) socket.close();
  };
  parts.signal.addEventListener('abort', () => void close(), { once: true });
  return { close };
}
