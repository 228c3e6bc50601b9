/**
 * Machines of clusters that are taken out of use: they are drained, leave etcd, their Nodes are
 * deleted, and they stop what they run. The Cluster's document stays as it is, so a machine that is
 * brought back joins again.
 */
import type { Clock } from '../../base/clock.ts';
import { duration } from '../../base/duration.ts';
import { MusterError } from '../../base/errors.ts';
import { fieldsOf } from '../../base/foreign-json.ts';
import type { Log } from '../../base/log.ts';
import { membersOf } from '../etcd/etcd-plan.ts';
import type { Founder } from '../etcd/founder.ts';
import { firstReady, ifThere, type Kube } from '../kube.ts';
import { addressOf, withRole } from '../model/resolved-cluster.ts';
import type { Departure, Departures as PlannedDepartures } from '../plan/departure.ts';
import type { ResolvedClusters } from '../resolve/resolved-clusters.ts';
import type { Departures } from './departures.ts';

interface OutOfUseDeps {
  readonly founder: Pick<Founder, 'records' | 'leave' | 'released' | 'departing' | 'gone'>;
  readonly clusters: Pick<ResolvedClusters, 'clusterOf'>;
  readonly departures: Pick<Departures, 'go' | 'waiting'>;
  readonly kubes: (cluster: string, address: string) => Kube;
  /** Why members of etcd and control planes may not change now. */
  readonly membersWait: (cluster: string) => string | undefined;
  /** Since when a machine is out of use, ms since 1970; undefined: it is in use. */
  readonly outSince: (machine: string) => number | undefined;
  readonly clock: Clock;
  readonly log: Log;
}

export interface OutOfUse {
  /**
   * Orders a machine out of its cluster. Resolves with the cluster; undefined when it is in none
   * that is founded.
   *
   * @throws {MusterError} E_CHANGE while a change of the cluster is under way, E_FOUNDING when the
   *   cluster cannot do without the machine
   */
  leave(machine: string, drains: boolean): Promise<string | undefined>;
  /** Lets a machine join again, and undoes what its departure had begun. */
  comeBack(machine: string): Promise<void>;
  /** Why a machine that leaves must still run; undefined when it may be switched off. */
  staysFor(machine: string): string | undefined;
  /** What plans have to know: a machine that is out of use runs nothing of its cluster. */
  readonly planned: PlannedDepartures;
}

/** How long a drain takes before its machine's stage says that it takes too long. */
const DRAIN = duration('5m');

/**
 * Makes the part that takes machines out of their clusters, and brings them back.
 *
 * @throws {MusterError} its methods: see {@link OutOfUse}
 */
export function createOutOfUse(deps: OutOfUseDeps): OutOfUse {
  const { founder, clusters, departures, kubes, membersWait, outSince, clock, log } = deps;

  const foundingOf = (machine: string) => {
    const resolved = clusters.clusterOf(machine)?.resolved;
    const record = founder.records().find(({ cluster }) => cluster === resolved?.name);
    return resolved && record && !record.reset ? { resolved, record } : undefined;
  };

  return {
    async leave(machine, drains) {
      const found = foundingOf(machine);
      if (found === undefined) return undefined;
      const { name: cluster, machines } = found.resolved;
      const roles = machines.find(({ name }) => name === machine)?.roles ?? [];
      const why = roles.some((role) => role !== 'worker') ? membersWait(cluster) : undefined;
      if (why !== undefined) throw new MusterError('E_CHANGE', `${cluster}: ${why}`);
      const others = withRole(found.resolved, 'control-plane').filter(({ name }) => name !== machine);
      if (others.length === 0)
        throw new MusterError(
          'E_FOUNDING',
          `${machine} is the only control plane of ${cluster}; switch it off for a repair (\`muster power off ${machine}\`), or reset the cluster first`,
        );
      const drainUntil = drains ? clock.now() + DRAIN : 0;
      const node = roles.some((role) => role !== 'etcd');
      const departing = { machine, node, clear: false, drainUntil, quarantine: true } as const;
      await founder.leave(cluster, membersOf(found.resolved), [departing]);
      departures.go(cluster);
      return cluster;
    },
    async comeBack(machine) {
      for (const { cluster, leaving } of founder.records())
        if (leaving?.[machine]?.quarantine) await founder.released(cluster, machine);
      const found = foundingOf(machine);
      if (found === undefined) return;
      const { name: cluster } = found.resolved;
      const asked = withRole(found.resolved, 'control-plane').filter(({ name }) => name !== machine);
      await firstReady(asked.map((one) => kubes(cluster, addressOf(one))))
        .then((kube) => schedulable(kube, machine))
        .catch((err: unknown) =>
          log.warn({ err, cluster, machine }, 'its Node, if it has one, may still be unschedulable'),
        );
    },
    staysFor(machine) {
      const record = founder.records().find(({ leaving }) => leaving?.[machine]?.quarantine);
      const { stage } = record?.leaving?.[machine] ?? {};
      if (record === undefined || stage === undefined || stage === 'down') return undefined;
      return departures.waiting(record.cluster)[machine] ?? `it leaves ${record.cluster}: ${stage}`;
    },
    planned: {
      departing(machine, cluster): Departure | undefined {
        const leaving = founder.departing(machine, cluster);
        const since = outSince(machine);
        if (leaving !== undefined || since === undefined || cluster === undefined) return leaving;
        const id = founder.records().find((one) => one.cluster === cluster)?.id ?? 'none';
        return { cluster, id, leaving: { [machine]: { stage: 'down', since, clear: false } } };
      },
      // The record of a machine that comes back is kept until then.
      gone: async (cluster, machine) =>
        outSince(machine) === undefined ? founder.gone(cluster, machine) : undefined,
    },
  };
}

/** Ends what a drain did to a Node. */
async function schedulable(kube: Kube, node: string): Promise<void> {
  const at = `/api/v1/nodes/${encodeURIComponent(node)}`;
  const found = await kube(at).catch(ifThere);
  if (found === undefined || fieldsOf(fieldsOf(found.body).spec).unschedulable !== true) return;
  const contentType = 'application/merge-patch+json';
  await kube(at, { method: 'PATCH', body: { spec: { unschedulable: false } }, contentType });
}
