/** What etcd's own list says of quorum. Pure. */
import { etcdPeerUrl } from '../spec/ports.ts';
import type { EtcdMember, EtcdView, MemberAddress } from './founding.ts';

/** A majority of `voters`. */
export const majority = (voters: number): number => Math.floor(voters / 2) + 1;

/** By peer URL as well: one that never started has no name. */
export const isMember = (member: EtcdMember, { name, address }: MemberAddress): boolean =>
  member.name === name || member.peerUrls.includes(etcdPeerUrl(address));

/** Whether etcd has a quorum at all: enough voters answered a linearizable read. */
export function hasQuorum(view: EtcdView): boolean {
  const voters = view.members.filter(({ learner }) => !learner);
  return voters.filter(({ healthy }) => healthy).length >= majority(voters.length);
}

/**
 * Whether the cluster stands without this member: the others that answer are a majority of all
 * voters, so that it can be removed and the rest goes on. True also when it was removed already.
 */
export function othersHaveQuorum(view: EtcdView, who: MemberAddress): boolean {
  const voters = view.members.filter(({ learner }) => !learner);
  const healthy = voters.filter((member) => member.healthy && !isMember(member, who));
  return healthy.length >= majority(voters.length);
}

/**
 * Whether etcd, which stands now, still stands when this member is taken out of it, whether that
 * one runs or not.
 */
export function standsWithout(view: EtcdView, who: MemberAddress): boolean {
  const rest = view.members.filter((member) => !member.learner && !isMember(member, who));
  return hasQuorum(view) && rest.filter(({ healthy }) => healthy).length >= majority(rest.length);
}

/**
 * Those that cannot be taken out, one after the other, without etcd losing its quorum: empty when
 * all can. Who does not answer goes first.
 */
export function notRemovable(view: EtcdView, all: readonly MemberAddress[]): readonly MemberAddress[] {
  let left = view;
  let rest = all.toSorted((a, b) => Number(runs(view, a)) - Number(runs(view, b)));
  while (rest.length > 0) {
    const [who, ...others] = rest;
    if (!standsWithout(left, who!)) return rest;
    left = { ...left, members: left.members.filter((member) => !isMember(member, who!)) };
    rest = others;
  }
  return [];
}

const runs = (view: EtcdView, who: MemberAddress): boolean =>
  view.members.some((member) => member.healthy && isMember(member, who));
