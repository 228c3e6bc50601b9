/** The keysets of a machine whose API server rehearses the end of old keys. Pure. */
import { distrust, type Keyset } from '../../pki/keyset.ts';
import type { Keysets } from '../../pki/pki.ts';
import type { Rehearsal } from './running-change.ts';

/** The keysets as they will be when the old keys have ended, as far as the machine rehearses it. */
export function rehearsed(keysets: Keysets, rehearsal: Rehearsal | undefined): Keysets {
  if (rehearsal === undefined || rehearsal.trusts.size === 0) return keysets;
  return new Map(
    [...keysets].map(([name, keyset]) => [name, trustingOnly(keyset, rehearsal.trusts.get(name))]),
  );
}

function trustingOnly(keyset: Keyset, only: string | undefined): Keyset {
  // The keysets may have been read before the new generation signed.
  if (only === undefined || keyset.primary !== only) return keyset;
  const others = keyset.trusted.filter(({ id }) => id !== only);
  return others.reduce((left, { id }) => distrust(left, id), keyset);
}
