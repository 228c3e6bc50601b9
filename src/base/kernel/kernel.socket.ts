/**
 * The system calls behind `native-datagrams.socket.ts` and TFTP's transfers, made through
 * `node:ffi`. A wrong address or size here ends the whole process. So all memory that the kernel
 * reads or writes is in {@link Region}s of a fixed size, which exist as long as the kernel's object
 * does; every offset and length is checked against its region; and what came from a network is
 * never an address.
 *
 * All parameters are declared as pointers and passed as BigInts, also descriptors and lengths:
 * Node 26.10 has a fast path for signatures of one kind of parameter only (a system call with four
 * parameters costs 40 ns above C, with mixed ones 350 ns).
 */
import { createRequire } from 'node:module';
import os from 'node:os';
import { BATCH, type Received } from '../datagrams.ts';
import type { Ipv4 } from '../ipv4.ts';
import { type Architecture, structLayouts } from './layout.ts';
import { LoopWatches } from './loop.socket.ts';
import { type Call, call, type Descriptor, descriptor, type Ffi, Region } from './memory.socket.ts';
import { type Outgoing, Slots, writeSockaddr } from './slots.socket.ts';

/** The functions of libc, with their numbers of parameters. */
const LIBC = {
  socket: call(3),
  bind: call(3),
  connect: call(3),
  getsockname: call(3),
  setsockopt: call(5),
  close: call(1),
  recv: call(4),
  send: call(4),
  recvmmsg: call(5),
  sendmmsg: call(4),
  preadv: call(4),
  epoll_create1: call(1),
  epoll_ctl: call(4),
  epoll_wait: call(4),
  eventfd: call(2),
} as const;

/** Numbers from Linux's headers; the same on x86-64 and arm64. */
const SOCKET_OPTION = {
  broadcast: [1n, 6n],
  reusePort: [1n, 15n],
  receiveBuffer: [1n, 8n],
  receiveBufferForced: [1n, 33n],
  packetInfo: [0n, 8n],
  segment: [17n, 103n],
} as const;
export type SocketOption = keyof typeof SOCKET_OPTION;
const AF_INET = 2n;
/** SOCK_DGRAM, SOCK_NONBLOCK and SOCK_CLOEXEC. */
const DATAGRAM_SOCKET = 0o2004002n;
const SO_BINDTODEVICE = 25n;
/** MSG_DONTWAIT and MSG_NOSIGNAL. */
const NO_WAIT = 0x4040n;
const EPOLL_CLOEXEC = 0o2000000n;
const [EPOLL_CTL_ADD, EPOLL_CTL_DEL] = [1n, 2n];
const EPOLLIN = 1;
const EPOLLET = 0x80000000;
/** EFD_NONBLOCK and EFD_CLOEXEC. */
const EVENTFD_FLAGS = 0o2004000n;

/** Packets in one sendmmsg, and parts of one preadv. */
const VECTORS = 128;
/** Events in one epoll_wait. */
const EVENTS = 64;
/** Enough for a sockaddr_in and an option of any type that is set here. */
const SMALL = 64;
/** The largest UDP payload, and the most segments that every kernel takes in one call. */
const MAX_PAYLOAD = 65_507;
const MAX_SEGMENTS = 64;

/** A failed system call: its name and errno as Node names it, `EAGAIN` for example. */
export class SystemCallError extends Error {
  readonly code: string;
  constructor(name: string, errno: number) {
    const code =
      Object.entries(os.constants.errno).find(([, number]) => number === errno)?.[0] ?? `errno ${errno}`;
    super(`${name}: ${code}`);
    this.code = code;
  }
}

/** Packets that lie one behind another in a region, all but the last of the same size. */
export interface PacketRun {
  readonly region: Region;
  readonly offset: number;
  /** All octets together. */
  readonly octets: number;
  /** Octets of each packet but the last, which may be shorter. */
  readonly packetSize: number;
}

/** System calls of one thread. */
export class Kernel {
  readonly #ffi: Ffi;
  readonly #libc: Readonly<Record<keyof typeof LIBC, Call>>;
  readonly #layout: ReturnType<typeof structLayouts>;
  /** Address of this thread's errno. */
  readonly #errno: bigint;
  readonly #small: Region;
  readonly #lengths: Region;
  /** Headers, addresses, control messages and payloads of a batch, for receiving and sending. */
  readonly #in: Slots;
  readonly #out: Slots;
  /** Headers and parts of packets that lie in regions of callers. */
  readonly #headers: Region;
  readonly #vectors: Region;
  readonly #events: Region;
  readonly #loop: LoopWatches | undefined;

  /**
   * @param loop whether {@link watch} is needed; only for the main thread: a thread that ends with
   * an open handle of libuv would abort the process.
   * @throws when this Node has no `node:ffi`, or for another processor or system.
   */
  constructor({ loop }: { readonly loop: boolean }) {
    if (process.platform !== 'linux' || (process.arch !== 'x64' && process.arch !== 'arm64'))
      throw new Error(`not made for ${process.platform} on ${process.arch}`);
    // A static import would keep a Node without the module from starting at all.
    this.#ffi = createRequire(import.meta.url)('node:ffi') as Ffi;
    this.#layout = structLayouts(process.arch satisfies Architecture);
    this.#libc = this.#ffi.dlopen('libc.so.6', LIBC).functions as Readonly<Record<keyof typeof LIBC, Call>>;
    const errno = { __errno_location: { arguments: [], return: 'pointer' } } as const;
    this.#errno = this.#ffi.dlopen('libc.so.6', errno).functions.__errno_location() as bigint;
    this.#small = this.region(SMALL);
    this.#lengths = this.region(SMALL);
    this.#in = new Slots(this.#ffi, this.#layout, { control: true });
    this.#out = new Slots(this.#ffi, this.#layout, { control: false });
    this.#headers = this.region(VECTORS * this.#layout.mmsghdr.size);
    this.#vectors = this.region(VECTORS * this.#layout.iovec.size);
    this.#events = this.region(EVENTS * this.#layout.epoll_event.size);
    this.#linkHeaders();
    this.#loop = loop ? new LoopWatches(this.#ffi) : undefined;
  }

  /** Memory for packets. It is freed when nothing refers to it any more. */
  region(octets: number): Region {
    return new Region(this.#ffi, octets);
  }

  /** Header `n` of `#headers` has one part, vector `n`, and no address: its socket is connected. */
  #linkHeaders(): void {
    const { mmsghdr, iovec } = this.#layout;
    for (let n = 0; n < VECTORS; n++) {
      const header = n * mmsghdr.size;
      const vector = this.#vectors.at(n * iovec.size, iovec.size);
      this.#headers.view.setBigUint64(header + mmsghdr.at.iov, vector, true);
      this.#headers.view.setBigUint64(header + mmsghdr.at.iovLength, 1n, true);
    }
  }

  #failure(name: string): SystemCallError {
    return new SystemCallError(name, this.#ffi.getInt32(this.#errno));
  }

  #checked(name: string, result: number): number {
    if (result < 0) throw this.#failure(name);
    return result;
  }

  /** Opens a UDP socket that does not block. @throws {SystemCallError} */
  udp(): Descriptor {
    return descriptor(this.#checked('socket', this.#libc.socket(AF_INET, DATAGRAM_SOCKET, 0n)));
  }

  /** Binds a socket. @throws {SystemCallError} */
  bind(socket: Descriptor, address: Ipv4, port: number): void {
    this.#checked('bind', this.#libc.bind(socket.parameter, this.#sockaddr(address, port), 16n));
  }

  /** Connects a socket, so that it exchanges datagrams with one peer. @throws {SystemCallError} */
  connect(socket: Descriptor, address: Ipv4, port: number): void {
    this.#checked('connect', this.#libc.connect(socket.parameter, this.#sockaddr(address, port), 16n));
  }

  /** Where a socket is bound. @throws {SystemCallError} */
  local(socket: Descriptor): { readonly address: Ipv4; readonly port: number } {
    const { family, address, port } = this.#layout.sockaddr_in.at;
    this.#lengths.view.setUint32(0, SMALL, true);
    const failed = this.#libc.getsockname(socket.parameter, this.#small.address, this.#lengths.address);
    this.#checked('getsockname', failed);
    const { view } = this.#small;
    if (view.getUint16(family, true) !== Number(AF_INET)) throw new Error('not a socket for IPv4');
    return { address: view.getUint32(address) as Ipv4, port: view.getUint16(port) };
  }

  /** Sets an option that is a number. @throws {SystemCallError} */
  set(socket: Descriptor, name: SocketOption, value: number): void {
    const [level, option] = SOCKET_OPTION[name];
    this.#small.view.setInt32(0, value, true);
    this.#checked('setsockopt', this.#setsockopt(socket, level, option, 4n));
  }

  /** Binds a socket to an interface. @throws {SystemCallError} */
  bindToDevice(socket: Descriptor, name: string): void {
    const octets = Buffer.from(`${name}\0`, 'latin1');
    // IFNAMSIZ
    if (octets.length > 16) throw new RangeError(`${name} is too long for an interface`);
    octets.copy(this.#small.bytes);
    this.#checked('setsockopt', this.#setsockopt(socket, 1n, SO_BINDTODEVICE, BigInt(octets.length)));
  }

  #setsockopt(socket: Descriptor, level: bigint, option: bigint, octets: bigint): number {
    return this.#libc.setsockopt(socket.parameter, level, option, this.#small.address, octets);
  }

  #sockaddr(address: Ipv4, port: number): bigint {
    writeSockaddr(this.#small, 0, this.#layout, address, port);
    return this.#small.address;
  }

  /** Closes a descriptor that is not watched any more. */
  close(socket: Descriptor): void {
    this.#libc.close(socket.parameter);
  }

  /**
   * Takes one datagram of a connected socket into `into`. Returns its octets, or -1 when there is
   * none. Errors that ICMP brought count as none: the silence of the peer tells enough.
   */
  receive(socket: Descriptor, into: Region): number {
    return this.#libc.recv(socket.parameter, into.address, BigInt(into.bytes.length), NO_WAIT);
  }

  /** Takes up to {@link BATCH} datagrams. */
  receiveBatch(socket: Descriptor): Received[] {
    this.#in.reset();
    const count = this.#libc.recvmmsg(socket.parameter, this.#in.headers.address, BigInt(BATCH), NO_WAIT, 0n);
    return Array.from({ length: Math.min(Math.max(count, 0), BATCH) }, (_, n) => this.#in.received(n));
  }

  /**
   * Sends up to {@link BATCH} datagrams. Returns how many the kernel took, from the first on.
   * @throws {SystemCallError} when it took none; `EAGAIN` means that there is no room now.
   * @throws {RangeError} when there are too many, or one is longer than {@link MAX_DATAGRAM}.
   */
  sendBatch(socket: Descriptor, batch: readonly Outgoing[]): number {
    if (batch.length > BATCH) throw new RangeError(`${batch.length} datagrams at once`);
    for (let n = 0; n < batch.length; n++) this.#out.put(n, batch[n]!);
    const { headers } = this.#out;
    const count = BigInt(batch.length);
    return this.#checked('sendmmsg', this.#libc.sendmmsg(socket.parameter, headers.address, count, NO_WAIT));
  }

  /**
   * Sends packets with a connected socket in one call: as segments of one payload that the kernel
   * cuts, if `segments` (the socket then has option `segment` set to their size), else by sendmmsg.
   * Returns the number of octets that the kernel took, which may be fewer than there are.
   * @throws {SystemCallError} when it took none.
   */
  sendRun(socket: Descriptor, run: PacketRun, { segments }: { readonly segments: boolean }): number {
    const { packetSize } = run;
    if (!Number.isInteger(packetSize) || packetSize < 1) throw new RangeError(`packets of ${packetSize}`);
    const whole = Math.ceil(run.octets / packetSize);
    if (segments || whole <= 1) {
      const most = Math.max(1, Math.min(MAX_SEGMENTS, Math.floor(MAX_PAYLOAD / packetSize)));
      const octets = Math.min(run.octets, most * packetSize);
      const from = run.region.at(run.offset, octets);
      return this.#checked('send', this.#libc.send(socket.parameter, from, BigInt(octets), NO_WAIT));
    }
    const count = Math.min(whole, VECTORS);
    for (let n = 0; n < count; n++) {
      const at = n * packetSize;
      this.#vector(n, run.region, run.offset + at, Math.min(packetSize, run.octets - at));
    }
    const { address } = this.#headers;
    const sent = this.#libc.sendmmsg(socket.parameter, address, BigInt(count), NO_WAIT);
    return Math.min(this.#checked('sendmmsg', sent) * packetSize, run.octets);
  }

  #vector(n: number, region: Region, offset: number, octets: number): void {
    const { size, at } = this.#layout.iovec;
    const { view } = this.#vectors;
    view.setBigUint64(n * size + at.base, region.at(offset, octets), true);
    view.setBigUint64(n * size + at.length, BigInt(octets), true);
  }

  /**
   * Reads a file into packets: from `position` on, `blockSize` octets behind the header of each
   * packet. Returns the octets that were read, which may be fewer at the end of the file.
   * @throws {SystemCallError}
   */
  readBlocks(
    file: number,
    into: Region,
    blocks: {
      readonly offset: number;
      readonly header: number;
      readonly blockSize: number;
      readonly count: number;
      readonly position: number;
    },
  ): number {
    const { offset, header, blockSize, position } = blocks;
    const count = Math.min(blocks.count, VECTORS);
    for (const number of [position, count])
      if (!Number.isSafeInteger(number) || number < 0) throw new RangeError(`${number} blocks or octets`);
    const from = descriptor(file).parameter;
    for (let n = 0; n < count; n++)
      this.#vector(n, into, offset + n * (header + blockSize) + header, blockSize);
    const { address } = this.#vectors;
    return this.#checked('preadv', this.#libc.preadv(from, address, BigInt(count), BigInt(position)));
  }

  /** A counter that wakes {@link wait} in another thread when 1 is added to it by a write. */
  eventCounter(): Descriptor {
    return descriptor(this.#checked('eventfd', this.#libc.eventfd(0n, EVENTFD_FLAGS)));
  }

  /** A set of descriptors to {@link wait} for. */
  waitSet(): Descriptor {
    return descriptor(this.#checked('epoll_create1', this.#libc.epoll_create1(EPOLL_CLOEXEC)));
  }

  /**
   * Adds a descriptor to a set. `once`: it is reported once for each change, not while it lasts.
   */
  addTo(set: Descriptor, { fd, parameter }: Descriptor, { once }: { readonly once: boolean }): void {
    const { events, data } = this.#layout.epoll_event.at;
    this.#small.view.setUint32(events, once ? EPOLLIN | EPOLLET : EPOLLIN, true);
    this.#small.view.setBigUint64(data, BigInt(fd), true);
    const failed = this.#libc.epoll_ctl(set.parameter, EPOLL_CTL_ADD, parameter, this.#small.address);
    this.#checked('epoll_ctl', failed);
  }

  removeFrom(set: Descriptor, { parameter }: Descriptor): void {
    this.#libc.epoll_ctl(set.parameter, EPOLL_CTL_DEL, parameter, this.#small.address);
  }

  /**
   * Waits until a descriptor of the set is ready, at most `milliseconds`, and blocks this thread.
   * Returns the numbers of those that are, at most {@link EVENTS}.
   */
  wait(set: Descriptor, milliseconds: number, ready: (fd: number) => void): number {
    const span = BigInt(Math.max(0, Math.min(Math.ceil(milliseconds), MAX_WAIT_MS)));
    const count = this.#libc.epoll_wait(set.parameter, this.#events.address, BigInt(EVENTS), span);
    const { size, at } = this.#layout.epoll_event;
    // A signal ends the wait as well; the result is then -1.
    for (let n = 0; n < count && n < EVENTS; n++)
      ready(this.#events.view.getUint32(n * size + at.data, true));
    return Math.max(count, 0);
  }

  /**
   * Calls `readable` in a turn of the event loop whenever `socket` has datagrams, until the
   * returned function is called, which must be before the socket is closed.
   */
  watch(socket: Descriptor, readable: () => void): () => void {
    if (this.#loop === undefined) throw new Error('only the main thread watches by its event loop');
    return this.#loop.add(socket, readable);
  }
}

/** The longest wait; a thread that is to end does so after it. */
const MAX_WAIT_MS = 50;
