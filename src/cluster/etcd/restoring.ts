/**
 * The restore after the quorum is lost for good: etcd continues from one member's data as a new
 * founding with a new token, so no old disk can ever merge with it. Pure.
 */
import { addressOfMember, filesystemOf } from './decide.ts';
import type { FoundingRecord, Known, MemberFacts, Restoring } from './founding.ts';
import { heardText, isSilent } from './liveness.ts';
import { type Moment, type Ordered, refused } from './order.ts';
import { majority } from './quorum.ts';

export interface RestoreOrder {
  /** The member whose data are restored. */
  readonly member: string;
  /** Members that are lost for good and whose data are abandoned. */
  readonly without: readonly string[];
}

/**
 * Checks an order to restore: an operator typed the cluster's name and named the member whose data
 * are restored. Members that are heard have reported what they have. A silent member may be off for
 * good, or only cut off from the boot host and part of a quorum. Only the operator can declare that
 * it is lost, by naming it. A member that is heard cannot be abandoned.
 */
export function orderRestore(known: Known, { member, without }: RestoreOrder, { now, id }: Moment): Ordered {
  const { record, life, view } = known;
  if (!record?.founded) return refused('it was never founded, so there is nothing to restore');
  if (record.reset) return refused('it was reset');
  if (record.restoring)
    return record.restoring.member === member
      ? { ok: true, record }
      : refused(
          `the data of ${record.restoring.member} are already being restored; if that machine is lost for good, \`muster cluster call-off ${known.cluster} ${record.restoring.member}\` ends the restore`,
        );
  if (view) return refused('etcd has a quorum: members that lost their data are replaced automatically');
  if (life.rolledBack !== undefined)
    return refused(
      `this store was rolled back (seen by ${life.rolledBack}): restore its newest backup first. If there is none, Muster cannot tell which member has the newest data: save /var/lib/etcd of all members, then \`reset\` and \`found\` begin an empty etcd; read the saved data with etcd's own tools`,
    );
  const facts = life.asked.get(member);
  if (!facts) return refused(`${member} has not asked since the server started; power it on`);
  if (!hasOwnData(known, facts)) return refused(`${member} does not have its data`);
  if (isSilent(life, member)) return refused(`${member} was ${heardText(life, member)}; power it on`);
  const voters = Object.keys(record.joined).toSorted();
  const obstacle = obstacleOf(known, { member, without }, voters);
  if (obstacle !== undefined) return refused(obstacle);
  const { address } = addressOfMember(known, member);
  const { replacing: _, ...rest } = record;
  return {
    ok: true,
    record: { ...rest, restoring: { member, address, filesystem: facts.filesystem, id, at: now } },
  };
}

/** Why the other voters must not be abandoned by this order; undefined when nothing prevents it. */
function obstacleOf(
  known: Known,
  { member, without }: RestoreOrder,
  voters: readonly string[],
): string | undefined {
  const { life } = known;
  const strange = without.find((name) => !voters.includes(name));
  if (strange !== undefined)
    return `${strange} is no member that can be abandoned; the members are ${voters.join(', ')}`;
  if (without.includes(member))
    return `${member} cannot be both restored and abandoned; name other members with --without`;
  const hasItsOwn = (name: string): boolean => {
    const facts = life.asked.get(name);
    return facts !== undefined && hasOwnData(known, facts);
  };
  const present = voters.filter((name) => !isSilent(life, name) && hasItsOwn(name));
  const withAges = (names: readonly string[]): string =>
    names.map((name) => `${name} (${heardText(life, name)})`).join(', ');
  const kept = present.filter((name) => without.includes(name));
  if (kept.length > 0)
    return `still heard, with data: ${withAges(kept)}; a member that is heard is not abandoned. Power it off for good and repeat this command after a minute`;
  if (present.length >= majority(voters.length))
    return `still heard, with data: ${withAges(present)}; they form a quorum as soon as they run, so there is nothing to restore. A member that was powered off for good no longer counts after a minute`;
  const silent = voters.filter((name) => isSilent(life, name) && !without.includes(name));
  if (silent.length === 0) return undefined;
  const each = silent.map(
    (name) => `${name} (${hasItsOwn(name) ? 'with its data, ' : ''}${heardText(life, name)})`,
  );
  const all = voters.filter((name) => silent.includes(name) || without.includes(name));
  return `silent: ${each.join(', ')}; their data may be newer or make a quorum, so power them on. If they are lost for good and run nowhere, abandon them: --without ${all.join(' ')}`;
}

/** Whether the member has its own data on the disk that belongs to it by the record. */
function hasOwnData(
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

/**
 * Notes that the restore is done: the marker, which the machine writes last, names the new
 * founding.
 */
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

/** The record of the new founding. It has one member, and grows like any other founding. */
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
