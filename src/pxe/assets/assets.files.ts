/**
 * The asset store: files named by their SHA-256 under `DIRECTORY/sha256/`. A file gets that name
 * only when all of it is there, its hash is right and it is on disk; so what can be found has been
 * verified, after a power cut too. Uploads that are not complete wait under `DIRECTORY/partial/`
 * and go on where they stopped. A file that somebody else took away is noticed where it is opened,
 * listed, verified or added again, and is then not there any more.
 */
import { createHash, type Hash } from 'node:crypto';
import { createReadStream } from 'node:fs';
import { type FileHandle, mkdir, open, readdir, readFile, rename, rm, stat } from 'node:fs/promises';
import { join, resolve } from 'node:path';
import { MusterError } from '../../base/errors.ts';
import type { Log } from '../../base/log.ts';
import type { OpenedAssets, ServedFile } from './assets.ts';
import { readLoaders } from './loaders.files.ts';

const SHA256 = /^[0-9a-f]{64}$/;
/** An upload that nobody continued for so long is thrown away at the next start. */
const PARTIAL_DAYS = 7;

export interface StoredAsset {
  readonly sha256: string;
  readonly size: number;
  readonly modified: Date;
}

/** `received` octets are there; `complete` when that is all and verified. */
export interface AssetProgress {
  readonly sha256: string;
  readonly complete: boolean;
  readonly received: number;
}

export interface Upload {
  readonly sha256: string;
  /** Where `body` begins in the file: 0, or what {@link AssetProgress} says is there. */
  readonly offset: number;
  /**
   * Size of the whole file. With it `body` may be a piece of the file; without it `body` goes to
   * the file's end.
   */
  readonly total?: number;
  readonly body: AsyncIterable<Uint8Array>;
}

/** What reading a file again found. `missing`: it was known and is not on disk. */
export type Verified = 'ok' | 'changed' | 'missing';

export interface Assets extends OpenedAssets {
  /** Those on disk now, ordered by hash. */
  list(): Promise<readonly StoredAsset[]>;
  progress(sha256: string): Promise<AssetProgress>;
  /**
   * Takes the file's octets from `offset` on, to its end or as many as `body` has. When `body`
   * breaks off, what came is kept for another attempt and the error goes on to the caller. Throws
   * E_ASSET_HASH (everything is thrown away), E_ASSET_OFFSET, E_ASSET_BUSY, E_ASSET_WRITE.
   */
  receive(upload: Upload): Promise<AssetProgress>;
  /**
   * The octets of a small file; undefined when it is not here. Throws E_TOO_LARGE beyond `limit`.
   */
  read(sha256: string, limit: number): Promise<Uint8Array | undefined>;
  /**
   * Reads the file again. One that has changed (a failing disk) is taken out of service at once,
   * kept aside as `damaged/HASH`, and logged; so is, but for the keeping, one that is gone. Throws
   * E_NOT_FOUND for one that was never known.
   */
  verify(sha256: string): Promise<Verified>;
  /**
   * Throws E_NOT_FOUND when neither the file nor a part of it is there. Transfers that have begun
   * go on to their end.
   */
  remove(sha256: string): Promise<void>;
  /** Reads the loader directories again, after a package was upgraded. */
  rescanLoaders(): void;
}

export interface AssetOptions {
  /** Made when missing. */
  readonly directory: string;
  /** Searched in order. */
  readonly loaderDirectories: readonly string[];
  readonly log: Log;
}

/** Opens the store. Rejects with E_ASSET_WRITE when the directory cannot be made or read. */
export async function openAssets(options: AssetOptions): Promise<Assets> {
  const log = options.log.child({ room: 'assets' });
  const directory = resolve(options.directory);
  const place = (kind: 'sha256' | 'partial' | 'damaged') => join(directory, kind);
  const files = new Map<string, ServedFile>();
  try {
    for (const kind of ['sha256', 'partial', 'damaged'] as const)
      await mkdir(place(kind), { recursive: true });
    await index(place('sha256'), files);
    await clean(place('partial'), log);
  } catch (cause) {
    throw new MusterError(
      'E_ASSET_WRITE',
      `the asset directory ${directory} cannot be used: ${(cause as Error).message}`,
      { cause },
    );
  }
  let loaders = readLoaders(options.loaderDirectories, log);
  const uploading = new Set<string>();
  const hashes: HashesUnderWay = new Map();

  const checkHash = (sha256: string) => {
    if (!SHA256.test(sha256))
      throw new MusterError('E_USAGE', `"${sha256}" is no SHA-256 in lower-case hexadecimal`);
  };
  const received = async (sha256: string) =>
    (await stat(join(place('partial'), sha256)).catch(() => undefined))?.size ?? 0;
  const lost = (sha256: string, file: ServedFile) => {
    // another file of that hash may have come meanwhile
    if (files.get(sha256) === file && files.delete(sha256))
      log.error({ sha256 }, 'an asset is gone from the disk and is not served any more; add it again');
  };
  /** The file if it is known and still on disk. */
  const present = async (sha256: string): Promise<ServedFile | undefined> => {
    const file = files.get(sha256);
    if (file === undefined || !(await isGone(file.path))) return file;
    lost(sha256, file);
    return undefined;
  };

  return {
    find: (sha256) => files.get(sha256),
    loader: (name) => loaders.get(name),
    loaders: () => [...loaders.keys()],
    rescanLoaders() {
      loaders = readLoaders(options.loaderDirectories, log);
    },
    lost,
    async list() {
      await Promise.all([...files.keys()].map(present));
      return [...files]
        .map(([sha256, file]) => ({ sha256, size: file.size, modified: file.modified }))
        .sort((a, b) => (a.sha256 < b.sha256 ? -1 : 1));
    },
    async progress(sha256) {
      checkHash(sha256);
      const file = await present(sha256);
      if (file) return { sha256, complete: true, received: file.size };
      return { sha256, complete: false, received: await received(sha256) };
    },
    async receive(upload) {
      const { sha256 } = upload;
      checkHash(sha256);
      if (uploading.has(sha256)) throw new MusterError('E_ASSET_BUSY', `${sha256} is being uploaded already`);
      uploading.add(sha256);
      try {
        const there = await present(sha256);
        if (there) return { sha256, complete: true, received: there.size };
        const partial = join(place('partial'), sha256);
        const { size, complete } = await take(partial, upload, hashes);
        if (!complete) return { sha256, complete, received: size };
        const path = join(place('sha256'), sha256);
        await rename(partial, path);
        await syncDirectory(place('sha256'));
        files.set(sha256, { path, size, modified: (await stat(path)).mtime });
        log.info({ sha256, size }, 'asset stored');
        return { sha256, complete: true, received: size };
      } catch (error) {
        throw writeFailure(error, directory);
      } finally {
        uploading.delete(sha256);
      }
    },
    async read(sha256, limit) {
      const file = await present(sha256);
      if (file === undefined) return undefined;
      if (file.size > limit)
        throw new MusterError('E_TOO_LARGE', `${sha256} has ${file.size} octets, more than ${limit}`);
      return readFile(file.path);
    },
    async verify(sha256) {
      const file = files.get(sha256);
      if (!file) throw new MusterError('E_NOT_FOUND', `no asset ${sha256}`);
      const hash = createHash('sha256');
      try {
        await hashFile(file.path, hash);
      } catch (error) {
        if (!isMissing(error)) throw error;
        lost(sha256, file);
        return 'missing';
      }
      if (hash.digest('hex') === sha256) return 'ok';
      files.delete(sha256);
      await rename(file.path, join(place('damaged'), sha256));
      log.error({ sha256 }, 'an asset has changed on disk and is not served any more; add it again');
      return 'changed';
    },
    async remove(sha256) {
      checkHash(sha256);
      if (uploading.has(sha256)) throw new MusterError('E_ASSET_BUSY', `${sha256} is being uploaded`);
      const known = files.delete(sha256) || (await received(sha256)) > 0;
      if (!known) throw new MusterError('E_NOT_FOUND', `no asset ${sha256}`);
      await rm(join(place('sha256'), sha256), { force: true });
      await rm(join(place('partial'), sha256), { force: true });
      log.info({ sha256 }, 'asset removed');
    },
  };
}

const isMissing = (error: unknown): boolean => (error as NodeJS.ErrnoException).code === 'ENOENT';

/** Whether nothing is there; another failure (of the disk) is not taken for that. */
async function isGone(path: string): Promise<boolean> {
  return stat(path).then(() => false, isMissing);
}

async function index(directory: string, files: Map<string, ServedFile>): Promise<void> {
  for (const entry of await readdir(directory, { withFileTypes: true })) {
    // links and strangers' files are not ours to serve
    if (!entry.isFile() || !SHA256.test(entry.name)) continue;
    const path = join(directory, entry.name);
    const found = await stat(path);
    files.set(entry.name, { path, size: found.size, modified: found.mtime });
  }
}

async function clean(directory: string, log: Log): Promise<void> {
  const oldest = Date.now() - PARTIAL_DAYS * 86_400_000;
  for (const name of await readdir(directory)) {
    const path = join(directory, name);
    const found = await stat(path).catch(() => undefined);
    if (!found || (SHA256.test(name) && found.mtimeMs > oldest)) continue;
    await rm(path, { force: true, recursive: true });
    log.info({ path }, 'an abandoned upload was thrown away');
  }
}

/**
 * Hashes of partial files as far as they are, so that a file that comes in pieces is not read again
 * for each.
 */
type HashesUnderWay = Map<string, { readonly hash: Hash; readonly size: number }>;

/** More are forgotten, oldest first, and then made again from the partial file. */
const MAX_HASHES = 16;

/**
 * Appends the body to the partial file; when that completes it, checks it and brings it to disk.
 * Throws as `receive` does.
 */
async function take(
  partial: string,
  { sha256, offset, total, body }: Upload,
  hashes: HashesUnderWay,
): Promise<{ readonly size: number; readonly complete: boolean }> {
  const file = await open(partial, 'a');
  try {
    let size = (await file.stat()).size;
    if (offset === 0 && size > 0) {
      await file.truncate(0);
      size = 0;
    }
    if (offset !== size)
      throw new MusterError(
        'E_ASSET_OFFSET',
        `the upload begins at octet ${offset}, but ${size} octets are there`,
      );
    const known = hashes.get(sha256);
    hashes.delete(sha256);
    const hash = known?.size === size ? known.hash : createHash('sha256');
    if (size > 0 && hash !== known?.hash) await hashFile(partial, hash);
    for await (const part of body) {
      await writeAll(file, part);
      hash.update(part);
      size += part.length;
      if (total !== undefined && size > total)
        throw new MusterError(
          'E_ASSET_OFFSET',
          `more than the ${total} octets came that the upload spoke of`,
        );
    }
    if (total !== undefined && size < total) {
      const oldest = hashes.size >= MAX_HASHES ? hashes.keys().next().value : undefined;
      if (oldest !== undefined) hashes.delete(oldest);
      hashes.set(sha256, { hash, size });
      return { size, complete: false };
    }
    const actual = hash.digest('hex');
    if (actual !== sha256) {
      await rm(partial, { force: true });
      throw new MusterError(
        'E_ASSET_HASH',
        `the ${size} octets received have SHA-256 ${actual}, not ${sha256}`,
      );
    }
    await file.sync();
    return { size, complete: true };
  } catch (error) {
    // too much came: a part that could not become the whole any more
    if (
      error instanceof MusterError &&
      total !== undefined &&
      error.code === 'E_ASSET_OFFSET' &&
      offset <= total
    )
      await file.stat().then(({ size }) => (size > total ? rm(partial, { force: true }) : undefined));
    throw error;
  } finally {
    await file.close();
  }
}

async function writeAll(file: FileHandle, octets: Uint8Array): Promise<void> {
  let at = 0;
  while (at < octets.length) at += (await file.write(octets, at)).bytesWritten;
}

async function hashFile(path: string, hash: Hash): Promise<void> {
  for await (const part of createReadStream(path, { highWaterMark: 1024 * 1024 })) hash.update(part);
}

async function syncDirectory(path: string): Promise<void> {
  const directory = await open(path, 'r');
  try {
    await directory.sync();
  } finally {
    await directory.close();
  }
}

const DISK_ERRORS = new Set(['ENOSPC', 'EDQUOT', 'EROFS', 'EIO', 'EACCES', 'EFBIG']);

function writeFailure(error: unknown, directory: string): unknown {
  const code = (error as NodeJS.ErrnoException).code;
  if (error instanceof MusterError || code === undefined || !DISK_ERRORS.has(code)) return error;
  return new MusterError('E_ASSET_WRITE', `${directory}: ${(error as Error).message}`, { cause: error });
}
