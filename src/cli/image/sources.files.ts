/** Where files of images come from: this host's disk, a URL, or a recipe that builds them. */
import { spawn } from 'node:child_process';
import { createHash } from 'node:crypto';
import { createReadStream } from 'node:fs';
import { type FileHandle, mkdtemp, open, readFile, realpath, rm, stat } from 'node:fs/promises';
import { tmpdir } from 'node:os';
import path from 'node:path';
import { fileURLToPath } from 'node:url';
import { MusterError } from '../../base/errors.ts';
import { projectRoot } from '../../base/paths.ts';
import { inAttempts, type TransferIo } from '../attempts.ts';
import { byProxy, fetchOutside } from '../outside.socket.ts';

/** A file that can be read from any offset. */
export interface AssetSource {
  /** The file's name, as the operator wrote it. */
  readonly shown: string;
  /** Whether another attempt may help when a read fails. */
  readonly remote: boolean;
  /**
   * Opens the octets from `offset` on. The result's `offset` says where they really begin: at 0
   * when the source cannot begin elsewhere, or no longer has the version `version`.
   *
   * @throws {MusterError} E_FETCH, E_FETCH_REFUSED or E_FILE_READ when the source cannot be read.
   */
  read(offset: number, signal: AbortSignal, version?: string): Promise<AssetStream>;
}

export interface AssetStream {
  readonly offset: number;
  /** Size of the whole file in octets; undefined when it is not known beforehand. */
  readonly total: number | undefined;
  /** The server's name for this version of the file; absent when the server has none. */
  readonly version?: string | undefined;
  readonly octets: AsyncIterable<Uint8Array>;
}

/** Called with the number of octets received, and the total number if it is known. */
export type OnProgress = (received: number, total: number | undefined) => void;

/**
 * The source that a text names: `http(s)://…`, `file://…`, or a path relative to `directory`.
 *
 * @throws {MusterError} E_USAGE for another scheme, and for a malformed URL.
 */
export function sourceOf(text: string, directory = '.'): AssetSource {
  if (/^https?:\/\//i.test(text)) {
    if (!URL.canParse(text)) throw new MusterError('E_USAGE', `${text} is not a URL`);
    return urlSource(text);
  }
  if (/^file:\/\//i.test(text)) return fileSource(fileURLToPath(text), text);
  if (/^[a-z][a-z0-9+.-]*:\/\//i.test(text))
    throw new MusterError(
      'E_USAGE',
      `${text}: files are fetched by http or https, or read from this host's disk`,
    );
  return fileSource(path.resolve(directory, text), text);
}

function fileSource(file: string, shown: string): AssetSource {
  return {
    shown,
    remote: false,
    async read(offset) {
      try {
        const found = await stat(file);
        if (!found.isFile()) throw new MusterError('E_FILE_READ', `${shown} is not a regular file`);
        const start = offset < found.size ? offset : 0;
        const octets = createReadStream(file, { start, highWaterMark: 1024 * 1024 });
        return { offset: start, total: found.size, octets: readable(octets, shown) };
      } catch (error) {
        throw fileError(error, shown);
      }
    },
  };
}

async function* readable(octets: AsyncIterable<Uint8Array>, shown: string): AsyncIterable<Uint8Array> {
  try {
    yield* octets;
  } catch (error) {
    throw fileError(error, shown);
  }
}

function fileError(error: unknown, shown: string): MusterError {
  if (error instanceof MusterError) return error;
  const { code, message } = error as NodeJS.ErrnoException;
  const why = code === 'ENOENT' ? 'there is no such file' : message;
  return new MusterError('E_FILE_READ', `${shown}: ${why}`, { cause: error });
}

/**
 * Makes a source of a URL. The headers in `more` are not sent to another host after a redirect.
 *
 * @throws {MusterError} its `read`: E_FETCH_REFUSED when the URL cannot be requested, the server
 *   cannot be authenticated or it refuses the file; E_FETCH when the connection or the server
 *   fails.
 */
export function urlSource(url: string, more: Readonly<Record<string, string>> = {}): AssetSource {
  return {
    shown: url,
    remote: true,
    async read(offset, signal, version) {
      // The encoding is `identity`, because a range of a compressed answer would not be a range of
      // the file.
      const headers = {
        ...more,
        'accept-encoding': 'identity',
        ...(offset > 0 ? { range: `bytes=${offset}-` } : {}),
        ...(offset > 0 && version !== undefined ? { 'if-range': version } : {}),
      };
      const response = await fetchOutside(url, { headers, signal }).catch((error: unknown) =>
        // Errors before the request have no code: a bad port, credentials in the URL, a redirect
        // loop.
        fetchFailed(url, error, 'E_FETCH_REFUSED'),
      );
      const octets = response.body ? remoteBody(url, response.body) : empty();
      if (response.status === 206) {
        const range = /^bytes ([0-9]+)-[0-9]+\/([0-9]+)$/.exec(response.headers.get('content-range') ?? '');
        if (range && Number(range[1]) === offset)
          return { offset, total: Number(range[2]), version: versionOf(response.headers), octets };
      }
      if (response.status === 200) {
        const length = response.headers.get('content-length');
        const total = length === null ? undefined : Number(length);
        return { offset: 0, total, version: versionOf(response.headers), octets };
      }
      await response.body?.cancel();
      throw new MusterError(
        // A 4xx answer will not change, so it is final; a 5xx answer may pass, so the request can
        // be repeated.
        response.status < 500 ? 'E_FETCH_REFUSED' : 'E_FETCH',
        `${url}: the server answered ${response.status} ${response.statusText}${byProxy(url)}`,
      );
    },
  };
}

/**
 * The validator for If-Range (RFC 9110 section 13.1.5): a strong ETag, otherwise the time of the
 * last change.
 */
function versionOf(headers: Headers): string | undefined {
  const etag = headers.get('etag');
  return etag?.startsWith('"') ? etag : (headers.get('last-modified') ?? undefined);
}

async function* remoteBody(url: string, body: AsyncIterable<Uint8Array>): AsyncIterable<Uint8Array> {
  try {
    yield* body;
  } catch (error) {
    fetchFailed(url, error, 'E_FETCH');
  }
}

async function* empty(): AsyncIterable<Uint8Array> {}

/**
 * Throws the error for a failed fetch. undici puts the reason into the cause of a cause. `nameless`
 * is the error code when the reason has no code.
 */
function fetchFailed(url: string, error: unknown, nameless: 'E_FETCH' | 'E_FETCH_REFUSED'): never {
  const { cause, message, name } = error as Error;
  if (name === 'AbortError') throw error;
  const code = (cause as NodeJS.ErrnoException | undefined)?.code ?? '';
  const why = cause instanceof Error ? cause.message || code : message;
  // A certificate that is not trusted now will not be trusted in a minute.
  const refused = code === '' ? nameless === 'E_FETCH_REFUSED' : /CERT|SIGNATURE|INVALID_URL/.test(code);
  throw new MusterError(refused ? 'E_FETCH_REFUSED' : 'E_FETCH', `${url}: ${why}${byProxy(url)}`, {
    cause: error,
  });
}

/**
 * Reads all octets of a small source.
 *
 * @throws {MusterError} E_TOO_LARGE when the source has more than `limit` octets, and what reading
 *   throws.
 */
export async function readAll(source: AssetSource, limit: number, signal: AbortSignal): Promise<Uint8Array> {
  const parts: Uint8Array[] = [];
  let size = 0;
  for await (const part of (await source.read(0, signal)).octets) {
    parts.push(part);
    size += part.length;
    if (size > limit) throw new MusterError('E_TOO_LARGE', `${source.shown} has more than ${limit} octets`);
  }
  return Buffer.concat(parts);
}

/** The SHA-256 and size of a source, which is read once to its end. */
export async function hashOf(
  source: AssetSource,
  signal: AbortSignal,
): Promise<{ readonly sha256: string; readonly size: number }> {
  const hash = createHash('sha256');
  let size = 0;
  const { octets } = await source.read(0, signal);
  for await (const part of octets) {
    hash.update(part);
    size += part.length;
  }
  return { sha256: hash.digest('hex'), size };
}

/**
 * The real path of a file that an operator names by its path or as `file://…`.
 *
 * @throws {MusterError} E_FILE_READ when it is not a regular file.
 */
export async function localFile(text: string): Promise<string> {
  try {
    const file = await realpath(/^file:\/\//i.test(text) ? fileURLToPath(text) : text);
    if (!(await stat(file)).isFile()) throw new MusterError('E_FILE_READ', `${text} is not a regular file`);
    return file;
  } catch (error) {
    throw fileError(error, text);
  }
}

/**
 * Copies a source to this host's disk and hashes it, for files whose hash is not known beforehand:
 * the server accepts only files that it can check. A transfer that fails continues where it
 * stopped, unless the file has changed. `remove` deletes the copy.
 */
export async function localCopy(
  source: AssetSource,
  io: TransferIo,
  onProgress: OnProgress,
): Promise<{
  readonly copy: AssetSource;
  readonly file: string;
  readonly sha256: string;
  readonly size: number;
  remove(): Promise<void>;
}> {
  const directory = await mkdtemp(path.join(tmpdir(), 'muster-image-'));
  const remove = () => rm(directory, { recursive: true, force: true });
  try {
    const file = path.join(directory, 'file');
    const out = await open(file, 'w');
    try {
      const { sha256, size } = await copyTo(out, source, io, onProgress);
      return { copy: fileSource(file, source.shown), file, sha256, size, remove };
    } finally {
      await out.close();
    }
  } catch (error) {
    await remove();
    throw error;
  }
}

async function copyTo(
  out: FileHandle,
  source: AssetSource,
  io: TransferIo,
  onProgress: OnProgress,
): Promise<{ readonly sha256: string; readonly size: number }> {
  let hash = createHash('sha256');
  let size = 0;
  let version: string | undefined;
  let came = 0;
  const attempt = async () => {
    // Only the server's validator shows that the rest belongs to the part that was received;
    // without a validator the transfer starts again.
    const stream = await source.read(version === undefined ? 0 : size, io.signal, version);
    version = stream.version;
    if (stream.offset === 0) {
      hash = createHash('sha256');
      size = 0;
      await out.truncate(0);
    }
    for await (const part of stream.octets) {
      hash.update(part);
      for (let at = 0; at < part.length; )
        at += (await out.write(part, at, part.length - at, size + at)).bytesWritten;
      size += part.length;
      came += part.length;
      onProgress(size, stream.total);
    }
    if (stream.total !== undefined && size !== stream.total)
      throw new MusterError(
        'E_FETCH',
        `${source.shown}: the transfer ended after ${size} of ${stream.total} octets`,
      );
  };
  await inAttempts(attempt, () => came, io);
  return { sha256: hash.digest('hex'), size };
}

/**
 * Reads the file in which `images/NAME/build.sh` describes its result.
 *
 * @throws {MusterError} E_FILE_READ when the directory has no such file.
 */
export async function readBuilt(directory: string): Promise<Record<string, unknown>> {
  const file = path.join(directory, 'image.json');
  try {
    return JSON.parse(await readFile(file, 'utf8')) as Record<string, unknown>;
  } catch (error) {
    throw fileError(error, file);
  }
}

/**
 * Runs `images/NAME/build.sh`, with its output on standard error, and resolves with the directory
 * of its result.
 *
 * @throws {MusterError} E_USAGE for a recipe that does not exist, E_BUILD when the recipe fails.
 */
export async function runRecipe(name: string, args: readonly string[], signal: AbortSignal): Promise<string> {
  const recipe = path.join(projectRoot(), 'images', name, 'build.sh');
  if (!/^[a-z0-9-]+$/.test(name) || !(await stat(recipe).catch(() => undefined)))
    throw new MusterError(
      'E_USAGE',
      `there is no recipe images/${name}/build.sh; there are debian, discovery and probe`,
    );
  return new Promise((resolve, reject) => {
    const child = spawn(recipe, args, { stdio: ['ignore', 'pipe', 'inherit'], signal });
    let output = '';
    child.stdout.setEncoding('utf8').on('data', (part: string) => {
      output = (output + part).slice(-8192);
    });
    child.once('error', reject);
    child.once('close', (code) => {
      const directory = output.trimEnd().split('\n').at(-1) ?? '';
      if (code === 0 && directory !== '') resolve(directory);
      else reject(new MusterError('E_BUILD', `${recipe} failed with exit code ${code}; its output is above`));
    });
  });
}
