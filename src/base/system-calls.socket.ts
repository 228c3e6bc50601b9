/**
 * System calls for connections that Node has no function for, made through `node:ffi`; `kernel/`
 * has those for datagrams. They pass addresses of memory to the kernel: a wrong one ends the whole
 * process. So every buffer has a fixed size that is set here, and nothing that came from a network
 * is used as a size or an address.
 *
 * `node:ffi` is experimental (docs/decisions/0044-node-26-and-its-ffi.md). Everything that needs it
 * has a fallback, and `MUSTER_NATIVE=0` turns it off.
 */
import { createRequire } from 'node:module';
import type { Socket } from 'node:net';
import { messageOf } from './error-text.ts';
import type { Log } from './log.ts';

/** The process at the other end of a unix socket, as the kernel recorded it when it connected. */
export interface PeerCredentials {
  readonly pid: number;
  readonly uid: number;
  readonly gid: number;
}

export interface SystemCalls {
  /**
   * Returns the process that connected `socket` (SO_PEERCRED, unix(7)).
   * @returns undefined when the socket is closed or is not a unix socket.
   */
  peerCredentials(socket: Socket): PeerCredentials | undefined;
  /**
   * Sends octets of an open file to a connection without copying them (sendfile(2)), as far as
   * the kernel has them in memory and the connection takes them now. Never waits for the disk.
   * The caller has written nothing to the socket that is not sent yet.
   * @param length octets from `position`; at most 1 MiB is sent in one call.
   * @returns how many octets were sent; 0 also for a closed or an encrypted connection, and when
   * something else is queued: then send some through the socket, which tells when to go on.
   */
  sendCached(socket: Socket, fd: number, position: number, length: number): number;
  /** Whether the kernel has the octet of a file in memory, so that reading it waits for no disk. */
  isCached(fd: number, position: number): boolean;
  /**
   * Gives pages that hold only freed memory back to the kernel (malloc_trim(3)), which glibc does
   * by itself only at the ends of its arenas. Takes the thread some 10 ms.
   */
  returnMemory(): void;
}

type Ffi = typeof import('node:ffi');

/** The functions of libc that are called, described for `node:ffi`. */
const LIBC = {
  getppid: { arguments: [], return: 'int32' },
  getsockopt: { arguments: ['int32', 'int32', 'int32', 'pointer', 'pointer'], return: 'int32' },
  sendfile: { arguments: ['int32', 'int32', 'pointer', 'uint64'], return: 'int64' },
  malloc_trim: { arguments: ['uint64'], return: 'int32' },
  preadv2: { arguments: ['int32', 'pointer', 'int32', 'int64', 'int32'], return: 'int64' },
} as const;

/** preadv2(2): fail instead of waiting for the disk. */
const RWF_NOWAIT = 8;
/** Octets in one sendfile: it takes the thread some 0.2 ms, in which nobody else is answered. */
const MOST_SENT = 1024 * 1024;
/**
 * The kernel reads files ahead in larger pieces than this, so what has one octet of each piece in
 * memory has all of it.
 */
const PROBED = 64 * 1024;

/** From asm-generic/socket.h; the same on x86-64 and arm64. */
const SOL_SOCKET = 1;
const SO_PEERCRED = 17;
/** `struct ucred`: pid, uid and gid, 32 bits each. */
const UCRED_BYTES = 12;

/**
 * Loads the system calls and tries one of them.
 * @param env `MUSTER_NATIVE=0` turns them off.
 * @returns undefined when they are turned off, when this Node has no `node:ffi`, or when the trial
 * fails; the log says which.
 */
export function openSystemCalls({
  env,
  log,
}: {
  readonly env: { readonly MUSTER_NATIVE?: string | undefined };
  readonly log: Log;
}): SystemCalls | undefined {
  if (env.MUSTER_NATIVE === '0') {
    log.info(
      {},
      'system calls are not used (MUSTER_NATIVE=0): the uid of operators is not known, and files cost more processor time',
    );
    return undefined;
  }
  try {
    // A static import would keep a Node without the module from starting at all.
    const ffi = createRequire(import.meta.url)('node:ffi') as Ffi;
    const libc = ffi.dlopen('libc.so.6', LIBC).functions;
    const parent = libc.getppid();
    if (parent !== process.ppid) throw new Error(`getppid() gave ${parent}, not ${process.ppid}`);
    return systemCalls(ffi, libc);
  } catch (error) {
    const cause = messageOf(error);
    log.warn(
      { cause },
      'system calls cannot be used: the uid of operators is not known, and files cost more processor time',
    );
    return undefined;
  }
}

type Libc = ReturnType<Ffi['dlopen']>['functions'];

function systemCalls(ffi: Ffi, libc: Libc): SystemCalls {
  // The kernel writes here during a call and at no other time. `ArrayBuffer`s do not move.
  const ucred = new ArrayBuffer(UCRED_BYTES);
  const length = new ArrayBuffer(4);
  const ucredAddress = ffi.getRawPointer(ucred);
  const lengthAddress = ffi.getRawPointer(length);
  const view = new DataView(ucred);
  const lengthView = new Int32Array(length);
  const offset = new BigInt64Array(1);
  const offsetAddress = ffi.getRawPointer(offset.buffer);
  // A struct iovec: one octet at `probe`. `inMemory` keeps both alive: it names them, not only
  // their addresses.
  const probe = new ArrayBuffer(8);
  const vector = new BigUint64Array(2);
  const inMemory = (fd: number, position: number): boolean => {
    vector.set([ffi.getRawPointer(probe), 1n]);
    return libc.preadv2!(fd, ffi.getRawPointer(vector.buffer), 1, BigInt(position), RWF_NOWAIT) === 1n;
  };
  return {
    isCached: inMemory,
    returnMemory: () => void libc.malloc_trim!(0n),
    sendCached(socket, fd, position, wanted) {
      const out = descriptorOf(socket);
      // What a TLS socket sends is encrypted by Node, not by the kernel.
      if (out === undefined || 'encrypted' in socket || socket.writableLength > 0) return 0;
      let length = 0;
      while (length < Math.min(wanted, MOST_SENT) && inMemory(fd, position + length)) length += PROBED;
      if (length === 0) return 0;
      offset[0] = BigInt(position);
      const count = BigInt(Math.min(length, wanted, MOST_SENT));
      const octets = libc.sendfile!(out, fd, offsetAddress, count) as bigint;
      return octets > 0n ? Number(octets) : 0;
    },
    peerCredentials(socket) {
      const fd = descriptorOf(socket);
      if (fd === undefined) return undefined;
      lengthView[0] = UCRED_BYTES;
      const failed = libc.getsockopt!(fd, SOL_SOCKET, SO_PEERCRED, ucredAddress, lengthAddress) as number;
      if (failed !== 0 || lengthView[0] !== UCRED_BYTES) return undefined;
      const [pid, uid, gid] = [0, 4, 8].map((offset) => view.getUint32(offset, true)) as [
        number,
        number,
        number,
      ];
      // A TCP socket has no peer process: the kernel answers 0 and -1, -1.
      return pid === 0 ? undefined : { pid, uid, gid };
    },
  };
}

/** The descriptor of an open socket. Node has it, but gives it no public name. */
function descriptorOf(socket: Socket): number | undefined {
  const fd = (socket as { _handle?: { fd?: number } | null })._handle?.fd;
  return fd !== undefined && Number.isInteger(fd) && fd >= 0 ? fd : undefined;
}
