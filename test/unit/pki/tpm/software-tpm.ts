/**
 * What a TPM does with a credential, in software: an endorsement key whose private part is at hand,
 * and TPM2_ActivateCredential. An attacker without a TPM has as much.
 */
import {
  constants,
  createDecipheriv,
  createECDH,
  createHash,
  createHmac,
  createPrivateKey,
  generateKeyPairSync,
  type KeyObject,
  privateDecrypt,
} from 'node:crypto';
import { kdfa, kdfe } from '../../../../src/pki/tpm/credential.ts';

const field = (octets: Buffer): Buffer => {
  const length = Buffer.alloc(2);
  length.writeUInt16BE(octets.length);
  return Buffer.concat([length, octets]);
};
const uint16 = (...values: readonly number[]): Buffer =>
  Buffer.concat(values.map((value) => Buffer.of(value >> 8, value & 255)));
const uint32 = (value: number): Buffer => {
  const octets = Buffer.alloc(4);
  octets.writeUInt32BE(value >>> 0);
  return octets;
};

const POLICY = Buffer.from('837197674484b3f81a90cc8d46a5d724fd52d76e06520b64f2a1da1b331469aa', 'hex');
/** fixedTPM, fixedParent, sensitiveDataOrigin, adminWithPolicy, restricted, decrypt. */
export const EK_ATTRIBUTES = 0x0003_00b2;
/** fixedTPM, fixedParent, sensitiveDataOrigin, userWithAuth, restricted, sign. */
export const AK_ATTRIBUTES = 0x0005_0072;

export interface SoftwareTpm {
  readonly algorithm: 'rsa' | 'ecc';
  readonly privateKey: KeyObject;
  /** TPM2B_PUBLIC. */
  readonly ek: Buffer;
  readonly ak: Buffer;
}

const coordinates = (key: KeyObject): readonly [Buffer, Buffer] => {
  const { x, y } = key.export({ format: 'jwk' });
  return [Buffer.from(x!, 'base64url'), Buffer.from(y!, 'base64url')];
};

/** A new endorsement key and an attestation key with the attributes of a real one. */
export function softwareTpm(
  algorithm: 'rsa' | 'ecc' = 'ecc',
  { attributes = EK_ATTRIBUTES } = {},
): SoftwareTpm {
  const { privateKey, publicKey } =
    algorithm === 'rsa'
      ? generateKeyPairSync('rsa', { modulusLength: 2048 })
      : generateKeyPairSync('ec', { namedCurve: 'P-256' });
  return { algorithm, privateKey, ek: endorsementArea(publicKey, { attributes }), ak: attestationArea() };
}

export function endorsementArea(
  key: KeyObject,
  { attributes = EK_ATTRIBUTES, policy = POLICY, bits = 128 } = {},
): Buffer {
  const isRsa = key.asymmetricKeyType === 'rsa';
  const head = [
    uint16(isRsa ? 1 : 0x23, 0xb),
    uint32(attributes),
    field(policy),
    uint16(6, bits, 0x43, 0x10),
  ];
  const rest = isRsa
    ? [uint16(2048), uint32(0), field(Buffer.from(key.export({ format: 'jwk' }).n!, 'base64url'))]
    : [uint16(3, 0x10), ...coordinates(key).map(field)];
  return field(Buffer.concat([...head, ...rest]));
}

/** An attestation key on P-256 (ECDSA with SHA-256). */
export function attestationArea({ attributes = AK_ATTRIBUTES, scheme = 0x18 } = {}): Buffer {
  const { publicKey } = generateKeyPairSync('ec', { namedCurve: 'P-256' });
  const head = [
    uint16(0x23, 0xb),
    uint32(attributes),
    field(Buffer.alloc(0)),
    uint16(0x10, scheme, 0xb, 3, 0x10),
  ];
  return field(Buffer.concat([...head, ...coordinates(publicKey).map(field)]));
}

/** The Name of a public area. */
export const nameOfArea = (area: Buffer): Buffer =>
  Buffer.concat([uint16(0xb), createHash('sha256').update(area.subarray(2)).digest()]);

const read = (octets: Buffer): readonly [Buffer, Buffer] => {
  const length = octets.readUInt16BE();
  return [octets.subarray(2, 2 + length), octets.subarray(2 + length)];
};

/**
 * TPM2_ActivateCredential: the secret, or undefined when the credential is for another endorsement
 * key or another object than the one with `name`.
 */
export function activate(
  tpm: SoftwareTpm,
  credential: Buffer,
  name = nameOfArea(tpm.ak),
): Buffer | undefined {
  const [blob, rest] = read(credential.subarray(8));
  const [encrypted] = read(rest);
  const seed = seedOf(tpm, encrypted);
  if (seed === undefined) return undefined;
  const [integrity, identity] = read(blob);
  const key = kdfa(seed, 'INTEGRITY\0', Buffer.alloc(0), 256);
  if (!createHmac('sha256', key).update(identity).update(name).digest().equals(integrity)) return undefined;
  const cipher = createDecipheriv('aes-128-cfb', kdfa(seed, 'STORAGE\0', name, 128), Buffer.alloc(16));
  return read(Buffer.concat([cipher.update(identity), cipher.final()]))[0];
}

function seedOf({ algorithm, privateKey, ek }: SoftwareTpm, encrypted: Buffer): Buffer | undefined {
  if (algorithm === 'rsa') {
    const padding = constants.RSA_PKCS1_OAEP_PADDING;
    try {
      const oaepLabel = Buffer.from('IDENTITY\0');
      return privateDecrypt(
        {
          key: createPrivateKey(privateKey.export({ type: 'pkcs8', format: 'pem' })),
          padding,
          oaepHash: 'sha256',
          oaepLabel,
        },
        encrypted,
      );
    } catch {
      return undefined;
    }
  }
  const [x, y] = [read(encrypted)[0], read(read(encrypted)[1])[0]];
  const ecdh = createECDH('prime256v1');
  ecdh.setPrivateKey(Buffer.from(privateKey.export({ format: 'jwk' }).d!, 'base64url'));
  const z = ecdh.computeSecret(Buffer.concat([Buffer.of(4), x, y]));
  return kdfe(z, 'IDENTITY\0', x, read(ek.subarray(-68))[0]);
}

/** What the agent posts for this TPM. */
export const shownBy = ({ ek, ak }: Pick<SoftwareTpm, 'ek' | 'ak'>, certificate?: Buffer): string =>
  [`ek ${ek.toString('base64')}`, `ak ${ak.toString('base64')}`]
    .concat(certificate ? [`certificate ${certificate.toString('base64')}`] : [])
    .map((line) => `${line}\n`)
    .join('');
