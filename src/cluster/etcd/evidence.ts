/**
 * What a member's word changes in the record, before it is answered: opening, binding, evidence.
 * Pure: each returns the record as it should be stored, or undefined when nothing changes.
 */
import { filesystemOf, hasData } from './decide.ts';
import type { FoundingRecord, Known, MemberFacts } from './founding.ts';
import { hasQuorum } from './quorum.ts';

export interface Moment {
  readonly now: number;
  /** A random id, used if a founding opens. */
  readonly id: string;
}

/**
 * The opening: every member was asked in this server's life, and none has data or the mark of them.
 * A store cannot tell fresh from lost, so nothing less is enough.
 */
export function openByAsking(known: Known, { now, id }: Moment): FoundingRecord | undefined {
  const { record, members, life } = known;
  if (record || members.length === 0 || life.rolledBack !== undefined) return undefined;
  const asked = members.map(({ name }) => life.asked.get(name));
  if (!asked.every((facts) => facts !== undefined && !hasData(facts))) return undefined;
  // A disk was copied: nothing is founded on it.
  const grants = grantsOf(asked as readonly MemberFacts[]);
  return grants && opening(known, grants, { now, id }, 'all-asked');
}

/** Each to the filesystem that it named; undefined when two named one. */
function grantsOf(asked: readonly MemberFacts[]): Readonly<Record<string, string>> | undefined {
  const filesystems = new Set(asked.map(({ filesystem }) => filesystem));
  if (filesystems.size < asked.length) return undefined;
  return Object.fromEntries(asked.map(({ member, filesystem }) => [member, filesystem]));
}

const opening = (
  { cluster, members }: Known,
  grants: FoundingRecord['grants'],
  { now, id }: Moment,
  openedBy: FoundingRecord['openedBy'],
): FoundingRecord => ({ v: 1, cluster, id, openedAt: now, openedBy, members, grants, joined: {}, lists: {} });

/** Why a person's order cannot be followed, or the record as it should be. */
export type Ordered =
  | { readonly ok: true; readonly record: FoundingRecord }
  | { readonly ok: false; readonly text: string };

/**
 * The opening by a person who typed the cluster's name: for those that have asked; absent ones are
 * bound when they first ask. Data stand against it, whosever they are.
 *
 * On a founding that was opened in an earlier life of the server and has not ended it makes a new
 * one: the store may be a backup, and who was bound since is not known. Its members must all say
 * that they have nothing.
 */
export function openByPerson(known: Known, { now, id }: Moment): Ordered {
  const { record, members, life } = known;
  const refused = (text: string): Ordered => ({ ok: false, text });
  if (record?.restoring) return refused(`the data of ${record.restoring.member} are being restored`);
  if (record?.founded && !record.reset)
    return refused('it is founded already; members that lost their data are replaced');
  if (record && life.opened && !record.reset) return { ok: true, record };
  const silent = Object.keys(record?.reset ? {} : (record?.grants ?? {})).filter(
    (member) => !life.asked.has(member),
  );
  if (silent.length > 0)
    return refused(`it was opened before, and ${silent.join(', ')} may have data; power them on first`);
  const asked = members.flatMap(({ name }) => life.asked.get(name) ?? []);
  if (asked.length === 0) return refused('none of its members has asked yet; power one on');
  const withData = asked.filter(hasData).map(({ member }) => member);
  if (withData.length > 0)
    return refused(
      `${withData.join(', ')} has a data disk that is not empty: there may be a cluster already`,
    );
  const grants = grantsOf(asked);
  return grants
    ? { ok: true, record: opening(known, grants, { now, id }, 'person') }
    : refused('two of its members name the same filesystem: a disk was copied');
}

/**
 * A member that was absent at the opening, asks for the first time, in the same life of the server.
 */
export function bindLate({ record, life }: Known, facts: MemberFacts): FoundingRecord | undefined {
  if (!record || record.founded || record.reset || !life.opened || hasData(facts)) return undefined;
  if (!record.members.some(({ name }) => name === facts.member)) return undefined;
  if (record.grants[facts.member] !== undefined) return undefined;
  if (Object.values(record.grants).includes(facts.filesystem)) return undefined;
  return { ...record, grants: { ...record.grants, [facts.member]: facts.filesystem } };
}

/** Data seen on the right disk; and a linearizable read there, which ends the founding for all. */
export function witness(known: Known, facts: MemberFacts, now: number): FoundingRecord | undefined {
  const { record } = known;
  const { member, marker, filesystem, etcd } = facts;
  if (!record || etcd.wal !== 'present' || filesystemOf(record, member) !== filesystem) return undefined;
  if (record.reset || record.restoring || record.leaving?.[member]) return undefined;
  if (marker?.cluster !== record.cluster || marker.founding !== record.id) return undefined;
  if (marker.member !== member || marker.machine !== facts.machine) return undefined;
  const fresh = record.joined[member] === undefined && record.replacing?.member !== member;
  const ends = !record.founded && etcd.health === 'serving';
  if (!fresh && !ends) return undefined;
  return {
    ...record,
    ...(fresh && { joined: { ...record.joined, [member]: filesystem } }),
    ...(ends && { founded: { at: now, by: member } }),
  };
}

/** The same by our own probe. */
export function witnessView({ record, view }: Known, now: number): FoundingRecord | undefined {
  if (!record || record.founded || record.reset || !view || !hasQuorum(view)) return undefined;
  return { ...record, founded: { at: now, by: 'probe' } };
}

/**
 * A replacement begins, or begins anew with another disk: only for a machine that has stopped its
 * etcd and has no data. `decided` is that the rules said `replace`.
 */
export function beginReplacing(
  known: Known,
  facts: MemberFacts,
  address: string,
): FoundingRecord | undefined {
  const { record } = known;
  if (!record || record.leaving?.[facts.member] || record.reset || record.restoring) return undefined;
  if (!facts.fenced || facts.etcd.wal !== 'absent' || facts.etcd.health !== 'down') return undefined;
  const { replacing } = record;
  const { member, filesystem } = facts;
  const early = replacing?.stage === 'remove' || replacing?.stage === 'add';
  if (replacing?.stage === 'off') return undefined;
  if (replacing && (replacing.member !== member || (replacing.filesystem === filesystem && early)))
    return undefined;
  return { ...record, replacing: { member, address, filesystem, stage: 'remove' } };
}
