/**
 * Datagrams in batches: the interface that DHCP and TFTP use. `native-datagrams.socket.ts`
 * implements it by direct system calls, `node-datagrams.socket.ts` by `node:dgram`; one test suite
 * holds both to it.
 */
import type { Ipv4 } from './ipv4.ts';

/** Longer datagrams are cut to this when they are received, and cannot be sent. */
export const MAX_DATAGRAM = 2048;

/** Datagrams that are taken from the kernel at a time. */
export const BATCH = 32;

export interface Received {
  /** A copy, at most {@link MAX_DATAGRAM} octets: it may be kept. */
  readonly bytes: Buffer;
  readonly address: Ipv4;
  readonly port: number;
  /** Index of the interface that it came in by; 0: not known. */
  readonly interfaceIndex: number;
  /** Whether it was sent to this host alone, not to everybody; undefined: not known. */
  readonly unicast: boolean | undefined;
}

export interface DatagramEdge {
  /** Whether datagrams go by direct system calls. */
  readonly native: boolean;
  /** The local address and port. */
  readonly local: { readonly address: string; readonly port: number };
  /**
   * Sends a datagram with the others of this batch, or at the end of this turn of the event loop.
   * The octets must not change until then.
   */
  send(bytes: Uint8Array, address: Ipv4, port: number): void;
  /** Stops receiving, sends what is waiting, and closes the socket. */
  close(): void;
}

export interface DatagramHandlers {
  /** Takes up to {@link BATCH} datagrams that have arrived, in their order. Must not throw. */
  take(batch: readonly Received[]): void;
  /** A datagram could not be sent. */
  failed(error: Error, address: Ipv4, port: number): void;
}

/** A socket that was opened before, by systemd for example; or an address to open one on. */
export type DatagramListener = { readonly fd: number } | { readonly address: string; readonly port: number };

/** Opens edges; all of a process are of the same kind. */
export interface Datagrams {
  readonly native: boolean;
  /** Rejects when the descriptor is not a UDP socket, or the address is not local. */
  openEdge(listener: DatagramListener, handlers: DatagramHandlers): Promise<DatagramEdge>;
}
