/**
 * The ordered restore: its quorum lost for good, etcd goes on from one member's data, as a new founding with a new token, so that no
 * old disk ever merges with it. Pure.
 */

import { addressOfMember, filesystemOf } from './decide.ts';
import type { FoundingRecord, Known, MemberFacts, Restoring } from './founding.ts';
import { majority } from './quorum.ts';
import type { Moment, Ordered } from './settle.ts';

const refused = (text: string): Ordered => ({ ok: false, text });

/** A person typed the cluster's name and named the member whose data are to be taken. */
export function orderRestore(known: Known, member: string, { now, id }: Moment): Ordered {
  const { record, life, view } = known;
  if (!record?.founded) return refused('it was never founded, so that there is nothing to restore');
  if (record.reset) return refused('it was reset');
  if (record.restoring)
    return record.restoring.member === member
      ? { ok: true, record }
      : refused(`the data of ${record.restoring.member} are being restored already`);
  if (view) return refused('etcd has a quorum: members that lost their data are replaced by themselves');
  if (life.rolledBack !== undefined)
    return refused(
      `this store was rolled back (seen by ${life.rolledBack}): restore its newest backup first`,
    );
  const facts = life.asked.get(member);
  if (!facts) return refused(`${member} has not asked since the server started; power it on`);
  if (!isOwn(known, facts)) return refused(`${member} does not have its data`);
  const voters = Object.keys(record.joined);
  const withData = voters.filter((name) => {
    const one = life.asked.get(name);
    return one !== undefined && isOwn(known, one);
  });
  if (withData.length >= majority(voters.length))
    return refused(`${withData.join(', ')} have their data: they are a quorum as soon as they run`);
  const { address } = addressOfMember(known, member);
  const { replacing: _, ...rest } = record;
  return {
    ok: true,
    record: { ...rest, restoring: { member, address, filesystem: facts.filesystem, id, at: now } },
  };
}

/** Its own data, on the disk that the record has for it. */
function isOwn(
  { record, cluster }: Known,
  { member, machine, filesystem, marker, etcd }: MemberFacts,
): boolean {
  return (
    etcd.wal === 'present' &&
    filesystemOf(record!, member) === filesystem &&
    marker?.cluster === cluster &&
    marker.founding === record!.id &&
    marker.member === member &&
    marker.machine === machine
  );
}

/** Evidence that the copy is in its place: the marker, which is written last, names the new founding. */
export function witnessRestored(
  { record }: Known,
  { member, machine, filesystem, marker, etcd }: MemberFacts,
  now: number,
): FoundingRecord | undefined {
  const { restoring } = record ?? {};
  if (!record || !restoring || etcd.wal !== 'present') return undefined;
  if (restoring.member !== member || restoring.filesystem !== filesystem) return undefined;
  if (marker?.founding !== restoring.id || marker.member !== member || marker.machine !== machine)
    return undefined;
  return restored(record, restoring, now);
}

/** The founding that comes of it: one member, which grows as any other. */
function restored(
  record: FoundingRecord,
  { member, address, filesystem, id }: Restoring,
  now: number,
): FoundingRecord {
  return {
    v: 1,
    cluster: record.cluster,
    id,
    openedAt: now,
    openedBy: 'person',
    members: [{ name: member, address }],
    grants: {},
    founded: { at: now, by: `restore of ${member}` },
    joined: { [member]: filesystem },
    lists: {},
    ...(record.leaving && { leaving: record.leaving }),
  };
}
