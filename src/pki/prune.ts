/** Removes certificates from the ledger that ended a while ago. */
import { duration, type Millis } from '../base/duration.ts';
import { inParts } from '../base/parts.ts';
import { KEYS } from '../store/keys.ts';
import { MAX_OPERATIONS, type Store } from '../store/store.ts';
import { decodeIssued, type IssuedCertificate } from './records.ts';

/** How long the ledger shows a certificate that has ended. */
const KEPT_AFTER_END = duration('7d');

/** What two certificates have in common of which the newer one replaces the older. */
const kindOf = ({ leaf, to }: IssuedCertificate): string => `${leaf} ${to}`;

/**
 * Deletes entries of a scope's ledger whose certificates ended a while before `now`, except the
 * newest of its kind that somebody got. Resolves to how many.
 */
export async function pruneLedger(
  store: Pick<Store, 'list' | 'commit'>,
  scope: string,
  now: Millis,
): Promise<number> {
  const before = now - KEPT_AFTER_END;
  const { records } = await store.list(KEYS.issued.prefix(scope));
  const all = records.map(({ key, value, revision }) => ({
    key,
    revision,
    issued: decodeIssued(key, value),
  }));
  const newest = new Map<string, number>();
  for (const { issued, revision } of all)
    newest.set(kindOf(issued), Math.max(newest.get(kindOf(issued)) ?? 0, revision));
  const over = all.filter(
    ({ issued, revision }) => issued.notAfter < before && revision < newest.get(kindOf(issued))!,
  );
  for (const part of inParts(over, MAX_OPERATIONS))
    await store.commit(part.map(({ key }) => ({ key, delete: true })));
  return over.length;
}
