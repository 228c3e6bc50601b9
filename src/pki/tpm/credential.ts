/**
 * Seals a secret to a TPM: TPM2_MakeCredential in software (TPM 2.0 Library Specification, Part 1,
 * 24 and annexes B.10.4 and C.6.4). Only the TPM that has the endorsement key opens it, by
 * TPM2_ActivateCredential, and only if the attestation key of the given Name is loaded in it.
 */
import {
  constants,
  createCipheriv,
  createECDH,
  createHash,
  createHmac,
  publicEncrypt,
  randomBytes,
} from 'node:crypto';
import type { AttestationKey, EndorsementKey } from './tpm-keys.ts';

/** The longest secret: the digest of an endorsement key's name algorithm, SHA-256. */
export const SECRET_OCTETS = 32;

/** What tpm2-tools write before a credential: a magic number and the version of the format. */
const TOOLS_HEADER = Buffer.from('badcc0de00000001', 'hex');

/** Labels end with a zero octet in everything that the specification derives. */
const LABEL = { identity: 'IDENTITY\0', storage: 'STORAGE\0', integrity: 'INTEGRITY\0' } as const;

/**
 * A credential in the format that `tpm2_activatecredential -i` reads: header, TPM2B_ID_OBJECT,
 * TPM2B_ENCRYPTED_SECRET.
 *
 * @throws {RangeError} when the secret is empty or has more than {@link SECRET_OCTETS} octets.
 */
export function makeCredential(to: EndorsementKey, { name }: AttestationKey, secret: Uint8Array): Buffer {
  if (secret.length === 0 || secret.length > SECRET_OCTETS)
    throw new RangeError(`a secret for a TPM has 1 to ${SECRET_OCTETS} octets`);
  const { seed, encrypted } = to.area.type === 'rsa' ? rsaSeed(to) : eccSeed(to.area);
  // The first block has the initial value zero: each seed is used once.
  const cipher = createCipheriv('aes-128-cfb', kdfa(seed, LABEL.storage, name, 128), Buffer.alloc(16));
  const identity = Buffer.concat([cipher.update(sized(secret)), cipher.final()]);
  const integrityKey = kdfa(seed, LABEL.integrity, Buffer.alloc(0), 256);
  const integrity = createHmac('sha256', integrityKey).update(identity).update(name).digest();
  const blob = Buffer.concat([sized(integrity), identity]);
  return Buffer.concat([TOOLS_HEADER, sized(blob), sized(encrypted)]);
}

interface Seed {
  readonly seed: Buffer;
  /** The seed, encrypted to the endorsement key. */
  readonly encrypted: Buffer;
}

function rsaSeed({ publicKey }: EndorsementKey): Seed {
  const seed = randomBytes(32);
  const encrypted = publicEncrypt(
    {
      key: publicKey.object,
      padding: constants.RSA_PKCS1_OAEP_PADDING,
      oaepHash: 'sha256',
      oaepLabel: Buffer.from(LABEL.identity),
    },
    seed,
  );
  return { seed, encrypted };
}

/** The seed that both sides derive from the ephemeral key (sent as TPMS_ECC_POINT). */
function eccSeed({ x, y }: { readonly x: Buffer; readonly y: Buffer }): Seed {
  const ephemeral = createECDH('prime256v1');
  const point = ephemeral.generateKeys();
  const [ownX, ownY] = [point.subarray(1, 33), point.subarray(33)];
  const z = ephemeral.computeSecret(Buffer.concat([Buffer.of(4), x, y]));
  return { seed: kdfe(z, LABEL.identity, ownX, x), encrypted: Buffer.concat([sized(ownX), sized(ownY)]) };
}

/** KDFa by SHA-256 (Part 1, 11.4.10.2), for at most 256 bits: one round is enough. */
export function kdfa(key: Buffer, label: string, context: Buffer, bits: number): Buffer {
  const hmac = createHmac('sha256', key).update(uint32(1)).update(label).update(context).update(uint32(bits));
  return hmac.digest().subarray(0, bits / 8);
}

/** KDFe by SHA-256 for 256 bits (Part 1, 11.4.10.3). */
export const kdfe = (z: Buffer, label: string, partyU: Buffer, partyV: Buffer): Buffer =>
  createHash('sha256').update(uint32(1)).update(z).update(label).update(partyU).update(partyV).digest();

function uint32(value: number): Buffer {
  const octets = Buffer.alloc(4);
  octets.writeUInt32BE(value);
  return octets;
}

/** A field with its length before it. */
function sized(octets: Uint8Array): Buffer {
  const length = Buffer.alloc(2);
  length.writeUInt16BE(octets.length);
  return Buffer.concat([length, octets]);
}
