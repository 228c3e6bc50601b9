/**
 * Decides what a member's etcd may do: the first rule of a table that applies. Pure. Everything
 * that follows from the member's facts is stored before the decision (evidence.ts).
 */
import type { Founding } from '../plan/manifests.ts';
import type { EtcdDecision, FoundingRecord, Known, MemberAddress, MemberFacts } from './founding.ts';
import { HOLDS, type HoldCode } from './holds.ts';
import { isMember, othersHaveQuorum } from './quorum.ts';

interface Situation {
  readonly known: Known;
  readonly facts: MemberFacts;
  /** The member that asks. */
  readonly asking: MemberAddress;
}

interface Rule {
  readonly rule: string;
  /** Undefined when the rule does not apply. */
  readonly apply: (situation: Situation) => EtcdDecision | undefined;
}

const hold = (code: HoldCode, particulars = ''): EtcdDecision => ({
  do: 'hold',
  code,
  text: particulars === '' ? HOLDS[code].text : `${HOLDS[code].text} ${particulars}`,
});

/**
 * A hold whose particulars only operators see: whoever asks in the machine's name could claim the
 * filesystem or the founding that they name.
 */
const guardedHold = (code: HoldCode, operators: string): EtcdDecision => ({
  do: 'hold',
  code,
  text: HOLDS[code].text,
  operators,
});

/**
 * The filesystem that has the member's data or is to receive them; undefined when none is known.
 */
export function filesystemOf(record: FoundingRecord, member: string): string | undefined {
  if (record.replacing?.member === member) return record.replacing.filesystem;
  return record.joined[member] ?? record.grants[member];
}

/**
 * How etcd starts at a founding. The token is made from the founding's id, so two foundings never
 * merge.
 */
const newFounding = (record: FoundingRecord): Founding => ({
  state: 'new',
  token: `muster-${record.id}`,
  members: record.members,
});

/** How a joining member starts. `members` is etcd's own list, including this member. */
const existing = (record: FoundingRecord, members: readonly MemberAddress[]): Founding => ({
  state: 'existing',
  token: `muster-${record.id}`,
  members,
});

/**
 * How a member with data starts: in the same way as at its first start, so that its manifest does
 * not change.
 */
function foundingOf(record: FoundingRecord, member: string): Founding {
  const list = record.replacing?.member === member ? record.replacing.added?.members : record.lists[member];
  return list ? existing(record, list) : newFounding(record);
}

const RULES: readonly Rule[] = [
  {
    rule: 'A disk that this machine used in a role without etcd is cleared first.',
    apply: ({ known, facts: { marker, machine } }) =>
      marker?.cluster === known.cluster && marker.machine === machine && marker.member === 'none'
        ? hold('other-role')
        : undefined,
  },
  {
    rule: 'A disk with the marker of another cluster, member or machine is not touched.',
    apply: ({ known, facts: { marker, member, machine } }) =>
      marker && (marker.cluster !== known.cluster || marker.member !== member || marker.machine !== machine)
        ? hold(
            'foreign-marker',
            `It belongs to ${marker.cluster}, member ${marker.member}, machine ${marker.machine}.`,
          )
        : undefined,
  },
  {
    rule: 'Where a member has data and the store has no record, nothing is founded.',
    apply: ({ known, facts }) =>
      !known.record && (facts.marker || facts.etcd.wal === 'present')
        ? hold('data-without-record')
        : undefined,
  },
  {
    rule: 'Without a record, a member waits until the founding opens.',
    apply: ({ known }) => {
      if (known.record) return undefined;
      if (known.life.rolledBack !== undefined)
        return hold('store-rolled-back', `${known.life.rolledBack} reported it.`);
      const missing = known.members.filter(({ name }) => !known.life.asked.has(name));
      const data = [...known.life.asked.values()].filter(hasData).map(({ member }) => member);
      return hold(
        'waiting-for-members',
        [
          missing.length > 0
            ? `These members have not asked yet: ${missing.map(({ name }) => name).join(', ')}.`
            : '',
          data.length > 0
            ? `These members have data of an etcd cluster that this server does not know: ${data.join(', ')}.`
            : '',
        ]
          .filter((text) => text !== '')
          .join(' '),
      );
    },
  },
  {
    rule: 'A disk of another founding is not touched.',
    apply: ({ known: { record }, facts: { marker } }) =>
      marker && marker.founding !== record?.id
        ? guardedHold(
            'foreign-marker',
            `It belongs to founding ${marker.founding}; the present one is ${record?.id}.`,
          )
        : undefined,
  },
  {
    rule: 'A machine that leaves the cluster starts nothing.',
    apply: ({ known: { record }, facts: { member } }) =>
      record!.leaving?.[member] ? hold('leaving') : undefined,
  },
  {
    rule: 'After a reset nothing starts and nothing is founded until an operator orders it.',
    apply: ({ known: { record } }) => (record!.reset ? hold('reset') : undefined),
  },
  {
    rule: 'A restore is done on the disk for which it was ordered; the other members wait.',
    apply: ({ known: { record }, facts }) => {
      const { restoring } = record!;
      if (!restoring) return undefined;
      return restoring.member === facts.member && restoring.filesystem === facts.filesystem
        ? { do: 'restore', restoring: { ...restoring, from: record!.id } }
        : hold('restoring', `The data of ${restoring.member} are being restored.`);
    },
  },
  {
    rule: 'Data without a marker are not ours.',
    apply: ({ facts }) =>
      facts.etcd.wal === 'present' && !facts.marker
        ? hold('foreign-marker', 'The disk has etcd data, but no marker of Muster.')
        : undefined,
  },
  {
    rule: 'Data on a filesystem that no longer belongs to the member stay as they are.',
    apply: ({ known: { record, life }, facts }) => {
      if (facts.etcd.wal !== 'present' || filesystemOf(record!, facts.member) === facts.filesystem)
        return undefined;
      return life.rolledBack === undefined
        ? guardedHold(
            'removed-disk',
            `The member’s filesystem is now ${filesystemOf(record!, facts.member) ?? 'none'}.`,
          )
        : hold('store-rolled-back', `${life.rolledBack} reported it.`);
    },
  },
  {
    rule: 'Data that appear before the member is added again belong to its former membership.',
    apply: ({ known: { record }, facts }) =>
      facts.etcd.wal === 'present' &&
      record!.replacing?.member === facts.member &&
      (record!.replacing.stage === 'remove' ||
        record!.replacing.stage === 'add' ||
        record!.replacing.stage === 'off')
        ? hold('unexpected-data')
        : undefined,
  },
  {
    rule: 'A member with its data starts.',
    apply: ({ known: { record }, facts: { etcd, member } }) =>
      etcd.wal === 'present' ? { do: 'start', founding: foundingOf(record!, member) } : undefined,
  },
  // The following rules are for members without data.
  {
    rule: 'A member that had data before the founding ended does not begin a second time.',
    apply: ({ known: { record }, facts: { member } }) =>
      !record!.founded && record!.joined[member] !== undefined ? hold('data-lost') : undefined,
  },
  {
    rule: 'A store that was rolled back does not found.',
    apply: ({ known: { record, life } }) =>
      !record!.founded && life.rolledBack !== undefined
        ? hold('store-rolled-back', `${life.rolledBack} reported it.`)
        : undefined,
  },
  {
    rule: 'The grant is repeated for the same cluster, founding, member and filesystem.',
    apply: ({ known: { record }, facts }) =>
      !record!.founded && record!.grants[facts.member] === facts.filesystem
        ? { do: 'found', founding: newFounding(record!), filesystem: facts.filesystem }
        : undefined,
  },
  {
    rule: 'The grant is never given for another filesystem.',
    apply: ({ known: { record }, facts: { member } }) => {
      if (record!.founded) return undefined;
      const granted = record!.grants[member];
      return granted === undefined
        ? hold(
            'waiting-for-members',
            'The founding was opened without this member; it joins when the founding has ended.',
          )
        : guardedHold('other-filesystem', `It was granted to ${granted}.`);
    },
  },
  {
    rule: 'One member is replaced at a time.',
    apply: ({ known: { record }, facts: { member } }) =>
      record!.replacing && record!.replacing.member !== member
        ? hold('replacing-other', `It is ${record!.replacing.member}.`)
        : undefined,
  },
  {
    rule: 'A replacement that was called off ends before another begins.',
    apply: ({ known: { record } }) => (record!.replacing?.stage === 'off' ? hold('called-off') : undefined),
  },
  {
    rule: 'A member that was added as a learner and has not started joins.',
    apply: ({ known: { record, view }, facts }) => {
      const { stage, added, filesystem } = record!.replacing ?? {};
      if (stage !== 'start' || !added || filesystem !== facts.filesystem) return undefined;
      const listed = view?.members.find(({ id }) => id === added.id);
      return listed?.learner && listed.name === ''
        ? { do: 'join', founding: existing(record!, added.members), filesystem: facts.filesystem }
        : undefined;
    },
  },
  {
    rule: 'A member that answers is not replaced.',
    apply: ({ known: { view }, asking }) =>
      view?.members.some((member) => member.healthy && isMember(member, asking))
        ? hold('member-alive')
        : undefined,
  },
  {
    rule: 'Without a quorum of the other members only an operator can act.',
    apply: ({ known: { view }, asking }) =>
      view && othersHaveQuorum(view, asking) ? undefined : hold('no-quorum'),
  },
  {
    rule: 'A member whose data are lost is removed from etcd and added again.',
    apply: ({ known: { record }, facts }) => ({
      do: 'replace',
      why: record!.joined[facts.member]
        ? `the data on ${record!.joined[facts.member]} are lost`
        : 'it was absent at the founding',
    }),
  },
];

/** The rules in their order, for docs/founding.md. */
export const RULE_TEXTS: readonly string[] = RULES.map(({ rule }) => rule);

/** Whether the disk has data of etcd, or a marker that says that it once had data. */
export const hasData = ({ marker, etcd }: MemberFacts): boolean =>
  marker !== undefined || etcd.wal !== 'absent';

/**
 * Decides what a member may do now, from what is stored. A rule applies to every situation.
 *
 * @example
 * // Nothing is stored yet and m1 is the first of three members to ask:
 * decide({ cluster: 'blue', members, life }, factsOfM1);
 * // { do: 'hold', code: 'waiting-for-members',
 * //   text: '… These members have not asked yet: m2, m3.' }
 */
export function decide(known: Known, facts: MemberFacts): EtcdDecision {
  const asking = addressOfMember(known, facts.member);
  for (const { apply } of RULES) {
    const decision = apply({ known, facts, asking });
    if (decision) return decision;
  }
  throw new RangeError('the last rule applies to everything');
}

/**
 * A member's name and address. They come from the record, because etcd was started with them; for a
 * member that the record does not have, and for a member that was taken out, from the document.
 */
export function addressOfMember({ record, members }: Known, name: string): MemberAddress {
  const recorded = record?.former?.includes(name)
    ? undefined
    : record?.members.find((one) => one.name === name);
  return recorded ?? members.find((one) => one.name === name) ?? { name, address: '' };
}
