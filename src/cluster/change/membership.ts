/**
 * `muster cluster add-node` and `remove-node`: the Cluster's document edited as a person would edit
 * it, and what follows ordered.
 */
import type { Clock } from '../../base/clock.ts';
import type { Millis } from '../../base/duration.ts';
import { MusterError } from '../../base/errors.ts';
import type { LiveCatalog } from '../../resources/catalog.ts';
import type { ClusterSpec, KubernetesSpec } from '../../resources/kinds.ts';
import { machineNames } from '../../resources/membership.ts';
import { membersOf } from '../etcd/etcd-plan.ts';
import type { Founder } from '../etcd/founder.ts';
import { noCluster, type ResolvedClusters } from '../spec/resolved-clusters.ts';
import type { Departures } from './departures.ts';

export type NodeRole = 'control-plane' | 'worker' | 'etcd';

export interface MembershipDeps {
  readonly catalog: Pick<LiveCatalog, 'get' | 'list' | 'apply'>;
  readonly clusters: Pick<ResolvedClusters, 'get'>;
  readonly founder: Pick<Founder, 'leave' | 'records'>;
  readonly departures: Pick<Departures, 'go'>;
  readonly clock: Clock;
}

export interface RemoveOrder {
  readonly machines: readonly string[];
  /** Machines that take their places: each in the role of the one at the same position. */
  readonly replacements: readonly string[];
  readonly clear: boolean;
  /** Undefined: nodes are not drained. */
  readonly drainFor: Millis | undefined;
}

export interface AddOrder {
  readonly machines: readonly string[];
  readonly role: NodeRole;
}

/** What the order came to, for people. */
export interface MembershipChange {
  readonly cluster: string;
  /** Whether the document had to be changed. */
  readonly document: 'changed' | 'unchanged';
  /** Machines that are taken out now; none of a cluster that was never founded. */
  readonly leaving: readonly string[];
  /** Machines that the document did not have in that role before. */
  readonly added: readonly string[];
}

export interface Membership {
  /** Throws E_NOT_FOUND, E_FILE_OWNED, E_CLUSTER for a document that would not do, E_FOUNDING. */
  add(cluster: string, order: AddOrder): Promise<MembershipChange>;
  remove(cluster: string, order: RemoveOrder): Promise<MembershipChange>;
}

const FIELDS = { 'control-plane': 'controlPlanes', worker: 'workers', etcd: 'etcd.machines' } as const;

/** The role that a list of the document gives. */
function roleIn(spec: KubernetesSpec, machine: string): NodeRole | undefined {
  if (spec.controlPlanes.includes(machine)) return 'control-plane';
  if (spec.workers?.includes(machine)) return 'worker';
  return spec.etcd?.machines?.includes(machine) ? 'etcd' : undefined;
}

/** The document's lists with some machines gone or exchanged, and others added at their ends. */
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
  // Who takes a machine's place registers with its labels.
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

export function createMembership(deps: MembershipDeps): Membership {
  const { catalog, clusters, founder, departures, clock } = deps;

  const documentOf = (cluster: string) => {
    const entry = catalog.get('Cluster', cluster);
    const spec = entry?.document.spec.kubernetes;
    if (!entry || !spec) throw noCluster(cluster);
    return { entry, spec };
  };
  const recordOf = (cluster: string) => founder.records().find((one) => one.cluster === cluster);

  /** Applies the edited document; one of a file is a person's to edit, and the message says how. */
  const apply = async (cluster: string, next: KubernetesSpec, say: string, dryRun: boolean) => {
    const { entry } = documentOf(cluster);
    const { document, origin } = entry;
    if (JSON.stringify(next) === JSON.stringify(document.spec.kubernetes)) return 'unchanged' as const;
    if (origin.from === 'file')
      throw new MusterError(
        'E_FILE_OWNED',
        `Cluster "${cluster}" is of ${origin.at.file}:${origin.at.line}; ${say} there, then say this again`,
      );
    const spec: ClusterSpec = { ...document.spec, kubernetes: next };
    await catalog.apply([{ ...document, spec }], { dryRun, expectRevision: origin.revision });
    return 'changed' as const;
  };

  const checkStays = (cluster: string, name: string): void => {
    if (recordOf(cluster)?.leaving?.[name])
      throw new MusterError(
        'E_FOUNDING',
        `${name} is still being taken out; \`muster cluster founding ${cluster}\` shows how far it is`,
      );
  };

  const checkNowhereElse = (cluster: string, name: string): void => {
    const other = catalog
      .list('Cluster')
      .find(
        ({ document }) =>
          document.metadata.name !== cluster &&
          document.spec.kubernetes &&
          machineNames(document.spec.kubernetes).has(name),
      )?.document.metadata.name;
    if (other !== undefined)
      throw new MusterError('E_CONFLICT', `${name} is a machine of Cluster "${other}"`);
  };

  /** A machine that is to get a role has no other, and is there. */
  const checkNew = (spec: KubernetesSpec, name: string, role?: NodeRole): void => {
    const has = roleIn(spec, name);
    if (has !== undefined && has !== role)
      throw new MusterError('E_CONFLICT', `${name} is in ${FIELDS[has]} already; remove it there first`);
    if (!catalog.get('Machine', name))
      throw new MusterError(
        'E_NOT_FOUND',
        `there is no Machine "${name}"; \`muster machine add\` or \`accept\` makes one`,
      );
  };

  /**
   * One that has no role any more leaves no place; unless the document has the other one already,
   * as when an order is said again.
   */
  const checkExchange = (
    cluster: string,
    spec: KubernetesSpec,
    name: string,
    replacement: string | undefined,
  ): void => {
    if (replacement === undefined) return;
    if (roleIn(spec, name) !== undefined) {
      checkNew(spec, replacement);
      checkStays(cluster, replacement);
      checkNowhereElse(cluster, replacement);
    } else if (roleIn(spec, replacement) === undefined)
      throw new MusterError(
        'E_CONFLICT',
        `${name} has no role in ${cluster} that ${replacement} could take; \`muster cluster add-node ${cluster} ${replacement}\` adds it`,
      );
  };

  return {
    async add(cluster, { machines, role }) {
      const { spec } = documentOf(cluster);
      for (const name of machines) checkStays(cluster, name);
      for (const name of machines) checkNew(spec, name, role);
      const next = edited(spec, new Map(), machines, role);
      const say = `add ${machines.join(', ')} to ${FIELDS[role]}`;
      const added = machines.filter((name) => roleIn(spec, name) === undefined);
      return { cluster, document: await apply(cluster, next, say, false), leaving: [], added };
    },

    async remove(cluster, { machines, replacements, clear, drainFor }) {
      const { spec } = documentOf(cluster);
      const record = recordOf(cluster);
      const resolved = clusters.get(cluster)?.resolved;
      for (const [n, name] of machines.entries()) {
        checkNowhereElse(cluster, name);
        if (!catalog.get('Machine', name) && !record?.joined[name] && roleIn(spec, name) === undefined)
          throw new MusterError('E_NOT_FOUND', `${name} is no machine of ${cluster}`);
        checkExchange(cluster, spec, name, replacements[n]);
      }
      const exchange = new Map(machines.map((name, n) => [name, replacements[n]]));
      const next = edited(spec, exchange);
      const say = machines
        .map((name, n) =>
          replacements[n] ? `put ${replacements[n]} in the place of ${name}` : `take ${name} out`,
        )
        .join(', ');
      const added = replacements.filter((name) => roleIn(spec, name) === undefined);
      // Everything that could be refused is asked before anything happens.
      await apply(cluster, next, say, true);
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
      const document = await apply(cluster, next, say, false);
      departures.go(cluster);
      return { cluster, document, leaving: record ? machines : [], added };
    },
  };
}
