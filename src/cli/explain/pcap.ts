/**
 * Reads pcap and pcapng captures, and the UDP datagrams in their frames, as far as the replay of
 * boot clients needs it (draft-ietf-opsawg-pcap, draft-ietf-opsawg-pcapng; numbers of link types
 * from tcpdump.org).
 */
import { type Millis, millis } from '../../base/duration.ts';
import { type Mac, macFromBytes } from '../../base/mac.ts';

/** One captured frame. */
export interface Frame {
  readonly at: Millis;
  /** The LINKTYPE_ value of the interface on which it was captured. */
  readonly link: number;
  readonly data: Uint8Array;
}

export type Capture =
  | {
      readonly ok: true;
      readonly frames: readonly Frame[] /** The file ends inside a frame. */;
      readonly cut: boolean;
    }
  | { readonly ok: false; readonly why: string };

/** Frames after this number are not read; a capture of boots has hundreds. */
const MAX_FRAMES = 1_000_000;

const PCAP_MICROS = 0xa1b2c3d4;
const PCAP_NANOS = 0xa1b23c4d;
const SECTION = 0x0a0d0d0a;
const BYTE_ORDER = 0x1a2b3c4d;

/** Reads a capture file. Never throws: frames before any damage are returned, with `cut` set. */
export function readCapture(bytes: Uint8Array): Capture {
  const view = new DataView(bytes.buffer, bytes.byteOffset, bytes.byteLength);
  if (bytes.length < 24) return { ok: false, why: 'too short to be a capture' };
  const magic = view.getUint32(0);
  if (magic === SECTION) return readPcapng(bytes, view);
  for (const little of [false, true]) {
    const seen = view.getUint32(0, little);
    if (seen === PCAP_MICROS || seen === PCAP_NANOS)
      return readPcap(bytes, view, { little, ticksPerMilli: seen === PCAP_NANOS ? 1e6 : 1e3 });
  }
  return { ok: false, why: 'neither pcap nor pcapng' };
}

function readPcap(
  bytes: Uint8Array,
  view: DataView,
  { little, ticksPerMilli }: { little: boolean; ticksPerMilli: number },
): Capture {
  const link = view.getUint32(20, little) & 0x0fffffff;
  const frames: Frame[] = [];
  let at = 24;
  while (at + 16 <= bytes.length && frames.length < MAX_FRAMES) {
    const time = view.getUint32(at, little) * 1000 + view.getUint32(at + 4, little) / ticksPerMilli;
    const length = view.getUint32(at + 8, little);
    if (length > bytes.length - at - 16) return { ok: true, frames, cut: true };
    frames.push({ at: millis(time), link, data: bytes.subarray(at + 16, at + 16 + length) });
    at += 16 + length;
  }
  return { ok: true, frames, cut: at < bytes.length };
}

interface Interface {
  readonly link: number;
  /** The number of ticks in a millisecond of the interface's timestamps. */
  readonly ticksPerMilli: number;
  readonly snapLength: number;
}

function readPcapng(bytes: Uint8Array, view: DataView): Capture {
  const frames: Frame[] = [];
  let interfaces: Interface[] = [];
  let little = false;
  let at = 0;
  while (at + 12 <= bytes.length && frames.length < MAX_FRAMES) {
    const type = view.getUint32(at, little);
    if (type === SECTION) {
      little = view.getUint32(at + 8, true) === BYTE_ORDER;
      if (!little && view.getUint32(at + 8) !== BYTE_ORDER) return { ok: true, frames, cut: true };
      interfaces = [];
    }
    const length = view.getUint32(at + 4, little);
    if (length < 12 || length % 4 !== 0 || length > bytes.length - at) return { ok: true, frames, cut: true };
    const end = at + length - 4;
    if (type === 1 && length >= 20) interfaces.push(interfaceOf(view, at + 8, end, little));
    else if (type === 6 && length >= 32) {
      const frame = enhancedPacket(bytes, view, { at: at + 8, end, little, interfaces });
      if (frame) frames.push(frame);
    } else if (type === 3 && length >= 16 && interfaces[0]) {
      const size = Math.min(
        view.getUint32(at + 8, little),
        interfaces[0].snapLength || Infinity,
        end - at - 12,
      );
      frames.push({ at: millis(0), link: interfaces[0].link, data: bytes.subarray(at + 12, at + 12 + size) });
    }
    at += length;
  }
  return { ok: true, frames, cut: at < bytes.length };
}

const TSRESOL = 9;

function interfaceOf(view: DataView, at: number, end: number, little: boolean): Interface {
  let ticksPerMilli = 1e3;
  for (let option = at + 8; option + 4 <= end; ) {
    const code = view.getUint16(option, little);
    const length = view.getUint16(option + 2, little);
    if (code === 0) break;
    if (code === TSRESOL && length === 1 && option + 5 <= end) {
      const resolution = view.getUint8(option + 4);
      const perSecond = resolution & 0x80 ? 2 ** (resolution & 0x7f) : 10 ** resolution;
      ticksPerMilli = perSecond / 1000;
    }
    option += 4 + length + ((4 - (length % 4)) % 4);
  }
  return { link: view.getUint16(at, little), ticksPerMilli, snapLength: view.getUint32(at + 4, little) };
}

function enhancedPacket(
  bytes: Uint8Array,
  view: DataView,
  block: { at: number; end: number; little: boolean; interfaces: readonly Interface[] },
): Frame | undefined {
  const { at, end, little } = block;
  const from = block.interfaces[view.getUint32(at, little)];
  const length = view.getUint32(at + 12, little);
  if (!from || length > end - at - 20) return undefined;
  const ticks = view.getUint32(at + 4, little) * 2 ** 32 + view.getUint32(at + 8, little);
  return {
    at: millis(ticks / from.ticksPerMilli),
    link: from.link,
    data: bytes.subarray(at + 20, at + 20 + length),
  };
}

/** A UDP datagram over IPv4. */
export interface Datagram {
  readonly sourceMac?: Mac;
  readonly source: number;
  readonly destination: number;
  readonly sourcePort: number;
  readonly destinationPort: number;
  readonly payload: Uint8Array;
}

const IPV4 = 0x0800;
const VLAN_TAGS = new Set([0x8100, 0x88a8]);

/** Offset of the network header for a link type, and the EtherType; undefined for unknown links. */
function networkHeader(
  frame: Frame,
  view: DataView,
): { at: number; etherType: number; mac?: Mac } | undefined {
  const { data, link } = frame;
  switch (link) {
    case 1: {
      let at = 12;
      while (at + 2 <= data.length && VLAN_TAGS.has(view.getUint16(at))) at += 4;
      if (at + 2 > data.length) return undefined;
      return { at: at + 2, etherType: view.getUint16(at), mac: macFromBytes(data.subarray(6, 12)) };
    }
    case 113:
      return data.length < 16 ? undefined : { at: 16, etherType: view.getUint16(14) };
    case 276:
      return data.length < 20 ? undefined : { at: 20, etherType: view.getUint16(0) };
    case 12:
    case 101:
    case 228:
      return { at: 0, etherType: IPV4 };
    default:
      return undefined;
  }
}

/**
 * The UDP datagram in a frame (RFC 791, RFC 768); undefined when the frame contains none, is a
 * fragment or is damaged. Never throws.
 */
export function datagramOf(frame: Frame): Datagram | undefined {
  const { data } = frame;
  const view = new DataView(data.buffer, data.byteOffset, data.byteLength);
  const header = networkHeader(frame, view);
  if (!header || header.etherType !== IPV4 || header.at + 20 > data.length) return undefined;
  const ip = header.at;
  const headerLength = (view.getUint8(ip) & 0x0f) * 4;
  const fragment = view.getUint16(ip + 6) & 0x3fff;
  if (view.getUint8(ip) >> 4 !== 4 || headerLength < 20 || fragment !== 0 || view.getUint8(ip + 9) !== 17)
    return undefined;
  const udp = ip + headerLength;
  const end = Math.min(data.length, ip + view.getUint16(ip + 2));
  if (udp + 8 > end) return undefined;
  const length = view.getUint16(udp + 4);
  if (length < 8 || udp + length > end) return undefined;
  return {
    ...(header.mac === undefined ? {} : { sourceMac: header.mac }),
    source: view.getUint32(ip + 12),
    destination: view.getUint32(ip + 16),
    sourcePort: view.getUint16(udp),
    destinationPort: view.getUint16(udp + 2),
    payload: data.subarray(udp + 8, udp + length),
  };
}
