/**
 * Reads the names that a PKCS#10 request (RFC 2986) asks for: subject, alternative names, usages.
 * Used for requests that a cluster signs itself: the names are compared with what is known about
 * the node. csr.ts checks the request's own signature.
 */
import { ShortInput } from '../base/bytes.ts';
import { formatIp } from '../base/ip.ts';
import { CSR_LIMIT, csrOctets, csrParts } from './csr.ts';
import { DerReader, NotDer, TAG } from './der.ts';

export interface AskedNames {
  /** In the order of the request; a subject may have several. */
  readonly commonNames: readonly string[];
  readonly organizations: readonly string[];
  readonly dns: readonly string[];
  /** IPv4 and IPv6 addresses, in canonical form. */
  readonly ips: readonly string[];
  readonly emails: readonly string[];
  readonly uris: readonly string[];
  /** keyUsage and extKeyUsage in Kubernetes' words; others as their OID, or `bit N`. */
  readonly usages: readonly string[];
  /**
   * Everything else in the request, each named: other parts of the subject, other kinds of names,
   * extensions and attributes by OID.
   */
  readonly others: readonly string[];
}

type AskedResult =
  | { readonly ok: true; readonly asked: AskedNames }
  | { readonly ok: false; readonly text: string };

type Mutable = { -readonly [field in keyof AskedNames]: string[] };

const OID = {
  commonName: '2.5.4.3',
  organization: '2.5.4.10',
  extensionRequest: '1.2.840.113549.1.9.14',
  keyUsage: '2.5.29.15',
  alternativeNames: '2.5.29.17',
  extendedKeyUsage: '2.5.29.37',
} as const;

/** By bit (RFC 5280, 4.2.1.3), in the words of `spec.usages` of a CertificateSigningRequest. */
const KEY_USAGES = [
  'digital signature',
  'content commitment',
  'key encipherment',
  'data encipherment',
  'key agreement',
  'cert sign',
  'crl sign',
  'encipher only',
  'decipher only',
] as const;

const EXTENDED_USAGES: Readonly<Record<string, string>> = {
  '2.5.29.37.0': 'any',
  '1.3.6.1.5.5.7.3.1': 'server auth',
  '1.3.6.1.5.5.7.3.2': 'client auth',
  '1.3.6.1.5.5.7.3.3': 'code signing',
  '1.3.6.1.5.5.7.3.4': 'email protection',
  '1.3.6.1.5.5.7.3.8': 'timestamping',
  '1.3.6.1.5.5.7.3.9': 'ocsp signing',
};

/**
 * Reads what one request in PEM asks for, or says why it cannot be read. Strict: an encoding that
 * other programs read in two ways is refused. Never throws.
 */
export function readAskedNames(text: string): AskedResult {
  const octets = text.length > CSR_LIMIT ? undefined : csrOctets(text);
  if (octets === undefined) return { ok: false, text: 'not exactly one certificate request in PEM' };
  try {
    const { version, subject, attributes } = csrParts(octets);
    if (version.length !== 1 || version[0] !== 0) throw new NotDer('a version other than 1');
    const asked: Mutable = {
      commonNames: [],
      organizations: [],
      dns: [],
      ips: [],
      emails: [],
      uris: [],
      usages: [],
      others: [],
    };
    readSubject(subject, asked);
    readAttributes(attributes, asked);
    return { ok: true, asked };
  } catch (error) {
    if (error instanceof NotDer || error instanceof ShortInput || error instanceof RangeError)
      return { ok: false, text: error.message };
    throw error;
  }
}

/** The elements of a value, each read by `read`. */
function* elements<T>(octets: Buffer, read: (reader: DerReader) => T): Generator<T> {
  for (const reader = new DerReader(octets); !reader.done; ) yield read(reader);
}

/** Name ::= SEQUENCE OF SET SIZE (1..) OF SEQUENCE { type, value }. */
function readSubject(octets: Buffer, asked: Mutable): void {
  for (const names of elements(octets, (reader) => reader.next(TAG.set).body)) {
    if (names.length === 0) throw new NotDer('a part of the subject with nothing in it');
    for (const pair of elements(names, (reader) => new DerReader(reader.next(TAG.sequence).body))) {
      const type = oidOf(pair.next(TAG.oid).body);
      if (type === OID.commonName) asked.commonNames.push(stringOf(pair));
      else if (type === OID.organization) asked.organizations.push(stringOf(pair));
      else {
        asked.others.push(`${type} in the subject`);
        pair.next(pair.tag ?? 0);
      }
      pair.end();
    }
  }
}

/**
 * Attributes ::= SET OF SEQUENCE { type, values SET }. Only extensionRequest is read, which holds
 * one list of extensions (RFC 2985, 5.4.2).
 */
function readAttributes(octets: Buffer, asked: Mutable): void {
  let requests = 0;
  for (const attribute of elements(octets, (reader) => new DerReader(reader.next(TAG.sequence).body))) {
    const type = oidOf(attribute.next(TAG.oid).body);
    const values = new DerReader(attribute.next(TAG.set).body);
    attribute.end();
    if (type !== OID.extensionRequest) {
      asked.others.push(`attribute ${type}`);
      continue;
    }
    if (++requests > 1) throw new NotDer('two lists of extensions');
    readExtensions(values.next(TAG.sequence).body, asked);
    values.end();
  }
}

/**
 * Extensions ::= SEQUENCE OF SEQUENCE { id, critical BOOLEAN DEFAULT FALSE, value OCTET STRING }.
 */
function readExtensions(octets: Buffer, asked: Mutable): void {
  const seen = new Set<string>();
  for (const extension of elements(octets, (reader) => new DerReader(reader.next(TAG.sequence).body))) {
    const id = oidOf(extension.next(TAG.oid).body);
    if (seen.has(id)) throw new NotDer(`the extension ${id} twice`);
    seen.add(id);
    if (extension.tag === TAG.boolean) {
      const { body } = extension.next(TAG.boolean);
      if (body.length !== 1 || body[0] !== 0xff)
        throw new NotDer('a BOOLEAN that is not encoded as DER requires');
    }
    const value = new DerReader(extension.next(TAG.octets).body);
    extension.end();
    if (id === OID.alternativeNames) readAlternativeNames(value.next(TAG.sequence).body, asked);
    else if (id === OID.keyUsage) asked.usages.push(...keyUsagesOf(value.next(TAG.bits).body));
    else if (id === OID.extendedKeyUsage) {
      const usages = elements(value.next(TAG.sequence).body, (reader) => oidOf(reader.next(TAG.oid).body));
      asked.usages.push(...[...usages].map((usage) => EXTENDED_USAGES[usage] ?? usage));
    } else {
      asked.others.push(`extension ${id}`);
      continue;
    }
    value.end();
  }
}

/** The choices of GeneralName (RFC 5280, 4.2.1.6) that are read, by tag. */
const GENERAL_NAMES: Readonly<Record<number, 'emails' | 'dns' | 'uris' | 'ips'>> = {
  129: 'emails',
  130: 'dns',
  134: 'uris',
  135: 'ips',
};
/** The choices that are only named in `others`, by tag. */
const OTHER_NAMES: Readonly<Record<number, string>> = {
  160: 'another kind of name',
  163: 'an X.400 address',
  164: 'a directory name',
  165: 'an EDI party name',
  136: 'a registered OID',
};

function readAlternativeNames(octets: Buffer, asked: Mutable): void {
  for (const { tag, body } of elements(octets, (reader) => reader.next(reader.tag ?? 0))) {
    const field = GENERAL_NAMES[tag];
    const other = OTHER_NAMES[tag];
    if (field === 'ips') asked.ips.push(addressOf(body));
    else if (field !== undefined) asked[field].push(ascii(body));
    else if (other !== undefined) asked.others.push(other);
    else throw new NotDer(`a name with tag ${tag}`);
  }
}

function addressOf(octets: Buffer): string {
  if (octets.length !== 4 && octets.length !== 16) throw new NotDer(`an address of ${octets.length} octets`);
  const value = BigInt(`0x${octets.toString('hex')}`);
  return formatIp({ family: octets.length === 4 ? 4 : 6, value });
}

/**
 * Bits count from the left. No unused bit may be set, and the last used bit must be (X.690, 11.2).
 */
function keyUsagesOf(bits: Buffer): string[] {
  const [unused = 8, ...octets] = bits;
  const last = octets.at(-1);
  if (unused > 7 || (last === undefined ? unused !== 0 : (last & ((2 << unused) - 1)) !== 1 << unused))
    throw new NotDer('a BIT STRING that is not encoded as DER requires');
  return octets.flatMap((octet, n) =>
    Array.from({ length: 8 }, (_, bit) => n * 8 + bit)
      .filter((bit) => octet & (0x80 >> (bit % 8)))
      .map((bit) => KEY_USAGES[bit] ?? `bit ${bit}`),
  );
}

/** An OID in dotted form. Each part is minimal and has at most 31 bits, as in Go. */
function oidOf(octets: Buffer): string {
  const parts: number[] = [];
  let value = 0;
  let fresh = true;
  for (const octet of octets) {
    if (fresh && octet === 0x80) throw new NotDer('an OID with a part that could be shorter');
    if (value >= 2 ** 24) throw new NotDer('an OID with a part that is too large');
    value = value * 128 + (octet & 0x7f);
    fresh = octet < 0x80;
    if (!fresh) continue;
    parts.push(value);
    value = 0;
  }
  const [first, ...rest] = parts;
  if (first === undefined || !fresh) throw new NotDer('an OID that ends too early');
  const root = Math.min(2, Math.floor(first / 40));
  return [root, first - root * 40, ...rest].join('.');
}

const UTF8 = new TextDecoder('utf-8', { fatal: true, ignoreBOM: true });

function ascii(octets: Buffer): string {
  if (octets.some((octet) => octet > 0x7f)) throw new NotDer('an octet that is not ASCII');
  return octets.toString('latin1');
}

/**
 * Reads UTF8, numeric, printable and IA5 strings, T61 that is ASCII, and BMP: the types that Go's
 * X.509 reads as text.
 */
function stringOf(reader: DerReader): string {
  const tag = reader.tag ?? 0;
  const { body } = reader.next(tag);
  switch (tag) {
    case 0x0c:
      return utf8(body);
    case 0x12:
    case 0x13:
    case 0x14:
    case 0x16:
      return ascii(body);
    case 0x1e:
      return bmp(body);
    default:
      throw new NotDer(`a text with tag ${tag}`);
  }
}

function utf8(octets: Buffer): string {
  try {
    return UTF8.decode(octets);
  } catch {
    throw new NotDer('a text that is not UTF-8');
  }
}

/** UCS-2. A trailing NUL is dropped, as in Go. */
function bmp(octets: Buffer): string {
  if (octets.length % 2 !== 0) throw new NotDer('a text of half a character');
  const text = Buffer.from(octets).swap16().toString('utf16le');
  return text.endsWith('\0') ? text.slice(0, -1) : text;
}
