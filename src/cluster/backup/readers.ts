/** Makes the keys of a snapshot readers again, after a rotation has ended them. */
import type { EncryptionKeyset } from '../../pki/encryption.ts';
import type { Pki } from '../../pki/pki.ts';
import type { Snapshot } from './snapshot.ts';

const endedOf = (
  { distrusted }: EncryptionKeyset,
  { encryption: needed }: Pick<Snapshot, 'encryption'>,
): readonly string[] => distrusted.map(({ id }) => id).filter((id) => needed.includes(id));

/** The ids of the keys that API servers have, or get, only because of the snapshot. */
export function keysBrought(
  keyset: EncryptionKeyset | undefined,
  snapshot: Pick<Snapshot, 'encryption'>,
): readonly string[] {
  if (keyset === undefined) return [];
  const { primary, trusted } = keyset;
  const readers = trusted.filter(({ id }) => id !== primary && snapshot.encryption.includes(id));
  return [...readers.map(({ id }) => id), ...endedOf(keyset, snapshot)];
}

/**
 * Trusts the ended keys again that encrypt Secrets in a snapshot which is being restored: API
 * servers get them as readers, after the primary. The next rotation of the keyset `encryption`
 * writes all Secrets again and ends these keys again. Repeated, it does nothing more.
 *
 * @returns The ids of the keys that API servers have only because of the snapshot.
 */
export async function trustKeysOf(
  pki: Pick<Pki, 'encryption' | 'transition'>,
  snapshot: Pick<Snapshot, 'cluster' | 'encryption'>,
): Promise<readonly string[]> {
  const keyset = await pki.encryption(snapshot.cluster);
  for (const generation of keyset === undefined ? [] : endedOf(keyset, snapshot))
    await pki.transition(snapshot.cluster, 'encryption', { do: 'trust-again', generation });
  return keysBrought(keyset, snapshot);
}
