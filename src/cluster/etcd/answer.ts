/**
 * Answers a member's poll: stores the changes that follow from its facts, then decides what its
 * etcd may do.
 */
import type { Clock } from '../../base/clock.ts';
import { millis } from '../../base/duration.ts';
import type { ClusterState } from './cluster-state.ts';
import { addressOfMember, decide } from './decide.ts';
import { beginReplacing, nextChange } from './evidence.ts';
import type { EtcdDecision, FoundingRecord, MemberFacts } from './founding.ts';
import { newFoundingId } from './order.ts';
import type { FoundingRecords } from './records.ts';
import { foundingStep } from './steps.ts';

/**
 * For this long after a founding opened, the boot host does not ask etcd whether it has a quorum.
 */
const FOUNDING_TAKES = millis(30_000);

/**
 * Stores one change after the other until nothing more follows from the facts, then decides.
 * `state` already contains the facts. Resolves when all changes are durable.
 *
 * @throws {MusterError} E_FOUNDING when the stored record cannot be understood.
 */
export async function answerMember(
  { records, clock }: { readonly records: FoundingRecords; readonly clock: Clock },
  state: ClusterState,
  facts: MemberFacts,
): Promise<EtcdDecision> {
  for (;;) {
    const read = await records.read(state.cluster);
    const { record } = read;
    if ((facts.seenRevision ?? 0) > read.revision) state.rolledBack = facts.member;
    const view =
      record && needsView(record, facts, clock.now())
        ? await state.views.recent(state.addresses(record))
        : undefined;
    const known = state.known(clock.monotonic(), record, view);
    const change = nextChange(known, facts, { now: clock.now(), id: newFoundingId() });
    if (change) {
      const written = await records.write(change.record, read, change.step);
      if (written && record === undefined) state.opened = true;
      continue;
    }
    const decision = decide(known, facts);
    if (decision.do !== 'replace') return decision;
    const begun = beginReplacing(known, facts, addressOfMember(known, facts.member).address);
    if (!begun) return decision;
    const step = foundingStep('replacing_begun', { member: facts.member, cause: decision.why });
    if (await records.write(begun, read, step)) return decision;
  }
}

/**
 * Whether the decision needs etcd's own list of members. At the beginning of a founding etcd is not
 * asked: if it were found to have a quorum, a member that was granted the founding and polls only
 * afterwards would have to be removed and added again.
 */
function needsView(record: FoundingRecord, { etcd }: MemberFacts, now: number): boolean {
  if (record.founded) return etcd.wal !== 'present';
  return Object.keys(record.joined).length > 0 && now - record.openedAt > FOUNDING_TAKES;
}
