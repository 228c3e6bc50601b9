/** The Ed25519 key that the vault's process signs with. It follows from the vault's first key. */
import { createPrivateKey, createPublicKey, sign } from 'node:crypto';
import type { AuditKey } from '../../events/security-chain.ts';
import { auditKeyId } from '../audit-key.ts';
import type { Sealer } from '../sealer.ts';

/** What stands before the 32 octets of an Ed25519 key in PKCS#8 (RFC 8410, 7). */
const PKCS8 = Buffer.from('302e020100300506032b657004220420', 'hex');

/** The key for one purpose, e.g. to sign backups. */
export function signingKey(sealer: Sealer, purpose: string): AuditKey {
  const der = Buffer.concat([PKCS8, sealer.derive(purpose)]);
  const key = createPrivateKey({ key: der, format: 'der', type: 'pkcs8' });
  const publicKey = createPublicKey(key);
  return {
    id: auditKeyId(publicKey),
    pem: publicKey.export({ type: 'spki', format: 'pem' }).toString(),
    sign: (octets) => sign(null, octets, key),
  };
}
