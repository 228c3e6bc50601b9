/** Reads a TFTP request: the loader that it means, and the options that are accepted. Pure. */
import type { Millis } from '../../base/duration.ts';
import type { TftpRequest } from './codec.ts';

/** Octets of a block without option blksize (RFC 1350). */
const DEFAULT_BLOCK = 512;
/** Octets of the IPv4, UDP and TFTP headers. Netboot ROMs cannot reassemble fragments. */
const HEADERS = 32;
/**
 * Largest window. RFC 7440 allows 65535; 64 blocks fill a gigabit at any distance in a building.
 */
export const MAX_WINDOW = 64;

/**
 * The loader name that a request means; undefined when it can mean none. Firmware writes names in
 * many ways: `\` for `/`, leading and doubled slashes, a trailing 0xff where DHCP option 67 had no
 * NUL (quirks tftp-backslash and tftp-name-0xff). Loaders are a flat list, so a name with a
 * directory or `..` means none. GRUB alone asks for its configuration in a directory.
 */
export function loaderName(filename: string): string | undefined {
  const plain = filename
    .replace(/\xff+$/, '')
    .replaceAll('\\', '/')
    .replace(/^\/+/, '')
    .replace(/^(\.\/+)+/, '')
    .replace(/^grub\/+(?=grub\.cfg$)/, '');
  if (plain === '' || plain === '.' || plain === '..' || plain.length > 128) return undefined;
  return /^[A-Za-z0-9._+-]+$/.test(plain) ? plain : undefined;
}

/**
 * Files that GRUB asks for in its prefix. It waits for a time-out when one is refused, so they are
 * empty files in every directory (quirk grub-lists; MAAS `tftp.py` does the same).
 */
const EMPTY_FILES = new Set(['command.lst', 'crypto.lst', 'fs.lst', 'terminal.lst']);

/** Whether a request is for one of {@link EMPTY_FILES}, in any directory. */
export function isEmptyFile(filename: string): boolean {
  return EMPTY_FILES.has(filename.replaceAll('\\', '/').split('/').at(-1)!.toLowerCase());
}

/** The options of a transfer. */
export interface Agreed {
  /** Octets of a full block. */
  readonly blockSize: number;
  /** Number of blocks that are sent before an ACK is awaited. */
  readonly window: number;
  /** The client's time-out (RFC 2349); undefined: the time-out is measured. */
  readonly timeout: Millis | undefined;
  /** Options to acknowledge, in the client's order. Empty: no OACK; block 1 is sent first. */
  readonly acknowledged: readonly (readonly [string, string])[];
}

/** A decimal number from `from` to `to`, else undefined. `clamp`: a larger number gives `to`. */
function number(value: string, from: number, to: number, clamp: boolean): number | undefined {
  if (!/^[0-9]{1,10}$/.test(value)) return undefined;
  const n = Number(value);
  if (n < from) return undefined;
  return n <= to ? n : clamp ? to : undefined;
}

/**
 * Decides which options of a request for a file of `size` octets are accepted. Only requested
 * options are acknowledged, because EDK2 aborts at others. Unknown and malformed options are
 * ignored (RFC 2347). `blksize` (RFC 2348) is at most what the MTU carries. `timeout` (RFC 2349, 1
 * to 255 s) is echoed unchanged. `tsize` is acknowledged in mode octet only, because translated
 * text has another length. `windowsize` (RFC 7440) is at most {@link MAX_WINDOW}.
 */
export function agree(request: TftpRequest, size: number, mtu: number): Agreed {
  let blockSize = DEFAULT_BLOCK;
  let window = 1;
  let timeout: Millis | undefined;
  const acknowledged: [string, string][] = [];
  for (const [name, value] of request.options) {
    switch (name) {
      case 'blksize': {
        // RFC 2348 allows 8 to 65464.
        const asked = number(value, 8, 65_464, true);
        if (asked === undefined) break;
        blockSize = Math.min(asked, Math.max(mtu - HEADERS, DEFAULT_BLOCK));
        acknowledged.push([name, String(blockSize)]);
        break;
      }
      case 'windowsize': {
        const asked = number(value, 1, 65_535, true);
        if (asked === undefined) break;
        window = Math.min(asked, MAX_WINDOW);
        acknowledged.push([name, String(window)]);
        break;
      }
      case 'timeout': {
        const asked = number(value, 1, 255, false);
        if (asked === undefined) break;
        timeout = (asked * 1000) as Millis;
        acknowledged.push([name, value]);
        break;
      }
      case 'tsize':
        // Not for an empty file (quirk curl-tsize-0).
        if (request.mode === 'octet' && size > 0 && number(value, 0, 2 ** 32, true) !== undefined)
          acknowledged.push([name, String(size)]);
        break;
    }
  }
  return { blockSize, window, timeout, acknowledged };
}

/**
 * Number of blocks of a file. The last block is shorter than the others; it is empty if the size is
 * a multiple of the block size (RFC 1350 §6).
 */
export function blockCount(size: number, blockSize: number): number {
  return Math.floor(size / blockSize) + 1;
}

/** Text in netascii (RFC 764): LF becomes CR LF, CR becomes CR NUL. */
export function toNetascii(text: Buffer): Buffer {
  const out = Buffer.allocUnsafe(text.length * 2);
  let at = 0;
  for (const octet of text) {
    if (octet === 0x0a) out[at++] = 0x0d;
    out[at++] = octet;
    if (octet === 0x0d) out[at++] = 0;
  }
  return out.subarray(0, at);
}
