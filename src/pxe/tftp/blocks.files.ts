/**
 * Reads a file as DATA packets: few large reads, straight into the memory of the packets, and no
 * allocation per block. With system calls (`Kernel`), the file's octets are read to their places
 * behind the headers; without, they are moved there. Files are opened and read synchronously.
 * Transfers run in threads (`runner.socket.ts`), loaders are in the page cache after the first
 * machine, and asynchronous reads cost more than they save (a quarter of the rate with fifty
 * clients).
 */
import { closeSync, constants, fstatSync, openSync, readSync } from 'node:fs';
import type { Kernel } from '../../base/kernel/kernel.socket.ts';
import type { Region } from '../../base/kernel/memory.socket.ts';
import { DATA_HEADER, writeDataHeader } from './codec.ts';
import { toNetascii } from './request.ts';

/**
 * An open regular file or its netascii translation. `read` fills `into` with the octets from
 * `position` on, or throws.
 */
export interface ByteSource {
  readonly size: number;
  /** The open file; undefined when the octets are in memory. */
  readonly fd?: number;
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
    fd,
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

/** Smaller blocks are moved instead of read to their places: each place costs the kernel time. */
const LEAST_SCATTERED = 512;

interface Chunk {
  /** Number of its first block; 0 while it is empty. */
  first: number;
  readonly memory: Buffer;
  /** The same memory, if system calls use it. */
  readonly region: Region | undefined;
  /** Views of `memory`, one per packet, made when they are first needed. */
  packets: readonly Buffer[] | undefined;
}

/** Packets that lie one behind another in a region. */
export interface BlockRun {
  readonly region: Region;
  readonly offset: number;
  /** Octets of all packets together. */
  readonly octets: number;
  /** Octets of each packet but the last of the file, which may be shorter. */
  readonly packetSize: number;
  /** Number of the last block. */
  readonly last: number;
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
  readonly #kernel: Kernel | undefined;

  constructor(options: {
    readonly source: ByteSource;
    readonly blockSize: number;
    readonly blocks: number;
    readonly window: number;
    /** Reads and holds packets for {@link run}; undefined: only {@link packet} may be called. */
    readonly kernel: Kernel | undefined;
  }) {
    const { blockSize, blocks, window, kernel } = options;
    this.#source = options.source;
    this.#blockSize = blockSize;
    this.#blocks = blocks;
    this.#kernel = kernel;
    const packet = DATA_HEADER + blockSize;
    // Whole windows, so that one that was not interrupted lies in one chunk.
    const windows = Math.max(2, Math.floor(CHUNK_BYTES / packet / window));
    this.#perChunk = Math.min(windows * window, blocks);
    this.#chunks = Array.from({ length: blocks > this.#perChunk ? 2 : 1 }, () =>
      makeChunk(this.#perChunk * packet, kernel),
    );
  }

  /** The DATA packet of `block` (from 1). Throws when the file cannot be read. */
  packet(block: number): Buffer {
    const { chunk, index } = this.#find(block);
    chunk.packets ??= packetsOf(chunk.memory, DATA_HEADER + this.#blockSize);
    const packet = chunk.packets[index]!;
    return block < this.#blocks ? packet : packet.subarray(0, this.#octets(block, block));
  }

  /**
   * The DATA packets from block `from` on, as many as lie one behind another, at most until block
   * `to`. Throws when the file cannot be read.
   */
  run(from: number, to: number): BlockRun {
    const { chunk, index } = this.#find(from);
    const last = Math.min(to, chunk.first + this.#perChunk - 1, this.#blocks);
    const packetSize = DATA_HEADER + this.#blockSize;
    const octets = this.#octets(from, last);
    return { region: chunk.region!, offset: index * packetSize, octets, packetSize, last };
  }

  /** Octets of the packets of these blocks. */
  #octets(from: number, last: number): number {
    const whole = (last - from + 1) * (DATA_HEADER + this.#blockSize);
    return last < this.#blocks ? whole : whole - (this.#blocks * this.#blockSize - this.#source.size);
  }

  #find(block: number): { readonly chunk: Chunk; readonly index: number } {
    const number = Math.floor((block - 1) / this.#perChunk);
    const first = number * this.#perChunk + 1;
    const chunk = this.#chunks[number % this.#chunks.length]!;
    if (chunk.first !== first) this.#load(chunk, first);
    return { chunk, index: block - first };
  }

  #load(chunk: Chunk, first: number): void {
    const count = Math.min(this.#perChunk, this.#blocks - first + 1);
    chunk.first = 0;
    if (!this.#scatter(chunk, first, count)) this.#move(chunk, first, count);
    chunk.first = first;
  }

  /** Reads the file's octets to their places behind the headers. Returns whether all came. */
  #scatter(chunk: Chunk, first: number, count: number): boolean {
    const { fd, size } = this.#source;
    const blockSize = this.#blockSize;
    if (!this.#kernel || !chunk.region || fd === undefined || blockSize < LEAST_SCATTERED) return false;
    const packetSize = DATA_HEADER + blockSize;
    for (let done = 0; done < count; ) {
      const position = (first - 1 + done) * blockSize;
      const left = { offset: done * packetSize, header: DATA_HEADER, blockSize, count: count - done };
      const got = this.#kernel.readBlocks(fd, chunk.region, { ...left, position });
      const blocks = Math.floor(got / blockSize);
      const atEnd = position + got >= size;
      if (!atEnd && (blocks === 0 || got % blockSize !== 0)) return false;
      done = atEnd ? count : done + blocks;
    }
    for (let n = 0; n < count; n++) writeDataHeader(chunk.memory, n * packetSize, first + n);
    return true;
  }

  /**
   * Reads the file's octets in one piece to the end of the memory, and moves them to their packets,
   * first to last. No move overwrites octets that are still to be moved, because between the two
   * there is room for the headers that are not written yet.
   */
  #move(chunk: Chunk, first: number, count: number): void {
    const position = (first - 1) * this.#blockSize;
    const octets = Math.min(count * this.#blockSize, this.#source.size - position);
    const from = count * DATA_HEADER;
    if (octets > 0) this.#source.read(chunk.memory.subarray(from, from + octets), position);
    spread(chunk.memory, from, octets, first, this.#blockSize);
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

function makeChunk(octets: number, kernel: Kernel | undefined): Chunk {
  const region = kernel?.region(octets);
  const memory = region?.bytes ?? Buffer.allocUnsafeSlow(octets);
  return { first: 0, memory, region, packets: undefined };
}

function packetsOf(memory: Buffer, size: number): readonly Buffer[] {
  return Array.from({ length: memory.length / size }, (_, n) => memory.subarray(n * size, (n + 1) * size));
}
