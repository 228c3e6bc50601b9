/** The Ed25519 key that the vault's process signs with. It follows from the vault's first key. */
import { createPrivateKey, createPublicKey, sign, verify } from 'node:crypto';
import { type AuditKey, auditKeyId } from '../../events/security-chain.ts';
import type { Sealer } from '../sealer.ts';

/** What stands before the 32 octets of an Ed25519 key in PKCS#8 (RFC 8410, 7). */
const PKCS8 = Buffer.from('302e020100300506032b657004220420', 'hex');

/** The key that signs the signer's log and backups. */
export function signingKey(sealer: Pick<Sealer, 'derive'>): AuditKey {
  const der = Buffer.concat([PKCS8, sealer.derive('signatures')]);
  const key = createPrivateKey({ key: der, format: 'der', type: 'pkcs8' });
  const publicKey = createPublicKey(key);
  return {
    id: auditKeyId(publicKey),
    pem: publicKey.export({ type: 'spki', format: 'pem' }).toString(),
    sign: (octets) => sign(null, octets, key),
  };
}

/** Who signed a backup, and the signature. */
export interface BackupSignature {
  /** The id of the key. */
  readonly key: string;
  /** The public key, PEM. */
  readonly pem: string;
  /** Ed25519, in base64. */
  readonly signature: string;
}

const backupText = (sha256: string): Buffer => Buffer.from(`muster backup\0${sha256}`);

/** Signs the hash of a backup's archive, in hexadecimal. */
export const signedBackup = ({ id, pem, sign: signs }: AuditKey, sha256: string): BackupSignature => ({
  key: id,
  pem,
  signature: signs(backupText(sha256)).toString('base64'),
});

/** Whether the signature is that of its key, for an archive with this hash. */
export function isSigned({ key, pem, signature }: BackupSignature, sha256: string): boolean {
  try {
    const publicKey = createPublicKey(pem);
    const fits = verify(null, backupText(sha256), publicKey, Buffer.from(signature, 'base64'));
    return fits && auditKeyId(publicKey) === key;
  } catch {
    return false;
  }
}
