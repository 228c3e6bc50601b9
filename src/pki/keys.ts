/**
 * Key pairs. A private key cannot be printed by accident: only `pem()` returns its text.
 */
import { createHash, createPrivateKey, createPublicKey, generateKeyPair, type KeyObject } from 'node:crypto';
import { promisify } from 'node:util';
import { MusterError } from '../base/errors.ts';

const generatePair = promisify(generateKeyPair);

/**
 * Algorithms by kubeadm's names (v1beta4 `encryptionAlgorithm`). The first is the default: an
 * RSA-2048 key takes a thousand times longer to make.
 */
export const KEY_ALGORITHMS = ['ECDSA-P256', 'RSA-2048', 'RSA-3072', 'RSA-4096'] as const;
export type KeyAlgorithm = (typeof KEY_ALGORITHMS)[number];

export const REDACTED = '[private key]';

/** A private key, RSA or ECDSA. Printing it in any way shows {@link REDACTED}. */
export class PrivateKey {
  readonly #key: KeyObject;

  private constructor(key: KeyObject) {
    this.#key = key;
  }

  /** Makes a new key. */
  static async generate(algorithm: KeyAlgorithm = 'ECDSA-P256'): Promise<PrivateKey> {
    const { privateKey } =
      algorithm === 'ECDSA-P256'
        ? await generatePair('ec', { namedCurve: 'P-256' })
        : await generatePair('rsa', { modulusLength: Number(algorithm.slice(4)), publicExponent: 65537 });
    return new PrivateKey(privateKey);
  }

  /**
   * Reads PKCS#8, SEC1 or PKCS#1.
   *
   * @throws {MusterError} E_PKI when the text is no such key or the key is weak ({@link
   *   keyWeakness}); the message does not contain the text.
   */
  static fromPem(pem: string): PrivateKey {
    if (/^-----BEGIN ENCRYPTED |^Proc-Type: 4,ENCRYPTED/m.test(pem))
      throw new MusterError(
        'E_PKI',
        'a private key that is encrypted by a passphrase; decrypt it first (openssl pkey)',
      );
    let key: KeyObject;
    try {
      key = createPrivateKey(pem);
    } catch {
      throw new MusterError('E_PKI', 'not a private key in PEM');
    }
    const weakness = keyWeakness(key);
    if (weakness !== undefined) throw new MusterError('E_PKI', `a private key that is ${weakness}`);
    return new PrivateKey(key);
  }

  get isRsa(): boolean {
    return this.#key.asymmetricKeyType === 'rsa';
  }

  /**
   * The key's text, as kubeadm writes it: `EC PRIVATE KEY` (SEC1) or `RSA PRIVATE KEY` (PKCS#1).
   * Nothing else returns it.
   */
  pem(): string {
    return String(this.#key.export({ type: this.isRsa ? 'pkcs1' : 'sec1', format: 'pem' }));
  }

  publicKey(): PublicKey {
    return new PublicKey(createPublicKey(this.#key));
  }

  /** The key for Node's crypto functions; inspecting it shows nothing secret. */
  get object(): KeyObject {
    return this.#key;
  }

  toJSON(): string {
    return REDACTED;
  }

  toString(): string {
    return REDACTED;
  }

  [Symbol.for('nodejs.util.inspect.custom')](): string {
    return REDACTED;
  }
}

/** A public key, RSA or ECDSA. */
export class PublicKey {
  readonly #key: KeyObject;
  /** DER of the SubjectPublicKeyInfo. */
  readonly spki: Buffer;

  constructor(key: KeyObject) {
    this.#key = key;
    this.spki = key.export({ type: 'spki', format: 'der' });
  }

  /**
   * Reads a public key in PEM.
   *
   * @throws {MusterError} E_PKI when the text is no such key.
   */
  static fromPem(pem: string): PublicKey {
    try {
      return new PublicKey(createPublicKey(pem));
    } catch {
      throw new MusterError('E_PKI', 'not a public key in PEM');
    }
  }

  /** The algorithm for another key like this one; for a size that is not made here, the next. */
  get algorithm(): KeyAlgorithm {
    if (this.#key.asymmetricKeyType !== 'rsa') return 'ECDSA-P256';
    const bits = this.#key.asymmetricKeyDetails?.modulusLength ?? 0;
    return bits <= 2048 ? 'RSA-2048' : bits <= 3072 ? 'RSA-3072' : 'RSA-4096';
  }

  /**
   * Reads a SubjectPublicKeyInfo in DER, which costs less than PEM.
   *
   * @throws {MusterError} E_PKI when the octets are no such key.
   */
  static fromSpki(key: Buffer): PublicKey {
    try {
      return new PublicKey(createPublicKey({ key, format: 'der', type: 'spki' }));
    } catch {
      throw new MusterError('E_PKI', 'not a public key in DER');
    }
  }

  /** As kubeadm writes `sa.pub`: PKIX. */
  pem(): string {
    return String(this.#key.export({ type: 'spki', format: 'pem' }));
  }

  get object(): KeyObject {
    return this.#key;
  }

  /**
   * SHA-256 of the SubjectPublicKeyInfo in hexadecimal, which kubeadm's discovery hash contains.
   */
  pin(): string {
    return createHash('sha256').update(this.spki).digest('hex');
  }

  toJSON(): string {
    return this.pem();
  }
}

/** The form of kubeadm's `--discovery-token-ca-cert-hash`; curl's pinning uses the same hash. */
export const discoveryHash = (key: PublicKey): string => `sha256:${key.pin()}`;

/**
 * Why a key is refused, or undefined. Accepted are RSA from 2048 to 8192 bits (a larger key costs
 * the server seconds per check) with exponent 65537, and the curves P-256 and P-384. Kubernetes and
 * etcd support Ed25519 only in part, so it is refused too.
 */
export function keyWeakness(key: KeyObject): string | undefined {
  const details = key.asymmetricKeyDetails ?? {};
  switch (key.asymmetricKeyType) {
    case 'rsa': {
      const bits = details.modulusLength ?? 0;
      if (bits < 2048) return `RSA of ${bits} bits; at least 2048 are needed`;
      if (bits > 8192) return `RSA of ${bits} bits; at most 8192 are taken`;
      return details.publicExponent === 65537n ? undefined : 'RSA with an exponent other than 65537';
    }
    case 'ec':
      return details.namedCurve === 'prime256v1' || details.namedCurve === 'secp384r1'
        ? undefined
        : `on the curve ${details.namedCurve ?? 'without a name'}; P-256 and P-384 are taken`;
    default:
      return `of type ${key.asymmetricKeyType ?? 'unknown'}; RSA and ECDSA are taken`;
  }
}
