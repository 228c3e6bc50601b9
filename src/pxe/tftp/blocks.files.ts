/**
 * A file as DATA packets. Few large reads, straight into the memory of the packets: nothing is
 * allocated per block. Files are opened and read synchronously: transfers have threads of their own
 * (`runner.socket.ts`), loaders are in the page cache after the first machine, and a hand-over to
 * another thread costs more than the read (a quarter of the rate with fifty clients).
 */
import { closeSync, constants, fstatSync, openSync, readSync } from 'node:fs';
import { DATA_HEADER, writeDataHeader } from './codec.ts';
import { toNetascii } from './request.ts';

/**
 * An open regular file, or its translation. `read` fills all of `into` from `position` on, or
 * throws.
 */
export interface ByteSource {
  readonly size: number;
  read(into: Buffer, position: number): void;
}

/**
 * Larger texts are not translated: netascii is for people, and it has to be translated in memory.
 */
export const MAX_NETASCII = 4 * 1024 * 1024;

/** Files open for transfers, each once however many transfers read it. */
export class OpenFiles {
  readonly #open = new Map<string, { readonly fd: number; readonly size: number; users: number }>();

  /** How many descriptors are in use. */
  get size(): number {
    return this.#open.size;
  }

  /**
   * Opens `path` for reading. `release` must be called once. Throws the system's error, or when it
   * is no regular file.
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
  // a pipe would keep the thread waiting for its writer
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

/** The file's text as netascii. Throws when it is larger than {@link MAX_NETASCII}. */
export function netasciiSource(source: ByteSource): ByteSource {
  if (source.size > MAX_NETASCII)
    throw new Error(`netascii is for texts up to ${MAX_NETASCII} octets; ask for octet`);
  const text = Buffer.alloc(source.size);
  source.read(text, 0);
  return memorySource(toNetascii(text));
}

/**
 * About this much is read at once: many transfers' packets together stay in the processor's cache.
 */
const CHUNK_BYTES = 48 * 1024;

interface Chunk {
  /** First block it holds, absolute; 0 while it holds none. */
  first: number;
  readonly memory: Buffer;
  /** Views of `memory`, one a packet, made once. */
  readonly packets: readonly Buffer[];
}

/**
 * Two chunks of packets, because a window may straddle two. A block can be had as long as none is
 * asked for that is two chunks further on: a chunk is at least as long as two windows, so those
 * that a client may still ask for again are there.
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

  /** DATA `block` (absolute, from 1) as it goes out. Throws when the file cannot be read. */
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
    // the file's octets go to the end of the memory, in one read, and are then moved to their
    // packets, first to last: no packet reaches beyond the octets that are still to be moved, as
    // each is ahead of its place by the headers left
    const from = count * DATA_HEADER;
    chunk.first = 0;
    if (octets > 0) this.#source.read(chunk.memory.subarray(from, from + octets), position);
    spread(chunk.memory, from, octets, first, this.#blockSize);
    chunk.first = first;
  }
}

/**
 * Moves `octets` from `from` on into packets from the memory's beginning on, each behind its
 * header.
 */
function spread(memory: Buffer, from: number, octets: number, first: number, blockSize: number): void {
  let packet = 0;
  let block = first;
  // also when nothing is left for the last block: it is a header alone
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
