/**
 * What people order beyond the founding: machines out of the cluster, the whole cluster reset, a
 * replacement or a restore called off, a member taken for the one that it is. Pure: each order
 * gives the record as it should be, or what stands against it.
 */
import { hasData } from './decide.ts';
import type { Ordered } from './evidence.ts';
import type { FoundingRecord, Known, Leaving, MemberAddress } from './founding.ts';
import { heardText, isSilent } from './liveness.ts';
import { isMember, notRemovable, standsWithout } from './quorum.ts';
import type { ReplacingStep } from './replacing.ts';

/** One machine that is to go. */
export interface Departure {
  readonly machine: string;
  /** Whether it has a Node. */
  readonly node: boolean;
  readonly clear: boolean;
  /** Ms since 1970; in the past: it is not drained at all. */
  readonly drainUntil: number;
}

const refused = (text: string): Ordered => ({ ok: false, text });

/**
 * The address under which etcd has a member of this name, or would have; undefined when it has
 * none.
 */
function memberAddress({ record, members, view }: Known, name: string): string | undefined {
  const listed = view?.members.find((one) => one.name === name)?.peerUrls[0];
  if (listed !== undefined && URL.canParse(listed)) return new URL(listed).hostname.replace(/^\[|\]$/g, '');
  if (record?.former?.includes(name)) return undefined;
  return [...(record?.members ?? []), ...members].find((one) => one.name === name)?.address;
}

/**
 * Machines go. Members of etcd only as long as those that stay keep the quorum at every step: etcd
 * itself would refuse anything else. Ordered again, what was said anew counts: a drain that is not
 * waited for any longer, a disk that is to be cleared after all.
 */
export function orderLeaving(known: Known, departures: readonly Departure[], now: number): Ordered {
  const { record, view } = known;
  if (!record) return refused('it was never founded: take the machine out of the Cluster, that is all');
  if (record.reset) return refused('it is being reset, all its machines are');
  if (record.restoring) return refused(`the data of ${record.restoring.member} are being restored`);
  const members = departures.flatMap(({ machine }): MemberAddress[] => {
    const address = memberAddress(known, machine);
    return address === undefined ? [] : [{ name: machine, address }];
  });
  if (members.length > 0 && !record.founded) return refused('its founding has not ended');
  if (members.length > 0 && !view)
    return refused(
      'etcd has no quorum, and takes nobody out: power its members on, or, if they are gone for good, let it go on from one of them first (`muster cluster restore --from MEMBER`)',
    );
  const staying = view && notRemovable(view, members);
  if (staying && staying.length > 0)
    return refused(
      `without ${staying.map(({ name }) => name).join(', ')} etcd would have no quorum; bring other members back or remove those first that do not answer`,
    );
  const leaving: Record<string, Leaving> = { ...record.leaving };
  for (const { machine, node, clear, drainUntil } of departures) {
    const before = leaving[machine];
    const member = members.find(({ name }) => name === machine)?.address;
    leaving[machine] = before
      ? { ...before, clear: before.clear || clear, drainUntil }
      : { stage: 'drain', since: now, ...(member !== undefined && { member }), node, clear, drainUntil };
  }
  return { ok: true, record: { ...record, leaving } };
}

/** The stage after this one that the machine needs; undefined for a machine that is not leaving. */
export function nextStage(leaving: Leaving): Leaving['stage'] {
  switch (leaving.stage) {
    case 'drain':
      return leaving.member !== undefined ? 'etcd' : leaving.node ? 'node' : 'down';
    case 'etcd':
      return leaving.node ? 'node' : 'down';
    default:
      return 'down';
  }
}

export const withStage = (
  record: FoundingRecord,
  machine: string,
  stage: Leaving['stage'],
): FoundingRecord => ({
  ...record,
  leaving: { ...record.leaving, [machine]: { ...record.leaving![machine]!, stage } },
});

/** The machine has nothing left of this cluster that was to go. */
export function gone(record: FoundingRecord, machine: string): FoundingRecord | undefined {
  const { reset } = record;
  if (reset ? reset.cleared.includes(machine) : !record.leaving?.[machine]) return undefined;
  const { [machine]: _, ...others } = record.leaving ?? {};
  const { leaving: __, ...rest } = record;
  return {
    ...rest,
    ...(Object.keys(others).length > 0 && { leaving: others }),
    ...(reset && { reset: { ...reset, cleared: [...reset.cleared, machine] } }),
  };
}

/**
 * The next step for members of etcd that are to go: those first that do not answer. Undefined when
 * there are none.
 */
export function nextRemoval(record: FoundingRecord, view: Known['view']): ReplacingStep | undefined {
  const due = Object.entries(record.leaving ?? {})
    .filter(([, { stage, member }]) => stage === 'etcd' && member !== undefined)
    .map(([name, { member }]): MemberAddress => ({ name, address: member! }));
  if (due.length === 0) return undefined;
  if (!view) return { do: 'wait', why: 'no member of etcd answers' };
  const out = due.find((who) => !view.members.some((member) => isMember(member, who)));
  if (out) return { do: 'note', record: withoutMember(record, out.name) };
  const answers = (who: MemberAddress) =>
    view.members.some((member) => member.healthy && isMember(member, who));
  const who = due.toSorted((a, b) => Number(answers(a)) - Number(answers(b)))[0]!;
  if (!standsWithout(view, who)) return { do: 'wait', why: `without ${who.name} etcd would have no quorum` };
  return { do: 'remove', id: view.members.find((member) => isMember(member, who))!.id };
}

/** It is no member any more: what is on its disks is of nobody. */
function withoutMember(record: FoundingRecord, name: string): FoundingRecord {
  const without = <T>(of: Readonly<Record<string, T>>): Readonly<Record<string, T>> =>
    Object.fromEntries(Object.entries(of).filter(([member]) => member !== name));
  const { replacing, ...rest } = withStage(record, name, nextStage(record.leaving![name]!));
  return {
    ...rest,
    ...(replacing && replacing.member !== name && { replacing }),
    grants: without(record.grants),
    joined: without(record.joined),
    lists: without(record.lists),
    former: [...new Set([...(record.former ?? []), name])],
  };
}

/**
 * All machines are cleared of this founding, also those that are on their way out and that no
 * Cluster names any more.
 */
export function orderReset({ record }: Known, now: number): Ordered {
  if (!record) return refused('it was never founded: there is nothing to reset');
  const { replacing: _, restoring: __, ...rest } = record;
  return { ok: true, record: { ...rest, reset: record.reset ?? { at: now, cleared: [] } } };
}

/**
 * What others wait for ends. A replacement whose learner never starts: the learner goes, and the
 * member can be replaced anew, or be taken out. A restore on a machine that died meanwhile: the
 * founding is what it was before, and the data of others can be taken. A copy that the machine has
 * finished all the same is of a founding that nobody knows: it is held with it.
 */
export function orderCallOff({ record, life }: Known, member: string): Ordered {
  const { replacing, restoring } = record ?? {};
  if (record && restoring) {
    if (restoring.member !== member)
      return refused(`it is ${restoring.member} whose data are being restored`);
    if (!isSilent(life, member))
      return refused(
        `${member} was ${heardText(life, member)} and is restoring its data; if it is to be given up, power it off, and say this again in a minute`,
      );
    const { restoring: _, ...rest } = record;
    return { ok: true, record: rest };
  }
  if (!record || !replacing) return refused('nothing is being replaced, and no data restored');
  if (replacing.member !== member) return refused(`it is ${replacing.member} that is being replaced`);
  return { ok: true, record: { ...record, replacing: { ...replacing, stage: 'off' } } };
}

/**
 * A store that was rolled back does not know disks that members have had since. A person says that
 * the one which the machine has now is its own; etcd's own list has to say so as well: it answers
 * as a voter at that machine's address.
 */
export function orderAdopt(known: Known, member: string): Ordered {
  const { record, life, view } = known;
  if (!record) return refused('this store knows of no founding: restore a newer backup');
  if (record.reset || record.restoring || record.leaving?.[member])
    return refused(`${member} is not to start`);
  const facts = life.asked.get(member);
  if (!facts) return refused(`${member} has not asked since the server started; power it on`);
  if (!hasData(facts) || facts.etcd.wal !== 'present') return refused(`${member} has no data`);
  const { marker } = facts;
  if (marker?.cluster !== known.cluster || marker.founding !== record.id || marker.member !== member)
    return refused(`the disk of ${member} is not of this founding`);
  const address = memberAddress(known, member) ?? '';
  const found = view?.members.find((one) => isMember(one, { name: member, address }));
  if (!view || !found || found.learner || !found.healthy || facts.etcd.health !== 'serving')
    return refused(`etcd does not answer as ${member}, so that nothing says that this disk is its own`);
  const others = record.former?.filter((name) => name !== member) ?? [];
  const { former: _, replacing, ...rest } = record;
  return {
    ok: true,
    record: {
      ...rest,
      ...(others.length > 0 && { former: others }),
      ...(replacing && replacing.member !== member && { replacing }),
      joined: { ...record.joined, [member]: facts.filesystem },
    },
  };
}
