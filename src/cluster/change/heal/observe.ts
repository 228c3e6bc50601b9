/** What the boot host asks about a machine that may be lost: etcd, its Node, and its network. */
import { membersOf } from '../../etcd/etcd-plan.ts';
import { hasQuorum, isMember, othersHaveQuorum } from '../../etcd/quorum.ts';
import type { FoundingStatus } from '../../etcd/status.ts';
import { firstReady, type Kube } from '../../kube.ts';
import { addressOf, type ResolvedCluster, withRole } from '../../model/resolved-cluster.ts';
import { readNode } from '../nodes.ts';
import { etcdFaults } from '../settled.ts';
import type { LostFacts } from './guard.ts';
import { HEAL } from './order.ts';

export interface ObserveDeps {
  readonly kubes: (cluster: string, address: string) => Kube;
  readonly founding: (cluster: string) => Promise<FoundingStatus>;
  /** Whether anything answers at the addresses of a machine. */
  readonly answers: (machine: string) => Promise<boolean>;
}

/** What was seen of a machine, apart from its agent and its power. */
export interface Observed
  extends Pick<LostFacts, 'quorum' | 'memberAnswers' | 'node' | 'answers' | 'changing'> {
  /** Whether its member is a voter that answers, and nothing of etcd's members changes. */
  readonly isVoter: boolean | undefined;
}

/** Asks now. */
export async function observe(
  { kubes, founding, answers }: ObserveDeps,
  resolved: ResolvedCluster,
  machine: string,
): Promise<Observed> {
  const { name: cluster } = resolved;
  const roles = resolved.machines.find(({ name }) => name === machine)?.roles ?? [];
  const [status, node, isThere] = await Promise.all([
    founding(cluster),
    roles.every((role) => role === 'etcd') ? ('none' as const) : nodeOf(kubes, resolved, machine),
    answers(machine),
  ]);
  const { view } = status;
  const own = membersOf(resolved).find(({ name }) => name === machine);
  const found = own && view?.members.find((member) => isMember(member, own));
  const changing = etcdFaults(status, HEAL)[0]?.message;
  return {
    quorum: view && (own ? othersHaveQuorum(view, own) : hasQuorum(view)),
    memberAnswers: own && found?.healthy === true,
    isVoter: own && found?.healthy === true && !found.learner && changing === undefined,
    node,
    answers: isThere,
    changing,
  };
}

async function nodeOf(
  kubes: ObserveDeps['kubes'],
  resolved: ResolvedCluster,
  machine: string,
): Promise<LostFacts['node']> {
  const asked = withRole(resolved, 'control-plane').filter(({ name }) => name !== machine);
  try {
    const kube = await firstReady(asked.map((one) => kubes(resolved.name, addressOf(one))));
    const node = await readNode(kube, machine);
    return node?.ready ? 'ready' : 'not-ready';
  } catch {
    return 'unknown';
  }
}
