/** A commit within a rehearsal (src/base/rehearsal.ts): it is checked, and writes nothing. */
import { beforeChange } from '../base/rehearsal.ts';
import { checkWrites } from './limits.ts';
import type { CommitResult, Store, Write } from './store.ts';

/**
 * Resolves with the conflicts of a commit as the store would; a commit without any ends the
 * rehearsal.
 *
 * @throws {MusterError} as {@link checkWrites}
 */
export async function rehearseCommit(
  store: Pick<Store, 'get'>,
  writes: readonly Write[],
): Promise<CommitResult> {
  checkWrites(writes);
  const conflicts: { key: string; actual: number | 'absent' }[] = [];
  for (const { key, expect } of writes) {
    if (expect === undefined) continue;
    const actual = (await store.get(key))?.revision ?? 'absent';
    if (actual !== expect) conflicts.push({ key, actual });
  }
  if (conflicts.length === 0)
    beforeChange(...writes.map((write) => `${'put' in write ? 'put' : 'delete'} ${write.key}`));
  return { ok: false, conflicts };
}
