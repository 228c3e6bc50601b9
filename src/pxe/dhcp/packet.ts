/**
 * The DHCP message on the wire (RFC 2131 §2). Decoding returns a value or a reason and never
 * throws; encoding is deterministic: the same value always gives the same octets.
 */
import type { Ipv4 } from '../../base/ipv4.ts';
import { CONCATENATES, OPTION } from './options.ts';

export interface DhcpPacket {
  /** 1 request, 2 reply. */
  readonly op: 1 | 2;
  readonly htype: number;
  readonly hlen: number;
  readonly hops: number;
  readonly xid: number;
  /** As sent. iPXE keeps retry counters in it, so nothing is decided by it (quirk ipxe-secs). */
  readonly secs: number;
  readonly flags: number;
  readonly ciaddr: Ipv4;
  readonly yiaddr: Ipv4;
  readonly siaddr: Ipv4;
  readonly giaddr: Ipv4;
  /** All 16 octets of the field; the first `hlen` are the address. */
  readonly chaddr: Buffer;
  /**
   * Header fields up to the first NUL, Latin-1; empty when option 52 says that they hold options.
   */
  readonly sname: string;
  readonly file: string;
  /**
   * Raw values by option code, in the order of the wire. Pieces of one option are joined; PAD, END
   * and OVERLOAD are left out.
   */
  readonly options: ReadonlyMap<number, Buffer>;
}

/** Why a datagram is not a DHCP message. */
export const DECODE_FAULTS = {
  short: 'Shorter than a BOOTP header with its magic cookie (240 octets).',
  oversize: 'Longer than any DHCP message can be on the wire.',
  bad_op: 'The op field is neither request nor reply.',
  bad_cookie: 'The magic cookie is not 63825363.',
  bad_hlen: 'The hardware address is longer than its field.',
  option_overrun: 'An option runs past the end of its field.',
  bad_overload: 'Option 52 (overload) is not one octet of 1 to 3.',
} as const;
type DecodeFault = keyof typeof DECODE_FAULTS;

type Decoded =
  | { readonly ok: true; readonly packet: DhcpPacket }
  | { readonly ok: false; readonly fault: DecodeFault };

export const BROADCAST_FLAG = 0x8000;
const COOKIE = 0x63825363;
const HEADER = 240;
const SNAME = { from: 44, to: 108 } as const;
const FILE = { from: 108, to: 236 } as const;
const PAD = 0;
const END = 255;
/** BOOTP's minimum in octets (RFC 1542 §2.1). In-kernel clients drop shorter replies. */
const MINIMUM = 300;
/**
 * Payload that every client must accept: a 576-octet IP datagram less 28 of headers (RFC 2131 §2).
 */
const DEFAULT_MAXIMUM = 548;
/** Payload of one Ethernet frame. Larger announcements are not believed (quirk edk2-57). */
export const LARGEST = 1472;

const bad = (fault: DecodeFault): Decoded => ({ ok: false, fault });

/**
 * Adds the options in `bytes[from, to)` to `into`. Returns false when an option runs past `to`. A
 * missing END is accepted; octets after END are ignored.
 */
function collect(bytes: Buffer, from: number, to: number, into: Map<number, Buffer>): boolean {
  let at = from;
  while (at < to) {
    const code = bytes[at]!;
    if (code === PAD) {
      at++;
      continue;
    }
    if (code === END) return true;
    if (at + 2 > to) return false;
    const start = at + 2;
    const end = start + bytes[at + 1]!;
    if (end > to) return false;
    const earlier = into.get(code);
    if (earlier === undefined) into.set(code, bytes.subarray(start, end));
    else if (CONCATENATES[code]) into.set(code, Buffer.concat([earlier, bytes.subarray(start, end)]));
    at = end;
  }
  return true;
}

function text(bytes: Buffer, from: number, to: number): string {
  if (bytes[from] === 0) return '';
  const nul = bytes.indexOf(0, from);
  return bytes.toString('latin1', from, nul < 0 || nul > to ? to : nul);
}

/**
 * Reads the payload of a UDP datagram as a DHCP message. Never throws. The values are views into
 * `input`, which must not change while the packet is in use.
 *
 * @example
 * const decoded = decode(datagram);
 * if (!decoded.ok) return count(decoded.fault); // e.g. 'bad_cookie'
 * const hostname = decoded.packet.options.get(OPTION.hostname)?.toString('latin1');
 */
export function decode(input: Uint8Array): Decoded {
  const bytes = Buffer.isBuffer(input)
    ? input
    : Buffer.from(input.buffer, input.byteOffset, input.byteLength);
  if (bytes.length < HEADER) return bad('short');
  if (bytes.length > 65_507) return bad('oversize');
  const op = bytes[0]!;
  if (op !== 1 && op !== 2) return bad('bad_op');
  if (bytes.readUInt32BE(236) !== COOKIE) return bad('bad_cookie');
  const hlen = bytes[2]!;
  if (hlen > 16) return bad('bad_hlen');

  const options = new Map<number, Buffer>();
  if (!collect(bytes, HEADER, bytes.length, options)) return bad('option_overrun');
  // RFC 3396 §5: the aggregate order is options, file, sname.
  let overload = 0;
  const overloaded = options.get(OPTION.overload);
  if (overloaded !== undefined) {
    if (overloaded.length !== 1 || overloaded[0]! < 1 || overloaded[0]! > 3) return bad('bad_overload');
    overload = overloaded[0]!;
    options.delete(OPTION.overload);
    if (overload & 1 && !collect(bytes, FILE.from, FILE.to, options)) return bad('option_overrun');
    if (overload & 2 && !collect(bytes, SNAME.from, SNAME.to, options)) return bad('option_overrun');
    options.delete(OPTION.overload);
  }
  return {
    ok: true,
    packet: {
      op,
      htype: bytes[1]!,
      hlen,
      hops: bytes[3]!,
      xid: bytes.readUInt32BE(4),
      secs: bytes.readUInt16BE(8),
      flags: bytes.readUInt16BE(10),
      ciaddr: bytes.readUInt32BE(12) as Ipv4,
      yiaddr: bytes.readUInt32BE(16) as Ipv4,
      siaddr: bytes.readUInt32BE(20) as Ipv4,
      giaddr: bytes.readUInt32BE(24) as Ipv4,
      chaddr: bytes.subarray(28, 44),
      sname: overload & 2 ? '' : text(bytes, SNAME.from, SNAME.to),
      file: overload & 1 ? '' : text(bytes, FILE.from, FILE.to),
      options,
    },
  };
}

/**
 * The order in which options are written: what identifies the message first, boot options together,
 * relay information last (RFC 3046 §2.1). Codes in neither list come between the two, ascending.
 */
const FIRST = [53, 54, 51, 58, 59, 1, 3, 6] as const;
const LAST = [60, 97, 43, 66, 67, 175, 61, 82] as const;
const RANK: readonly number[] = Array.from({ length: 256 }, (_, code) => {
  const first = (FIRST as readonly number[]).indexOf(code);
  if (first >= 0) return first;
  const last = (LAST as readonly number[]).indexOf(code);
  return last >= 0 ? 1000 + last : 100 + code;
});

/**
 * The options that are dropped, in this order, when a reply is larger than its client accepts:
 * options that a client can do without, then the boot names that the header repeats, then values
 * that a client can derive. The message type, the lease time and relay information (RFC 3046 §2.2)
 * are never dropped.
 */
const EXPENDABLE = [119, 121, 42, 15, 12, 26, 28, 56, 66, 67, 6, 61, 59, 58] as const;

function wireSize(value: Buffer): number {
  return value.length + 2 * Math.max(1, Math.ceil(value.length / 255));
}

/**
 * The largest payload in octets that the client of `request` accepts. Option 57 counts the IP and
 * UDP headers (28 octets); values above an Ethernet frame are not believed.
 */
export function maximumFor(request: Pick<DhcpPacket, 'options'>): number {
  const announced = request.options.get(OPTION.maxMessageSize);
  if (announced?.length !== 2) return DEFAULT_MAXIMUM;
  return Math.min(LARGEST, Math.max(DEFAULT_MAXIMUM, announced.readUInt16BE() - 28));
}

export interface Encoded {
  readonly bytes: Buffer;
  /** Codes of the options that were dropped because the reply would have been too large. */
  readonly dropped: readonly number[];
}

const NOTHING_DROPPED: readonly number[] = [];

/**
 * Drops {@link EXPENDABLE} options until the rest fits into `room` octets. The rest may still be
 * larger when relay information alone is.
 */
function within(
  options: ReadonlyMap<number, Buffer>,
  room: number,
): {
  readonly kept: ReadonlyMap<number, Buffer>;
  readonly size: number;
  readonly dropped: readonly number[];
} {
  let size = 1;
  for (const value of options.values()) size += wireSize(value);
  if (size <= room) return { kept: options, size, dropped: NOTHING_DROPPED };
  const kept = new Map(options);
  const dropped: number[] = [];
  for (const code of EXPENDABLE) {
    const value = kept.get(code);
    if (value === undefined) continue;
    kept.delete(code);
    dropped.push(code);
    size -= wireSize(value);
    if (size <= room) break;
  }
  return { kept, size, dropped };
}

/**
 * The codes in the order in which they are written. Replies are nearly sorted: insertion is fast.
 */
function ordered(options: ReadonlyMap<number, Buffer>): readonly number[] {
  const codes = new Array<number>(options.size);
  let count = 0;
  for (const code of options.keys()) {
    const rank = RANK[code]!;
    let at = count++;
    for (; at > 0 && RANK[codes[at - 1]!]! > rank; at--) codes[at] = codes[at - 1]!;
    codes[at] = code;
  }
  return codes;
}

/**
 * Writes a message: at least 300 octets, values above 255 octets in pieces (RFC 3396 §4), END, then
 * padding. There is no padding between options, because the Raspberry Pi's ROM would then ignore
 * the reply (quirk pads-between-options). `maximum`: largest payload in octets.
 */
export function encode(packet: DhcpPacket, maximum: number = LARGEST): Encoded {
  const { kept, size, dropped } = within(packet.options, maximum - HEADER);
  // The buffer comes from Node's pool, so it is zeroed here.
  const bytes = Buffer.allocUnsafe(Math.max(MINIMUM, HEADER + size)).fill(0);
  bytes[0] = packet.op;
  bytes[1] = packet.htype;
  bytes[2] = packet.hlen;
  bytes[3] = packet.hops;
  bytes.writeUInt32BE(packet.xid, 4);
  bytes.writeUInt16BE(packet.secs, 8);
  bytes.writeUInt16BE(packet.flags, 10);
  bytes.writeUInt32BE(packet.ciaddr, 12);
  bytes.writeUInt32BE(packet.yiaddr, 16);
  bytes.writeUInt32BE(packet.siaddr, 20);
  bytes.writeUInt32BE(packet.giaddr, 24);
  bytes.set(packet.chaddr.length <= 16 ? packet.chaddr : packet.chaddr.subarray(0, 16), 28);
  if (packet.sname !== '') bytes.write(packet.sname, SNAME.from, SNAME.to - SNAME.from, 'latin1');
  if (packet.file !== '') bytes.write(packet.file, FILE.from, FILE.to - FILE.from, 'latin1');
  bytes.writeUInt32BE(COOKIE, 236);
  let at = HEADER;
  for (const code of ordered(kept)) {
    const value = kept.get(code)!;
    let from = 0;
    do {
      const piece = Math.min(255, value.length - from);
      bytes[at] = code;
      bytes[at + 1] = piece;
      bytes.set(piece === value.length ? value : value.subarray(from, from + piece), at + 2);
      at += 2 + piece;
      from += piece;
    } while (from < value.length);
  }
  bytes[at] = END;
  return { bytes, dropped };
}

/** The IPv4 address in an option; undefined when the option is absent or not 4 octets long. */
export function addressOption(packet: Pick<DhcpPacket, 'options'>, code: number): Ipv4 | undefined {
  const value = packet.options.get(code);
  return value?.length === 4 ? (value.readUInt32BE() as Ipv4) : undefined;
}

/** The value of option 53; 0 when it is absent (a BOOTP client) or malformed. */
export function messageType(packet: Pick<DhcpPacket, 'options'>): number {
  const value = packet.options.get(OPTION.messageType);
  return value?.length === 1 ? value[0]! : 0;
}

/**
 * Sub-options inside an option's value (RFC 2132 §8.4, RFC 3046 §2.0), the first instance of each.
 * Undefined when one runs past the end. `padded`: PAD and END have their meaning, as in vendor
 * options; relay information has neither.
 */
export function subOptions(value: Buffer, padded: boolean): Map<number, Buffer> | undefined {
  const found = new Map<number, Buffer>();
  let at = 0;
  while (at < value.length) {
    const code = value[at]!;
    if (padded && code === PAD) {
      at++;
      continue;
    }
    if (padded && code === END) break;
    if (at + 2 > value.length) return undefined;
    const end = at + 2 + value[at + 1]!;
    if (end > value.length) return undefined;
    if (!found.has(code)) found.set(code, value.subarray(at + 2, end));
    at = end;
  }
  return found;
}
