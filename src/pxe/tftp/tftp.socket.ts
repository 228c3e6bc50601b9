/**
 * The TFTP server: receives requests, finds their files, and starts transfers, each with its own
 * sockets (`transfer.socket.ts`). Decisions about requests are in `request.ts`.
 */
import { availableParallelism } from 'node:os';
import type { Clock } from '../../base/clock.ts';
import type { DatagramEdge, DatagramListener, Received } from '../../base/datagrams.ts';
import { duration, type Millis } from '../../base/duration.ts';
import { contains, formatIpv4, type Ipv4, parseIpv4 } from '../../base/ipv4.ts';
import type { Log } from '../../base/log.ts';
import { limitedLines } from '../../base/log-limit.ts';
import type { Metrics } from '../../base/metrics.ts';
import type { OpenedDatagrams } from '../../base/open-datagrams.socket.ts';
import type { EventSink } from '../../events/event.ts';
import type { AssetStore } from '../assets/assets.ts';
import type { ServedNetwork } from '../network.ts';
import { decodeTftp, encodeError, TFTP_ERROR, type TftpErrorCode, type TftpRequest } from './codec.ts';
import { isEmptyFile, loaderName } from './request.ts';
import { inlineRunner, type RunningTransfer, type TransferRunner, threadRunner } from './runner.socket.ts';
import type { Peer } from './sockets.socket.ts';
import type { TransferEnd } from './transfer.socket.ts';

/**
 * Where requests arrive: an inherited socket, bound to its device before the start; or, in tests,
 * an address.
 */
export type TftpListener = DatagramListener & { readonly interface?: string };

/** Limits on transfers that run at the same time; each takes about 300 KiB of memory. */
interface TftpLimits {
  /** All transfers together. */
  readonly transfers: number;
  /**
   * Transfers of one client address. Firmware needs two; clients behind address translation share
   * an address.
   */
  readonly perClient: number;
  /**
   * Transfers to one /24 whose clients have acknowledged nothing yet. Their addresses may be
   * forged, so one more displaces the oldest. A client that is there acknowledges within
   * milliseconds.
   */
  readonly unconfirmed: number;
}

const TFTP_LIMITS: TftpLimits = { transfers: 1024, perClient: 64, unconfirmed: 256 };

/** The MTU of a network whose document names none. */
const DEFAULT_MTU = 1500;
/** One thread sends about 100 MB/s; more than four would compete with the rest of the boot host. */
const MAX_THREADS = 4;
/** How long running transfers may continue after `signal`. */
const GRACE = 10_000 as Millis;

export interface TftpOptions {
  readonly sockets: readonly TftpListener[];
  readonly datagrams: OpenedDatagrams;
  readonly assets: Pick<AssetStore, 'loader'>;
  /** The networks that are served now; they give the local address of a transfer, and the MTU. */
  readonly networks: () => readonly ServedNetwork[];
  /** The machine that has an address, for events. */
  readonly subjectOf: (
    address: string,
  ) => { readonly subject: string; readonly session?: string } | undefined;
  /** Whether a client's address may ask on this interface. */
  readonly admits: (address: string, via: string | undefined) => boolean;
  readonly events: EventSink;
  readonly metrics: Metrics;
  readonly log: Log;
  readonly clock: Clock;
  readonly limits?: Partial<TftpLimits>;
  readonly grace?: Millis;
  /** Threads for transfers; 0: this thread, with `clock`. Default: one per core, at most four. */
  readonly threads?: number;
  /** Stops the server: it accepts no new transfers, and running ones may end within `grace`. */
  readonly signal: AbortSignal;
}

export interface TftpServer {
  /** The request sockets' addresses, in the order of `sockets`. */
  readonly addresses: readonly { readonly address: string; readonly port: number }[];
  /** Transfers running now. */
  active(): number;
  /** Resolves after `signal`, when all transfers are over and all sockets are closed. */
  readonly stopped: Promise<void>;
}

/** Serves loaders, read-only, until `signal` aborts. Rejects when a socket cannot be opened. */
export async function startTftp(options: TftpOptions): Promise<TftpServer> {
  const server = new Server(options);
  await server.open();
  return server;
}

/** Why a request is not served; its outcome is the metric's label. */
interface Refusal {
  readonly outcome: 'refused_write' | 'refused_mode' | 'not_found';
  readonly code: TftpErrorCode;
  readonly message: string;
}

/** A running transfer. */
interface Entry {
  /** `address:port` of the client. */
  readonly key: string;
  readonly address: string;
  /** The request, so that a repeated one is recognised. */
  readonly datagram: Buffer;
  readonly transfer: RunningTransfer;
}

/** The /24 of an address in dotted decimal. */
const prefixOf = (address: string): string => address.slice(0, address.lastIndexOf('.'));

class Server implements TftpServer {
  readonly #options: TftpOptions;
  readonly #log: Log;
  /** Everybody can cause a refusal, so only some are logged. */
  readonly #warn: Log['warn'];
  readonly #limits: TftpLimits;
  readonly #runner: TransferRunner;
  /** By `address:port` of the client. */
  readonly #transfers = new Map<string, Entry>();
  /** Those whose clients have acknowledged nothing yet, the oldest first. */
  readonly #unconfirmed = new Set<Entry>();
  readonly #perClient = new Map<string, number>();
  /** Those that count as running, including those that a newer one replaces. */
  readonly #holding = new Set<Entry>();
  readonly #listening: DatagramEdge[] = [];
  /** Sockets for errors outside transfers, by local address. */
  readonly #errorSockets = new Map<string, Promise<DatagramEdge>>();
  readonly addresses: { address: string; port: number }[] = [];
  readonly stopped: Promise<void>;
  readonly #resolveStopped: () => void;
  #stopping = false;

  constructor(options: TftpOptions) {
    this.#options = options;
    this.#log = options.log.child({ room: 'tftp' });
    const write: Log['warn'] = (fields, message) => this.#log.warn(fields, message);
    this.#warn = limitedLines(write, { lines: 200, span: duration('10s'), clock: options.clock });
    this.#limits = { ...TFTP_LIMITS, ...options.limits };
    const threads = options.threads ?? Math.min(availableParallelism(), MAX_THREADS);
    const { kernel } = options.datagrams;
    this.#runner =
      threads > 0 ? threadRunner({ threads, log: this.#log, kernel }) : inlineRunner(options.clock, kernel);
    const { promise, resolve } = Promise.withResolvers<void>();
    this.stopped = promise;
    this.#resolveStopped = resolve;
  }

  active(): number {
    return this.#holding.size;
  }

  async open(): Promise<void> {
    try {
      for (const listener of this.#options.sockets) {
        const edge = await this.#options.datagrams.datagrams.openEdge(listener, {
          take: (batch) => {
            for (const received of batch) this.#request(received, listener, edge.local.address);
          },
          failed: () => {},
        });
        this.#listening.push(edge);
        this.addresses.push(edge.local);
      }
    } catch (error) {
      for (const edge of this.#listening) edge.close();
      throw error;
    }
    const { signal } = this.#options;
    if (signal.aborted) this.#stop();
    else signal.addEventListener('abort', () => this.#stop(), { once: true });
  }

  #request(received: Received, listener: TftpListener, local: string): void {
    const { bytes: datagram, unicast } = received;
    // A request that was sent to everybody is ignored (RFC 1123 §4.2.3.5).
    if (unicast === false) return;
    const packet = decodeTftp(datagram);
    if (packet.kind !== 'read' && packet.kind !== 'write') {
      // No answer: the sender of such a packet may be forged.
      this.#count(packet.kind === 'malformed' ? 'malformed' : 'stray');
      return;
    }
    // Port 0 cannot be answered.
    if (received.port === 0) return;
    const peer: Peer = { address: formatIpv4(received.address), port: received.port };
    if (!this.#options.admits(peer.address, listener.interface)) return;
    const network = this.#networkOf(received.address, listener);
    const from = local !== '0.0.0.0' ? local : network ? formatIpv4(network.serverAddress) : local;
    const refusal = this.#refuse(packet);
    if (refusal) {
      this.#refused(packet, peer, from, refusal);
      return;
    }
    const key = `${peer.address}:${peer.port}`;
    const begin = () => this.#begin(packet, datagram, { key, peer, from, network });
    const running = this.#transfers.get(key);
    if (running?.datagram.equals(datagram)) {
      running.transfer.again(begin);
      return;
    }
    // Some firmware uses one port for all transfers; it has given up the former one.
    running?.transfer.supersede();
    begin();
  }

  #begin(
    request: TftpRequest,
    datagram: Buffer,
    where: {
      readonly key: string;
      readonly peer: Peer;
      readonly from: string;
      readonly network: ServedNetwork | undefined;
    },
  ): void {
    const { key, peer, from, network } = where;
    const found = isEmptyFile(request.filename) ? { path: undefined } : this.#find(request.filename);
    if (this.#stopping || !found) return;
    if (!this.#makeRoom(peer.address)) {
      // No error packet: clients ask again after about a second, and an error would end their boot.
      this.#count('busy');
      return;
    }
    this.#perClient.set(peer.address, (this.#perClient.get(peer.address) ?? 0) + 1);
    const job = {
      request,
      peer,
      path: found.path,
      from,
      mtu: network?.mtu ?? DEFAULT_MTU,
    };
    const transfer = this.#runner.start(job, {
      onConfirmed: () => this.#unconfirmed.delete(entry),
      onEnd: (end) => {
        this.#release(entry);
        this.#over(end, request, peer, network);
        this.#finishIfDone();
      },
    });
    const entry: Entry = { key, address: peer.address, datagram, transfer };
    this.#transfers.set(key, entry);
    this.#unconfirmed.add(entry);
    this.#holding.add(entry);
  }

  /**
   * Whether a client gets a transfer; displaces an older one that nobody has acknowledged if that
   * makes room.
   */
  #makeRoom(address: string): boolean {
    const { transfers, perClient, unconfirmed } = this.#limits;
    const near = [...this.#unconfirmed].filter((one) => prefixOf(one.address) === prefixOf(address));
    if (near.length >= unconfirmed) this.#displace(near[0]);
    if ((this.#perClient.get(address) ?? 0) >= perClient)
      this.#displace(near.find((one) => one.address === address));
    if (this.#holding.size >= transfers) this.#displace(this.#unconfirmed.values().next().value);
    return this.#holding.size < transfers && (this.#perClient.get(address) ?? 0) < perClient;
  }

  #displace(entry: Entry | undefined): void {
    if (entry === undefined) return;
    this.#release(entry);
    entry.transfer.displace();
  }

  /** Gives the place of a transfer to others; also before its thread has said that it ended. */
  #release(entry: Entry): void {
    if (!this.#holding.delete(entry)) return;
    this.#unconfirmed.delete(entry);
    if (this.#transfers.get(entry.key) === entry) this.#transfers.delete(entry.key);
    const left = (this.#perClient.get(entry.address) ?? 1) - 1;
    if (left > 0) this.#perClient.set(entry.address, left);
    else this.#perClient.delete(entry.address);
  }

  #find(filename: string): { readonly path: string } | undefined {
    const name = loaderName(filename);
    if (name === undefined) return undefined;
    // Firmware that expects Windows servers ignores the case of names. The exact name is preferred.
    return this.#options.assets.loader(name) ?? this.#options.assets.loader(name.toLowerCase());
  }

  #refuse(request: TftpRequest): Refusal | undefined {
    if (request.kind === 'write')
      return {
        outcome: 'refused_write',
        code: TFTP_ERROR.accessViolation,
        message: 'this server is read-only',
      };
    if (request.mode !== 'octet' && request.mode !== 'netascii')
      return {
        outcome: 'refused_mode',
        code: TFTP_ERROR.illegalOperation,
        message: 'mode must be octet or netascii',
      };
    if (isEmptyFile(request.filename) || this.#find(request.filename)) return undefined;
    return { outcome: 'not_found', code: TFTP_ERROR.notFound, message: 'no such loader' };
  }

  #refused(request: TftpRequest, peer: Peer, from: string, refusal: Refusal): void {
    this.#count(refusal.outcome);
    this.#record('tftp.failed', request, peer, refusal.outcome, refusal.message);
    const to = parseIpv4(peer.address);
    if (to === undefined) return;
    this.#errorSocket(from).then(
      (edge) => edge.send(encodeError(refusal.code, refusal.message), to, peer.port),
      (error: Error) => this.#log.warn({ error: error.message, address: from }, 'no socket for TFTP errors'),
    );
  }

  #errorSocket(from: string): Promise<DatagramEdge> {
    const made = this.#errorSockets.get(from);
    if (made) return made;
    const opening = this.#options.datagrams.datagrams.openEdge(
      { address: from, port: 0 },
      {
        take: () => {},
        failed: (error, address) =>
          this.#log.debug({ error: error.message, peer: formatIpv4(address) }, 'TFTP error not sent'),
      },
    );
    this.#errorSockets.set(from, opening);
    // The address may come back: the next error tries again.
    opening.catch(() => this.#errorSockets.delete(from));
    return opening;
  }

  #networkOf(address: Ipv4, listener: TftpListener): ServedNetwork | undefined {
    const networks = this.#options.networks();
    return (
      networks.find((network) => contains(network.subnet, address)) ??
      networks.find((network) => network.interface !== undefined && network.interface === listener.interface)
    );
  }

  #over(end: TransferEnd, request: TftpRequest, peer: Peer, network: ServedNetwork | undefined): void {
    const { outcome, why, octets, resent, elapsed } = end;
    this.#count(outcome);
    this.#options.metrics.add('muster_tftp_sent_bytes_total', {}, octets);
    // A probe is neither a download nor a failure (quirk tftp-probe). A displaced request is
    // counted only, because its sender may be forged.
    if (outcome === 'probed' || outcome === 'displaced') {
      this.#log.debug({ peer: peer.address, file: request.filename, outcome }, 'TFTP: nothing was fetched');
      return;
    }
    const served = outcome === 'served' || outcome === 'unconfirmed';
    this.#record(served ? 'tftp.served' : 'tftp.failed', request, peer, outcome, why, {
      octets,
      milliseconds: Math.round(elapsed),
      ...(resent > 0 ? { resent } : {}),
      ...(network ? { network: network.name } : {}),
    });
  }

  #record(
    kind: 'tftp.served' | 'tftp.failed',
    request: TftpRequest,
    peer: Peer,
    code: string,
    text: string,
    fields: Readonly<Record<string, string | number>> = {},
  ): void {
    const who = this.#options.subjectOf(peer.address);
    const { network, ...rest } = fields;
    const file = printable(request.filename);
    this.#options.events.record({
      kind,
      subject: who?.subject ?? peer.address,
      ...(who?.session ? { session: who.session } : {}),
      ...(typeof network === 'string' ? { network } : {}),
      reason: { code, text },
      fields: { file, address: peer.address, ...rest },
    });
    const line = { peer: peer.address, file, outcome: code, ...fields };
    if (kind === 'tftp.served') this.#log.info(line, 'TFTP file served');
    else this.#warn({ ...line, why: text }, 'TFTP request not served');
  }

  #count(outcome: string): void {
    this.#options.metrics.add('muster_tftp_transfers_total', { outcome });
  }

  #stop(): void {
    if (this.#stopping) return;
    this.#stopping = true;
    for (const edge of this.#listening) edge.close();
    this.#options.clock.after(this.#options.grace ?? GRACE, () => {
      for (const { transfer } of [...this.#transfers.values()]) transfer.shutDown();
    });
    this.#finishIfDone();
  }

  #finishIfDone(): void {
    if (!this.#stopping || this.#holding.size > 0) return;
    for (const opening of this.#errorSockets.values())
      opening.then(
        (edge) => edge.close(),
        () => {},
      );
    this.#errorSockets.clear();
    this.#runner.close().then(this.#resolveStopped, this.#resolveStopped);
  }
}

/** A client's text for logs and events. */
function printable(text: string): string {
  return text.replace(/[^\x20-\x7e]/g, '?').slice(0, 128);
}
