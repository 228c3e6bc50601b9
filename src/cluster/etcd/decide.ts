/**
 * What a member's etcd may do: the first rule that fits, as a table. Pure; what is stored before
 * the answer goes out is in settle.ts.
 */
import type { Founding } from '../plan/manifests.ts';
import type {
  EtcdDecision,
  FoundingRecord,
  HoldCode,
  Known,
  MemberAddress,
  MemberFacts,
} from './founding.ts';
import { HOLDS } from './founding.ts';
import { isMember, othersHaveQuorum } from './quorum.ts';

interface Situation {
  readonly known: Known;
  readonly facts: MemberFacts;
  readonly who: MemberAddress;
}

interface Rule {
  readonly rule: string;
  readonly of: (situation: Situation) => EtcdDecision | undefined;
}

const hold = (code: HoldCode, particulars = ''): EtcdDecision => ({
  do: 'hold',
  code,
  text: particulars === '' ? HOLDS[code] : `${HOLDS[code]} ${particulars}`,
});

/** The filesystem that holds the member's data, or is to hold them. */
export function filesystemOf(record: FoundingRecord, member: string): string | undefined {
  if (record.replacing?.member === member) return record.replacing.filesystem;
  return record.joined[member] ?? record.grants[member];
}

/** What etcd is told at founding. The token is the founding's id: two foundings never merge. */
export const newFounding = (record: FoundingRecord): Founding => ({
  state: 'new',
  token: `muster-${record.id}`,
  members: record.members,
});

/** One that joins must be told etcd's own list, itself included. */
const existing = (record: FoundingRecord, members: readonly MemberAddress[]): Founding => ({
  state: 'existing',
  token: `muster-${record.id}`,
  members,
});

/**
 * What a member with data starts with: the same as at its first start, so that its manifest does
 * not change.
 */
function foundingOf(record: FoundingRecord, member: string): Founding {
  const list = record.replacing?.member === member ? record.replacing.added?.members : record.lists[member];
  return list ? existing(record, list) : newFounding(record);
}

const RULES: readonly Rule[] = [
  {
    rule: 'a disk that the machine had in another role is cleared first',
    of: ({ known, facts: { marker, machine } }) =>
      marker?.cluster === known.cluster && marker.machine === machine && marker.member === 'none'
        ? hold('other-role')
        : undefined,
  },
  {
    rule: 'a disk that carries the marker of another cluster, member or machine is not touched',
    of: ({ known, facts: { marker, member, machine } }) =>
      marker && (marker.cluster !== known.cluster || marker.member !== member || marker.machine !== machine)
        ? hold(
            'foreign-marker',
            `It is of ${marker.cluster}, member ${marker.member}, machine ${marker.machine}.`,
          )
        : undefined,
  },
  {
    rule: 'data without a record: nothing is founded beside them',
    of: ({ known, facts }) =>
      !known.record && (facts.marker || facts.etcd.wal === 'present')
        ? hold('data-without-record')
        : undefined,
  },
  {
    rule: 'without a record, a member waits for the opening',
    of: ({ known }) => {
      if (known.record) return undefined;
      if (known.life.rolledBack !== undefined)
        return hold('store-rolled-back', `Seen by ${known.life.rolledBack}.`);
      const missing = known.members.filter(({ name }) => !known.life.asked.has(name));
      const data = [...known.life.asked.values()].filter(hasData).map(({ member }) => member);
      return hold(
        'waiting-for-members',
        [
          missing.length > 0 ? `Not asked yet: ${missing.map(({ name }) => name).join(', ')}.` : '',
          data.length > 0 ? `With data of a cluster that is not known here: ${data.join(', ')}.` : '',
        ]
          .filter((text) => text !== '')
          .join(' '),
      );
    },
  },
  {
    rule: 'a disk of another founding is not touched',
    of: ({ known: { record }, facts: { marker } }) =>
      marker && marker.founding !== record?.id
        ? hold('foreign-marker', `It is of founding ${marker.founding}; the present one is ${record?.id}.`)
        : undefined,
  },
  {
    rule: 'a machine that is on its way out starts nothing',
    of: ({ known: { record }, facts: { member } }) =>
      record!.leaving?.[member] ? hold('leaving') : undefined,
  },
  {
    rule: 'after a reset nothing starts and nothing is founded until a person says so',
    of: ({ known: { record } }) => (record!.reset ? hold('reset') : undefined),
  },
  {
    rule: 'an ordered restore is done on the disk that it was ordered for, and the others wait',
    of: ({ known: { record }, facts }) => {
      const { restoring } = record!;
      if (!restoring) return undefined;
      return restoring.member === facts.member && restoring.filesystem === facts.filesystem
        ? { do: 'restore', restoring: { ...restoring, from: record!.id } }
        : hold('restoring', `It is ${restoring.member}.`);
    },
  },
  {
    rule: 'data that nobody marked are not ours',
    of: ({ facts }) =>
      facts.etcd.wal === 'present' && !facts.marker
        ? hold('foreign-marker', 'It holds data of etcd without a marker.')
        : undefined,
  },
  {
    rule: 'data on a filesystem that is no longer the member’s stay as they are',
    of: ({ known: { record, life }, facts }) => {
      if (facts.etcd.wal !== 'present' || filesystemOf(record!, facts.member) === facts.filesystem)
        return undefined;
      return life.rolledBack === undefined
        ? hold('removed-disk', `Its filesystem is now ${filesystemOf(record!, facts.member) ?? 'none'}.`)
        : hold('store-rolled-back', `Seen by ${life.rolledBack}.`);
    },
  },
  {
    rule: 'data that appear before the member was added anew are of its former membership',
    of: ({ known: { record }, facts }) =>
      facts.etcd.wal === 'present' &&
      record!.replacing?.member === facts.member &&
      (record!.replacing.stage === 'remove' ||
        record!.replacing.stage === 'add' ||
        record!.replacing.stage === 'off')
        ? hold('unexpected-data')
        : undefined,
  },
  {
    rule: 'with its data, a member starts',
    of: ({ known: { record }, facts: { etcd, member } }) =>
      etcd.wal === 'present' ? { do: 'start', founding: foundingOf(record!, member) } : undefined,
  },
  // From here on there are no data.
  {
    rule: 'who had data before the founding ended gets no second beginning',
    of: ({ known: { record }, facts: { member } }) =>
      !record!.founded && record!.joined[member] !== undefined ? hold('data-lost') : undefined,
  },
  {
    rule: 'a store that was rolled back does not found',
    of: ({ known: { record, life } }) =>
      !record!.founded && life.rolledBack !== undefined
        ? hold('store-rolled-back', `Seen by ${life.rolledBack}.`)
        : undefined,
  },
  {
    rule: 'the grant, again for the same four',
    of: ({ known: { record }, facts }) =>
      !record!.founded && record!.grants[facts.member] === facts.filesystem
        ? { do: 'found', founding: newFounding(record!), filesystem: facts.filesystem }
        : undefined,
  },
  {
    rule: 'never for another filesystem',
    of: ({ known: { record }, facts: { member } }) => {
      if (record!.founded) return undefined;
      const granted = record!.grants[member];
      return granted === undefined
        ? hold('waiting-for-members', 'The founding was opened without this one; it joins when it has ended.')
        : hold('other-filesystem', `It was ${granted}.`);
    },
  },
  {
    rule: 'one replacement at a time',
    of: ({ known: { record }, facts: { member } }) =>
      record!.replacing && record!.replacing.member !== member
        ? hold('replacing-other', `It is ${record!.replacing.member}.`)
        : undefined,
  },
  {
    rule: 'a replacement that was called off ends before another begins',
    of: ({ known: { record } }) => (record!.replacing?.stage === 'off' ? hold('called-off') : undefined),
  },
  {
    rule: 'added as a learner that never started, it joins',
    of: ({ known: { record, view }, facts }) => {
      const { stage, added, filesystem } = record!.replacing ?? {};
      if (stage !== 'start' || !added || filesystem !== facts.filesystem) return undefined;
      const listed = view?.members.find(({ id }) => id === added.id);
      return listed?.learner && listed.name === ''
        ? { do: 'join', founding: existing(record!, added.members), filesystem: facts.filesystem }
        : undefined;
    },
  },
  {
    rule: 'a member that answers is not replaced',
    of: ({ known: { view }, who }) =>
      view?.members.some((member) => member.healthy && isMember(member, who))
        ? hold('member-alive')
        : undefined,
  },
  {
    rule: 'without quorum of the others only a person acts',
    of: ({ known: { view }, who }) => (view && othersHaveQuorum(view, who) ? undefined : hold('no-quorum')),
  },
  {
    rule: 'its data are gone: it is removed and added anew',
    of: ({ known: { record }, facts }) => ({
      do: 'replace',
      why: record!.joined[facts.member]
        ? `the data on ${record!.joined[facts.member]} are gone`
        : 'it was not there at the founding',
    }),
  },
];

/** For the page of rules. */
export const RULE_TEXTS: readonly string[] = RULES.map(({ rule }) => rule);

/** Data, or the mark of them. */
export const hasData = ({ marker, etcd }: MemberFacts): boolean =>
  marker !== undefined || etcd.wal !== 'absent';

/**
 * What the member may do now, by what is stored: settle first. Total: some rule fits every
 * situation.
 */
export function decide(known: Known, facts: MemberFacts): EtcdDecision {
  const who = addressOfMember(known, facts.member);
  for (const { of } of RULES) {
    const decision = of({ known, facts, who });
    if (decision) return decision;
  }
  throw new RangeError('the last rule fits everything');
}

/**
 * As the record has it, since that is what etcd was told; else, and of one that was taken out, as
 * the document has it.
 */
export function addressOfMember({ record, members }: Known, name: string): MemberAddress {
  const told = record?.former?.includes(name) ? undefined : record?.members.find((one) => one.name === name);
  return told ?? members.find((one) => one.name === name) ?? { name, address: '' };
}
