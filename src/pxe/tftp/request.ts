/**
 * From a read request to what will be sent: the loader's name, and the options agreed on. Pure.
 */
import type { Millis } from '../../base/duration.ts';
import type { TftpRequest } from './codec.ts';

/** RFC 1350: without options a block has 512 octets. */
export const DEFAULT_BLOCK = 512;
/**
 * IPv4, UDP and TFTP headers: what a block has not of the MTU. Netboot ROMs cannot cope with
 * fragments.
 */
const HEADERS = 32;
/**
 * RFC 7440 lets a client ask for 65535; 64 blocks fill a gigabit at any distance of one building.
 */
export const MAX_WINDOW = 64;

/**
 * The flat loader name that a request means, or undefined when it can mean none. Firmware writes
 * names in many ways: `\` for `/`, leading and doubled slashes (both from URLs and Windows
 * servers), a trailing 0xff where DHCP option 67 had no NUL. Directories lead nowhere: loaders are
 * a flat list, so any name that still has one, and any `..`, is nobody's.
 */
export function loaderName(filename: string): string | undefined {
  const plain = filename
    .replace(/\xff+$/, '')
    .replaceAll('\\', '/')
    .replace(/^\/+/, '')
    .replace(/^(\.\/+)+/, '');
  if (plain === '' || plain === '.' || plain === '..' || plain.length > 128) return undefined;
  return /^[A-Za-z0-9._+-]+$/.test(plain) ? plain : undefined;
}

/**
 * Files that GRUB asks for in its prefix and takes a refusal of badly (it waits for the time-out of
 * each): answered empty, whatever the directory (MAAS `tftp.py`). PXELINUX asks for none of these,
 * and wants real refusals.
 */
const EMPTY_FILES = new Set(['command.lst', 'crypto.lst', 'fs.lst', 'terminal.lst']);

export function isEmptyFile(filename: string): boolean {
  return EMPTY_FILES.has(filename.replaceAll('\\', '/').split('/').at(-1)!.toLowerCase());
}

export interface Agreed {
  /** Octets of a full block. */
  readonly blockSize: number;
  /** Blocks sent before an ACK is waited for. */
  readonly window: number;
  /** The client's own time-out (RFC 2349), kept to exactly; undefined: measured. */
  readonly timeout: Millis | undefined;
  /** Options to acknowledge, in the client's order; empty: no OACK, block 1 goes out at once. */
  readonly acknowledged: readonly (readonly [string, string])[];
}

/** A decimal number in `from`..`to`; a number beyond `to` is `to` when `clamp`; else undefined. */
function number(value: string, from: number, to: number, clamp: boolean): number | undefined {
  if (!/^[0-9]{1,10}$/.test(value)) return undefined;
  const n = Number(value);
  if (n < from) return undefined;
  return n <= to ? n : clamp ? to : undefined;
}

/**
 * Which of the request's options are agreed to. Only those asked for are acknowledged (EDK2 aborts
 * at others); unknown and malformed ones are left out, as RFC 2347 wants, not answered with an
 * error. `blksize` (RFC 2348) at most what the MTU carries · `timeout` (RFC 2349) echoed unchanged,
 * 1–255 s · `tsize` the size in octets, in octet mode only: translated text has another length ·
 * `windowsize` (RFC 7440) at most {@link MAX_WINDOW}.
 */
export function agree(request: TftpRequest, size: number, mtu: number): Agreed {
  let blockSize = DEFAULT_BLOCK;
  let window = 1;
  let timeout: Millis | undefined;
  const acknowledged: [string, string][] = [];
  for (const [name, value] of request.options) {
    switch (name) {
      case 'blksize': {
        // RFC 2348: from 8 to 65464
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
        // not for an empty file: curl takes a size of 0 for a fault and gives up
        if (request.mode === 'octet' && size > 0 && number(value, 0, 2 ** 32, true) !== undefined)
          acknowledged.push([name, String(size)]);
        break;
    }
  }
  return { blockSize, window, timeout, acknowledged };
}

/**
 * Blocks of a file: the last one is shorter than the others, empty if the size is a multiple (RFC
 * 1350 §6).
 */
export function blockCount(size: number, blockSize: number): number {
  return Math.floor(size / blockSize) + 1;
}

/** Text as netascii has it (RFC 764): LF becomes CR LF, CR becomes CR NUL. */
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
