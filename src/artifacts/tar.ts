/**
 * Tar archives: writes ustar, byte for byte the same for the same files, and reads what docker,
 * skopeo and GNU tar write. The package `tar` has the format; this file says what Muster writes
 * and takes. Pure.
 */
import { Header } from 'tar/header';
import { Pax } from 'tar/pax';
import { MusterError } from '../base/errors.ts';

export const TAR_BLOCK = 512;

/** A member of an archive; sizes of links and directories are 0. */
export interface TarMember {
  /** Relative, without a slash at either end. */
  readonly path: string;
  readonly type: 'file' | 'directory' | 'symlink' | 'link';
  readonly mode: number;
  readonly size: number;
  /** Target of a link. */
  readonly to?: string;
}

const TYPES = { file: 'File', link: 'Link', symlink: 'SymbolicLink', directory: 'Directory' } as const;

/**
 * The header of a member: owned by root, dated 1970, so that the same files give the same archive.
 * Names that ustar cannot hold are in an extended header of pax before it.
 */
export function tarHeader({ path, type, mode, size, to = '' }: TarMember): Buffer {
  const named = { path: type === 'directory' ? `${path}/` : path, size, ...(to !== '' && { linkpath: to }) };
  const owner = { uid: 0, gid: 0, uname: '', gname: '' };
  const header = new Header({ ...named, ...owner, type: TYPES[type], mode, mtime: new Date(0) });
  const block = Buffer.alloc(TAR_BLOCK);
  if (!header.encode(block)) return block;
  return Buffer.concat([new Pax(named).encode(), block]);
}

/** The zeros that fill content of that size up to the next block. */
export const tarPadding = (size: number): Buffer =>
  Buffer.alloc((TAR_BLOCK - (size % TAR_BLOCK)) % TAR_BLOCK);
/** The end of an archive. */
export const TAR_END: Buffer = Buffer.alloc(2 * TAR_BLOCK);

export interface TarEntry {
  readonly name: string;
  readonly content: Uint8Array;
}

/**
 * An archive of plain files with mode 0600, which every tar unpacks: machines have busybox's.
 *
 * @throws {RangeError} for a name that is empty, not printable ASCII, or longer than 100 octets
 */
export function tar(entries: Iterable<TarEntry>): Buffer {
  const parts: Uint8Array[] = [];
  for (const { name, content } of entries) {
    if (!/^[\x21-\x7e]{1,100}$/.test(name)) throw new RangeError(`not a name for tar: ${name}`);
    const size = content.length;
    parts.push(tarHeader({ path: name, type: 'file', mode: 0o600, size }), content, tarPadding(size));
  }
  return Buffer.concat([...parts, TAR_END]);
}

/**
 * Reads the header in a block of 512 octets.
 *
 * @returns undefined when it is none: octets are missing, the checksum is another one, or a number
 *   is not one. `nullBlock` in it: the archive ends here
 */
export function readTarHeader(block: Buffer): Header | undefined {
  if (block.length < TAR_BLOCK) return undefined;
  try {
    const header = new Header(block);
    return header.nullBlock || (header.cksumValid && header.size !== undefined) ? header : undefined;
  } catch {
    // A number in base 256 is none that JavaScript has.
    return undefined;
  }
}

/** A member of an archive, and the offset of its content. */
export interface FoundMember extends TarMember {
  readonly offset: number;
}

/** Reads `length` octets at `offset`; fewer at the end. */
type ReadAt = (offset: number, length: number) => Promise<Uint8Array>;

/** What an extended header says of the next member. */
type Extended = Pick<Pax, 'path' | 'linkpath' | 'size'>;

/** The largest extended header that is read, in octets; no name is as long. */
const MAX_NAME = 64 * 1024;

/**
 * Lists an archive without reading its contents: ustar, GNU's long names, pax's paths and sizes.
 * Members of other kinds are left out, as are those whose path leads out of the archive.
 *
 * @throws {MusterError} E_ARTIFACT when it is no tar, or is truncated.
 */
export async function* tarMembers(read: ReadAt): AsyncIterable<FoundMember> {
  let next: Extended = {};
  for (let at = 0; ; ) {
    const block = Buffer.from(await read(at, TAR_BLOCK));
    if (block.length === 0 && at > 0) return;
    const header = readTarHeader(block);
    if (header === undefined)
      throw new MusterError('E_ARTIFACT', 'this is not a tar archive, or it is damaged or cut off');
    if (header.nullBlock) return;
    const size = next.size ?? header.size!;
    const offset = at + TAR_BLOCK;
    at = offset + Math.ceil(size / TAR_BLOCK) * TAR_BLOCK;
    const { type } = header;
    if (type === 'ExtendedHeader' || type === 'NextFileHasLongPath' || type === 'NextFileHasLongLinkpath') {
      if (size > MAX_NAME) throw new MusterError('E_ARTIFACT', 'a name in the archive is too long');
      const octets = Buffer.from(await read(offset, size));
      if (octets.length < size) throw new MusterError('E_ARTIFACT', 'the archive is cut off');
      next = { ...next, ...extended(type, octets.toString('utf8')) };
    } else if (type !== 'GlobalExtendedHeader') {
      const found = memberOf(header, size, next);
      next = {};
      if (found !== undefined) yield { ...found, offset };
    }
  }
}

function extended(type: Header['type'], text: string): Extended {
  const name = text.split('\0')[0]!;
  if (type === 'NextFileHasLongPath') return { path: name };
  if (type === 'NextFileHasLongLinkpath') return { linkpath: name };
  const { path, linkpath, size } = Pax.parse(text);
  return {
    ...(path !== undefined && { path }),
    ...(linkpath !== undefined && { linkpath }),
    ...(Number.isSafeInteger(size) && { size }),
  };
}

const KINDS: Partial<Record<Header['type'], TarMember['type']>> = {
  File: 'file',
  OldFile: 'file',
  ContiguousFile: 'file',
  Link: 'link',
  SymbolicLink: 'symlink',
  Directory: 'directory',
};

function memberOf(header: Header, size: number, next: Extended): TarMember | undefined {
  const type = KINDS[header.type];
  const pieces = (next.path ?? header.path!).split('/').filter((piece) => piece !== '' && piece !== '.');
  if (type === undefined || pieces.length === 0 || pieces.includes('..')) return undefined;
  const to = next.linkpath ?? header.linkpath!;
  return {
    path: pieces.join('/'),
    type,
    mode: (header.mode ?? 0) & 0o7777,
    size: type === 'file' ? size : 0,
    ...(type === 'link' || type === 'symlink' ? { to } : {}),
  };
}
