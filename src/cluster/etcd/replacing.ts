/**
 * The steps that replace a member: remove it, add it as a learner, let it start, promote it. The
 * next step follows from the stored stage and etcd's own list, so a server that is killed at any
 * point continues at the right step. Pure.
 *
 * Where the stage and the list differ, etcd's list is right: a step was done and not stored,
 * somebody else changed etcd, or the store is older.
 */
import { etcdPeerUrl } from '../model/ports.ts';
import type { EtcdView, FoundingRecord, MemberAddress, Replacing } from './founding.ts';
import { addressOfUrl, isMember, othersHaveQuorum } from './quorum.ts';
import { type FoundingStep, foundingStep } from './steps.ts';

export type ReplacingStep =
  | { readonly do: 'remove'; readonly id: string }
  | { readonly do: 'add'; readonly peerUrl: string }
  | { readonly do: 'promote'; readonly id: string }
  /** Store this record, and then compute the next step. */
  | { readonly do: 'note'; readonly record: FoundingRecord; readonly step: FoundingStep }
  | { readonly do: 'wait'; readonly why: string };

const wait = (why: string): ReplacingStep => ({ do: 'wait', why });

/** The next step of the replacement in the record; `view` is undefined when no member answers. */
export function nextStep(record: FoundingRecord, view: EtcdView | undefined): ReplacingStep {
  const { replacing } = record;
  if (!replacing) return wait('nothing is being replaced');
  if (!view) return wait('no member of etcd answers');
  const replacement: MemberAddress = { name: replacing.member, address: replacing.address };
  const goTo = (stage: Replacing['stage'], added?: Replacing['added']): ReplacingStep => {
    const { member, address, filesystem } = replacing;
    return {
      do: 'note',
      record: { ...record, replacing: { member, address, filesystem, stage, ...(added && { added }) } },
      step: foundingStep('replacing_stage', { member, stage }),
    };
  };
  const own = view.members.filter((member) => isMember(member, replacement));
  const added = view.members.find(({ id }) => id === replacing.added?.id);
  if (replacing.stage === 'off') return calledOff(record, own);
  if (replacing.stage !== 'promote' && !othersHaveQuorum(view, replacement))
    return wait('the other members have no quorum');
  switch (replacing.stage) {
    case 'remove': {
      const old = own[0];
      if (!old) return goTo('add');
      return old.healthy && !old.learner
        ? wait(`etcd still answers as ${replacing.member}`)
        : { do: 'remove', id: old.id };
    }
    case 'add': {
      const [first] = own;
      if (first?.learner && first.name === '')
        return goTo('start', { id: first.id, members: listOf(record, view, replacement) });
      if (first) return goTo('remove');
      const other = view.members.find(({ learner }) => learner);
      return other
        ? wait(`etcd already has a learner: ${other.name || other.id}`)
        : { do: 'add', peerUrl: etcdPeerUrl(replacement.address) };
    }
    case 'start':
      if (!added) return goTo('remove');
      if (!added.learner) return goTo('promote', replacing.added);
      return added.name !== '' && added.healthy
        ? goTo('promote', replacing.added)
        : wait(`${replacing.member} has not started as a learner yet`);
    case 'promote':
      if (!added) return goTo('remove');
      return added.learner ? { do: 'promote', id: added.id } : replaced(record, replacing);
  }
}

/**
 * Ends a cancelled replacement: removes the learner from etcd, then the replacement from the
 * record. A voter is not removed, because it was promoted meanwhile or is the member that was to be
 * replaced.
 */
function calledOff(
  { replacing, ...record }: FoundingRecord,
  own: readonly EtcdView['members'][number][],
): ReplacingStep {
  const learner = own.find((member) => member.learner);
  if (learner) return { do: 'remove', id: learner.id };
  const promoted = own.some(({ id }) => id === replacing?.added?.id);
  if (promoted) return replaced(record, replacing!);
  return { do: 'note', record, step: foundingStep('replacing_ended', { member: replacing!.member }) };
}

const replaced = (record: FoundingRecord, replacing: Replacing): ReplacingStep => ({
  do: 'note',
  record: joined(record, replacing),
  step: foundingStep('replaced', { member: replacing.member }),
});

/** The record with a new voter, to which the filesystem of the replacement now belongs. */
function joined({ replacing: _, former, ...record }: FoundingRecord, replacing: Replacing): FoundingRecord {
  const others = former?.filter((name) => name !== replacing.member) ?? [];
  return {
    ...record,
    ...(others.length > 0 && { former: others }),
    joined: { ...record.joined, [replacing.member]: replacing.filesystem },
    lists: { ...record.lists, [replacing.member]: replacing.added?.members ?? record.members },
  };
}

/**
 * `--initial-cluster` of a joining member: etcd's list, with the names that the members will have.
 */
function listOf(
  record: FoundingRecord,
  view: EtcdView,
  replacement: MemberAddress,
): readonly MemberAddress[] {
  return view.members.map(({ id, name, peerUrls }) => {
    const address = addressOfUrl(peerUrls[0] ?? '') ?? '';
    if (address === replacement.address) return replacement;
    const known = record.members.find((one) => one.address === address);
    return { name: name || (known?.name ?? id), address };
  });
}
