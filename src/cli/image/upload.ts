/**
 * Uploads one file to the server's asset store, in pieces, and continues where an earlier attempt
 * stopped.
 */
import { MusterError } from '../../base/errors.ts';
import { inAttempts, type TransferIo } from '../attempts.ts';
import type { ApiClient } from '../client.socket.ts';
import type { AssetSource, AssetStream, OnProgress } from './sources.files.ts';

/**
 * Octets in one request. The server keeps each complete piece, so after a failure at most this much
 * is sent again.
 */
const PIECE = 32 * 1024 * 1024;

interface Progress {
  readonly complete: boolean;
  readonly received: number;
}

export interface UploadOptions {
  readonly client: ApiClient;
  readonly source: AssetSource;
  readonly sha256: string;
  readonly io: TransferIo;
  readonly onProgress: OnProgress;
}

/**
 * Uploads a file. Resolves when the server has verified it; `already` means that the server had it
 * before.
 *
 * @throws {MusterError} E_ASSET_HASH when the source does not have the hash; E_FETCH or E_FILE_READ
 *   when it cannot be read.
 */
export async function upload(
  options: UploadOptions,
): Promise<{ readonly size: number; readonly already: boolean }> {
  const { client, sha256, source, io } = options;
  const progress = () => client.ask('GET /v1/assets/:sha256', { params: { sha256 } });
  let state = await progress();
  if (state.complete) return { size: state.received, already: true };
  const sent = { octets: 0 };
  const send = async (from: number) => sendAll(await source.read(from, io.signal), options, sent);
  let restarted = false;
  const attempt = async (): Promise<number> => {
    const { received } = state;
    if (state.complete) return received;
    try {
      return await send(received);
    } catch (error) {
      // The part that the server had belonged to another file, so the upload starts again.
      if (restarted || received === 0 || !(error instanceof MusterError) || error.code !== 'E_ASSET_HASH')
        throw error;
      restarted = true;
      return send(0);
    }
  };
  const size = source.remote
    ? await inAttempts(
        async (n) => {
          if (n > 1) state = await progress();
          return attempt();
        },
        () => sent.octets,
        io,
      )
    : await attempt();
  return { size, already: false };
}

/** Sends a stream to its end, and resolves with the file's size in octets. */
async function sendAll(
  stream: AssetStream,
  options: UploadOptions,
  sent: { octets: number },
): Promise<number> {
  const { client, sha256, onProgress, io } = options;
  const { signal } = io;
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
    // The length is unknown, so everything is sent in one request.
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
      `${options.source.shown}: the transfer ended after ${last.received} of ${total} octets`,
    );
  return last.received;
}

/**
 * Splits a stream into streams of `size` octets; the last one may be shorter. Each stream must be
 * read to its end before the next one begins.
 */
async function* inPieces(
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
