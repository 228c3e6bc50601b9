/**
 * Reads the public area of a TPM 2.0 object, strictly: TPM2B_PUBLIC of the TPM 2.0 Library
 * Specification, Part 2 (12.2.5), for RSA and elliptic curves. Lengths must fit exactly, and
 * algorithms that this file does not list are refused.
 */
import { createHash } from 'node:crypto';
import { ByteReader, ShortInput } from '../../base/bytes.ts';

/** The longest public area that is read, in octets: RSA-4096 with a policy takes 570. */
export const PUBLIC_AREA_LIMIT = 1024;

/** TPM_ALG_ID (Part 2, 6.3), as far as they are used here. */
export const ALG = {
  rsa: 0x0001,
  aes: 0x0006,
  sha256: 0x000b,
  null: 0x0010,
  rsassa: 0x0014,
  rsaes: 0x0015,
  rsapss: 0x0016,
  oaep: 0x0017,
  ecdsa: 0x0018,
  ecdh: 0x0019,
  ecc: 0x0023,
  cfb: 0x0043,
} as const;

/** TPM_ECC_CURVE (Part 2, 6.4). */
export const P256 = 0x0003;

/** TPMA_OBJECT (Part 2, 8.3). */
export const ATTRIBUTE = {
  fixedTpm: 1 << 1,
  stClear: 1 << 2,
  fixedParent: 1 << 4,
  sensitiveDataOrigin: 1 << 5,
  userWithAuth: 1 << 6,
  adminWithPolicy: 1 << 7,
  noDictionaryAttack: 1 << 10,
  encryptedDuplication: 1 << 11,
  restricted: 1 << 16,
  decrypt: 1 << 17,
  sign: 1 << 18,
} as const;

/** A symmetric algorithm with its key's bits and its mode. */
interface Symmetric {
  readonly algorithm: number;
  readonly bits: number;
  readonly mode: number;
}

/** A scheme or key derivation with its digest. */
interface Scheme {
  readonly algorithm: number;
  /** Absent where the scheme has none. */
  readonly hash?: number;
}

interface Common {
  /** The algorithm of the object's name. */
  readonly nameAlgorithm: number;
  readonly attributes: number;
  readonly policy: Buffer;
  /** Absent: TPM_ALG_NULL. */
  readonly symmetric: Symmetric | undefined;
  /** Absent: TPM_ALG_NULL. */
  readonly scheme: Scheme | undefined;
  /** TPMT_PUBLIC: the octets without their length, over which the name is computed. */
  readonly octets: Buffer;
}

export interface RsaPublicArea extends Common {
  readonly type: 'rsa';
  readonly bits: number;
  /** 0 stands for 65537. */
  readonly exponent: number;
  readonly modulus: Buffer;
}

export interface EccPublicArea extends Common {
  readonly type: 'ecc';
  readonly curve: number;
  /** Absent: TPM_ALG_NULL. */
  readonly kdf: Scheme | undefined;
  readonly x: Buffer;
  readonly y: Buffer;
}

export type PublicArea = RsaPublicArea | EccPublicArea;

type PublicAreaResult =
  | { readonly ok: true; readonly area: PublicArea }
  | { readonly ok: false; readonly text: string };

/** Thrown inside this file when octets are no public area; {@link readPublicArea} catches it. */
class NotPublicArea extends Error {}

/** Reads a TPM2B_PUBLIC that fills `octets` exactly. Never throws. */
export function readPublicArea(octets: Uint8Array): PublicAreaResult {
  if (octets.length > PUBLIC_AREA_LIMIT)
    return { ok: false, text: `a public area of more than ${PUBLIC_AREA_LIMIT} octets` };
  try {
    return { ok: true, area: publicArea(new ByteReader(octets)) };
  } catch (error) {
    if (error instanceof NotPublicArea || error instanceof ShortInput)
      return { ok: false, text: error.message };
    throw error;
  }
}

function publicArea(outside: ByteReader): PublicArea {
  const whole = sized(outside, PUBLIC_AREA_LIMIT, 'public area');
  end(outside);
  const reader = new ByteReader(whole);
  const type = reader.uint16();
  const nameAlgorithm = reader.uint16();
  const attributes = reader.uint32();
  const policy = Buffer.from(sized(reader, 64, 'policy'));
  const symmetric = readSymmetric(reader);
  const scheme = readScheme(reader);
  const common = { nameAlgorithm, attributes, policy, symmetric, scheme, octets: Buffer.from(whole) };
  if (type === ALG.rsa) {
    const bits = reader.uint16();
    const exponent = reader.uint32();
    const modulus = Buffer.from(sized(reader, 512, 'modulus'));
    end(reader);
    return { type: 'rsa', ...common, bits, exponent, modulus };
  }
  if (type !== ALG.ecc) throw new NotPublicArea(`an object of type ${type}, which is neither RSA nor ECC`);
  const curve = reader.uint16();
  const kdf = readScheme(reader);
  const x = Buffer.from(sized(reader, 66, 'coordinate'));
  const y = Buffer.from(sized(reader, 66, 'coordinate'));
  end(reader);
  return { type: 'ecc', ...common, curve, kdf, x, y };
}

/** Reads a field that begins with its length. */
function sized(reader: ByteReader, most: number, what: string): Buffer {
  const length = reader.uint16();
  if (length > most) throw new NotPublicArea(`a ${what} of ${length} octets; at most ${most} are taken`);
  return reader.bytes(length);
}

function end(reader: ByteReader): void {
  if (reader.left > 0) throw new NotPublicArea(`${reader.left} octets after the end`);
}

/** TPMT_SYM_DEF_OBJECT. */
function readSymmetric(reader: ByteReader): Symmetric | undefined {
  const algorithm = reader.uint16();
  if (algorithm === ALG.null) return undefined;
  if (algorithm !== ALG.aes) throw new NotPublicArea(`symmetric algorithm ${algorithm}, which is not AES`);
  return { algorithm, bits: reader.uint16(), mode: reader.uint16() };
}

const WITH_HASH: readonly number[] = [ALG.rsassa, ALG.rsapss, ALG.oaep, ALG.ecdsa, ALG.ecdh];

/** TPMT_RSA_SCHEME, TPMT_ECC_SCHEME, TPMT_KDF_SCHEME. */
function readScheme(reader: ByteReader): Scheme | undefined {
  const algorithm = reader.uint16();
  if (algorithm === ALG.null) return undefined;
  if (algorithm === ALG.rsaes) return { algorithm };
  if (!WITH_HASH.includes(algorithm)) throw new NotPublicArea(`scheme ${algorithm}, which is not known`);
  return { algorithm, hash: reader.uint16() };
}

/**
 * The Name of an object whose name algorithm is SHA-256: the algorithm and the digest over its
 * public area (Part 1, 16). A TPM names a loaded object so, and nothing else has this name.
 */
export const nameOf = (area: PublicArea): Buffer =>
  Buffer.concat([Buffer.from([0, ALG.sha256]), createHash('sha256').update(area.octets).digest()]);
