/**
 * The restore after the quorum is lost for good: etcd continues from one member's data as a new
 * founding with a new token, so no old disk can ever merge with it. Pure.
 */
import { addressOfMember, filesystemOf } from './decide.ts';
import type { FoundingRecord, Known, MemberFacts, Restoring } from './founding.ts';
import { heardText, isSilent } from './liveness.ts';
import { type Moment, type Ordered, refused } from './order.ts';
import { majority } from './quorum.ts';

/** A snapshot, as far as the order to restore it is concerned. */
export interface SnapshotToRestore {
  readonly id: string;
  /** The version of etcd that wrote it. */
  readonly etcd: string;
  readonly takenAt: number;
  /** Ids of the keys that encrypt Secrets in it. */
  readonly encryption: readonly string[];
}

export interface SnapshotOrder {
  readonly snapshot: SnapshotToRestore;
  /** The member that begins the new founding; undefined: the first that can. */
  readonly member: string | undefined;
  /** Members whose data are abandoned. */
  readonly without: readonly string[];
  /** The version of etcd that the Cluster runs. */
  readonly etcd: string;
  /** Ids of the keys that the API servers of the cluster can read with. */
  readonly keys: readonly string[];
}

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
  if (record.reset) return refused('it was reset; `restore --backup` restores a snapshot');
  if (record.restoring)
    return record.restoring.member === member && record.restoring.snapshot === undefined
      ? { ok: true, record }
      : refused(alreadyRestoring(record.restoring, known.cluster));
  if (view) return refused('etcd has a quorum: members that lost their data are replaced automatically');
  if (life.rolledBack !== undefined)
    return refused(
      `this store was rolled back (seen by ${life.rolledBack}): restore its newest backup first (docs/backup.md). If there is none, Muster cannot tell which member has the newest data: save /var/lib/etcd of all members, then \`reset\` and \`found\` begin an empty etcd; read the saved data with etcd's own tools`,
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

const alreadyRestoring = ({ member, snapshot }: Restoring, cluster: string): string =>
  `${snapshot === undefined ? `the data of ${member} are` : `snapshot ${snapshot} is`} already being restored on ${member}; if that machine is lost for good, \`muster cluster call-off ${cluster} ${member}\` ends the restore`;

/**
 * Checks an order to restore a snapshot: an operator typed the cluster's name. As for {@link
 * orderRestore}, etcd must have no quorum, and no members that could form one. Every member that
 * may have newer data is named, because its data are abandoned: a snapshot is older than they are.
 */
export function orderSnapshot(known: Known, order: SnapshotOrder, { now, id }: Moment): Ordered {
  const { record, view, life } = known;
  const { snapshot, without } = order;
  if (!record?.founded)
    return refused(
      'this store has no record that it was founded, and so not the keys that its snapshots were made with: restore the newest backup of the boot host first',
    );
  if (record.restoring)
    return record.restoring.snapshot === snapshot.id
      ? { ok: true, record }
      : refused(alreadyRestoring(record.restoring, known.cluster));
  if (view)
    return refused(
      'etcd has a quorum and serves. To go back to a snapshot all the same, power its members off, or end the cluster with `muster cluster reset`',
    );
  if (life.rolledBack !== undefined)
    return refused(
      `this store was rolled back (seen by ${life.rolledBack}): restore its newest backup first`,
    );
  const unfit = unfitSnapshot(order);
  if (unfit !== undefined) return refused(unfit);
  const member = order.member ?? known.members.find(({ name }) => canBegin(known, name) === undefined)?.name;
  if (member === undefined)
    return refused(
      `none of its members can begin: ${known.members.map(({ name }) => canBegin(known, name)).join('; ')}`,
    );
  const cannot = canBegin(known, member);
  if (cannot !== undefined) return refused(cannot);
  const obstacle = dataOfOthers(known, without);
  if (obstacle !== undefined) return refused(obstacle);
  const { address } = addressOfMember(known, member);
  const { filesystem } = life.asked.get(member)!;
  const { replacing: _, reset: __, ...rest } = record;
  return {
    ok: true,
    record: { ...rest, restoring: { member, address, filesystem, id, at: now, snapshot: snapshot.id } },
  };
}

/** Why this snapshot cannot be restored in this cluster; undefined when it can. */
function unfitSnapshot({ snapshot, etcd, keys }: SnapshotOrder): string | undefined {
  const minor = (version: string): number => Number(/^v?[0-9]+\.([0-9]+)/.exec(version)?.[1] ?? 0);
  if (minor(snapshot.etcd) > minor(etcd))
    return `etcd ${snapshot.etcd} wrote the snapshot, and etcd ${etcd} cannot read it; run that version of etcd`;
  const lost = snapshot.encryption.filter((key) => !keys.includes(key));
  return lost.length === 0
    ? undefined
    : `its Secrets are encrypted with ${lost.length > 1 ? 'keys' : 'key'} ${lost.join(', ')}, which this store no longer has; restore a newer snapshot, or a backup of the boot host that has the key`;
}

/** Why a member cannot begin the new founding; undefined when it can. */
function canBegin({ record, life, cluster, members }: Known, name: string): string | undefined {
  if (!members.some((one) => one.name === name)) return `${name} is no member of etcd of this cluster`;
  const facts = life.asked.get(name);
  if (!facts) return `${name} has not asked since the server started; power it on`;
  if (isSilent(life, name)) return `${name} was ${heardText(life, name)}; power it on`;
  if (record?.leaving?.[name]) return `${name} is being taken out`;
  const { marker } = facts;
  if (marker === undefined)
    return facts.etcd.wal === 'absent' ? undefined : `${name} has data of etcd without a marker of Muster`;
  const own =
    marker.cluster === cluster &&
    marker.founding === record?.id &&
    marker.member === name &&
    marker.machine === facts.machine;
  return own ? undefined : `the data disk of ${name} belongs to another cluster, founding or member`;
}

/** Why the data of members forbid it to restore a snapshot; undefined when nothing does. */
function dataOfOthers(known: Known, without: readonly string[]): string | undefined {
  const { record, life } = known;
  const all = Object.keys(record?.joined ?? {}).toSorted();
  const strange = without.find((name) => !all.includes(name));
  if (strange !== undefined)
    return `${strange} is no member that can be abandoned; the members are ${all.join(', ')}`;
  const voters = all.filter((name) => !record?.reset?.cleared.includes(name));
  const withData = voters.filter((name) => {
    const facts = life.asked.get(name);
    return facts !== undefined && !isSilent(life, name) && hasOwnData(known, facts);
  });
  if (withData.length >= majority(all.length))
    return `${withData.join(', ')} have their data and form a quorum as soon as they run, so there is nothing to restore; a member that was powered off for good no longer counts after a minute`;
  const silent = voters.filter((name) => isSilent(life, name));
  const unnamed = [...withData, ...silent].filter((name) => !without.includes(name)).toSorted();
  if (unnamed.length === 0) return undefined;
  const abandoned = all.filter((name) => unnamed.includes(name) || without.includes(name));
  const better = withData.find((name) => unnamed.includes(name));
  return [
    `${unnamed.map((name) => `${name} (${withData.includes(name) ? 'with its data' : heardText(life, name)})`).join(', ')} may have newer data than the snapshot`,
    ...(better === undefined
      ? ['power them on to see what they have']
      : [`\`muster cluster restore ${known.cluster} --from ${better}\` loses less`]),
    `to abandon their data: --without ${abandoned.join(' ')}`,
  ].join('; ');
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
  { member, address, filesystem, id, snapshot }: Restoring,
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
    founded: {
      at: now,
      by: snapshot === undefined ? `restore of ${member}` : `snapshot ${snapshot} on ${member}`,
      ...(snapshot !== undefined && { snapshot }),
    },
    joined: { [member]: filesystem },
    lists: {},
    ...(record.leaving && { leaving: record.leaving }),
  };
}
