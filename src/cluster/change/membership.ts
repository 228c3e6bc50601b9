/**
 * `muster cluster add-node` and `remove-node`: edits the Cluster's document as an operator would,
 * and orders the founder to take machines out.
 */
import { z } from 'zod';
import { fault, type Parsed } from '../../base/body.ts';
import type { Clock } from '../../base/clock.ts';
import type { Millis } from '../../base/duration.ts';
import { MusterError } from '../../base/errors.ts';
import type { LiveCatalog } from '../../resources/catalog.ts';
import type { ClusterSpec, KubernetesSpec } from '../../resources/kinds.ts';
import { machineNames } from '../../resources/membership.ts';
import { membersOf } from '../etcd/etcd-plan.ts';
import type { Founder } from '../etcd/founder.ts';
import type { RunningChange } from '../plan/running-change.ts';
import type { Releases } from '../resolve/release.ts';
import { noCluster, type ResolvedClusters } from '../resolve/resolved-clusters.ts';
import type { Departures } from './departures.ts';

export type NodeRole = 'control-plane' | 'worker' | 'etcd';

interface MembershipDeps {
  readonly catalog: Pick<LiveCatalog, 'get' | 'list' | 'apply'>;
  readonly clusters: Pick<ResolvedClusters, 'get'>;
  readonly founder: Pick<Founder, 'leave' | 'records'>;
  readonly departures: Pick<Departures, 'go'>;
  /** Why members of etcd and control planes may not change now; see {@link whyMembersWait}. */
  readonly membersWait: (cluster: string) => string | undefined;
  /** Forgets what removed machines run. */
  readonly releases: Pick<Releases, 'forget'>;
  readonly clock: Clock;
}

interface RemoveOrder {
  readonly machines: readonly string[];
  /**
   * Machines that replace the removed ones: each takes the role of the machine at the same
   * position.
   */
  readonly replacements: readonly string[];
  /** Whether their data filesystems are cleared. */
  readonly clear: boolean;
  /** How long the drain may take; undefined when nodes are not drained. */
  readonly drainFor: Millis | undefined;
}

interface AddOrder {
  readonly machines: readonly string[];
  readonly role: NodeRole;
}

/** The result of an order, as the API shows it. */
export const membershipChange = z
  .strictObject({
    cluster: z.string(),
    /** Whether the document had to be changed. */
    document: z.enum(['changed', 'unchanged']),
    /** Machines that are taken out now; none when the cluster was never founded. */
    leaving: z.array(z.string()),
    /** Machines that got a role in the document which they did not have before. */
    added: z.array(z.string()),
    /** What the changed document still lacks, such as the address of a machine. */
    warnings: z.array(fault),
  })
  .meta({ id: 'MembershipChange' });
export type MembershipChange = Parsed<z.output<typeof membershipChange>>;

export interface Membership {
  /**
   * Adds machines to the document.
   *
   * @throws {MusterError} E_NOT_FOUND for an unknown cluster or machine, E_CONFLICT for a machine
   *   with another role, E_FILE_OWNED when the document is in a file, E_CLUSTER when the edited
   *   document is not valid, E_FOUNDING when a machine is still leaving.
   */
  add(cluster: string, order: AddOrder): Promise<MembershipChange>;
  /**
   * Removes machines from the document, and orders them out of the cluster.
   *
   * @throws {MusterError} as `add`, and E_FOUNDING when the founding does not allow the removal.
   */
  remove(cluster: string, order: RemoveOrder): Promise<MembershipChange>;
}

const FIELDS = { 'control-plane': 'controlPlanes', worker: 'workers', etcd: 'etcd.machines' } as const;

/** The role of a machine in the document; undefined when it has none. */
function roleIn(spec: KubernetesSpec, machine: string): NodeRole | undefined {
  if (spec.controlPlanes.includes(machine)) return 'control-plane';
  if (spec.workers?.includes(machine)) return 'worker';
  return spec.etcd?.machines?.includes(machine) ? 'etcd' : undefined;
}

/**
 * The specification with machines removed, exchanged or added.
 *
 * @param exchange Machine → the machine that takes its place, or undefined to remove it.
 * @param add Machines that are appended to the list of `role`.
 */
export function edited(
  spec: KubernetesSpec,
  exchange: ReadonlyMap<string, string | undefined>,
  add: readonly string[] = [],
  role: NodeRole = 'worker',
): KubernetesSpec {
  const exchanged = (names: readonly string[]): string[] =>
    names.flatMap((name) => (exchange.has(name) ? (exchange.get(name) ?? []) : [name]));
  const list = (names: readonly string[], of: NodeRole): string[] => [
    ...new Set([...exchanged(names), ...(of === role ? add : [])]),
  ];
  // A machine that takes another's place gets the same labels.
  const nodes = spec.nodes
    ?.map((group) => ({ ...group, machines: [...new Set(exchanged(group.machines))] }))
    .filter((group) => group.machines.length > 0);
  const workers = list(spec.workers ?? [], 'worker');
  const machines = list(spec.etcd?.machines ?? [], 'etcd');
  return {
    ...spec,
    ...(nodes && { nodes }),
    controlPlanes: list(spec.controlPlanes, 'control-plane'),
    ...(spec.workers || workers.length > 0 ? { workers } : {}),
    ...(spec.etcd?.machines || machines.length > 0 ? { etcd: { ...spec.etcd, machines } } : {}),
  };
}

/**
 * Why members of etcd and control planes may not change: a change of the cluster is under way that
 * restarts members of etcd. Undefined when they may.
 */
export function whyMembersWait(running: RunningChange | undefined): string | undefined {
  if (running === undefined) return undefined;
  return `a ${running.kind} is under way, at the step ${running.step}; members of etcd and control planes change after it`;
}

/** @throws {MusterError} E_CHANGE while a change is under way that restarts members of etcd */
function checkMembersMayChange({ membersWait }: MembershipDeps, cluster: string): void {
  const why = membersWait(cluster);
  if (why !== undefined) throw new MusterError('E_CHANGE', `${cluster}: ${why}`);
}

/**
 * Makes the operations that change which machines a cluster has.
 *
 * @throws {MusterError} its methods: E_NOT_FOUND for an unknown cluster or machine, E_CONFLICT for
 *   a machine that has another role or cluster, E_FOUNDING when etcd does not allow the change,
 *   E_CHANGE while a change of the cluster restarts members of etcd, and what changing the document
 *   throws.
 */
export function createMembership(deps: MembershipDeps): Membership {
  const { catalog, clusters, founder, departures, clock } = deps;
  return {
    async add(cluster, { machines, role }) {
      const { spec } = documentOf(deps, cluster);
      for (const name of machines) checkStays(deps, cluster, name);
      for (const name of machines) checkNew(deps, spec, name, role);
      if (role !== 'worker') checkMembersMayChange(deps, cluster);
      const next = edited(spec, new Map(), machines, role);
      const howTo = `add ${machines.join(', ')} to ${FIELDS[role]}`;
      const added = machines.filter((name) => roleIn(spec, name) === undefined);
      const applied = await apply(deps, cluster, { next, howTo, dryRun: false });
      return { cluster, ...applied, leaving: [], added };
    },

    async remove(cluster, { machines, replacements, clear, drainFor }) {
      const { spec } = documentOf(deps, cluster);
      const record = recordOf(deps, cluster);
      const resolved = clusters.get(cluster)?.resolved;
      if (machines.some((name) => roleIn(spec, name) !== 'worker')) checkMembersMayChange(deps, cluster);
      for (const [n, name] of machines.entries()) {
        checkNowhereElse(deps, cluster, name);
        if (!catalog.get('Machine', name) && !record?.joined[name] && roleIn(spec, name) === undefined)
          throw new MusterError('E_NOT_FOUND', `${name} does not belong to ${cluster}`);
        checkExchange(deps, cluster, spec, name, replacements[n]);
      }
      const exchange = new Map(machines.map((name, n) => [name, replacements[n]]));
      const next = edited(spec, exchange);
      const howTo = machines
        .map((name, n) =>
          replacements[n] ? `put ${replacements[n]} in the place of ${name}` : `take ${name} out`,
        )
        .join(', ');
      const added = replacements.filter((name) => roleIn(spec, name) === undefined);
      // The document is checked first, so that nothing happens when it is refused.
      await apply(deps, cluster, { next, howTo, dryRun: true });
      if (record) {
        const now = clock.now();
        const external = resolved?.etcd.topology === 'external';
        const departing = machines.map((machine) => {
          const role = roleIn(spec, machine);
          const node = role === undefined ? !(external && record.joined[machine]) : role !== 'etcd';
          return { machine, node, clear, drainUntil: drainFor === undefined ? 0 : now + drainFor };
        });
        await founder.leave(cluster, resolved ? membersOf(resolved) : [], departing);
      }
      const applied = await apply(deps, cluster, { next, howTo, dryRun: false });
      for (const machine of machines) await deps.releases.forget(cluster, machine);
      departures.go(cluster);
      return { cluster, ...applied, leaving: record ? machines : [], added };
    },
  };
}

/** @throws {MusterError} E_NOT_FOUND when there is no such Cluster with Kubernetes. */
function documentOf({ catalog }: MembershipDeps, cluster: string) {
  const entry = catalog.get('Cluster', cluster);
  const spec = entry?.document.spec.kubernetes;
  if (!entry || !spec) throw noCluster(cluster);
  return { entry, spec };
}
const recordOf = ({ founder }: MembershipDeps, cluster: string) =>
  founder.records().find((one) => one.cluster === cluster);

/**
 * Applies the edited document. A document in a file is not edited; the error then says how the
 * operator can do it (`howTo`).
 */
async function apply(
  deps: MembershipDeps,
  cluster: string,
  {
    next,
    howTo,
    dryRun,
  }: { readonly next: KubernetesSpec; readonly howTo: string; readonly dryRun: boolean },
): Promise<Pick<MembershipChange, 'document' | 'warnings'>> {
  const { entry } = documentOf(deps, cluster);
  const { document, origin } = entry;
  if (JSON.stringify(next) === JSON.stringify(document.spec.kubernetes))
    return { document: 'unchanged', warnings: [] };
  if (origin.from === 'file')
    throw new MusterError(
      'E_FILE_OWNED',
      `Cluster "${cluster}" is in ${origin.at.file}:${origin.at.line}; ${howTo} there, then repeat this command`,
    );
  const spec: ClusterSpec = { ...document.spec, kubernetes: next };
  const { warnings } = await deps.catalog.apply([{ ...document, spec }], {
    dryRun,
    expectRevision: origin.revision,
    confirm: [cluster],
  });
  return { document: 'changed', warnings };
}

/** @throws {MusterError} E_FOUNDING when the machine is still leaving. */
function checkStays(deps: MembershipDeps, cluster: string, name: string): void {
  if (recordOf(deps, cluster)?.leaving?.[name])
    throw new MusterError(
      'E_FOUNDING',
      `${name} is still being taken out; \`muster cluster founding ${cluster}\` shows its progress`,
    );
}

/** @throws {MusterError} E_CONFLICT when the machine belongs to another Cluster. */
function checkNowhereElse({ catalog }: MembershipDeps, cluster: string, name: string): void {
  const other = catalog
    .list('Cluster')
    .find(
      ({ document }) =>
        document.metadata.name !== cluster &&
        document.spec.kubernetes &&
        machineNames(document.spec.kubernetes).has(name),
    )?.document.metadata.name;
  if (other !== undefined) throw new MusterError('E_CONFLICT', `${name} belongs to Cluster "${other}"`);
}

/** A machine that gets a role must exist and have no other role. */
function checkNew({ catalog }: MembershipDeps, spec: KubernetesSpec, name: string, role?: NodeRole): void {
  const has = roleIn(spec, name);
  if (has !== undefined && has !== role)
    throw new MusterError('E_CONFLICT', `${name} is already in ${FIELDS[has]}; remove it there first`);
  if (!catalog.get('Machine', name))
    throw new MusterError(
      'E_NOT_FOUND',
      `there is no Machine "${name}"; \`muster machine add\` or \`accept\` makes one`,
    );
}

/**
 * Checks a replacement. A machine without a role cannot be replaced, unless the document already
 * names its replacement: then the order is a repetition.
 */
function checkExchange(
  deps: MembershipDeps,
  cluster: string,
  spec: KubernetesSpec,
  name: string,
  replacement: string | undefined,
): void {
  if (replacement === undefined) return;
  if (roleIn(spec, name) !== undefined) {
    checkNew(deps, spec, replacement);
    checkStays(deps, cluster, replacement);
    checkNowhereElse(deps, cluster, replacement);
  } else if (roleIn(spec, replacement) === undefined)
    throw new MusterError(
      'E_CONFLICT',
      `${name} has no role in ${cluster} that ${replacement} could take; \`muster cluster add-node ${cluster} ${replacement}\` adds it`,
    );
}
