/**
 * TFTP on the wire: RFC 1350 (packets) and RFC 2347 (options, OACK). Decoding never throws: a
 * datagram that is not a packet gives a reason. The block reader writes DATA packets in place
 * (`blocks.files.ts`), so DATA has only {@link writeDataHeader}.
 */

/** Error codes of RFC 1350 §5 and RFC 2347. */
export const TFTP_ERROR = {
  undefined: 0,
  notFound: 1,
  accessViolation: 2,
  diskFull: 3,
  illegalOperation: 4,
  unknownTid: 5,
  fileExists: 6,
  noSuchUser: 7,
  optionRefused: 8,
} as const;
export type TftpErrorCode = (typeof TFTP_ERROR)[keyof typeof TFTP_ERROR];

const OPCODE = { read: 1, write: 2, data: 3, ack: 4, error: 5, oack: 6 } as const;

/** Octets before the data of a DATA packet. */
export const DATA_HEADER = 4;
/**
 * Longer requests are malformed. RFC 2347 says 512 octets; some firmware sends more, up to an
 * Ethernet frame.
 */
const MAX_REQUEST = 1500;

export interface TftpRequest {
  readonly kind: 'read' | 'write';
  /** As sent, read as Latin-1. */
  readonly filename: string;
  /** In lower case: `octet`, `netascii`, `mail` or any other text. */
  readonly mode: string;
  /** Names in lower case (RFC 2347), values as sent. The first of equal names counts. */
  readonly options: ReadonlyMap<string, string>;
}

type TftpPacket =
  | TftpRequest
  | { readonly kind: 'ack'; readonly block: number }
  | { readonly kind: 'error'; readonly code: number; readonly message: string }
  | { readonly kind: 'data' | 'oack' }
  | { readonly kind: 'malformed'; readonly why: MalformedReason };

/** Why a datagram is not a TFTP packet. */
type MalformedReason = 'short' | 'opcode' | 'request' | 'long';

const malformed = (why: MalformedReason): TftpPacket => ({ kind: 'malformed', why });

/** Decodes a datagram. Never throws. */
export function decodeTftp(datagram: Buffer): TftpPacket {
  if (datagram.length < 4) return malformed('short');
  if (datagram[0] !== 0) return malformed('opcode');
  switch (datagram[1]) {
    case OPCODE.ack:
      return { kind: 'ack', block: datagram.readUInt16BE(2) };
    case OPCODE.read:
      return decodeRequest('read', datagram);
    case OPCODE.write:
      return decodeRequest('write', datagram);
    case OPCODE.error:
      return { kind: 'error', code: datagram.readUInt16BE(2), message: errorText(datagram.subarray(4)) };
    case OPCODE.data:
      return { kind: 'data' };
    case OPCODE.oack:
      return { kind: 'oack' };
    default:
      return malformed('opcode');
  }
}

function decodeRequest(kind: 'read' | 'write', datagram: Buffer): TftpPacket {
  if (datagram.length > MAX_REQUEST) return malformed('long');
  const words: string[] = [];
  let at = 2;
  while (at < datagram.length) {
    const end = datagram.indexOf(0, at);
    // Some ROMs omit the last NUL; the last word then extends to the end.
    words.push(datagram.toString('latin1', at, end < 0 ? datagram.length : end));
    at = end < 0 ? datagram.length : end + 1;
  }
  const [filename, mode, ...rest] = words;
  if (filename === undefined || filename === '' || mode === undefined || mode === '')
    return malformed('request');
  const options = new Map<string, string>();
  for (let i = 0; i + 1 < rest.length; i += 2) {
    const name = rest[i]!.toLowerCase();
    if (name !== '' && !options.has(name)) options.set(name, rest[i + 1]!);
  }
  return { kind, filename, mode: mode.toLowerCase(), options };
}

/** A peer's error message for logs: printable ASCII, at most 100 characters. */
function errorText(octets: Buffer): string {
  const end = octets.indexOf(0);
  return octets
    .toString('latin1', 0, Math.min(end < 0 ? octets.length : end, 100))
    .replace(/[^\x20-\x7e]/g, '?');
}

/** An OACK with `options` in this order. */
export function encodeOack(options: Iterable<readonly [string, string]>): Buffer {
  const words = [...options].map(([name, value]) => `${name}\0${value}\0`).join('');
  return Buffer.from(`\0\x06${words}`, 'latin1');
}

/** An ERROR packet. */
export function encodeError(code: TftpErrorCode, message: string): Buffer {
  return Buffer.from(`\0\x05\0${String.fromCharCode(code)}${message}\0`, 'latin1');
}

/** A read request; for tests and benchmarks. */
export function encodeRead(
  filename: string,
  mode = 'octet',
  options: Iterable<readonly [string, string]> = [],
): Buffer {
  const words = [...options].map(([name, value]) => `${name}\0${value}\0`).join('');
  return Buffer.from(`\0\x01${filename}\0${mode}\0${words}`, 'latin1');
}

/** An ACK; for tests and benchmarks. */
export function encodeAck(block: number): Buffer {
  return Buffer.from([0, OPCODE.ack, (block >>> 8) & 255, block & 255]);
}

/**
 * Writes the header of DATA `block` at offset `at`. Block numbers grow without limit; only the low
 * 16 bits are written.
 */
export function writeDataHeader(packet: Buffer, at: number, block: number): void {
  packet[at] = 0;
  packet[at + 1] = OPCODE.data;
  packet[at + 2] = (block >>> 8) & 255;
  packet[at + 3] = block & 255;
}
