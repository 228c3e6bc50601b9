/** Counts the voters in etcd's own list of members. Pure. */
import { etcdPeerUrl } from '../model/ports.ts';
import type { EtcdMember, EtcdView, MemberAddress } from './founding.ts';

/** `https://[fd00::1]:2380` → `fd00::1`; undefined when the text is not a URL. */
export const addressOfUrl = (url: string): string | undefined =>
  URL.canParse(url) ? new URL(url).hostname.replace(/^\[|\]$/g, '') : undefined;

/** The smallest majority of `voters`. */
export const majority = (voters: number): number => Math.floor(voters / 2) + 1;

/**
 * Whether two descriptions mean the same member. Peer URLs are compared as well as names, because a
 * member that never started has no name.
 */
export const isMember = (member: EtcdMember, { name, address }: MemberAddress): boolean =>
  member.name === name || member.peerUrls.includes(etcdPeerUrl(address));

/** Whether etcd has a quorum: a majority of the voters answered a linearizable read. */
export function hasQuorum(view: EtcdView): boolean {
  const voters = view.members.filter(({ learner }) => !learner);
  return voters.filter(({ healthy }) => healthy).length >= majority(voters.length);
}

/**
 * Whether the other members that answer are a majority of all voters, so that this member can be
 * removed while etcd keeps its quorum. Also true when the member was already removed.
 */
export function othersHaveQuorum(view: EtcdView, candidate: MemberAddress): boolean {
  const voters = view.members.filter(({ learner }) => !learner);
  const healthy = voters.filter((member) => member.healthy && !isMember(member, candidate));
  return healthy.length >= majority(voters.length);
}

/** Whether etcd has a quorum now and keeps it when this member, running or not, is removed. */
export function keepsQuorumWithout(view: EtcdView, candidate: MemberAddress): boolean {
  const rest = view.members.filter((member) => !member.learner && !isMember(member, candidate));
  return hasQuorum(view) && rest.filter(({ healthy }) => healthy).length >= majority(rest.length);
}

/** The view as it will be when these members are down. */
export const whenDown = (view: EtcdView, down: readonly MemberAddress[]): EtcdView => ({
  ...view,
  members: view.members.map((member) =>
    down.some((one) => isMember(member, one)) ? { ...member, healthy: false } : member,
  ),
});

/**
 * The members of `all` that cannot be removed, one after the other, without etcd losing its
 * quorum; empty when all can be removed. Members that do not answer are removed first.
 */
export function notRemovable(view: EtcdView, all: readonly MemberAddress[]): readonly MemberAddress[] {
  let left = view;
  let rest = all.toSorted((a, b) => Number(runs(view, a)) - Number(runs(view, b)));
  while (rest.length > 0) {
    const [candidate, ...others] = rest;
    if (!keepsQuorumWithout(left, candidate!)) return rest;
    left = { ...left, members: left.members.filter((member) => !isMember(member, candidate!)) };
    rest = others;
  }
  return [];
}

const runs = (view: EtcdView, candidate: MemberAddress): boolean =>
  view.members.some((member) => member.healthy && isMember(member, candidate));
