/** The memory of one batch of datagrams, as recvmmsg(2) and sendmmsg(2) use it. */
import { BATCH, MAX_DATAGRAM, type Received } from '../datagrams.ts';
import type { Ipv4 } from '../ipv4.ts';
import type { structLayouts } from './layout.ts';
import { type Ffi, Region } from './memory.socket.ts';

const AF_INET = 2;
const IP_PKTINFO = 8;
/** Octets of control messages per datagram: one cmsghdr with in_pktinfo needs 32. */
const CONTROL = 64;

/** What to send to whom, for `Kernel.sendBatch`. */
export interface Outgoing {
  readonly bytes: Uint8Array;
  readonly address: Ipv4;
  readonly port: number;
}

/** Memory for one batch: {@link BATCH} headers, each with an address, one part and its payload. */
export class Slots {
  readonly headers: Region;
  readonly #addresses: Region;
  readonly #parts: Region;
  readonly #payloads: Region;
  readonly #controls: Region | undefined;
  readonly #layout: ReturnType<typeof structLayouts>;

  constructor(
    ffi: Ffi,
    layout: ReturnType<typeof structLayouts>,
    { control }: { readonly control: boolean },
  ) {
    const { mmsghdr, sockaddr_in, iovec } = layout;
    this.#layout = layout;
    this.headers = new Region(ffi, BATCH * mmsghdr.size);
    this.#addresses = new Region(ffi, BATCH * sockaddr_in.size);
    this.#parts = new Region(ffi, BATCH * iovec.size);
    this.#payloads = new Region(ffi, BATCH * MAX_DATAGRAM);
    this.#controls = control ? new Region(ffi, BATCH * CONTROL) : undefined;
    for (let n = 0; n < BATCH; n++) {
      const { view } = this.headers;
      const header = n * mmsghdr.size;
      const [name, part] = [n * sockaddr_in.size, n * iovec.size];
      view.setBigUint64(header + mmsghdr.at.name, this.#addresses.at(name, sockaddr_in.size), true);
      view.setUint32(header + mmsghdr.at.nameLength, sockaddr_in.size, true);
      view.setBigUint64(header + mmsghdr.at.iov, this.#parts.at(part, iovec.size), true);
      view.setBigUint64(header + mmsghdr.at.iovLength, 1n, true);
      if (this.#controls)
        view.setBigUint64(header + mmsghdr.at.control, this.#controls.at(n * CONTROL, CONTROL), true);
      const payload = this.#payloads.at(n * MAX_DATAGRAM, MAX_DATAGRAM);
      this.#parts.view.setBigUint64(part + iovec.at.base, payload, true);
      this.#parts.view.setBigUint64(part + iovec.at.length, BigInt(MAX_DATAGRAM), true);
    }
  }

  /** Makes the slots ready to receive: the kernel has overwritten the lengths. */
  reset(): void {
    const { mmsghdr, sockaddr_in } = this.#layout;
    for (let n = 0; n < BATCH; n++) {
      const header = n * mmsghdr.size;
      this.headers.view.setUint32(header + mmsghdr.at.nameLength, sockaddr_in.size, true);
      this.headers.view.setUint32(header + mmsghdr.at.controlLength, CONTROL, true);
    }
  }

  /** The datagram that was received into slot `n`. */
  received(n: number): Received {
    const { mmsghdr, sockaddr_in } = this.#layout;
    const header = n * mmsghdr.size;
    const name = n * sockaddr_in.size;
    const octets = Math.min(this.headers.view.getUint32(header + mmsghdr.at.octets, true), MAX_DATAGRAM);
    const from = n * MAX_DATAGRAM;
    return {
      bytes: Buffer.from(this.#payloads.bytes.subarray(from, from + octets)),
      address: this.#addresses.view.getUint32(name + sockaddr_in.at.address) as Ipv4,
      port: this.#addresses.view.getUint16(name + sockaddr_in.at.port),
      ...this.#ingress(n),
    };
  }

  /** What the control message of slot `n` says (IP_PKTINFO, ip(7)). */
  #ingress(n: number): Pick<Received, 'interfaceIndex' | 'unicast'> {
    const { mmsghdr, cmsghdr, in_pktinfo } = this.#layout;
    const view = this.#controls!.view;
    const written = this.headers.view.getUint32(n * mmsghdr.size + mmsghdr.at.controlLength, true);
    const at = n * CONTROL;
    const info = at + cmsghdr.size;
    if (
      written < cmsghdr.size + in_pktinfo.size ||
      view.getUint32(at + cmsghdr.at.level, true) !== 0 ||
      view.getUint32(at + cmsghdr.at.type, true) !== IP_PKTINFO
    )
      return { interfaceIndex: 0, unicast: undefined };
    return {
      interfaceIndex: view.getUint32(info + in_pktinfo.at.interfaceIndex, true),
      // The local address differs from the destination when that is a broadcast or multicast one.
      unicast:
        view.getUint32(info + in_pktinfo.at.localAddress) ===
        view.getUint32(info + in_pktinfo.at.destination),
    };
  }

  /** Writes a datagram into slot `n`. @throws {RangeError} when it is too long. */
  put(n: number, { bytes, address, port }: Outgoing): void {
    const { iovec, sockaddr_in } = this.#layout;
    if (bytes.length > MAX_DATAGRAM) throw new RangeError(`a datagram of ${bytes.length} octets`);
    this.#payloads.bytes.set(bytes, n * MAX_DATAGRAM);
    this.#parts.view.setBigUint64(n * iovec.size + iovec.at.length, BigInt(bytes.length), true);
    writeSockaddr(this.#addresses, n * sockaddr_in.size, this.#layout, address, port);
  }
}

/** Writes a `sockaddr_in` at `offset` of a region. */
export function writeSockaddr(
  region: Region,
  offset: number,
  { sockaddr_in: { at, size } }: ReturnType<typeof structLayouts>,
  address: Ipv4,
  port: number,
): void {
  region.at(offset, size);
  region.view.setUint16(offset + at.family, AF_INET, true);
  region.view.setUint16(offset + at.port, port);
  region.view.setUint32(offset + at.address, address);
}
