/**
 * Datagrams of IPMI 2.0 over a LAN: RMCP, session headers and messages (Intelligent Platform
 * Management Interface Specification 2.0, sections 13 and 22). Pure; decoders never throw.
 */

/** Why a datagram is none of ours, or what it holds. */
export type Decoded<T> =
  | { readonly ok: true; readonly value: T }
  | { readonly ok: false; readonly why: string };
const no = (why: string): { readonly ok: false; readonly why: string } => ({ ok: false, why });

/** Types of payload (table 13-16). */
export const PAYLOADS = {
  message: 0x00,
  sol: 0x01,
  openRequest: 0x10,
  openAnswer: 0x11,
  rakp1: 0x12,
  rakp2: 0x13,
  rakp3: 0x14,
  rakp4: 0x15,
} as const;

const RMCP = Buffer.from([0x06, 0x00, 0xff, 0x07]);
const V2_HEADER = RMCP.length + 12;
const ENCRYPTED = 0x80;
const AUTHENTICATED = 0x40;
/** A datagram that is larger is refused: no payload of IPMI needs more. */
const MAX_DATAGRAM = 1500;

/** A payload in a session, or before one (`session` 0). */
export interface Framed {
  readonly type: number;
  readonly session: number;
  readonly sequence: number;
  readonly payload: Buffer;
}

/** What seals and opens datagrams of a session. */
export interface Sealing {
  /** The octets of the code at the end of a datagram. */
  readonly codeLength: number;
  code(octets: Buffer): Buffer;
  encrypt(payload: Buffer): Buffer;
  /** Undefined where the padding is wrong. */
  decrypt(payload: Buffer): Buffer | undefined;
  same(one: Buffer, other: Buffer): boolean;
}

/** A datagram with a payload; sealed in a session. */
export function encodeFrame({ type, session, sequence, payload }: Framed, sealing?: Sealing): Buffer {
  const body = sealing ? sealing.encrypt(payload) : payload;
  const head = Buffer.alloc(12);
  head[0] = 0x06;
  head[1] = type | (sealing ? ENCRYPTED | AUTHENTICATED : 0);
  head.writeUInt32LE(session, 2);
  head.writeUInt32LE(sequence, 6);
  head.writeUInt16LE(body.length, 10);
  const unsealed = Buffer.concat([head, body]);
  if (!sealing) return Buffer.concat([RMCP, unsealed]);
  // The code covers a multiple of four octets: header, payload, padding, its length, next header.
  const padding = (4 - ((unsealed.length + 2) % 4)) % 4;
  const covered = Buffer.concat([unsealed, Buffer.alloc(padding, 0xff), Buffer.from([padding, 0x07])]);
  return Buffer.concat([RMCP, covered, sealing.code(covered)]);
}

/** Reads a datagram. In a session whatever is not sealed with its keys is refused. */
export function decodeFrame(datagram: Buffer, sealing?: Sealing): Decoded<Framed> {
  if (datagram.length > MAX_DATAGRAM) return no('too long');
  if (datagram.length < V2_HEADER || datagram[0] !== 0x06 || datagram[3] !== 0x07) return no('no RMCP');
  if (datagram[4] !== 0x06) return no('no session of IPMI 2.0');
  const flags = datagram[5]!;
  const length = datagram.readUInt16LE(14);
  const end = V2_HEADER + length;
  if (datagram.length < end) return no('cut off');
  const frame = {
    type: flags & 0x3f,
    session: datagram.readUInt32LE(6),
    sequence: datagram.readUInt32LE(10),
    payload: datagram.subarray(V2_HEADER, end),
  };
  if (!sealing) return flags === frame.type ? { ok: true, value: frame } : no('sealed, before a session');
  if ((flags & (ENCRYPTED | AUTHENTICATED)) !== (ENCRYPTED | AUTHENTICATED)) return no('not sealed');
  const code = datagram.subarray(datagram.length - sealing.codeLength);
  const covered = datagram.subarray(RMCP.length, datagram.length - sealing.codeLength);
  if (covered.length < end - RMCP.length + 2) return no('cut off');
  if (!sealing.same(code, sealing.code(covered))) return no('sealed with another key');
  const payload = sealing.decrypt(frame.payload);
  return payload === undefined ? no('wrong padding') : { ok: true, value: { ...frame, payload } };
}

/** Addresses of the BMC and of software that asks it (table 5-4). */
const BMC = 0x20;
const SOFTWARE = 0x81;

const checksum = (octets: Uint8Array): number => -octets.reduce((sum, one) => sum + one, 0) & 0xff;

/** A command to the BMC (section 13.8). `sequence`: 0 to 63. */
export function encodeRequest(netFn: number, command: number, data: Buffer, sequence: number): Buffer {
  const head = Buffer.from([BMC, netFn << 2]);
  const body = Buffer.concat([Buffer.from([SOFTWARE, (sequence & 0x3f) << 2, command]), data]);
  return Buffer.concat([head, Buffer.from([checksum(head)]), body, Buffer.from([checksum(body)])]);
}

/** The BMC's answer to a command. */
export interface Answer {
  readonly netFn: number;
  readonly command: number;
  readonly sequence: number;
  /** 0: done; see {@link COMPLETIONS}. */
  readonly completion: number;
  readonly data: Buffer;
}

/** Reads an answer. */
export function decodeAnswer(payload: Buffer): Decoded<Answer> {
  if (payload.length < 8) return no('cut off');
  const head = payload.subarray(0, 2);
  const body = payload.subarray(3, -1);
  if (checksum(head) !== payload[2] || checksum(body) !== payload.at(-1)) return no('wrong checksum');
  const [, netFn] = head;
  const [, sequence, command, completion] = body;
  return {
    ok: true,
    value: {
      netFn: netFn! >> 2,
      command: command!,
      sequence: sequence! >> 2,
      completion: completion!,
      data: body.subarray(4),
    },
  };
}

/** What completion codes mean that a BMC gives to orders about power (table 5-2). */
export const COMPLETIONS: Readonly<Record<number, string>> = {
  128: 'the parameter is not supported',
  192: 'it is busy',
  193: 'it does not know the command',
  195: 'it took too long',
  201: 'a value is out of range',
  204: 'a field is not valid',
  208: 'it is being started or updated',
  212: 'the privilege does not suffice',
  213: 'not in its present state',
  255: 'it gives no reason',
};
