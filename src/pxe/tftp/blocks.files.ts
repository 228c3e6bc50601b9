/**
 * A file as DATA packets. Few large reads, ahead of need, straight into packets whose headers are already there: nothing is copied
 * or allocated per block.
 */
import { close, fstat, open, readv } from 'node:fs';
import { DATA_HEADER, writeDataHeader } from './codec.ts';
import { toNetascii } from './request.ts';

/** An open regular file, or its translation. `read` fills `views` from `position` on, in whole. */
export interface ByteSource {
  readonly size: number;
  read(views: readonly Buffer[], position: number, done: (error: Error | undefined) => void): void;
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
    read(views, position, done) {
      let wanted = 0;
      for (const view of views) wanted += view.length;
      readv(fd, views, position, (error, octets) => {
        if (error) done(error);
        else if (octets < wanted) done(new Error('the file became shorter while it was sent'));
        else done(undefined);
      });
    },
  };
}

function memorySource(octets: Buffer): ByteSource {
  return {
    size: octets.length,
    read(views, position, done) {
      let at = position;
      for (const view of views) at += octets.copy(view, 0, at, at + view.length);
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
    else source.read([text], 0, (error) => (error ? reject(error) : resolve()));
  });
  return memorySource(toNetascii(text));
}

/** About this much is read at once… */
const CHUNK_BYTES = 128 * 1024;
/** …into at most so many packets: a read that scatters takes no more (IOV_MAX). */
const MAX_SCATTER = 1024;

interface Chunk {
  /** First block it holds, absolute; 0 while it holds none. */
  first: number;
  loading: boolean;
  /** Whole packets, header included, and the data part of each: made once. */
  readonly packets: Buffer[];
  readonly data: Buffer[];
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
    this.#perChunk = Math.min(perChunk, MAX_SCATTER, options.blocks);
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
    for (let i = 0; i < count; i++) writeDataHeader(chunk.packets[i]!, 0, first + i);
    const views = count === this.#perChunk ? chunk.data.slice() : chunk.data.slice(0, count);
    const position = (first - 1) * this.#blockSize;
    if (first + count - 1 === this.#blocks) {
      const rest = this.#source.size - (this.#blocks - 1) * this.#blockSize;
      const last = views.pop()!;
      if (rest > 0) views.push(last.subarray(0, rest));
    }
    const done = (error: Error | undefined) => {
      chunk.loading = false;
      if (error) this.#onError(error);
      else this.#onReady();
    };
    if (views.length === 0) queueMicrotask(() => done(undefined));
    else this.#source.read(views, position, done);
  }
}

function makeChunk(count: number, size: number): Chunk {
  const memory = Buffer.allocUnsafeSlow(count * size);
  const packets: Buffer[] = [];
  const data: Buffer[] = [];
  for (let i = 0; i < count; i++) {
    packets.push(memory.subarray(i * size, (i + 1) * size));
    data.push(memory.subarray(i * size + DATA_HEADER, (i + 1) * size));
  }
  return { first: 0, loading: false, packets, data };
}
