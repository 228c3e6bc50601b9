/**
 * Keys of age: recipients (`age1…`, public) and identities (`AGE-SECRET-KEY-1…`, secret), which are
 * X25519 keys in Bech32 (BIP 173), and the exchange between them (age-encryption.org/v1, recipient
 * type X25519).
 */
import { createPrivateKey, createPublicKey, diffieHellman, generateKeyPairSync, hkdfSync } from 'node:crypto';
import { MusterError } from '../base/errors.ts';

/** The octets of a public key. */
export type Recipient = Buffer & { readonly __age: 'recipient' };
/** The octets of a secret key. */
export type X25519Identity = Buffer & { readonly __age: 'identity' };

const ALPHABET = 'qpzry9x8gf2tvdw0s3jn54khce6mua7l';
const GENERATOR = [0x3b6a57b2, 0x26508e6d, 0x1ea119fa, 0x3d4233dd, 0x2a1462b3] as const;

function polymod(values: readonly number[]): number {
  let sum = 1;
  for (const value of values) {
    const top = sum >>> 25;
    sum = ((sum & 0x1ffffff) << 5) ^ value;
    for (const [bit, part] of GENERATOR.entries()) if ((top >>> bit) & 1) sum ^= part;
  }
  return sum >>> 0;
}

const expanded = (prefix: string): number[] => {
  const codes = Array.from(prefix, (letter) => letter.charCodeAt(0));
  return [...codes.map((code) => code >> 5), 0, ...codes.map((code) => code & 31)];
};

/** Regroups bits; undefined when the rest is not zero padding. */
function regroup(values: Iterable<number>, from: number, to: number, pad: boolean): number[] | undefined {
  const groups: number[] = [];
  let kept = 0;
  let bits = 0;
  for (const value of values) {
    kept = ((kept << from) | value) & 0xfff;
    bits += from;
    while (bits >= to) {
      bits -= to;
      groups.push((kept >> bits) & ((1 << to) - 1));
    }
  }
  const rest = (kept << (to - bits)) & ((1 << to) - 1);
  if (!pad) return bits < from && rest === 0 ? groups : undefined;
  return bits > 0 ? [...groups, rest] : groups;
}

/** Encodes octets in Bech32. */
export function bech32(prefix: string, octets: Uint8Array): string {
  const data = regroup(octets, 8, 5, true)!;
  const sum = polymod([...expanded(prefix), ...data, 0, 0, 0, 0, 0, 0]) ^ 1;
  const check = [25, 20, 15, 10, 5, 0].map((shift) => (sum >>> shift) & 31);
  return `${prefix}1${[...data, ...check].map((value) => ALPHABET[value]).join('')}`;
}

/** Decodes Bech32 with that prefix; undefined when it is not, or was mistyped. */
export function unBech32(prefix: string, text: string): Buffer | undefined {
  if (text !== text.toLowerCase() && text !== text.toUpperCase()) return undefined;
  const lower = text.toLowerCase();
  if (!lower.startsWith(`${prefix}1`) || lower.length > 120) return undefined;
  const values = Array.from(lower.slice(prefix.length + 1), (letter) => ALPHABET.indexOf(letter));
  if (values.length < 6 || values.includes(-1)) return undefined;
  if (polymod([...expanded(prefix), ...values]) !== 1) return undefined;
  const octets = regroup(values.slice(0, -6), 5, 8, false);
  return octets && Buffer.from(octets);
}

/**
 * Reads a recipient, `age1…`.
 *
 * @throws {MusterError} E_USAGE when it is not one, or was mistyped
 */
export function readRecipient(text: string): Recipient {
  const octets = unBech32('age', text.trim());
  if (octets?.length !== 32)
    throw new MusterError(
      'E_USAGE',
      `"${text.slice(0, 80)}" is not a recipient of age; write one that \`age-keygen\` prints: age1…`,
    );
  return octets as Recipient;
}

/**
 * Reads the identities of a file that `age-keygen` wrote; other lines are comments.
 *
 * @throws {MusterError} E_USAGE when there is none; the text itself is not shown
 */
export function readIdentities(text: string): readonly X25519Identity[] {
  const found = text.split('\n').flatMap((line) => {
    const octets = unBech32('age-secret-key-', line.trim());
    return octets?.length === 32 ? [octets as X25519Identity] : [];
  });
  if (found.length === 0)
    throw new MusterError('E_USAGE', 'the file holds no identity of age (AGE-SECRET-KEY-1…)');
  return found;
}

/** PKCS #8 and SubjectPublicKeyInfo of X25519 up to the key's octets (RFC 8410). */
const PKCS8 = Buffer.from('302e020100300506032b656e04220420', 'hex');
const SPKI = Buffer.from('302a300506032b656e032100', 'hex');

const publicKeyOf = (octets: Uint8Array) =>
  createPublicKey({ key: Buffer.concat([SPKI, octets]), format: 'der', type: 'spki' });
const privateKeyOf = (octets: Uint8Array) =>
  createPrivateKey({ key: Buffer.concat([PKCS8, octets]), format: 'der', type: 'pkcs8' });
const shareOf = (key: ReturnType<typeof createPublicKey>): Buffer =>
  key.export({ format: 'der', type: 'spki' }).subarray(-32);

const wrapping = (secret: Buffer, share: Buffer, recipient: Buffer): Buffer =>
  Buffer.from(
    hkdfSync('sha256', secret, Buffer.concat([share, recipient]), 'age-encryption.org/v1/X25519', 32),
  );

/** Makes a key that `recipient` can derive from `share`. */
export function sharedWith(recipient: Recipient): { readonly share: Buffer; readonly secret: Buffer } {
  const { publicKey, privateKey } = generateKeyPairSync('x25519');
  const share = shareOf(publicKey);
  const secret = diffieHellman({ privateKey, publicKey: publicKeyOf(recipient) });
  return { share, secret: wrapping(secret, share, recipient) };
}

/** Derives the key of {@link sharedWith}. Throws for a share that is no point. */
export function unwrapping(identity: X25519Identity, share: Buffer): Buffer {
  const privateKey = privateKeyOf(identity);
  const own = shareOf(createPublicKey(privateKey));
  return wrapping(diffieHellman({ privateKey, publicKey: publicKeyOf(share) }), share, own);
}
