/** Makes the keys of a snapshot readers again, after a rotation has ended them. */
import type { Pki } from '../../pki/pki.ts';
import type { Snapshot } from './snapshot.ts';

/**
 * Trusts the ended keys again that encrypt Secrets in a snapshot which is being restored: API
 * servers get them as readers, after the primary. The next rotation of the keyset `encryption`
 * writes all Secrets again and ends these keys again. Repeated, it does nothing more.
 *
 * @returns The ids of the keys that API servers have only because of the snapshot.
 */
export async function trustKeysOf(
  pki: Pick<Pki, 'encryption' | 'transition'>,
  { cluster, encryption: needed }: Pick<Snapshot, 'cluster' | 'encryption'>,
): Promise<readonly string[]> {
  const keyset = await pki.encryption(cluster);
  if (keyset === undefined) return [];
  const ended = keyset.distrusted.filter(({ id }) => needed.includes(id));
  for (const { id: generation } of ended)
    await pki.transition(cluster, 'encryption', { do: 'trust-again', generation });
  const before = keyset.trusted.filter(({ id }) => id !== keyset.primary && needed.includes(id));
  return [...before, ...ended].map(({ id }) => id);
}
