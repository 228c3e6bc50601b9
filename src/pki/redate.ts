/** CAs that begin in the future, because the clock was wrong when they were made. */
import { X509Certificate } from 'node:crypto';
import { type Clock, mustKnowTime } from '../base/clock.ts';
import type { Millis } from '../base/duration.ts';
import { AUTHORITIES } from './hierarchy.ts';
import type { Generation, Keyset } from './keyset.ts';
import { type AuthorityName, isAuthority, type KeysetName } from './keysets.ts';
import type { Keysets, Pki } from './pki.ts';
import { readAuthority } from './x509.ts';

const generationsOf = ({ made, trusted, distrusted }: Keyset): readonly Generation[] => [
  ...made,
  ...trusted,
  ...distrusted,
];

const isFromFuture = (name: KeysetName, { certificate }: Generation, now: Millis): boolean =>
  isAuthority(name) && certificate !== undefined && readAuthority(certificate).notBefore > now;

/** Whether Muster made the CA: only then it makes another certificate for it. */
function isOurs(name: KeysetName, { certificate }: Generation): boolean {
  if (!isAuthority(name) || certificate === undefined) return false;
  const ours = new X509Certificate(certificate).subject === `CN=${AUTHORITIES[name].commonName}`;
  return readAuthority(certificate).selfIssued && ours;
}

/** A CA of an operator or with bridges keeps its certificate. */
const isToBeRedated = (keyset: Keyset, now: Millis): boolean =>
  generationsOf(keyset).every(({ bridges = [] }) => bridges.length === 0) &&
  generationsOf(keyset).some((one) => isOurs(keyset.name, one) && isFromFuture(keyset.name, one, now));

/** The keysets of a scope in which a CA that signs or is trusted begins in the future. */
export const notYetValid = (keysets: Keysets, now: Millis): readonly KeysetName[] =>
  [...keysets.values()]
    .filter((keyset) => generationsOf(keyset).some((one) => isFromFuture(keyset.name, one, now)))
    .map(({ name }) => name);

/**
 * The keyset whose CAs from the future have certificates that begin now, for the same keys: all
 * leaves that they signed still lead to them.
 */
async function redated(
  keyset: Keyset,
  now: Millis,
  certify: (name: AuthorityName, one: Generation) => Promise<Generation>,
): Promise<Keyset> {
  const { name } = keyset;
  const again = async (one: Generation): Promise<Generation> =>
    isAuthority(name) && isOurs(name, one) && isFromFuture(name, one, now) ? certify(name, one) : one;
  return {
    ...keyset,
    made: await Promise.all(keyset.made.map(again)),
    trusted: await Promise.all(keyset.trusted.map(again)),
  };
}

/**
 * Makes certificates of CAs that begin in the future again, for the same keys; resolves to the
 * names of their keysets.
 *
 * @throws {MusterError} E_CLOCK while the host's clock is in doubt; E_CONFLICT; E_NO_KEYS
 */
export async function redate(
  { pki, clock }: { readonly pki: Pick<Pki, 'keysets' | 'change' | 'certify'>; readonly clock: Clock },
  scope: string,
): Promise<readonly KeysetName[]> {
  mustKnowTime(clock);
  const now = clock.now();
  const wrong = [...(await pki.keysets(scope)).values()].filter((one) => isToBeRedated(one, now));
  for (const { name } of wrong)
    await pki.change(scope, name, (before) =>
      redated(before, now, (keyset, one) => pki.certify(scope, keyset, one)),
    );
  return wrong.map(({ name }) => name);
}
