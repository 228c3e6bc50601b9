/**
 * Tar archives: writes ustar, byte for byte the same for the same files, and reads what docker,
 * skopeo and GNU tar write. Pure.
 */
import { MusterError } from '../base/errors.ts';

const BLOCK = 512;

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

const TYPE_FLAG = { file: '0', link: '1', symlink: '2', directory: '5' } as const;

/**
 * The header block of a member: owned by root, dated 1970, so that the same files give the same
 * archive.
 *
 * @throws {MusterError} E_ARTIFACT for a path that ustar cannot hold (256 octets, of which the last
 *   100 begin after a slash) and for files of 8 GiB and more.
 */
export function tarHeader({ path, type, mode, size, to = '' }: TarMember): Buffer {
  const block = Buffer.alloc(BLOCK);
  const [prefix, name] = split(type === 'directory' ? `${path}/` : path);
  if (Buffer.byteLength(to) > 100) throw new MusterError('E_ARTIFACT', `link target ${to} is too long`);
  if (size >= 8 ** 11) throw new MusterError('E_ARTIFACT', `${path} is larger than 8 GiB`);
  const octal = (value: number, at: number, digits: number) =>
    block.write(`${value.toString(8).padStart(digits, '0')}\0`, at, 'latin1');
  block.write(name, 0, 'utf8');
  octal(mode, 100, 7);
  octal(0, 108, 7);
  octal(0, 116, 7);
  octal(size, 124, 11);
  octal(0, 136, 11);
  block.write('        ', 148, 'latin1');
  block.write(TYPE_FLAG[type], 156, 'latin1');
  block.write(to, 157, 'utf8');
  block.write('ustar\u000000', 257, 'latin1');
  octal(0, 329, 7);
  octal(0, 337, 7);
  block.write(prefix, 345, 'utf8');
  const sum = block.reduce((total, octet) => total + octet, 0);
  block.write(`${sum.toString(8).padStart(6, '0')}\0 `, 148, 'latin1');
  return block;
}

function split(path: string): readonly [string, string] {
  if (Buffer.byteLength(path) <= 100) return ['', path];
  for (let at = path.indexOf('/'); at >= 0 && at < path.length - 1; at = path.indexOf('/', at + 1)) {
    const [prefix, name] = [path.slice(0, at), path.slice(at + 1)];
    if (Buffer.byteLength(name) <= 100 && Buffer.byteLength(prefix) <= 155) return [prefix, name];
  }
  throw new MusterError('E_ARTIFACT', `the path ${path} is too long for an archive`);
}

/** The zeros that fill content of that size up to the next block. */
export const tarPadding = (size: number): Buffer => Buffer.alloc((BLOCK - (size % BLOCK)) % BLOCK);
/** The end of an archive. */
export const TAR_END: Buffer = Buffer.alloc(2 * BLOCK);

/** A member of an archive, and the offset of its content. */
export interface FoundMember extends TarMember {
  readonly offset: number;
}

/** Reads `length` octets at `offset`; fewer at the end. */
type ReadAt = (offset: number, length: number) => Promise<Uint8Array>;

/** The largest extended header that is read, in octets; no name is as long. */
const MAX_NAME = 64 * 1024;

/**
 * Lists an archive without reading its contents: ustar, GNU's long names, pax's paths and sizes.
 * Members of other kinds are left out, as are those whose path leads out of the archive.
 *
 * @throws {MusterError} E_ARTIFACT when it is no tar, or is truncated.
 */
export async function* tarMembers(read: ReadAt): AsyncIterable<FoundMember> {
  let at = 0;
  let next: { path?: string; to?: string; size?: number } = {};
  for (;;) {
    const header = Buffer.from(await read(at, BLOCK));
    if (header.length === 0 && at > 0) return;
    if (header.length < BLOCK)
      throw new MusterError('E_ARTIFACT', 'this is not a tar archive, or a part of one');
    if (header.every((octet) => octet === 0)) return;
    checkSum(header);
    const flag = String.fromCharCode(header[156]!);
    const size = next.size ?? number(header, 124, 12);
    const offset = at + BLOCK;
    at = offset + Math.ceil(size / BLOCK) * BLOCK;
    if (flag === 'L' || flag === 'K' || flag === 'x') {
      if (size > MAX_NAME) throw new MusterError('E_ARTIFACT', 'a name in the archive is too long');
      const octets = Buffer.from(await read(offset, size));
      if (octets.length < size) throw new MusterError('E_ARTIFACT', 'the archive is cut off');
      if (flag === 'x') next = { ...next, ...paxFields(octets) };
      else next = { ...next, [flag === 'L' ? 'path' : 'to']: cString(octets, 0, size) };
      continue;
    }
    if (flag === 'g') continue;
    const found = member(header, flag, size, next);
    next = {};
    if (found !== undefined) yield { ...found, offset };
  }
}

function member(
  header: Buffer,
  flag: string,
  size: number,
  next: { readonly path?: string; readonly to?: string },
): TarMember | undefined {
  const type = (
    { '0': 'file', '\0': 'file', '7': 'file', '1': 'link', '2': 'symlink', '5': 'directory' } as const
  )[flag];
  // GNU tar has times where ustar has the prefix
  const prefix = header.toString('latin1', 257, 263) === 'ustar\0' ? cString(header, 345, 155) : '';
  const named = next.path ?? (prefix === '' ? '' : `${prefix}/`) + cString(header, 0, 100);
  const path = named
    .split('/')
    .filter((piece) => piece !== '' && piece !== '.')
    .join('/');
  if (type === undefined || path === '' || path.split('/').includes('..')) return undefined;
  const to = next.to ?? cString(header, 157, 100);
  return {
    path,
    type,
    mode: number(header, 100, 8) & 0o7777,
    size: type === 'file' ? size : 0,
    ...(type === 'link' || type === 'symlink' ? { to } : {}),
  };
}

function checkSum(header: Buffer): void {
  const stored = number(header, 148, 8);
  const sum = header.reduce((total, octet, at) => total + (at >= 148 && at < 156 ? 32 : octet), 0);
  if (stored !== sum) throw new MusterError('E_ARTIFACT', 'this is not a tar archive, or it is damaged');
}

/**
 * Reads a number field: octal digits, or GNU's base-256 for larger numbers.
 *
 * @throws {MusterError} E_ARTIFACT for anything else
 */
function number(header: Buffer, at: number, length: number): number {
  if (header[at]! & 0x80) {
    const value = header
      .subarray(at + 1, at + length)
      .reduce((total, octet) => total * 256 + octet, header[at]! & 0x7f);
    if (Number.isSafeInteger(value)) return value;
    throw new MusterError('E_ARTIFACT', 'a size in the archive is too large');
  }
  const digits = cString(header, at, length).trim();
  if (!/^[0-7]*$/.test(digits))
    throw new MusterError('E_ARTIFACT', 'this is not a tar archive, or it is damaged');
  return digits === '' ? 0 : Number.parseInt(digits, 8);
}

function cString(octets: Buffer, at: number, length: number): string {
  const end = octets.indexOf(0, at);
  return octets.toString('utf8', at, end < 0 || end > at + length ? at + length : end);
}

/** Reads lines `LENGTH KEY=VALUE\n`, where LENGTH counts the whole line (POSIX.1-2017, pax). */
function paxFields(octets: Buffer): { path?: string; to?: string; size?: number } {
  const found: { path?: string; to?: string; size?: number } = {};
  for (let at = 0; at < octets.length; ) {
    const space = octets.indexOf(0x20, at);
    const length = Number(octets.toString('latin1', at, Math.max(space, at)));
    if (space < at || !Number.isInteger(length) || length <= space - at || at + length > octets.length) break;
    const [key = '', ...value] = octets.toString('utf8', space + 1, at + length - 1).split('=');
    if (key === 'path') found.path = value.join('=');
    if (key === 'linkpath') found.to = value.join('=');
    if (key === 'size' && /^[0-9]{1,15}$/.test(value.join('='))) found.size = Number(value.join('='));
    at += length;
  }
  return found;
}
