/**
 * Reads a machine's certificate request, PKCS#10 (RFC 2986). Only its public key is used, and only
 * after the request's own signature proved that the machine holds the private key. Subject, names
 * and extensions are ignored: the server chooses them. For requests that a cluster signs,
 * csr-names.ts reads the names.
 */
import { createPublicKey, type KeyObject, verify } from 'node:crypto';
import { DerReader, type NotDer, TAG } from './der.ts';
import { keyWeakness, PublicKey } from './keys.ts';
import { parsePem } from './pem.ts';

/** The largest text of a request, in octets. RSA-8192 with a dozen names takes 3 KiB. */
export const CSR_LIMIT = 16 * 1024;

type CsrRefusal = 'too-large' | 'not-pem' | 'malformed' | 'weak-key' | 'signature';

type CsrResult =
  | { readonly ok: true; readonly publicKey: PublicKey }
  | { readonly ok: false; readonly reason: CsrRefusal; readonly text: string };

const refuse = (reason: CsrRefusal, text: string): CsrResult => ({ ok: false, reason, text });

/**
 * Signature algorithms by OID, with the key type and digest that each needs. PKCS#1 v1.5 and ECDSA
 * with SHA-2; no SHA-1, no PSS.
 */
const SIGNATURES: Readonly<Record<string, { readonly type: 'rsa' | 'ec'; readonly digest: string }>> = {
  '2a864886f70d01010b': { type: 'rsa', digest: 'sha256' },
  '2a864886f70d01010c': { type: 'rsa', digest: 'sha384' },
  '2a864886f70d01010d': { type: 'rsa', digest: 'sha512' },
  '2a8648ce3d040302': { type: 'ec', digest: 'sha256' },
  '2a8648ce3d040303': { type: 'ec', digest: 'sha384' },
  '2a8648ce3d040304': { type: 'ec', digest: 'sha512' },
};

/** The public key that a request proves, or why it proves none. Never throws. */
export function readCsr(text: string): CsrResult {
  if (text.length > CSR_LIMIT) return refuse('too-large', `more than ${CSR_LIMIT} octets`);
  const octets = csrOctets(text);
  if (octets === undefined) return refuse('not-pem', 'not exactly one certificate request in PEM');
  let parts: CsrParts;
  let key: KeyObject;
  try {
    parts = csrParts(octets);
    key = createPublicKey({ key: parts.spki, format: 'der', type: 'spki' });
  } catch (error) {
    return refuse('malformed', error instanceof Error ? (error as NotDer).message : 'malformed');
  }
  const weakness = keyWeakness(key);
  if (weakness !== undefined) return refuse('weak-key', `a key ${weakness}`);
  const algorithm = SIGNATURES[parts.algorithm];
  if (algorithm === undefined || algorithm.type !== key.asymmetricKeyType)
    return refuse('signature', 'signed by an algorithm that is not taken');
  let good = false;
  try {
    good = verify(algorithm.digest, parts.signed, key, parts.signature);
  } catch {
    good = false;
  }
  return good
    ? { ok: true, publicKey: new PublicKey(key) }
    : refuse('signature', 'the signature is not of the key in the request');
}

/** The DER of a text that is exactly one request in PEM; undefined for anything else. */
export function csrOctets(text: string): Buffer | undefined {
  const blocks = parsePem(text);
  const label = blocks?.[0]?.label;
  const isOne =
    blocks?.length === 1 && (label === 'CERTIFICATE REQUEST' || label === 'NEW CERTIFICATE REQUEST');
  return isOne ? blocks[0]!.octets : undefined;
}

/** The parts of a request, none of them read yet. */
interface CsrParts {
  readonly version: Buffer;
  /** The elements of the Name. */
  readonly subject: Buffer;
  readonly spki: Buffer;
  /** The elements of the SET, if there is one. */
  readonly attributes: Buffer;
  readonly signed: Buffer;
  /** OID in hexadecimal. */
  readonly algorithm: string;
  readonly signature: Buffer;
}

const NONE = Buffer.alloc(0);

/**
 * CertificationRequest ::= SEQUENCE { info, signatureAlgorithm, signature }; info ::= { version,
 * subject, spki, [0] attributes }.
 *
 * @throws {NotDer | ShortInput | RangeError} when the octets are not a request in DER.
 */
export function csrParts(octets: Buffer): CsrParts {
  const outside = new DerReader(octets);
  const request = new DerReader(outside.next(TAG.sequence).body);
  outside.end();
  const info = request.next(TAG.sequence);
  const fields = new DerReader(info.body);
  const version = fields.next(TAG.integer).body;
  const subject = fields.next(TAG.sequence).body;
  const spki = fields.next(TAG.sequence).whole;
  const attributes = fields.done ? NONE : fields.next(TAG.context0).body;
  fields.end();
  const algorithm = new DerReader(request.next(TAG.sequence).body).next(TAG.oid).body.toString('hex');
  const bits = request.next(TAG.bits).body;
  request.end();
  if (bits.length < 2 || bits[0] !== 0) throw new RangeError('a signature that is not of whole octets');
  return {
    version,
    subject,
    spki,
    attributes,
    signed: info.whole,
    algorithm,
    signature: bits.subarray(1),
  };
}
