/**
 * Reads a file as DATA packets: few large reads, straight into the memory of the packets, and no
 * allocation per block. Files are opened and read synchronously. Transfers run in threads
 * (`runner.socket.ts`), loaders are in the page cache after the first machine, and asynchronous
 * reads cost more than they save (a quarter of the rate with fifty clients).
 */
import { closeSync, constants, fstatSync, openSync, readSync } from 'node:fs';
import { DATA_HEADER, writeDataHeader } from './codec.ts';
import { toNetascii } from './request.ts';

/**
 * An open regular file or its netascii translation. `read` fills `into` with the octets from
 * `position` on, or throws.
 */
export interface ByteSource {
  readonly size: number;
  read(into: Buffer, position: number): void;
}

/** Larger files are refused in netascii mode, because they would be translated in memory. */
const MAX_NETASCII = 4 * 1024 * 1024;

/** Open files. Each is open once, however many transfers read it. */
export class OpenFiles {
  readonly #open = new Map<string, { readonly fd: number; readonly size: number; users: number }>();

  /** Number of open descriptors. */
  get size(): number {
    return this.#open.size;
  }

  /**
   * Opens `path`. `release` must be called once. Throws when it cannot be opened as a regular file.
   */
  acquire(path: string): { readonly source: ByteSource; readonly release: () => void } {
    const held = this.#open.get(path) ?? { ...openRegular(path), users: 0 };
    this.#open.set(path, held);
    held.users++;
    let released = false;
    const release = () => {
      if (released) return;
      released = true;
      held.users--;
      if (held.users > 0) return;
      this.#open.delete(path);
      closeSync(held.fd);
    };
    return { source: fileSource(held.fd, held.size), release };
  }
}

function openRegular(path: string): { fd: number; size: number } {
  // O_NONBLOCK: opening a pipe would block the thread until there is a writer.
  const fd = openSync(path, constants.O_RDONLY | constants.O_NONBLOCK);
  const stat = fstatSync(fd);
  if (stat.isFile()) return { fd, size: stat.size };
  closeSync(fd);
  throw new Error(`${path} is not a regular file`);
}

function fileSource(fd: number, size: number): ByteSource {
  return {
    size,
    read(into, position) {
      for (let at = 0; at < into.length; ) {
        const octets = readSync(fd, into, at, into.length - at, position + at);
        if (octets === 0) throw new Error('the file became shorter while it was sent');
        at += octets;
      }
    },
  };
}

function memorySource(octets: Buffer): ByteSource {
  return {
    size: octets.length,
    read(into, position) {
      octets.copy(into, 0, position);
    },
  };
}

/** The empty file. */
export const emptySource: ByteSource = memorySource(Buffer.alloc(0));

/** The file translated into netascii. Throws when it is larger than {@link MAX_NETASCII}. */
export function netasciiSource(source: ByteSource): ByteSource {
  if (source.size > MAX_NETASCII)
    throw new Error(`netascii is for texts up to ${MAX_NETASCII} octets; ask for octet`);
  const text = Buffer.alloc(source.size);
  source.read(text, 0);
  return memorySource(toNetascii(text));
}

/**
 * About this many octets are read in one call, so that the packets stay in the processor's cache.
 */
const CHUNK_BYTES = 48 * 1024;

interface Chunk {
  /** Number of its first block; 0 while it is empty. */
  first: number;
  readonly memory: Buffer;
  /** Views of `memory`, one per packet. */
  readonly packets: readonly Buffer[];
}

/**
 * Gives the packets of a transfer, from two chunks, because a window may span two. A chunk is at
 * least as long as two windows, so every block that a client may still ask for again is in memory.
 */
export class BlockReader {
  readonly #source: ByteSource;
  readonly #blockSize: number;
  readonly #blocks: number;
  readonly #perChunk: number;
  readonly #chunks: readonly Chunk[];

  constructor(options: {
    readonly source: ByteSource;
    readonly blockSize: number;
    readonly blocks: number;
    readonly window: number;
  }) {
    this.#source = options.source;
    this.#blockSize = options.blockSize;
    this.#blocks = options.blocks;
    const packet = DATA_HEADER + options.blockSize;
    const perChunk = Math.max(options.window * 2, Math.floor(CHUNK_BYTES / packet));
    this.#perChunk = Math.min(perChunk, options.blocks);
    this.#chunks = Array.from({ length: options.blocks > this.#perChunk ? 2 : 1 }, () =>
      makeChunk(this.#perChunk, packet),
    );
  }

  /** The DATA packet of `block` (from 1). Throws when the file cannot be read. */
  packet(block: number): Buffer {
    const index = Math.floor((block - 1) / this.#perChunk);
    const first = index * this.#perChunk + 1;
    const chunk = this.#chunks[index % this.#chunks.length]!;
    if (chunk.first !== first) this.#load(chunk, first);
    const packet = chunk.packets[block - first]!;
    if (block < this.#blocks) return packet;
    return packet.subarray(0, DATA_HEADER + (this.#source.size - (block - 1) * this.#blockSize));
  }

  #load(chunk: Chunk, first: number): void {
    const count = Math.min(this.#perChunk, this.#blocks - first + 1);
    const position = (first - 1) * this.#blockSize;
    const octets = Math.min(count * this.#blockSize, this.#source.size - position);
    // One read puts the file's octets at the end of the memory. They are then moved to their
    // packets, first to last. No move overwrites octets that are still to be moved, because between
    // the two there is room for the headers that are not written yet.
    const from = count * DATA_HEADER;
    chunk.first = 0;
    if (octets > 0) this.#source.read(chunk.memory.subarray(from, from + octets), position);
    spread(chunk.memory, from, octets, first, this.#blockSize);
    chunk.first = first;
  }
}

/**
 * Moves `octets` that begin at `from` into packets at the beginning of `memory`, behind headers.
 */
function spread(memory: Buffer, from: number, octets: number, first: number, blockSize: number): void {
  let packet = 0;
  let block = first;
  // `<=`: a last block without octets is written too, as a header only.
  for (let at = 0; at <= octets && packet + DATA_HEADER <= memory.length; at += blockSize) {
    memory.copyWithin(packet + DATA_HEADER, from + at, from + Math.min(at + blockSize, octets));
    writeDataHeader(memory, packet, block++);
    packet += DATA_HEADER + blockSize;
  }
}

function makeChunk(count: number, size: number): Chunk {
  const memory = Buffer.allocUnsafeSlow(count * size);
  const packets = Array.from({ length: count }, (_, n) => memory.subarray(n * size, (n + 1) * size));
  return { first: 0, memory, packets };
}
