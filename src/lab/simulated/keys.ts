/**
 * Makes a machine's keys and certificate requests (RFC 2986) without starting a program for each.
 */
import { createHash, createPublicKey, generateKeyPairSync, type KeyObject, sign } from 'node:crypto';
import { element, TAG } from '../../pki/der.ts';
import { formatPem } from '../../pki/pem.ts';

const VERSION = Buffer.from([0x02, 0x01, 0x00]);
const COMMON_NAME = Buffer.from([0x06, 0x03, 0x55, 0x04, 0x03]);
const UTF8 = 0x0c;
const ECDSA_SHA256 = Buffer.from('300a06082a8648ce3d040302', 'hex');
const RSA_SHA256 = Buffer.from('300d06092a864886f70d01010b0500', 'hex');
const NO_ATTRIBUTES = Buffer.from([TAG.context0, 0x00]);
const NO_UNUSED_BITS = Buffer.from([0]);

export class MachineKey {
  readonly #key: KeyObject;
  readonly #spki: Buffer;

  constructor() {
    this.#key = generateKeyPairSync('ec', { namedCurve: 'P-256' }).privateKey;
    this.#spki = createPublicKey(this.#key).export({ type: 'spki', format: 'der' });
  }

  /** SEC1, as the agent's openssl writes it. */
  get pem(): string {
    return String(this.#key.export({ type: 'sec1', format: 'pem' }));
  }

  get publicPem(): string {
    return String(createPublicKey(this.#key).export({ type: 'spki', format: 'pem' }));
  }

  /** SHA-256 over the SubjectPublicKeyInfo. */
  get pin(): string {
    return createHash('sha256').update(this.#spki).digest('hex');
  }

  /** See {@link requestText}. */
  request(name: string): string {
    return requestText(this.#key, name);
  }
}

/** PEM of a certificate request with a P-256 or RSA key and the subject `name`. */
export function requestText(key: KeyObject, name: string): string {
  const subject = element(
    TAG.sequence,
    element(TAG.set, element(TAG.sequence, COMMON_NAME, element(UTF8, Buffer.from(name, 'utf8')))),
  );
  const spki = createPublicKey(key).export({ type: 'spki', format: 'der' });
  const info = element(TAG.sequence, VERSION, subject, spki, NO_ATTRIBUTES);
  const algorithm = key.asymmetricKeyType === 'rsa' ? RSA_SHA256 : ECDSA_SHA256;
  const signature = element(TAG.bits, NO_UNUSED_BITS, sign('sha256', info, key));
  return formatPem({
    label: 'CERTIFICATE REQUEST',
    octets: element(TAG.sequence, info, algorithm, signature),
  });
}
