/** Sending one file to the server's asset store: in pieces, going on where an earlier attempt stopped. */
import { MusterError } from '../base/errors.ts';
import type { ApiClient } from './client.socket.ts';
import { type AssetSource, type AssetStream, pause } from './image-sources.files.ts';

/** What one request carries; the server keeps each piece, so at most this much is sent again. */
const PIECE = 32 * 1024 * 1024;
/** Attempts at reading a URL that breaks off, as long as each brings the file forward. */
const ATTEMPTS = 5;

interface Progress {
  readonly complete: boolean;
  readonly received: number;
}

export interface UploadOptions {
  readonly client: ApiClient;
  readonly source: AssetSource;
  readonly sha256: string;
  readonly signal: AbortSignal;
  /** Octets that the server has, of how many. */
  readonly onProgress: (received: number, total: number | undefined) => void;
}

/**
 * Resolves when the server has the file, verified; `already`: it was there before.
 * Throws E_ASSET_HASH when the source is another file than its hash says, E_FETCH or E_FILE_READ when it cannot be read.
 */
export async function upload(
  options: UploadOptions,
): Promise<{ readonly size: number; readonly already: boolean }> {
  const { client, sha256, source, signal } = options;
  const state = await client.call<Progress>('GET', `/v1/assets/${sha256}`);
  if (state.complete) return { size: state.received, already: true };
  let received = state.received;
  const sent = { octets: 0 };
  for (let attempt = 1; ; attempt++) {
    const before = sent.octets;
    try {
      const stream = await source.read(received, signal);
      return { size: await sendAll(stream, options, sent), already: false };
    } catch (error) {
      // what an earlier attempt left was of another file: once more, from the start
      if (error instanceof MusterError && error.code === 'E_ASSET_HASH' && received > 0) {
        received = 0;
        continue;
      }
      // busy: the server has not yet noticed that the last attempt ended
      const again =
        source.remote &&
        error instanceof MusterError &&
        (error.code === 'E_FETCH' || (error.code === 'E_ASSET_BUSY' && attempt > 1));
      if (!again || attempt >= ATTEMPTS) throw error;
      if (sent.octets > before) attempt = 0;
      await pause(1000 * 2 ** attempt, signal);
      received = (await client.call<Progress>('GET', `/v1/assets/${sha256}`)).received;
    }
  }
}

/** Sends a stream to its end; the file's size. */
async function sendAll(
  stream: AssetStream,
  options: UploadOptions,
  sent: { octets: number },
): Promise<number> {
  const { client, sha256, onProgress, signal } = options;
  const path = `/v1/assets/${sha256}`;
  const { total } = stream;
  let at = stream.offset;
  const counted = async function* (octets: AsyncIterable<Uint8Array>) {
    for await (const part of octets) {
      at += part.length;
      sent.octets += part.length;
      onProgress(at, total);
      yield part;
    }
  };
  if (total === undefined || total === 0) {
    // of unknown length: all in one request
    const { received } = await client.call<Progress>('PUT', path, { body: counted(stream.octets), signal });
    return received;
  }
  const pieces = inPieces(stream.octets, PIECE);
  let last: Progress = { complete: false, received: at };
  for await (const piece of pieces) {
    const end = Math.min(at + PIECE, total) - 1;
    last = await client.call<Progress>('PUT', path, {
      headers: { 'content-range': `bytes ${at}-${end}/${total}` },
      body: counted(piece),
      signal,
    });
  }
  if (!last.complete)
    throw new MusterError(
      'E_FETCH',
      `${options.source.shown}: it ended after ${last.received} of ${total} octets`,
    );
  return last.received;
}

/** Cuts a stream into streams of `size` octets, the last one shorter. Each must be read to its end before the next. */
export async function* inPieces(
  octets: AsyncIterable<Uint8Array>,
  size: number,
): AsyncIterable<AsyncIterable<Uint8Array>> {
  const iterator = octets[Symbol.asyncIterator]();
  let rest: Uint8Array | undefined;
  let over = false;
  const next = async (): Promise<Uint8Array | undefined> => {
    while (rest === undefined || rest.length === 0) {
      const { value, done } = await iterator.next();
      if (done) return undefined;
      rest = value;
    }
    return rest;
  };
  const piece = async function* () {
    for (let left = size; left > 0; ) {
      const part = await next();
      if (part === undefined) {
        over = true;
        return;
      }
      const taken = part.subarray(0, left);
      rest = part.subarray(taken.length);
      left -= taken.length;
      yield taken;
    }
  };
  try {
    while (!over && (await next()) !== undefined) yield piece();
  } finally {
    await iterator.return?.();
  }
}
