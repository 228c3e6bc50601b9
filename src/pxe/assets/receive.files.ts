/**
 * Receives the octets of an upload into its partial file, checks them, and leaves a reserve of the
 * disk to the store.
 */
import { createHash, type Hash } from 'node:crypto';
import { createReadStream } from 'node:fs';
import { type FileHandle, open, rm } from 'node:fs/promises';
import { setBounded } from '../../base/aged.ts';
import { MusterError } from '../../base/errors.ts';
import { reserveOf, type Space } from './space.files.ts';

export interface Upload {
  readonly sha256: string;
  /** Where `body` begins in the file: 0, or the number of octets that were received before. */
  readonly offset: number;
  /**
   * Size of the whole file in octets. With it, `body` may be a piece of the file; without it,
   * `body` ends with the file.
   */
  readonly total?: number;
  /** Size of `body` in octets, if it is known. */
  readonly length?: number;
  readonly body: AsyncIterable<Uint8Array>;
}

/**
 * Hashes of partial files, so that a file that comes in pieces is not read again for each piece.
 */
export type PartialHashes = Map<string, { readonly hash: Hash; readonly size: number }>;

/**
 * Number of hashes that are kept. Beyond it the oldest is dropped, and computed again from its
 * partial file when the next piece comes.
 */
const MAX_HASHES = 16;

/**
 * The free space is read again after this many octets, because other programs write to the disk
 * too.
 */
const SPACE_CHECK_BYTES = 64 * 1024 * 1024;

/** The disk that holds the partial files. */
export interface Room {
  /** Named in error messages. */
  readonly directory: string;
  /** Reads its size and free space. */
  read(): Promise<Space>;
}

const mebibytes = (octets: number): string => `${(octets / 1024 / 1024).toFixed(1)} MiB`;

/**
 * Octets that may still be written, at least `wanted`.
 *
 * @throws {MusterError} E_ASSET_SPACE when fewer than `wanted` octets are free above the reserve.
 */
async function spare({ directory, read }: Room, wanted: number): Promise<number> {
  const space = await read();
  const reserve = reserveOf(space);
  const left = space.free - reserve;
  if (left >= Math.max(wanted, 1)) return left;
  throw new MusterError(
    'E_ASSET_SPACE',
    `${directory}: ${wanted > 0 ? `${mebibytes(wanted)} are needed, ` : ''}${mebibytes(space.free)} are free, and ${mebibytes(reserve)} of these are reserved for the store`,
  );
}

/** Whether an upload failed because the disk has no room for it. */
export function isLackOfSpace(error: unknown): boolean {
  const { code } = error as NodeJS.ErrnoException;
  return code === 'E_ASSET_SPACE' || code === 'ENOSPC' || code === 'EDQUOT';
}

/**
 * Appends the body to the partial file. When that completes the file, checks its hash and syncs it
 * to disk. A partial file whose hash is wrong, or that is larger than announced, is deleted.
 *
 * @throws {MusterError} E_ASSET_HASH when the complete file has another hash; E_ASSET_OFFSET when
 *   the upload begins neither at 0 nor where the partial file ends, or is longer than announced;
 *   E_ASSET_SPACE when the disk has no room above the reserve. Also the system's error when the
 *   disk fails, and the body's own error when it breaks off.
 */
export async function receivePart(
  partial: string,
  upload: Upload,
  hashes: PartialHashes,
  room: Room,
): Promise<{ readonly size: number; readonly complete: boolean }> {
  const { sha256, offset, total, body } = upload;
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
    let writable = await spare(room, total === undefined ? (upload.length ?? 0) : total - size);
    writable = Math.min(writable, SPACE_CHECK_BYTES);
    const known = hashes.get(sha256);
    hashes.delete(sha256);
    const hash = known?.size === size ? known.hash : createHash('sha256');
    if (size > 0 && hash !== known?.hash) await hashFile(partial, hash);
    for await (const part of body) {
      if (part.length > writable) writable = Math.min(await spare(room, part.length), SPACE_CHECK_BYTES);
      writable -= part.length;
      await writeAll(file, part);
      hash.update(part);
      size += part.length;
      if (total !== undefined && size > total)
        throw new MusterError('E_ASSET_OFFSET', `more than the ${total} octets came that were announced`);
    }
    if (total !== undefined && size < total) {
      setBounded(hashes, sha256, { hash, size }, MAX_HASHES);
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
    // More octets came than announced: this part can never become the whole file.
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

/** Adds the octets of a file to `hash`. */
export async function hashFile(path: string, hash: Hash): Promise<void> {
  for await (const part of createReadStream(path, { highWaterMark: 1024 * 1024 })) hash.update(part);
}
