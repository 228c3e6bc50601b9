/**
 * The ordered restore: its quorum lost for good, etcd goes on from one member's data, as a new
 * founding with a new token, so that no old disk ever merges with it. Pure.
 */

import { addressOfMember, filesystemOf } from './decide.ts';
import type { Moment, Ordered } from './evidence.ts';
import type { FoundingRecord, Known, MemberFacts, Restoring } from './founding.ts';
import { heardText, isSilent } from './liveness.ts';
import { majority } from './quorum.ts';

const refused = (text: string): Ordered => ({ ok: false, text });

export interface RestoreOrder {
  /** Whose data are taken. */
  readonly member: string;
  /** Members that are gone for good: what they have is given up. */
  readonly without: readonly string[];
}

/**
 * A person typed the cluster's name and named the member whose data are to be taken. Members that
 * are there say what they have. Of one that is silent nobody knows: it may be off for good, or cut
 * off from the boot host only and be part of a quorum. That it is gone is a person's word, name by
 * name; and nobody is given up who is heard.
 */
export function orderRestore(known: Known, { member, without }: RestoreOrder, { now, id }: Moment): Ordered {
  const { record, life, view } = known;
  if (!record?.founded) return refused('it was never founded, so that there is nothing to restore');
  if (record.reset) return refused('it was reset');
  if (record.restoring)
    return record.restoring.member === member
      ? { ok: true, record }
      : refused(
          `the data of ${record.restoring.member} are being restored already; if that machine is gone for good, \`muster cluster call-off ${known.cluster} ${record.restoring.member}\` ends it`,
        );
  if (view) return refused('etcd has a quorum: members that lost their data are replaced by themselves');
  if (life.rolledBack !== undefined)
    return refused(
      `this store was rolled back (seen by ${life.rolledBack}): restore its newest backup first. If there is none, nobody here knows whose data are the last: save /var/lib/etcd of the members, then \`reset\` and \`found\` begin an empty etcd; what was saved is read with etcd's own tools`,
    );
  const facts = life.asked.get(member);
  if (!facts) return refused(`${member} has not asked since the server started; power it on`);
  if (!isOwn(known, facts)) return refused(`${member} does not have its data`);
  if (isSilent(life, member)) return refused(`${member} was ${heardText(life, member)}; power it on`);
  const voters = Object.keys(record.joined).toSorted();
  const stands = standsAgainst(known, { member, without }, voters);
  if (stands !== undefined) return refused(stands);
  const { address } = addressOfMember(known, member);
  const { replacing: _, ...rest } = record;
  return {
    ok: true,
    record: { ...rest, restoring: { member, address, filesystem: facts.filesystem, id, at: now } },
  };
}

/** What the other voters are, or may be, that must not be given up like this. */
function standsAgainst(
  known: Known,
  { member, without }: RestoreOrder,
  voters: readonly string[],
): string | undefined {
  const { life } = known;
  const strange = without.find((name) => !voters.includes(name));
  if (strange !== undefined)
    return `${strange} is no member that could be given up; there are ${voters.join(', ')}`;
  if (without.includes(member)) return `${member} cannot be both: its data are those that are taken`;
  const hasItsOwn = (name: string): boolean => {
    const facts = life.asked.get(name);
    return facts !== undefined && isOwn(known, facts);
  };
  const there = voters.filter((name) => !isSilent(life, name) && hasItsOwn(name));
  const said = (names: readonly string[]): string =>
    names.map((name) => `${name} (${heardText(life, name)})`).join(', ');
  const kept = there.filter((name) => without.includes(name));
  if (kept.length > 0)
    return `${said(kept)} and had its data: what is there is not given up; power it off for good, and say this again in a minute`;
  if (there.length >= majority(voters.length))
    return `${said(there)} have their data: they are a quorum as soon as they run. One that was powered off for good counts no more after a minute`;
  const silent = voters.filter((name) => isSilent(life, name) && !without.includes(name));
  if (silent.length === 0) return undefined;
  const each = silent.map(
    (name) => `${name} (${hasItsOwn(name) ? 'with its data, ' : ''}${heardText(life, name)})`,
  );
  const all = voters.filter((name) => silent.includes(name) || without.includes(name));
  return `nobody knows what is with ${each.join(', ')}: power them on, their data may be newer or make a quorum. If they are gone for good, and run nowhere, give them up: --without ${all.join(' ')}`;
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

/**
 * Evidence that the copy is in its place: the marker, which is written last, names the new
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
