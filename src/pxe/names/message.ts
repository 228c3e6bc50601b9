/**
 * Messages of DNS updates (RFC 2136) with transaction signatures (RFC 8945). Pure.
 *
 * Only what an update needs is here: A, AAAA and PTR records that are added, or deleted one by one
 * (class NONE), and the answer's code and signature. Every name is written out, never compressed.
 */
import { createHmac, timingSafeEqual } from 'node:crypto';
import { parseIp } from '../../base/ip.ts';

const TYPE = { A: 1, PTR: 12, AAAA: 28, SOA: 6, TSIG: 250 } as const;
const CLASS = { IN: 1, NONE: 254, ANY: 255 } as const;
/** Opcode UPDATE, in the second word of the header. */
const UPDATE = 5 << 11;
const HEADER_BYTES = 12;
/** How far the clocks of both sides may be apart, in seconds; BIND's nsupdate sends the same. */
const FUDGE_SECONDS = 300;

/** A record of a zone. Names are in lower case and have no dot at their end. */
export interface NameRecord {
  readonly name: string;
  readonly type: 'A' | 'AAAA' | 'PTR';
  /** An address, or for PTR a name. */
  readonly data: string;
}

export interface Update {
  readonly id: number;
  readonly zone: string;
  readonly add: readonly NameRecord[];
  readonly remove: readonly NameRecord[];
  /** Time to live of added records, in seconds. */
  readonly ttl: number;
}

/** Hashes of TSIG that name servers know, by the beginning of their names. */
const HASHES = { 'hmac-sha256': 'sha256', 'hmac-sha384': 'sha384', 'hmac-sha512': 'sha512' } as const;
type Algorithm = keyof typeof HASHES;
const isAlgorithm = (text: string): text is Algorithm => Object.hasOwn(HASHES, text);

export interface TsigKey {
  readonly name: string;
  readonly algorithm: Algorithm;
  readonly secret: Buffer;
}

/**
 * Reads a key: the file that `tsig-keygen` writes, or `[ALGORITHM:]NAME:BASE64` as `nsupdate -y`
 * takes it. Undefined for anything else.
 */
export function readTsigKey(text: string): TsigKey | undefined {
  const file = /^\s*key\s+"?([^\s"{};]+)"?\s*\{([^{}]*)\}\s*;?\s*$/s.exec(text);
  const field = (name: string): string | undefined =>
    new RegExp(`\\b${name}\\s+"?([^\\s";]+)"?\\s*;`).exec(file?.[2] ?? '')?.[1];
  const [secret, name, algorithm = 'hmac-sha256'] = file
    ? [field('secret'), file[1], field('algorithm')]
    : text.trim().split(':').reverse();
  if (secret === undefined || name === undefined || !isAlgorithm(algorithm)) return undefined;
  if (!/^[A-Za-z0-9+/]+={0,2}$/.test(secret) || !/^[A-Za-z0-9._-]{1,253}$/.test(name)) return undefined;
  return { name: name.toLowerCase().replace(/\.$/, ''), algorithm, secret: Buffer.from(secret, 'base64') };
}

const uint16 = (...values: readonly number[]): Buffer => {
  const bytes = Buffer.alloc(2 * values.length);
  values.forEach((value, n) => {
    bytes.writeUInt16BE(value, 2 * n);
  });
  return bytes;
};
const uint32 = (value: number): Buffer => uint16(value >>> 16, value & 0xffff);
/** Seconds as 48 bits. */
const seconds48 = (value: number): Buffer =>
  Buffer.concat([uint16(Math.floor(value / 2 ** 32)), uint32(value % 2 ** 32)]);

/** A name as labels with their lengths. Documents have been checked: labels have 1 to 63 octets. */
function wireName(name: string): Buffer {
  const labels = name === '' ? [] : name.split('.');
  return Buffer.concat([
    ...labels.map((label) => Buffer.concat([Buffer.from([label.length]), Buffer.from(label, 'latin1')])),
    Buffer.from([0]),
  ]);
}

function wireData({ type, data }: NameRecord): Buffer {
  if (type === 'PTR') return wireName(data);
  const address = parseIp(data);
  if (address === undefined) throw new RangeError(`not an address: ${data}`);
  const octets = type === 'A' ? 4 : 16;
  return Buffer.from(address.value.toString(16).padStart(2 * octets, '0'), 'hex');
}

function wireRecord(record: NameRecord, kind: number, ttl: number): Buffer {
  const data = wireData(record);
  return Buffer.concat([
    wireName(record.name),
    uint16(TYPE[record.type], kind),
    uint32(ttl),
    uint16(data.length),
    data,
  ]);
}

/** The update as octets. Removals come first, so that an unchanged record survives in any order. */
export function encodeUpdate({ id, zone, add, remove, ttl }: Update): Buffer {
  const changes = [
    ...remove.map((record) => wireRecord(record, CLASS.NONE, 0)),
    ...add.map((record) => wireRecord(record, CLASS.IN, ttl)),
  ];
  return Buffer.concat([
    uint16(id, UPDATE, 1, 0, changes.length, 0),
    wireName(zone),
    uint16(TYPE.SOA, CLASS.IN),
    ...changes,
  ]);
}

/** What is signed besides the message (RFC 8945 §4.3.3). */
const variables = (
  key: TsigKey,
  { time, fudge, error, other }: Pick<Tsig, 'time' | 'fudge' | 'error' | 'other'>,
): Buffer =>
  Buffer.concat([
    ...[wireName(key.name), uint16(CLASS.ANY), uint32(0), wireName(key.algorithm)],
    ...[seconds48(time), uint16(fudge, error, other.length), other],
  ]);

const macOf = (key: TsigKey, ...parts: readonly Buffer[]): Buffer =>
  createHmac(HASHES[key.algorithm], key.secret).update(Buffer.concat(parts)).digest();

/** The signed message, and its signature, which the answer's signature covers. */
export function sign(message: Buffer, key: TsigKey, time: number): { message: Buffer; mac: Buffer } {
  const mac = macOf(
    key,
    message,
    variables(key, { time, fudge: FUDGE_SECONDS, error: 0, other: Buffer.alloc(0) }),
  );
  const data = Buffer.concat([
    ...[wireName(key.algorithm), seconds48(time), uint16(FUDGE_SECONDS, mac.length), mac],
    uint16(message.readUInt16BE(0), 0, 0),
  ]);
  const signed = Buffer.concat([
    message,
    wireName(key.name),
    uint16(TYPE.TSIG, CLASS.ANY),
    uint32(0),
    uint16(data.length),
    data,
  ]);
  signed.writeUInt16BE(1, 10);
  return { message: signed, mac };
}

const RCODES = [
  ...['NOERROR', 'FORMERR', 'SERVFAIL', 'NXDOMAIN', 'NOTIMP', 'REFUSED'],
  ...['YXDOMAIN', 'YXRRSET', 'NXRRSET', 'NOTAUTH', 'NOTZONE'],
];
const TSIG_ERRORS: Readonly<Record<number, string>> = { 16: 'BADSIG', 17: 'BADKEY', 18: 'BADTIME' };

/** What an answer says: undefined for success, else why not, such as `REFUSED`. */
export type Refusal = string | undefined;

/**
 * Reads the answer to an update. With a key, success counts only if it is signed with that key.
 *
 * @param sent the request's id and, if it was signed, key and signature
 */
export function readAnswer(
  answer: Buffer,
  sent: { readonly id: number; readonly key?: TsigKey | undefined; readonly mac?: Buffer },
): Refusal {
  if (answer.length < HEADER_BYTES || answer.readUInt16BE(0) !== sent.id)
    return 'an answer to something else';
  const word = answer.readUInt16BE(2);
  if ((word & 0x8000) === 0 || ((word >> 11) & 15) !== 5) return 'no answer to an update';
  const tsig = tsigOf(answer);
  const code = word & 15;
  const error = tsig === undefined ? undefined : TSIG_ERRORS[tsig.error];
  if (code !== 0) return [RCODES[code] ?? `code ${code}`, error].filter(Boolean).join(' ');
  if (sent.key === undefined || sent.mac === undefined) return undefined;
  if (tsig === undefined) return 'its answer is not signed';
  const message = Buffer.from(answer.subarray(0, tsig.at));
  message.writeUInt16BE(message.readUInt16BE(10) - 1, 10);
  const wanted = macOf(sent.key, uint16(sent.mac.length), sent.mac, message, variables(sent.key, tsig));
  return tsig.mac.length === wanted.length && timingSafeEqual(tsig.mac, wanted)
    ? undefined
    : 'its answer is signed with another key';
}

interface Tsig {
  /** Where the record begins. */
  readonly at: number;
  /** When it was signed, in seconds since 1970, and how far clocks may be apart. */
  readonly time: number;
  readonly fudge: number;
  readonly mac: Buffer;
  readonly error: number;
  readonly other: Buffer;
}

/** The signature at the end of a message; undefined where there is none that can be read. */
function tsigOf(message: Buffer): Tsig | undefined {
  try {
    let at = HEADER_BYTES;
    for (let n = message.readUInt16BE(4); n > 0; n--) at = afterName(message, at) + 4;
    const records = message.readUInt16BE(6) + message.readUInt16BE(8) + message.readUInt16BE(10);
    for (let n = 1; n <= records; n++) {
      const type = afterName(message, at);
      const data = type + 10;
      const end = data + message.readUInt16BE(type + 8);
      if (n === records && message.readUInt16BE(type) === TYPE.TSIG) return readTsig(message, at, data, end);
      at = end;
    }
  } catch (error) {
    if (!(error instanceof RangeError)) throw error;
  }
  return undefined;
}

function readTsig(message: Buffer, at: number, data: number, end: number): Tsig | undefined {
  const fields = afterName(message, data);
  const time = message.readUIntBE(fields, 6);
  const mac = fields + 10 + message.readUInt16BE(fields + 8);
  const other = mac + 6 + message.readUInt16BE(mac + 4);
  if (other !== end || end !== message.length) return undefined;
  return {
    ...{ at, time, fudge: message.readUInt16BE(fields + 6), error: message.readUInt16BE(mac + 2) },
    mac: message.subarray(fields + 10, mac),
    other: message.subarray(mac + 6, other),
  };
}

/** The offset after a name. A pointer ends a name, so none is followed. */
function afterName(message: Buffer, from: number): number {
  for (let at = from; ; ) {
    const length = message.readUInt8(at);
    if (length >= 0xc0) return at + 2;
    at += 1 + length;
    if (length === 0) return at;
  }
}
