/** A commit as a transaction of etcd, and its result. */
import type { CommitResult, Write } from '../store.ts';
import type { Input, Message } from './api.ts';
import type { Keyspace } from './keyspace.ts';

type Conflicts = { readonly key: string; readonly actual: number | 'absent' }[];

/** The transaction of one commit; if an expectation fails, it reads what was expected. */
export function txnOf(writes: readonly Write[], keys: Keyspace): Input<'TxnRequest'> {
  const expecting = writes.filter(({ expect }) => expect !== undefined);
  return {
    compare: expecting.map(({ key, expect }) => ({
      target: 2,
      key: keys.record(key),
      modRevision: revisionOf(expect!),
    })),
    success: writes.map((write) =>
      'put' in write
        ? { put: { key: keys.record(write.key), value: Buffer.from(write.put) } }
        : { delete: { key: keys.record(write.key) } },
    ),
    failure: expecting.map(({ key }) => ({ range: { key: keys.record(key), keysOnly: true } })),
  };
}

/** An absent record has revision 0; a number that is no revision is never fulfilled. */
const revisionOf = (expect: number | 'absent'): bigint =>
  expect === 'absent' ? 0n : Number.isSafeInteger(expect) && expect >= 1 ? BigInt(expect) : -1n;

/** The result of a commit that was carried out at `revision`. */
export function resultIn(
  writes: readonly Write[],
  { succeeded, responses }: Message<'TxnResponse'>,
  revision: number,
  keys: Keyspace,
): CommitResult {
  if (succeeded) return { ok: true, revision };
  const actual = new Map<string, number | 'absent'>();
  for (const { range } of responses)
    for (const { key, modRevision } of range?.kvs ?? []) actual.set(keys.name(key), Number(modRevision));
  return { ok: false, conflicts: conflictsOf(writes, actual) };
}

/** The expectations that fail with these revisions. */
export function conflictsOf(
  writes: readonly Write[],
  revisions: ReadonlyMap<string, number | 'absent'>,
): Conflicts {
  return writes.flatMap(({ key, expect }) => {
    const actual = revisions.get(key) ?? 'absent';
    return expect === undefined || expect === actual ? [] : [{ key, actual }];
  });
}
