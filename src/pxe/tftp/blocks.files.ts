/**
 * A file as DATA packets. Few large reads, ahead of need, straight into packets whose headers are already there: nothing is copied
 * or allocated per block.
 */
import { close, fstat, open, read } from 'node:fs';
import { DATA_HEADER, writeDataHeader } from './codec.ts';
import { toNetascii } from './request.ts';

/** An open regular file, or its translation. `read` fills all of `into` from `position` on. */
export interface ByteSource {
  readonly size: number;
  read(into: Buffer, position: number, done: (error: Error | undefined) => void): void;
}

/** Larger texts are not translated: netascii is for people, and it has to be translated in memory. */
export const MAX_NETASCII = 4 * 1024 * 1024;

/** Files open for transfers, each once however many transfers read it. */
export class OpenFiles {
  readonly #open = new Map<string, { readonly file: Promise<{ fd: number; size: number }>; users: number }>();

  /** How many descriptors are in use. */
  get size(): number {
    return this.#open.size;
  }

  /** Opens `path` for reading. `release` must be called once. Rejects with the system's error, or when it is no regular file. */
  async acquire(path: string): Promise<{ readonly source: ByteSource; readonly release: () => void }> {
    let entry = this.#open.get(path);
    if (!entry) {
      entry = { file: openRegular(path), users: 0 };
      this.#open.set(path, entry);
    }
    const held = entry;
    held.users++;
    const leave = () => {
      held.users--;
      if (held.users > 0) return;
      if (this.#open.get(path) === held) this.#open.delete(path);
      held.file.then(
        ({ fd }) => close(fd, () => {}),
        () => {},
      );
    };
    try {
      const { fd, size } = await held.file;
      let released = false;
      return {
        source: fileSource(fd, size),
        release: () => {
          if (!released) leave();
          released = true;
        },
      };
    } catch (error) {
      leave();
      throw error;
    }
  }
}

function openRegular(path: string): Promise<{ fd: number; size: number }> {
  return new Promise((resolve, reject) => {
    open(path, 'r', (error, fd) => {
      if (error) {
        reject(error);
        return;
      }
      fstat(fd, (failed, stat) => {
        if (!failed && stat.isFile()) resolve({ fd, size: stat.size });
        else close(fd, () => reject(failed ?? new Error(`${path} is not a regular file`)));
      });
    });
  });
}

function fileSource(fd: number, size: number): ByteSource {
  return {
    size,
    read(into, position, done) {
      const more = (at: number) =>
        read(fd, into, at, into.length - at, position + at, (error, octets) => {
          if (error) done(error);
          else if (octets === 0) done(new Error('the file became shorter while it was sent'));
          else if (at + octets < into.length) more(at + octets);
          else done(undefined);
        });
      more(0);
    },
  };
}

function memorySource(octets: Buffer): ByteSource {
  return {
    size: octets.length,
    read(into, position, done) {
      octets.copy(into, 0, position);
      queueMicrotask(() => done(undefined));
    },
  };
}

/** The empty file. */
export const emptySource: ByteSource = memorySource(Buffer.alloc(0));

/** The file's text as netascii. Rejects when it is larger than {@link MAX_NETASCII}. */
export async function netasciiSource(source: ByteSource): Promise<ByteSource> {
  if (source.size > MAX_NETASCII)
    throw new Error(`netascii is for texts up to ${MAX_NETASCII} octets; ask for octet`);
  const text = Buffer.alloc(source.size);
  await new Promise<void>((resolve, reject) => {
    if (text.length === 0) resolve();
    else source.read(text, 0, (error) => (error ? reject(error) : resolve()));
  });
  return memorySource(toNetascii(text));
}

/** About this much is read at once. */
const CHUNK_BYTES = 128 * 1024;

interface Chunk {
  /** First block it holds, absolute; 0 while it holds none. */
  first: number;
  loading: boolean;
  readonly memory: Buffer;
  /** Views of `memory`, one a packet, made once. */
  readonly packets: readonly Buffer[];
}

/**
 * Two chunks of packets, one being sent, one being read. Blocks that a client may still ask for again (anything after the last
 * acknowledged) are kept: call {@link release} as acknowledgements come.
 */
export class BlockReader {
  readonly #source: ByteSource;
  readonly #blockSize: number;
  readonly #blocks: number;
  readonly #perChunk: number;
  readonly #chunks: readonly Chunk[];
  readonly #onReady: () => void;
  readonly #onError: (error: Error) => void;
  #acked = 0;

  constructor(options: {
    readonly source: ByteSource;
    readonly blockSize: number;
    readonly blocks: number;
    readonly window: number;
    /** More blocks are there. */
    readonly onReady: () => void;
    readonly onError: (error: Error) => void;
  }) {
    this.#source = options.source;
    this.#blockSize = options.blockSize;
    this.#blocks = options.blocks;
    this.#onReady = options.onReady;
    this.#onError = options.onError;
    const packet = DATA_HEADER + options.blockSize;
    // a window may straddle two chunks, and the next chunk is read while one window is left of the present one
    const perChunk = Math.max(options.window * 2, Math.floor(CHUNK_BYTES / packet));
    this.#perChunk = Math.min(perChunk, options.blocks);
    this.#chunks = Array.from({ length: options.blocks > this.#perChunk ? 2 : 1 }, () =>
      makeChunk(this.#perChunk, packet),
    );
    this.#load(0);
  }

  /** DATA `block` (absolute, from 1) as it goes out, or undefined when it is not read yet: `onReady` will tell. */
  packet(block: number): Buffer | undefined {
    const index = Math.floor((block - 1) / this.#perChunk);
    const chunk = this.#chunks[index % this.#chunks.length]!;
    const at = block - chunk.first;
    if (chunk.loading || chunk.first === 0 || at < 0 || at >= this.#perChunk) {
      this.#load(index);
      return undefined;
    }
    const packet = chunk.packets[at]!;
    if (block < this.#blocks) return packet;
    return packet.subarray(0, DATA_HEADER + (this.#source.size - (block - 1) * this.#blockSize));
  }

  /** Blocks up to `acked` will not be asked for again. */
  release(acked: number): void {
    this.#acked = acked;
    // the chunk after the one in use, as soon as the one before it is done with
    const index = Math.floor(acked / this.#perChunk);
    if (this.#chunks.length > 1) this.#load(index + 1);
  }

  /** Reads chunk `index`, unless it is there, on its way, behind the end, or its place still holds unacknowledged blocks. */
  #load(index: number): void {
    const first = index * this.#perChunk + 1;
    const chunk = this.#chunks[index % this.#chunks.length]!;
    if (chunk.loading || chunk.first === first || first > this.#blocks) return;
    if (chunk.first !== 0 && this.#acked < Math.min(chunk.first + this.#perChunk - 1, this.#blocks)) return;
    chunk.loading = true;
    chunk.first = first;
    const count = Math.min(this.#perChunk, this.#blocks - first + 1);
    const position = (first - 1) * this.#blockSize;
    const octets = Math.min(count * this.#blockSize, this.#source.size - position);
    // the file's octets go to the end of the memory, in one read, and are then moved to their packets, first to last: no
    // packet reaches beyond the octets that are still to be moved, as each is ahead of its place by the headers left
    const from = count * DATA_HEADER;
    const done = (error: Error | undefined) => {
      chunk.loading = false;
      if (error) {
        this.#onError(error);
        return;
      }
      spread(chunk.memory, from, octets, first, this.#blockSize);
      this.#onReady();
    };
    if (octets === 0) queueMicrotask(() => done(undefined));
    else this.#source.read(chunk.memory.subarray(from, from + octets), position, done);
  }
}

/** Moves `octets` from `from` on into packets from the memory's beginning on, each behind its header. */
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
  return { first: 0, loading: false, memory, packets };
}
