/** Sends answers and files to machines. */
import { close, createReadStream, fstat, open, read, readSync } from 'node:fs';
import type { IncomingMessage, ServerResponse } from 'node:http';
import { pipeline } from 'node:stream/promises';
import type { SystemCalls } from '../../base/system-calls.socket.ts';
import type { ServedFile } from '../assets/assets.ts';
import { type Answer, wait } from './answer.ts';
import { selectRange } from './range.ts';

/** GRUB reads the length only in this spelling (quirk grub-content-length). */
const CONTENT_LENGTH = 'Content-Length';

/**
 * Octets that are read ahead of the socket for each of the first {@link AHEAD} transfers. From 256
 * KiB on, one core fills 10 GbE (1.2 to 1.9 GB/s measured over loopback; 0.8 to 1.4 GB/s with 64
 * KiB).
 */
const READ_AHEAD = 512 * 1024;
/**
 * How many transfers may read ahead at the same time. A client that stops reading keeps twice
 * {@link READ_AHEAD} for two minutes, so these cost at most 128 MiB.
 */
const AHEAD = 128;
/**
 * Octets that every other transfer holds; it reads on when the socket has taken them. With
 * {@link CachedFiles} all transfers go like this, and most octets are never read into the process.
 */
const STEP = 64 * 1024;

/** Sends what the kernel has in memory without copying it, where system calls can be used. */
export type CachedFiles = Pick<SystemCalls, 'sendCached' | 'isCached'>;
/** Octets that are read at once when they are in memory: enough to learn when there is room. */
const CACHED_STEP = 16 * 1024;

/**
 * Sends `answer`, always with Content-Length and never with an empty header value (quirk
 * http-empty-header). HEAD gets the same without the body. Returns the status.
 */
export function send(response: ServerResponse, answer: Answer): number {
  const { body } = answer;
  const length = typeof body === 'string' ? Buffer.byteLength(body, 'utf8') : body.length;
  const headers = ['content-type', answer.contentType, CONTENT_LENGTH, String(length)];
  for (const [name, value] of answer.headers ?? []) headers.push(name, value);
  response.writeHead(answer.status, headers);
  // Node writes head and body of a text in one call, and copies a Latin-1 text octet by octet.
  if (response.req.method === 'HEAD') response.end();
  else if (typeof body === 'string') response.end(body, length === body.length ? 'latin1' : 'utf8');
  else response.end(body);
  return answer.status;
}

/** How sending a file went. `octets`: octets of its body that were passed to the socket. */
export interface Sent {
  readonly status: number;
  readonly octets: number;
  /** The whole file was sent, to a GET without a range. */
  readonly whole: boolean;
  /** The client left before it had all that it had asked for. */
  readonly cut?: boolean;
}

export interface FileReply {
  readonly file: ServedFile;
  readonly contentType: string;
  /** A strong validator with its quotes. Default: made from size and modification time. */
  readonly etag?: string;
  /** More headers, for the file and for 304. */
  readonly headers?: Answer['headers'];
  /** The answer when the file is no longer on disk. */
  readonly gone: () => Answer;
}

/**
 * Sends a file, with HEAD, one range, If-None-Match and If-Range. Opens it once; the size is that
 * of the open file. Resolves when the client has the file or is gone. Never rejects.
 */
export async function sendFile(
  request: IncomingMessage,
  response: ServerResponse,
  reply: FileReply,
  cached?: CachedFiles,
): Promise<Sent> {
  if (!(await isNext(response))) return { status: 499, octets: 0, whole: false };
  const opened = await openFile(reply.file.path);
  if ('error' in opened)
    return { status: send(response, openFailure(opened.error, reply.gone)), octets: 0, whole: false };
  const { fd, size, modified } = opened;
  const etag = reply.etag ?? `"${size.toString(16)}-${Math.floor(modified).toString(16)}"`;
  const headers = ['accept-ranges', 'bytes', 'etag', etag, ...(reply.headers ?? []).flat()];
  const end = (status: number, more: readonly string[]): Sent => {
    close(fd, () => {});
    response.writeHead(status, [...headers, ...more]);
    response.end();
    return { status, octets: 0, whole: false };
  };
  if (matches(request.headers['if-none-match'], etag)) return end(304, []);
  const ifRange = request.headers['if-range'];
  const range =
    ifRange === undefined || ifRange === etag
      ? selectRange(request.headers.range, size)
      : ({ kind: 'whole' } as const);
  if (range.kind === 'unsatisfiable')
    return end(416, ['content-range', `bytes */${size}`, CONTENT_LENGTH, '0']);
  const [first, last] = range.kind === 'part' ? [range.first, range.last] : [0, size - 1];
  const status = range.kind === 'part' ? 206 : 200;
  const length = last - first + 1;
  headers.push('content-type', reply.contentType, CONTENT_LENGTH, String(length));
  if (range.kind === 'part') headers.push('content-range', `bytes ${first}-${last}/${size}`);
  if (request.method === 'HEAD' || length === 0) {
    const sent = end(status, []);
    return { ...sent, whole: request.method !== 'HEAD' && range.kind === 'whole' };
  }
  response.writeHead(status, headers);
  const octets = await stream(fd, first, last, response, cached);
  return { status, octets, whole: range.kind === 'whole' && octets === length, cut: octets < length };
}

/**
 * Waits until the answers to earlier requests of this connection are out, so that a connection
 * never holds octets of two files. False when the connection was closed meanwhile.
 */
function isNext(response: ServerResponse): Promise<boolean> | boolean {
  if (response.socket !== null) return true;
  const { socket } = response.req;
  return new Promise((resolve) => {
    const gone = (): void => resolve(false);
    socket.once('close', gone);
    response.once('socket', () => {
      socket.off('close', gone);
      resolve(true);
    });
  });
}

/** Number of transfers that read ahead now. */
let ahead = 0;

/**
 * Sends octets `first` to `last` of `fd` and closes it. Resolves to the number that the socket
 * took.
 */
async function stream(
  fd: number,
  first: number,
  last: number,
  response: ServerResponse,
  cached: CachedFiles | undefined,
): Promise<number> {
  if (cached || ahead >= AHEAD)
    return inSteps(fd, first, last, response, cached).finally(() => close(fd, () => {}));
  ahead++;
  return readingAhead(fd, first, last, response).finally(() => ahead--);
}

/** As {@link stream}, but holds at most {@link STEP} octets, and does not close `fd`. */
async function inSteps(
  fd: number,
  first: number,
  last: number,
  response: ServerResponse,
  cached: CachedFiles | undefined,
): Promise<number> {
  const buffer = Buffer.allocUnsafe(Math.min(STEP, last - first + 1));
  let at = first;
  while (at <= last) {
    const octets = cached?.isCached(fd, at)
      ? readNow(fd, buffer, Math.min(buffer.length, CACHED_STEP, last - at + 1), at)
      : await readAt(fd, buffer, Math.min(buffer.length, last - at + 1), at);
    // The disk failed, or the file has become shorter: the client would wait for octets that never
    // come.
    if (octets === 0 || !(await isTaken(response, buffer.subarray(0, octets)))) {
      response.destroy();
      return at - first;
    }
    at += octets;
    const { socket } = response;
    if (cached && socket && at <= last) at += cached.sendCached(socket, fd, at, last - at + 1);
  }
  response.end();
  return at - first;
}

/** As {@link readAt}, at once; for octets that are in memory. */
function readNow(fd: number, buffer: Buffer, length: number, position: number): number {
  try {
    return readSync(fd, buffer, 0, length, position);
  } catch {
    return 0;
  }
}

/** Reads up to `length` octets at `position`; 0 when there are none or the disk fails. */
const readAt = (fd: number, buffer: Buffer, length: number, position: number): Promise<number> =>
  new Promise((resolve) =>
    read(fd, buffer, 0, length, position, (error, octets) => resolve(error ? 0 : octets)),
  );

/** Whether the socket took the octets; false when the connection is gone. */
const isTaken = (response: ServerResponse, octets: Buffer): Promise<boolean> =>
  new Promise((resolve) => {
    const gone = (): void => resolve(false);
    response.once('close', gone);
    response.write(octets, (error) => {
      response.off('close', gone);
      resolve(!error);
    });
  });

/** As {@link stream}, with {@link READ_AHEAD}. */
async function readingAhead(
  fd: number,
  first: number,
  last: number,
  response: ServerResponse,
): Promise<number> {
  const source = createReadStream('', { fd, start: first, end: last, highWaterMark: READ_AHEAD });
  // A response that has ended no longer knows its connection.
  const { socket } = response;
  try {
    await pipeline(source, response);
    // The file has become shorter: the client would wait for octets that never come.
    if (source.bytesRead <= last - first) socket?.destroy();
    return source.bytesRead;
  } catch {
    // The client is gone or the disk failed. Cutting the connection tells the client that the file
    // is incomplete.
    response.destroy();
    return Math.max(0, source.bytesRead - response.writableLength);
  }
}

type Opened =
  | { readonly fd: number; readonly size: number; readonly modified: number }
  | { readonly error: NodeJS.ErrnoException };

function openFile(path: string): Promise<Opened> {
  return new Promise((resolve) => {
    open(path, 'r', (error, fd) => {
      if (error) {
        resolve({ error });
        return;
      }
      fstat(fd, (failed, stat) => {
        if (!failed && stat.isFile()) resolve({ fd, size: stat.size, modified: stat.mtimeMs });
        else close(fd, () => resolve({ error: failed ?? new Error('not a regular file') }));
      });
    });
  });
}

function openFailure(error: NodeJS.ErrnoException, gone: FileReply['gone']): Answer {
  if (error.code === 'ENOENT') return gone();
  return wait(`E_INTERNAL: the file cannot be opened now (${error.code ?? 'not a regular file'}).`);
}

function matches(header: string | undefined, etag: string): boolean {
  return (
    header?.split(',').some((tag) => tag.trim().replace(/^W\//, '') === etag || tag.trim() === '*') ?? false
  );
}
