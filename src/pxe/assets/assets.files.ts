/**
 * The asset store: files named by their SHA-256 under `DIRECTORY/sha256/`. A file gets that name
 * only when it is complete, its hash is right and it is synced to disk, so every file found there
 * was verified, even after a power cut. Incomplete uploads are kept under `DIRECTORY/partial/` and
 * resume where they stopped. A file that was deleted from outside is noticed when it is opened,
 * listed, verified or added again, and is then no longer listed.
 */
import { createHash } from 'node:crypto';
import type { Stats } from 'node:fs';
import { mkdir, open, readdir, readFile, rename, rm, stat } from 'node:fs/promises';
import { join, resolve } from 'node:path';
import { messageOf } from '../../base/error-text.ts';
import { MusterError } from '../../base/errors.ts';
import type { Log } from '../../base/log.ts';
import { beforeChange } from '../../base/rehearsal.ts';
import { moveDurably } from '../../base/replace-file.files.ts';
import type { OpenedAssets, ServedFile } from './assets.ts';
import { readLoaders } from './loaders.files.ts';
import {
  hashFile,
  isLackOfSpace,
  type PartialHashes,
  type Room,
  receivePart,
  type Upload,
} from './receive.files.ts';
import { readSpace, type Space } from './space.files.ts';

export type { Upload } from './receive.files.ts';

const SHA256 = /^[0-9a-f]{64}$/;
/** At start, incomplete uploads that are older than this are deleted. */
const PARTIAL_DAYS = 7;

interface StoredAsset {
  readonly sha256: string;
  readonly size: number;
  readonly modified: Date;
}

/** How much of a file is here. `complete`: all of it, and verified. */
interface AssetProgress {
  readonly sha256: string;
  readonly complete: boolean;
  readonly received: number;
}

/** An upload that is not complete. */
interface PartialUpload {
  readonly sha256: string;
  /** Octets that were received. */
  readonly received: number;
  /** When its last octets arrived. */
  readonly modified: Date;
  /** An upload of this file is running now. */
  readonly active: boolean;
}

/** What reading a file again found. `missing`: the file was known and is no longer on disk. */
export type Verified = 'ok' | 'changed' | 'missing';

export interface Assets extends OpenedAssets {
  /** The verified files that are on disk now, ordered by hash. */
  list(): Promise<readonly StoredAsset[]>;
  /** The uploads that are not complete, ordered by hash. */
  partials(): Promise<readonly PartialUpload[]>;
  /**
   * How many octets of a file are here.
   *
   * @throws {MusterError} E_USAGE when `sha256` is not 64 lower-case hexadecimal digits.
   */
  progress(sha256: string): Promise<AssetProgress>;
  /**
   * Receives octets of a file from `offset` on. When `body` breaks off, the octets that came are
   * kept for another attempt, and its error is thrown.
   *
   * @throws {MusterError} E_ASSET_HASH when the file is complete and has another hash, and
   *   E_ASSET_SPACE when the disk has no room for it above the reserve; nothing is kept in both
   *   cases. E_ASSET_OFFSET when `offset` is neither 0 nor the number of octets that are here, or
   *   when more octets came than `total`. E_ASSET_BUSY when another upload of this file is running.
   *   E_ASSET_WRITE when the disk fails. E_USAGE when `sha256` is malformed.
   */
  receive(upload: Upload): Promise<AssetProgress>;
  /**
   * The octets of a small file; undefined when it is not here.
   *
   * @throws {MusterError} E_TOO_LARGE when the file has more than `limit` octets.
   */
  read(sha256: string, limit: number): Promise<Uint8Array | undefined>;
  /** Octets of a file from `at` on, fewer at its end; undefined when it is not here. */
  octets(sha256: string, at: number, octets: number): Promise<Buffer | undefined>;
  /**
   * Reads the file again. A file that has changed (a failing disk) is no longer served, is moved to
   * `damaged/HASH` and logged. A file that is gone is no longer served and logged.
   *
   * @throws {MusterError} E_NOT_FOUND for a file that was never known.
   */
  verify(sha256: string): Promise<Verified>;
  /**
   * Deletes a file, or the part of it that an upload left. Running transfers still complete.
   *
   * @throws {MusterError} E_NOT_FOUND when neither is here, E_ASSET_BUSY while it is uploaded.
   */
  remove(sha256: string): Promise<void>;
  /** Reads the loader directories again, after a package was upgraded. */
  rescanLoaders(): void;
}

interface AssetOptions {
  /** Created when it is missing. */
  readonly directory: string;
  /** Searched in this order. */
  readonly loaderDirectories: readonly string[];
  readonly log: Log;
  /** Reads the free space of the directory's file system. Default: asks the system. */
  readonly space?: (directory: string) => Promise<Space>;
}

type Place = 'sha256' | 'partial' | 'damaged';

/**
 * Opens the store.
 *
 * @throws {MusterError} E_ASSET_WRITE when the directory cannot be created or read.
 */
export async function openAssets(options: AssetOptions): Promise<Assets> {
  const log = options.log.child({ room: 'assets' });
  const directory = resolve(options.directory);
  const files = new Map<string, ServedFile>();
  try {
    for (const place of ['sha256', 'partial', 'damaged'] satisfies Place[])
      await mkdir(join(directory, place), { recursive: true });
    await index(join(directory, 'sha256'), files);
    await clean(join(directory, 'partial'), log);
  } catch (cause) {
    throw new MusterError(
      'E_ASSET_WRITE',
      `the asset directory ${directory} cannot be used: ${messageOf(cause)}`,
      { cause },
    );
  }
  return new AssetDirectory({ ...options, directory, log }, files);
}

class AssetDirectory implements Assets {
  readonly #options: AssetOptions;
  readonly #log: Log;
  readonly #files: Map<string, ServedFile>;
  #loaders: ReadonlyMap<string, ServedFile>;
  readonly #uploading = new Set<string>();
  readonly #hashes: PartialHashes = new Map();
  readonly #room: Room;

  constructor(options: AssetOptions, files: Map<string, ServedFile>) {
    const { directory, log, space = readSpace } = options;
    this.#options = options;
    this.#log = log;
    this.#files = files;
    this.#loaders = readLoaders(options.loaderDirectories, log);
    this.#room = { directory, read: () => space(directory) };
  }

  #path(place: Place, sha256 = ''): string {
    return join(this.#options.directory, place, sha256);
  }

  #partial(sha256: string): Promise<Stats | undefined> {
    return stat(this.#path('partial', sha256)).catch(() => undefined);
  }

  /** The file if it is known and still on disk. */
  async #present(sha256: string): Promise<ServedFile | undefined> {
    const file = this.#files.get(sha256);
    if (file === undefined || !(await isGone(file.path))) return file;
    this.lost(sha256, file);
    return undefined;
  }

  find(sha256: string): ServedFile | undefined {
    return this.#files.get(sha256);
  }

  loader(name: string): ServedFile | undefined {
    return this.#loaders.get(name);
  }

  loaders(): readonly string[] {
    return [...this.#loaders.keys()];
  }

  rescanLoaders(): void {
    this.#loaders = readLoaders(this.#options.loaderDirectories, this.#log);
  }

  lost(sha256: string, file: ServedFile): void {
    // Another file with that hash may have been added since.
    if (this.#files.get(sha256) === file && this.#files.delete(sha256))
      this.#log.error({ sha256 }, 'an asset is gone from the disk and is no longer served; add it again');
  }

  async list(): Promise<readonly StoredAsset[]> {
    await Promise.all([...this.#files.keys()].map((sha256) => this.#present(sha256)));
    return [...this.#files]
      .map(([sha256, file]) => ({ sha256, size: file.size, modified: file.modified }))
      .sort((a, b) => (a.sha256 < b.sha256 ? -1 : 1));
  }

  async partials(): Promise<readonly PartialUpload[]> {
    const found: PartialUpload[] = [];
    for (const sha256 of (await readdir(this.#path('partial'))).sort()) {
      const part = SHA256.test(sha256) ? await this.#partial(sha256) : undefined;
      const active = this.#uploading.has(sha256);
      if (part) found.push({ sha256, received: part.size, modified: part.mtime, active });
    }
    return found;
  }

  async progress(sha256: string): Promise<AssetProgress> {
    checkHash(sha256);
    const file = await this.#present(sha256);
    if (file) return { sha256, complete: true, received: file.size };
    return { sha256, complete: false, received: (await this.#partial(sha256))?.size ?? 0 };
  }

  async receive(upload: Upload): Promise<AssetProgress> {
    const { sha256 } = upload;
    checkHash(sha256);
    if (this.#uploading.has(sha256))
      throw new MusterError('E_ASSET_BUSY', `${sha256} is being uploaded already`);
    this.#uploading.add(sha256);
    try {
      return await this.#receive(upload);
    } catch (error) {
      if (isLackOfSpace(error)) {
        this.#hashes.delete(sha256);
        await rm(this.#path('partial', sha256), { force: true });
      }
      throw writeFailure(error, this.#options.directory);
    } finally {
      this.#uploading.delete(sha256);
    }
  }

  async #receive(upload: Upload): Promise<AssetProgress> {
    const { sha256 } = upload;
    const present = await this.#present(sha256);
    if (present) return { sha256, complete: true, received: present.size };
    beforeChange(`put asset/${sha256}`);
    const partial = this.#path('partial', sha256);
    const { size, complete } = await receivePart(partial, upload, this.#hashes, this.#room);
    if (!complete) return { sha256, complete, received: size };
    const path = this.#path('sha256', sha256);
    await moveDurably(partial, path);
    this.#files.set(sha256, { path, size, modified: (await stat(path)).mtime });
    this.#log.info({ sha256, size }, 'asset stored');
    return { sha256, complete: true, received: size };
  }

  /** A property, because it is passed on as a function. */
  readonly read = async (sha256: string, limit: number): Promise<Uint8Array | undefined> => {
    const file = await this.#present(sha256);
    if (file === undefined) return undefined;
    if (file.size > limit)
      throw new MusterError('E_TOO_LARGE', `${sha256} has ${file.size} octets, more than ${limit}`);
    return readFile(file.path);
  };

  async octets(sha256: string, at: number, octets: number): Promise<Buffer | undefined> {
    const file = await this.#present(sha256);
    if (file === undefined) return undefined;
    const opened = await open(file.path);
    try {
      const buffer = Buffer.allocUnsafe(Math.max(0, Math.min(octets, file.size - at)));
      for (let read = 0; read < buffer.length; ) {
        const { bytesRead } = await opened.read(buffer, read, buffer.length - read, at + read);
        if (bytesRead === 0) return buffer.subarray(0, read);
        read += bytesRead;
      }
      return buffer;
    } finally {
      await opened.close();
    }
  }

  async verify(sha256: string): Promise<Verified> {
    const file = this.#files.get(sha256);
    if (!file) throw new MusterError('E_NOT_FOUND', `no asset ${sha256}`);
    const hash = createHash('sha256');
    try {
      await hashFile(file.path, hash);
    } catch (error) {
      if (!isMissing(error)) throw error;
      beforeChange(`delete asset/${sha256}`);
      this.lost(sha256, file);
      return 'missing';
    }
    if (hash.digest('hex') === sha256) return 'ok';
    beforeChange(`delete asset/${sha256}`);
    this.#files.delete(sha256);
    await rename(file.path, this.#path('damaged', sha256));
    this.#log.error({ sha256 }, 'an asset has changed on disk and is no longer served; add it again');
    return 'changed';
  }

  async remove(sha256: string): Promise<void> {
    checkHash(sha256);
    if (this.#uploading.has(sha256)) throw new MusterError('E_ASSET_BUSY', `${sha256} is being uploaded`);
    const known = this.#files.has(sha256) || (await this.#partial(sha256)) !== undefined;
    if (!known) throw new MusterError('E_NOT_FOUND', `no asset ${sha256}`);
    beforeChange(`delete asset/${sha256}`);
    this.#files.delete(sha256);
    this.#hashes.delete(sha256);
    await rm(this.#path('sha256', sha256), { force: true });
    await rm(this.#path('partial', sha256), { force: true });
    this.#log.info({ sha256 }, 'asset removed');
  }
}

function checkHash(sha256: string): void {
  if (!SHA256.test(sha256))
    throw new MusterError('E_USAGE', `"${sha256}" is not a SHA-256 in lower-case hexadecimal`);
}

const isMissing = (error: unknown): boolean => (error as NodeJS.ErrnoException).code === 'ENOENT';

/** Whether the file is missing. Any other failure of `stat` (a broken disk) counts as present. */
async function isGone(path: string): Promise<boolean> {
  return stat(path).then(() => false, isMissing);
}

async function index(directory: string, files: Map<string, ServedFile>): Promise<void> {
  for (const entry of await readdir(directory, { withFileTypes: true })) {
    // Links and files with other names are not served.
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
    log.info({ path }, 'an abandoned upload was deleted');
  }
}

/** System errors whose cause an operator has to remove. */
const DISK_ERRORS = new Set(['ENOSPC', 'EDQUOT', 'EROFS', 'EIO', 'EACCES', 'EFBIG']);

function writeFailure(error: unknown, directory: string): unknown {
  const code = (error as NodeJS.ErrnoException).code;
  if (error instanceof MusterError || code === undefined || !DISK_ERRORS.has(code)) return error;
  if (isLackOfSpace(error))
    return new MusterError('E_ASSET_SPACE', `${directory}: ${messageOf(error)}`, { cause: error });
  return new MusterError('E_ASSET_WRITE', `${directory}: ${messageOf(error)}`, { cause: error });
}
