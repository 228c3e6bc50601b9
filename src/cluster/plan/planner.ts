/**
 * Turns an agent's poll (its identity and the facts it reports) into a plan. Everything that a
 * machine of a cluster receives passes through here, and only machines that an operator accepted,
 * which have a Machine document, receive anything.
 */
import type { Plan } from '../../agent/wire/plan.ts';
import type { AgentPlanner } from '../../agent/wire/protocol.ts';
import { MusterError } from '../../base/errors.ts';
import type { Held } from '../../pki/handout.ts';
import type { LeafName } from '../../pki/hierarchy.ts';
import { PrivateKey } from '../../pki/keys.ts';
import { clusterNames, holderOf } from '../resolve/certificate-names.ts';
import { leavesOf } from './certificates.ts';
import { type ClusterKeys, openClusterKeys } from './cluster-keys.ts';
import { openCollector, type PlannerDeps, pkiFiles, suppliedTo } from './collect.ts';
import { planLines } from './machine-plan.ts';
import { planOf } from './plan-of.ts';

export interface ClusterPlanner {
  readonly plan: AgentPlanner;
  /**
   * The whole plan of a worker whose agent does not poll (`delivery: inline`). Each call makes new
   * keys for the worker.
   *
   * @throws {MusterError} E_AGENT_WAIT, with the reason, while there is no plan yet.
   */
  readonly inline: (machine: string) => Promise<Plan>;
}

/**
 * Creates the planner of all clusters on this boot host: it gathers what a plan follows from
 * (`collect.ts`), and then decides without asking anybody (`plan-of.ts`).
 *
 * @example
 * const planner = createPlanner({ catalog, clusters, pki, clock, events, etcd, departures, tokens,
 *   restarts, releases, running, allowed, newFilesystem: randomUUID, supplies, given, orders,
 *   present, applied });
 * const { lines, pollSeconds } = await planner.plan({ machine: 'cp1', serial, address }, facts);
 */
export function createPlanner(deps: PlannerDeps): ClusterPlanner {
  const clusterKeys = openClusterKeys(deps);
  const collect = openCollector(deps, clusterKeys);
  return {
    plan: async (identity, facts) => planOf(await collect(identity, facts)),
    inline: (machine) => inlinePlan(deps, clusterKeys, machine),
  };
}

/** See {@link ClusterPlanner.inline}. */
async function inlinePlan(deps: PlannerDeps, clusterKeys: ClusterKeys, name: string): Promise<Plan> {
  const wait = (why: string): never => {
    throw new MusterError('E_AGENT_WAIT', why);
  };
  const { resolved: wanted } = deps.clusters.clusterOf(name) ?? {};
  const machine = wanted?.machines.find((one) => one.name === name);
  if (wanted === undefined || machine === undefined) return wait('the Cluster is incomplete');
  // A document may ask for versions that its API servers do not have yet.
  const may = deps.allowed(wanted, machine);
  if (may.resolved === undefined) return wait(may.why);
  const { resolved } = may;
  if (machine.roles.some((role) => role !== 'worker'))
    return wait(
      'only workers can have their secrets inline: a member of etcd starts when its agent gets the grant',
    );
  const keys = await clusterKeys.of(resolved, false);
  if (keys === undefined) return wait('the keys of the cluster are made when its first member of etcd polls');
  const leaves = leavesOf(resolved, machine, false).map(async (leaf): Promise<[LeafName, Held]> => {
    const key = await PrivateKey.generate(resolved.keys);
    const { leafLifetime: lifetime } = resolved.pki;
    const order = { leaf, holder: holderOf(machine), cluster: clusterNames(resolved), lifetime };
    const { certificate } = await deps.pki.issue(resolved.name, { ...order, publicKey: key.publicKey() });
    return [leaf, { certificate, key }];
  });
  const files = { leaves: new Map(await Promise.all(leaves)), signing: new Map() };
  const pki = pkiFiles({ resolved, machine }, keys, files);
  const lines = planLines({ ...suppliedTo(deps, resolved, machine), machine, data: [], pki });
  return { lines, pollSeconds: 0 };
}
