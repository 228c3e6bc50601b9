/**
 * What the executor has to do by a founding's record, whatever of it was ordered or found. Pure.
 */
import type { EtcdView, FoundingRecord } from './founding.ts';
import { nextRemoval } from './leaving.ts';
import { nextStep, type ReplacingStep } from './replacing.ts';

/**
 * Members that go and the one that is replaced: whose turn it is. A dead voter that stays would
 * make etcd refuse a learner.
 */
export function nextWork(record: FoundingRecord, view: EtcdView | undefined): ReplacingStep {
  const removal = nextRemoval(record, view);
  if (removal && removal.do !== 'wait') return removal;
  const replacing = record.replacing && nextStep(record, view);
  return replacing && replacing.do !== 'wait' ? replacing : (removal ?? nextStep(record, view));
}

export const hasWork = ({ replacing, leaving, reset, restoring }: FoundingRecord): boolean =>
  !reset &&
  !restoring &&
  (replacing !== undefined || Object.values(leaving ?? {}).some(({ stage }) => stage === 'etcd'));

/** What a step of the executor changed, for people. */
export function noted(before: FoundingRecord, { former, replacing }: FoundingRecord): string {
  const out = former?.find((name) => !before.former?.includes(name));
  if (out !== undefined) return `${out} is no member of etcd any more`;
  const member = before.replacing?.member;
  if (before.replacing?.stage === 'off') return `replacing ${member}: called off`;
  return `replacing ${member}: ${replacing ? `next is ${replacing.stage}` : 'it is a member again'}`;
}
