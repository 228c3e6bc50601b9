/**
 * Replacing a member, step by step: remove, add as a learner, let it start, promote. What comes
 * next follows from the stored stage and etcd's own list, so whoever is killed at any point, the
 * next one goes on. Pure.
 *
 * etcd's list is the truth where the two differ (a step was done and not written down, somebody
 * else acted, the store is older).
 */
import { etcdPeerUrl } from '../spec/ports.ts';
import type { EtcdView, FoundingRecord, MemberAddress, Replacing } from './founding.ts';
import { isMember, othersHaveQuorum } from './quorum.ts';

export type ReplacingStep =
  | { readonly do: 'remove'; readonly id: string }
  | { readonly do: 'add'; readonly peerUrl: string }
  | { readonly do: 'promote'; readonly id: string }
  /** Write this down and look again. */
  | { readonly do: 'note'; readonly record: FoundingRecord }
  | { readonly do: 'wait'; readonly why: string };

const wait = (why: string): ReplacingStep => ({ do: 'wait', why });

/** What to do next for the replacement that the record tells of. */
export function nextStep(record: FoundingRecord, view: EtcdView | undefined): ReplacingStep {
  const { replacing } = record;
  if (!replacing) return wait('nothing is being replaced');
  if (!view) return wait('no member of etcd answers');
  const who: MemberAddress = { name: replacing.member, address: replacing.address };
  const goTo = (stage: Replacing['stage'], added?: Replacing['added']): ReplacingStep => {
    const { member, address, filesystem } = replacing;
    return {
      do: 'note',
      record: { ...record, replacing: { member, address, filesystem, stage, ...(added && { added }) } },
    };
  };
  const own = view.members.filter((member) => isMember(member, who));
  const added = view.members.find(({ id }) => id === replacing.added?.id);
  if (replacing.stage === 'off') return calledOff(record, own);
  if (replacing.stage !== 'promote' && !othersHaveQuorum(view, who))
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
        return goTo('start', { id: first.id, members: listOf(record, view, who) });
      if (first) return goTo('remove');
      const other = view.members.find(({ learner }) => learner);
      return other
        ? wait(`another learner is there: ${other.name || other.id}`)
        : { do: 'add', peerUrl: etcdPeerUrl(who.address) };
    }
    case 'start':
      if (!added) return goTo('remove');
      if (!added.learner) return goTo('promote', replacing.added);
      return added.name !== '' && added.healthy
        ? goTo('promote', replacing.added)
        : wait(`${replacing.member} has not started as a learner yet`);
    case 'promote':
      if (!added) return goTo('remove');
      return added.learner
        ? { do: 'promote', id: added.id }
        : { do: 'note', record: joined(record, replacing) };
  }
}

/**
 * The learner goes, then the replacement is forgotten. A voter it is that was promoted meanwhile,
 * or the one that was to be replaced: it stays.
 */
function calledOff(
  { replacing, ...record }: FoundingRecord,
  own: readonly EtcdView['members'][number][],
): ReplacingStep {
  const learner = own.find((member) => member.learner);
  if (learner) return { do: 'remove', id: learner.id };
  const promoted = own.some(({ id }) => id === replacing?.added?.id);
  return { do: 'note', record: promoted ? joined(record, replacing!) : record };
}

/** It is a voter: its filesystem is the member's from now on. */
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
 * `--initial-cluster` of one that joins: what etcd has, by the names that members have or will
 * have.
 */
function listOf(record: FoundingRecord, view: EtcdView, who: MemberAddress): readonly MemberAddress[] {
  return view.members.map(({ id, name, peerUrls }) => {
    const address = hostOf(peerUrls[0] ?? '');
    if (address === who.address) return who;
    const known = record.members.find((one) => one.address === address);
    return { name: name || (known?.name ?? id), address };
  });
}

/** `https://[fd00::1]:2380` → `fd00::1`. */
function hostOf(url: string): string {
  return URL.canParse(url) ? new URL(url).hostname.replace(/^\[|\]$/g, '') : '';
}
