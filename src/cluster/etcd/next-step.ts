/**
 * The executor's next step for a founding's record: a removal, or a step of a replacement. Pure.
 */
import type { EtcdView, FoundingRecord, MemberAddress } from './founding.ts';
import { nextRemoval } from './leaving.ts';
import { nextStep, type ReplacingStep } from './replacing.ts';

/**
 * Chooses the next step. Removals of leaving members come before the replacement, because etcd
 * refuses a learner while its list has a dead voter. When both have to wait, the step has the
 * removal's reason.
 *
 * @param goingDown Members that answer and are about to restart. A member is not taken out before
 *   they are back. A member whose data are lost is replaced all the same: without it, etcd needs no
 *   more of the others than with it.
 */
export function nextWork(
  record: FoundingRecord,
  view: EtcdView | undefined,
  goingDown: readonly MemberAddress[],
): ReplacingStep {
  const removal = nextRemoval(record, view, goingDown);
  if (removal && removal.do !== 'wait') return removal;
  const replacing = record.replacing && nextStep(record, view);
  return replacing && replacing.do !== 'wait' ? replacing : (removal ?? nextStep(record, view));
}

/** Whether the executor has anything to do for this record. */
export const hasWork = ({ replacing, leaving, reset, restoring }: FoundingRecord): boolean =>
  !reset &&
  !restoring &&
  (replacing !== undefined || Object.values(leaving ?? {}).some(({ stage }) => stage === 'etcd'));
