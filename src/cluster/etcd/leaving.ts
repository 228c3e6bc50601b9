/**
 * Operators' orders on an existing cluster: take machines out, reset the cluster, cancel a
 * replacement or a restore, adopt a member's disk. Pure: each order returns the record that should
 * be stored, or the reason why it is refused.
 */
import { hasData } from './decide.ts';
import type { FoundingRecord, Known, Leaving, MemberAddress } from './founding.ts';
import { heardText, isSilent } from './liveness.ts';
import { type Ordered, refused } from './order.ts';
import { addressOfUrl, isMember, keepsQuorumWithout, notRemovable, whenDown } from './quorum.ts';
import type { ReplacingStep } from './replacing.ts';
import { foundingStep } from './steps.ts';

/** One machine that is to leave. */
export interface Departure {
  readonly machine: string;
  /** Whether the machine has a Node. */
  readonly node: boolean;
  /** Whether the machine's data filesystem is cleared. */
  readonly clear: boolean;
  /**
   * How long the drain may take, ms since 1970; a time in the past means that the node is not
   * drained.
   */
  readonly drainUntil: number;
  /** See {@link Leaving}. */
  readonly quarantine?: true;
}

/**
 * The address of the member of this name that etcd has or is about to have; undefined when there is
 * no such member.
 */
function memberAddress({ record, members, view }: Known, name: string): string | undefined {
  const listed = view?.members.find((one) => one.name === name)?.peerUrls[0];
  const address = listed === undefined ? undefined : addressOfUrl(listed);
  if (address !== undefined) return address;
  if (record?.former?.includes(name)) return undefined;
  return [...(record?.members ?? []), ...members].find((one) => one.name === name)?.address;
}

/**
 * Takes machines out. Members of etcd can leave only if the remaining members keep the quorum at
 * every step, because etcd itself refuses any other removal. A repeated order changes the first
 * order: the time for the drain is replaced, and `clear` can be added. An order for a machine
 * that comes back (a quarantine, or out of use) changes no departure for good, and an order after
 * it makes it one.
 */
export function orderLeaving(known: Known, departures: readonly Departure[], now: number): Ordered {
  const { record, view } = known;
  if (!record)
    return refused('it was never founded; removing the machine from the Cluster document is enough');
  if (record.reset) return refused('it is being reset, and all its machines are being cleared');
  if (record.restoring) return refused(`the data of ${record.restoring.member} are being restored`);
  const members = departures.flatMap(({ machine }): MemberAddress[] => {
    const address = memberAddress(known, machine);
    return address === undefined ? [] : [{ name: machine, address }];
  });
  if (members.length > 0 && !record.founded) return refused('its founding has not ended');
  if (members.length > 0 && !view)
    return refused(
      'etcd has no quorum and cannot remove members: power its members on, or, if they are lost for good, restore it from one member first (`muster cluster restore --from MEMBER`)',
    );
  const staying = view && notRemovable(view, members);
  if (staying && staying.length > 0)
    return refused(
      `without ${staying.map(({ name }) => name).join(', ')} etcd would have no quorum; bring other members back, or remove the members that do not answer first`,
    );
  const leaving: Record<string, Leaving> = { ...record.leaving };
  for (const departure of departures) {
    const { machine, node, clear, drainUntil, quarantine } = departure;
    const before = leaving[machine];
    const member = members.find(({ name }) => name === machine)?.address;
    if (before && quarantine) leaving[machine] = before.quarantine ? { ...before, drainUntil } : before;
    else if (before) leaving[machine] = again(before, departure);
    else
      leaving[machine] = {
        stage: 'drain',
        since: now,
        ...(member !== undefined && { member }),
        node,
        clear,
        drainUntil,
        ...(quarantine && { quarantine }),
      };
  }
  return { ok: true, record: { ...record, leaving } };
}

/** What a repeated order makes of a departure. */
function again(before: Leaving, { node, clear, drainUntil }: Departure): Leaving {
  const { quarantine, ...rest } = before;
  const ordered = { ...rest, clear: before.clear || clear, drainUntil };
  if (!quarantine) return ordered;
  // The quarantine left the Node where it was.
  return { ...ordered, node, stage: node && before.stage === 'down' ? 'node' : before.stage };
}

/**
 * The record after a machine was released from quarantine, or brought back. If its member has left
 * etcd, the machine clears its disk when it comes, and joins as a new member; else it is in the
 * cluster as before, and a worker keeps its data. Undefined when nothing was ordered so.
 */
export function released(record: FoundingRecord, machine: string): FoundingRecord | undefined {
  const leaving = record.leaving?.[machine];
  if (!leaving?.quarantine) return undefined;
  const { stage, member } = leaving;
  if (member === undefined || stage === 'drain' || stage === 'etcd') return gone(record, machine);
  const { quarantine: _, ...rest } = leaving;
  return { ...record, leaving: { ...record.leaving, [machine]: { ...rest, stage: 'down', clear: true } } };
}

/** A member that is leaving and that etcd still has. */
export interface LeavingMember extends MemberAddress {
  /** Etcd may take it out at any moment. */
  readonly due: boolean;
}

/** The members of a cluster that are leaving and that etcd still has. */
export const leavingMembers = (
  records: readonly Pick<FoundingRecord, 'cluster' | 'leaving'>[],
  cluster: string,
): readonly LeavingMember[] =>
  Object.entries(records.find((one) => one.cluster === cluster)?.leaving ?? {}).flatMap(
    ([name, { stage, member }]) =>
      member !== undefined && (stage === 'drain' || stage === 'etcd')
        ? [{ name, address: member, due: stage === 'etcd' }]
        : [],
  );

/** The next stage that the machine needs after its present one. */
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

/** The record with the machine in another stage of leaving. */
export const withStage = (
  record: FoundingRecord,
  machine: string,
  stage: Leaving['stage'],
): FoundingRecord => ({
  ...record,
  leaving: { ...record.leaving, [machine]: { ...record.leaving![machine]!, stage } },
});

/**
 * The record after the machine has given up everything of the cluster; undefined when the record
 * says so already.
 */
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
 * The next step that removes leaving members from etcd; members that do not answer are removed
 * first. Undefined when no member has to be removed. `goingDown` no longer count as answering.
 */
export function nextRemoval(
  record: FoundingRecord,
  view: Known['view'],
  goingDown: readonly MemberAddress[],
): ReplacingStep | undefined {
  const due = Object.entries(record.leaving ?? {})
    .filter(([, { stage, member }]) => stage === 'etcd' && member !== undefined)
    .map(([name, { member }]): MemberAddress => ({ name, address: member! }));
  if (due.length === 0) return undefined;
  if (!view) return { do: 'wait', why: 'no member of etcd answers' };
  const out = due.find((leaver) => !view.members.some((member) => isMember(member, leaver)));
  if (out)
    return {
      do: 'note',
      record: withoutMember(record, out.name),
      step: foundingStep('removed', { member: out.name }),
    };
  const answers = (leaver: MemberAddress) =>
    view.members.some((member) => member.healthy && isMember(member, leaver));
  const leaver = due.toSorted((a, b) => Number(answers(a)) - Number(answers(b)))[0]!;
  if (!keepsQuorumWithout(whenDown(view, goingDown), leaver)) {
    const others = goingDown.map(({ name }) => name).filter((name) => name !== leaver.name);
    const why = `without ${leaver.name} etcd would have no quorum`;
    return {
      do: 'wait',
      why: others.length === 0 ? why : `${why} while ${others.join(', ')} may restart at any moment`,
    };
  }
  return { do: 'remove', id: view.members.find((member) => isMember(member, leaver))!.id };
}

/** The record without the member. The data on its disk then belong to no member. */
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
 * Resets the cluster: all machines of this founding are cleared, including leaving machines that no
 * Cluster names any more.
 */
export function orderReset({ record }: Known, now: number): Ordered {
  if (!record) return refused('it was never founded: there is nothing to reset');
  const { replacing: _, restoring: __, ...rest } = record;
  return { ok: true, record: { ...rest, reset: record.reset ?? { at: now, cleared: [] } } };
}

/**
 * Cancels an operation that blocks other members. For a replacement whose learner never starts, the
 * learner is removed, and the member can be replaced again or be taken out. For a restore on a
 * machine that died, the founding before the restore is valid again, and another member's data can
 * be restored. If the machine finished its copy nevertheless, the copy belongs to an unknown
 * founding and the machine is held.
 */
export function orderCallOff({ record, life }: Known, member: string): Ordered {
  const { replacing, restoring } = record ?? {};
  if (record && restoring) {
    if (restoring.member !== member)
      return refused(`the data that are being restored are those of ${restoring.member}`);
    if (!isSilent(life, member))
      return refused(
        `${member} was ${heardText(life, member)} and is restoring its data; to abandon the restore, power the machine off and repeat this command after a minute`,
      );
    const { restoring: _, ...rest } = record;
    return { ok: true, record: rest };
  }
  if (!record || !replacing) return refused('nothing is being replaced, and no data are being restored');
  if (replacing.member !== member) return refused(`the member that is being replaced is ${replacing.member}`);
  return { ok: true, record: { ...record, replacing: { ...replacing, stage: 'off' } } };
}

/**
 * Adopts a disk. A store that was rolled back does not know the disks that members got later. The
 * operator declares that the disk in the machine is the member's own, and etcd has to confirm it by
 * answering as a voter at the machine's address.
 */
export function orderAdopt(known: Known, member: string): Ordered {
  const { record, life, view } = known;
  if (!record) return refused('this store has no record of a founding: restore a newer backup');
  if (record.reset) return refused('it was reset');
  if (record.restoring) return refused(`the data of ${record.restoring.member} are being restored`);
  if (record.leaving?.[member]) return refused(`${member} is being taken out`);
  const facts = life.asked.get(member);
  if (!facts) return refused(`${member} has not asked since the server started; power it on`);
  if (!hasData(facts) || facts.etcd.wal !== 'present') return refused(`${member} has no data`);
  const { marker } = facts;
  if (marker?.cluster !== known.cluster || marker.founding !== record.id || marker.member !== member)
    return refused(`the disk of ${member} does not belong to this founding`);
  const address = memberAddress(known, member) ?? '';
  const found = view?.members.find((one) => isMember(one, { name: member, address }));
  if (!view || !found || found.learner || !found.healthy || facts.etcd.health !== 'serving')
    return refused(`etcd does not answer as ${member}, so nothing proves that this disk is its own`);
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
