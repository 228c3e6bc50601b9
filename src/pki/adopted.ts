/** Keysets from the keys of a cluster that another tool made, for example kubeadm. Pure. */
import type { Millis } from '../base/duration.ts';
import { type Fault, MusterError } from '../base/errors.ts';
import { readImported } from './imported.ts';
import { PrivateKey } from './keys.ts';
import { generationId, type OpenGeneration } from './keyset.ts';
import { type AdoptedKeyset, isAuthority } from './keysets.ts';

/** A key pair in PEM; the key of service accounts has no certificate. */
export interface AdoptedPair {
  readonly key: string;
  readonly certificate?: string;
}

export type AdoptedKeys = Readonly<Record<AdoptedKeyset, AdoptedPair>>;

/**
 * The generation that is that pair. A CA is checked as one that `muster pki import`
 * brings.
 *
 * @throws {MusterError} E_CA_IMPORT, which names the keyset and says what is wrong with the pair;
 *   the path of its fault is `certificate` or `key`
 */
export function adoptedGeneration(
  name: AdoptedKeyset,
  { key, certificate }: AdoptedPair,
  now: Millis,
): OpenGeneration {
  try {
    if (!isAuthority(name)) {
      const own = PrivateKey.fromPem(key);
      const publicKey = own.publicKey();
      return { id: generationId(publicKey), createdAt: now, key: own, publicKey };
    }
    if (certificate === undefined) throw new MusterError('E_CA_IMPORT', 'the certificate is missing');
    return readImported(certificate, key, now).generation;
  } catch (cause) {
    if (!(cause instanceof MusterError)) throw cause;
    const path = isAuthority(name) ? cause.faults[0]?.path : 'key';
    const fault: Fault = { code: 'E_CA_IMPORT', message: cause.message, ...(path && { path }) };
    throw new MusterError('E_CA_IMPORT', `${name}: ${cause.message}`, { cause, faults: [fault] });
  }
}
