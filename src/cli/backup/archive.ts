/**
 * The archive of a backup: a tar of plain files in a fixed order, the description first. It is read
 * as a stream, because the files of images are larger than memory.
 */
import { createHash } from 'node:crypto';
import { z } from 'zod';
import { readTarHeader, TAR_BLOCK, TAR_END, tarHeader, tarPadding } from '../../artifacts/tar.ts';
import { MusterError } from '../../base/errors.ts';
import { parsed } from '../../base/foreign-json.ts';
import { type BackupSignature, isSigned } from '../../pki/signer/signing-key.ts';

const description = z.strictObject({
  v: z.literal(1),
  /** Ms since 1970. */
  createdAt: z.int(),
  /** The version of Muster that made it. */
  version: z.string(),
  /** The files of images and artifacts that the store needs. */
  assets: z.array(z.strictObject({ sha256: z.string().regex(/^[0-9a-f]{64}$/), size: z.int() })),
  /** Whether those files are in the backup. */
  withAssets: z.boolean(),
  /** The signer has the vault's key, so it is not in the backup. */
  vaultKey: z.literal('signer').optional(),
});

export type BackupDescription = z.output<typeof description>;

/** The name of the description in the archive. */
export const DESCRIPTION = 'backup.json';

/** The name of the last file, which says who signed all before it. */
export const SIGNATURE = 'signature.json';

const signature = z.strictObject({
  v: z.literal(1),
  key: z.string(),
  pem: z.string(),
  signature: z.string(),
});

/** Names that an archive may have; none leads out of a directory. */
const NAME =
  /^(?:backup\.json|signature\.json|muster\.db|vault\.key|assets\/[0-9a-f]{64}|config\/(?:[A-Za-z0-9_@%+=:,][A-Za-z0-9._@%+=:,-]*\/)*[A-Za-z0-9_@%+=:,][A-Za-z0-9._@%+=:,-]*)$/;

export const isBackupName = (name: string): boolean => NAME.test(name);

/** A file of an archive; its content must be read before the next file is asked for. */
export interface ArchivedFile {
  readonly name: string;
  readonly size: number;
  readonly content: AsyncIterable<Buffer>;
  /** SHA-256 of all octets before this file, in hexadecimal. */
  readonly preceding: () => string;
}

const fault = (text: string): MusterError => new MusterError('E_BACKUP', `${text}; use another backup`);

/** Writes one file of an archive. */
export async function* archived(
  name: string,
  size: number,
  content: AsyncIterable<Uint8Array>,
): AsyncGenerator<Uint8Array> {
  yield tarHeader({ path: name, type: 'file', mode: 0o600, size });
  let sent = 0;
  for await (const piece of content) {
    sent += piece.length;
    if (sent <= size) yield piece;
  }
  if (sent !== size) throw fault(`${name} changed while it was read`);
  yield tarPadding(size);
}

export { TAR_END };

/** Reads exact numbers of octets from a stream. */
class Octets {
  readonly #source: AsyncIterator<Uint8Array>;
  #rest: Buffer = Buffer.alloc(0);
  /** The hash of all octets that were read. */
  readonly hash = createHash('sha256');

  constructor(source: AsyncIterable<Uint8Array>) {
    this.#source = source[Symbol.asyncIterator]();
  }

  /** Up to `most` octets; none at the end. */
  async some(most: number): Promise<Buffer> {
    while (this.#rest.length === 0) {
      const { done, value } = await this.#source.next();
      if (done) return Buffer.alloc(0);
      this.#rest = Buffer.from(value.buffer, value.byteOffset, value.byteLength);
    }
    const piece = this.#rest.subarray(0, most);
    this.#rest = this.#rest.subarray(piece.length);
    this.hash.update(piece);
    return piece;
  }

  async exactly(size: number): Promise<Buffer> {
    const parts: Buffer[] = [];
    for (let left = size; left > 0; ) {
      const piece = await this.some(left);
      if (piece.length === 0) throw fault('the backup ends too early');
      parts.push(piece);
      left -= piece.length;
    }
    return Buffer.concat(parts);
  }
}

/**
 * Reads an archive to its end.
 *
 * @throws {MusterError} E_BACKUP when it is no backup of Muster, or ends too early
 */
export async function* readArchive(source: AsyncIterable<Uint8Array>): AsyncGenerator<ArchivedFile> {
  const octets = new Octets(source);
  const seen = new Set<string>();
  for (;;) {
    const before = octets.hash.copy();
    const header = readTarHeader(await octets.exactly(TAR_BLOCK));
    if (header?.nullBlock) break;
    if (header?.type !== 'File') throw fault('this is no backup of Muster, or it was changed');
    const [name, size] = [header.path!, header.size!];
    if (!isBackupName(name)) throw fault(`the backup has a file with the name ${JSON.stringify(name)}`);
    if (seen.has(SIGNATURE)) throw fault(`the backup has ${name} behind its signature`);
    if (seen.has(name)) throw fault(`the backup has ${name} twice`);
    if (seen.size === 0 && name !== DESCRIPTION) throw fault('this is no backup of Muster');
    seen.add(name);
    let left = size;
    const content = async function* (): AsyncGenerator<Buffer> {
      while (left > 0) {
        const piece = await octets.some(left);
        if (piece.length === 0) throw fault('the backup ends too early');
        left -= piece.length;
        yield piece;
      }
    };
    yield { name, size, content: content(), preceding: () => before.digest('hex') };
    if (left > 0) for await (const _ of content());
    await octets.exactly(tarPadding(size).length);
  }
  if (!(await octets.exactly(TAR_BLOCK)).every((octet) => octet === 0)) throw fault('the backup has no end');
  while ((await octets.some(TAR_BLOCK)).length > 0);
}

/** The largest description, in octets; 100,000 assets fit. */
const MAX_DESCRIPTION = 16 * 1024 * 1024;

async function jsonOf(size: number, content: AsyncIterable<Buffer>): Promise<unknown> {
  if (size > MAX_DESCRIPTION) throw fault('the description of the backup is too large');
  const parts: Buffer[] = [];
  for await (const piece of content) parts.push(piece);
  return parsed(Buffer.concat(parts).toString('utf8'));
}

/**
 * Reads the signature of all that is before it.
 *
 * @throws {MusterError} E_BACKUP when it is none of these octets
 */
export async function readSignature({ size, content, preceding }: ArchivedFile): Promise<BackupSignature> {
  const read = signature.safeParse(await jsonOf(size, content));
  if (read.success && isSigned(read.data, preceding())) return read.data;
  throw fault('the backup is not the one that was signed');
}

/**
 * Reads the description.
 *
 * @throws {MusterError} E_BACKUP when it is of a version that is not known here
 */
export async function readDescription({ size, content }: ArchivedFile): Promise<BackupDescription> {
  const json = await jsonOf(size, content);
  const read = description.safeParse(json);
  if (!read.success)
    throw new MusterError(
      'E_BACKUP',
      'the backup has a description that this version does not know; use the version of Muster that made it',
    );
  return read.data;
}
