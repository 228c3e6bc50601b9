/**
 * Record changes that follow from what members report: the opening of the founding, the binding of
 * late members, evidence of data and of a quorum. Pure: each function returns the record that
 * should be stored, or undefined when nothing changes.
 */
import { filesystemOf, hasData } from './decide.ts';
import type { FoundingRecord, Known, MemberFacts } from './founding.ts';
import { type Moment, type Ordered, refused } from './order.ts';
import { hasQuorum } from './quorum.ts';
import { witnessRestored } from './restoring.ts';
import { type FoundingStep, foundingStep } from './steps.ts';

/** A record that should be stored, and the step that leads to it. */
export interface Change {
  readonly record: FoundingRecord;
  readonly step: FoundingStep;
}

/** The next change that follows from what is known; undefined when everything is stored. */
export function nextChange(known: Known, facts: MemberFacts, moment: Moment): Change | undefined {
  const { member, filesystem, etcd } = facts;
  const { now } = moment;
  const opening = openByAsking(known, moment);
  if (opening) return { record: opening, step: foundingStep('opened_by_all') };
  const restored = witnessRestored(known, facts, now);
  if (restored) return { record: restored, step: foundingStep('restored', { member }) };
  const bound = bindLate(known, facts);
  if (bound) return { record: bound, step: foundingStep('bound_late', { member, filesystem }) };
  const seen = witness(known, facts, now);
  if (seen) {
    const ended = seen.founded !== undefined && known.record?.founded === undefined;
    const step = ended
      ? foundingStep('founded_member', { member })
      : foundingStep('data_seen', { member, health: etcd.health });
    return { record: seen, step };
  }
  const probed = witnessView(known, now);
  if (probed) return { record: probed, step: foundingStep('founded_probe') };
  return undefined;
}

/**
 * Opens the founding without an operator, when every member has asked since the server started and
 * none has data or a marker. Less is not enough, because an empty store may be a lost store.
 */
export function openByAsking(known: Known, { now, id }: Moment): FoundingRecord | undefined {
  const { record, members, life } = known;
  if (record || members.length === 0 || life.rolledBack !== undefined) return undefined;
  const asked = members.map(({ name }) => life.asked.get(name));
  if (!asked.every((facts) => facts !== undefined && !hasData(facts))) return undefined;
  // Two members that name the same filesystem have a copied disk, so nothing is founded on it.
  const grants = grantsOf(asked as readonly MemberFacts[]);
  return grants && opening(known, grants, { now, id }, 'all-asked');
}

/**
 * Binds each member to the filesystem that it named; undefined when two members named the same one.
 */
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

/**
 * Opens the founding because an operator typed the cluster's name. The members that have asked are
 * bound; an absent member is bound when it first asks. The order is refused when any member has
 * data.
 *
 * A founding that was opened before this server started, and has not ended, is replaced by a new
 * founding: the store may be a backup that lacks later bindings. Then all members of the old
 * founding must have reported that they have no data.
 */
export function openByOperator(known: Known, { now, id }: Moment): Ordered {
  const { record, members, life } = known;
  if (record?.restoring) return refused(`the data of ${record.restoring.member} are being restored`);
  if (record?.founded && !record.reset)
    return refused('it is already founded; members that lost their data are replaced automatically');
  if (record && life.opened && !record.reset) return { ok: true, record };
  const silent = Object.keys(record?.reset ? {} : (record?.grants ?? {})).filter(
    (member) => !life.asked.has(member),
  );
  if (silent.length > 0)
    return refused(
      `the founding was opened before, and ${silent.join(', ')} may have data; power them on first`,
    );
  const asked = members.flatMap(({ name }) => life.asked.get(name) ?? []);
  if (asked.length === 0) return refused('none of its members has asked yet; power on one of them');
  const withData = asked.filter(hasData).map(({ member }) => member);
  if (withData.length > 0)
    return refused(
      `these members have data on their data disks: ${withData.join(', ')}; the cluster may exist already`,
    );
  const grants = grantsOf(asked);
  return grants
    ? { ok: true, record: opening(known, grants, { now, id }, 'person') }
    : refused('two of its members report the same filesystem: a disk was copied');
}

/**
 * Binds a member that was absent at the opening and asks for the first time before the server ends.
 */
export function bindLate({ record, life }: Known, facts: MemberFacts): FoundingRecord | undefined {
  if (!record || record.founded || record.reset || !life.opened || hasData(facts)) return undefined;
  if (!record.members.some(({ name }) => name === facts.member)) return undefined;
  if (record.grants[facts.member] !== undefined) return undefined;
  if (Object.values(record.grants).includes(facts.filesystem)) return undefined;
  return { ...record, grants: { ...record.grants, [facts.member]: facts.filesystem } };
}

/**
 * Notes evidence from the member itself: data on its own disk, and a linearizable read there, which
 * ends the founding for all members.
 */
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

/** Notes evidence from the boot host's own question to etcd: a quorum ends the founding. */
export function witnessView({ record, view }: Known, now: number): FoundingRecord | undefined {
  if (!record || record.founded || record.reset || !view || !hasQuorum(view)) return undefined;
  return { ...record, founded: { at: now, by: 'probe' } };
}

/**
 * Begins a replacement, or begins it again with another disk, after the rules decided `replace`.
 * Only a machine that has stopped its etcd and has no data is replaced. `address` is the address of
 * the new member.
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
