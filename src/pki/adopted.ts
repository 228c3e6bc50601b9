/** Keysets from the keys of a cluster that another tool made, for example kubeadm. Pure. */
import type { Millis } from '../base/duration.ts';
import { MusterError } from '../base/errors.ts';
import type { KeysetName } from './hierarchy.ts';
import { PrivateKey, PublicKey } from './keys.ts';
import { foundKeyset, generationId, type Keyset } from './keyset.ts';
import { signer } from './x509.ts';

/** A key pair in PEM; the key of service accounts has no certificate. */
export interface AdoptedPair {
  readonly key: string;
  readonly certificate?: string;
}

/** The keysets that a cluster has. */
export const ADOPTED = ['ca', 'etcd-ca', 'front-proxy-ca', 'sa'] as const satisfies readonly KeysetName[];
export type AdoptedKeys = Readonly<Record<(typeof ADOPTED)[number], AdoptedPair>>;

/**
 * A keyset whose first generation is that pair.
 *
 * @throws {MusterError} E_PKI when the key and the certificate do not belong together, when the
 *   certificate is missing or not a CA's, or when the key is weak
 */
export function adoptedKeyset(
  name: (typeof ADOPTED)[number],
  { key: keyText, certificate }: AdoptedPair,
  now: Millis,
): Keyset {
  const named = (text: string): MusterError => new MusterError('E_PKI', `${name}: ${text}`);
  const key = PrivateKey.fromPem(keyText);
  const publicKey = key.publicKey();
  const id = generationId(publicKey);
  if (name === 'sa') return foundKeyset(name, { id, createdAt: now, key, publicKey });
  if (certificate === undefined) throw named('the certificate is missing');
  if (!PublicKey.fromPem(certificate).spki.equals(publicKey.spki))
    throw named('key and certificate do not belong together');
  try {
    signer(certificate, key);
  } catch (cause) {
    throw new MusterError('E_PKI', `${name}: it cannot sign: ${(cause as Error).message}`, { cause });
  }
  return foundKeyset(name, { id, createdAt: now, key, publicKey, certificate });
}
