/**
 * Which keys of a TPM are taken: endorsement keys by the templates L-1 (RSA-2048) and L-2 (P-256)
 * of the TCG EK Credential Profile, and attestation keys that never leave their TPM.
 */
import { createPublicKey, type KeyObject } from 'node:crypto';
import { PublicKey } from '../keys.ts';
import { ALG, ATTRIBUTE, nameOf, P256, type PublicArea, readPublicArea } from './public-area.ts';

/** A TPM's endorsement key. */
export interface EndorsementKey {
  readonly area: PublicArea;
  readonly publicKey: PublicKey;
}

/** A key that a TPM made and that never leaves it, by the Name that its TPM knows it under. */
export interface AttestationKey {
  readonly name: Buffer;
}

type Read<T> = { readonly ok: true; readonly key: T } | { readonly ok: false; readonly text: string };

const refuse = (text: string): { readonly ok: false; readonly text: string } => ({ ok: false, text });

const { fixedTpm, fixedParent, sensitiveDataOrigin, adminWithPolicy, restricted, decrypt, sign } = ATTRIBUTE;

/** What the templates L-1 and L-2 set. */
const ENDORSEMENT_ATTRIBUTES =
  fixedTpm | fixedParent | sensitiveDataOrigin | adminWithPolicy | restricted | decrypt;

/** PolicySecret(TPM_RH_ENDORSEMENT), which the templates name (EK Credential Profile, B.3). */
const ENDORSEMENT_POLICY = Buffer.from(
  '837197674484b3f81a90cc8d46a5d724fd52d76e06520b64f2a1da1b331469aa',
  'hex',
);

/** What an attestation key has set: it was made in its TPM, stays there and signs only its data. */
const ATTESTATION_ATTRIBUTES = fixedTpm | fixedParent | sensitiveDataOrigin | restricted | sign;

/** Reads an endorsement key (TPM2B_PUBLIC), or says why it is none. Never throws. */
export function readEndorsementKey(octets: Uint8Array): Read<EndorsementKey> {
  const read = readPublicArea(octets);
  if (!read.ok) return read;
  const { area } = read;
  if (area.nameAlgorithm !== ALG.sha256) return refuse('an endorsement key whose name is not by SHA-256');
  if (area.attributes !== ENDORSEMENT_ATTRIBUTES || !area.policy.equals(ENDORSEMENT_POLICY))
    return refuse('attributes or policy are not those of an endorsement key (templates L-1 and L-2)');
  const { symmetric } = area;
  if (symmetric?.algorithm !== ALG.aes || symmetric.bits !== 128 || symmetric.mode !== ALG.cfb)
    return refuse('an endorsement key that does not protect with AES-128-CFB');
  if (area.scheme !== undefined || (area.type === 'ecc' && area.kdf !== undefined))
    return refuse('an endorsement key with a scheme of its own');
  const key = keyObject(area);
  return typeof key === 'string' ? refuse(key) : { ok: true, key: { area, publicKey: new PublicKey(key) } };
}

/** Reads an attestation key (TPM2B_PUBLIC), or says why it is none. Never throws. */
export function readAttestationKey(octets: Uint8Array): Read<AttestationKey> {
  const read = readPublicArea(octets);
  if (!read.ok) return read;
  const { area } = read;
  if (area.nameAlgorithm !== ALG.sha256) return refuse('an attestation key whose name is not by SHA-256');
  if ((area.attributes & ATTESTATION_ATTRIBUTES) !== ATTESTATION_ATTRIBUTES)
    return refuse('an attestation key that could leave its TPM, or sign what its TPM did not make');
  if ((area.attributes & decrypt) !== 0) return refuse('an attestation key that also decrypts');
  const schemes: readonly number[] = area.type === 'rsa' ? [ALG.rsassa, ALG.rsapss] : [ALG.ecdsa];
  if (!schemes.includes(area.scheme?.algorithm ?? ALG.null) || area.symmetric !== undefined)
    return refuse('an attestation key with a scheme that is not taken');
  const key = keyObject(area);
  return typeof key === 'string' ? refuse(key) : { ok: true, key: { name: nameOf(area) } };
}

/** The key of an area of RSA-2048 or on P-256, or why it has none. */
function keyObject(area: PublicArea): KeyObject | string {
  if (area.type === 'rsa') {
    if (area.bits !== 2048 || area.modulus.length !== 256 || area.modulus[0]! < 0x80)
      return 'an RSA key that does not have 2048 bits';
    if (area.exponent !== 0 && area.exponent !== 65537) return 'an RSA key with an exponent other than 65537';
    if ((area.modulus[255]! & 1) === 0) return 'an RSA key with an even modulus';
    return createPublicKey({
      key: { kty: 'RSA', n: area.modulus.toString('base64url'), e: 'AQAB' },
      format: 'jwk',
    });
  }
  if (area.curve !== P256) return 'a key on a curve other than P-256';
  if (area.x.length !== 32 || area.y.length !== 32) return 'a point whose coordinates do not have 32 octets';
  const [x, y] = [area.x.toString('base64url'), area.y.toString('base64url')];
  try {
    return createPublicKey({ key: { kty: 'EC', crv: 'P-256', x, y }, format: 'jwk' });
  } catch {
    return 'a point that is not on P-256';
  }
}
