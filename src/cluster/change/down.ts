/** Which workers of a cluster are down or going down, for the groups of a change (groups.ts). */
import type { Clock } from '../../base/clock.ts';
import { duration, type Millis } from '../../base/duration.ts';
import { firstReady, type Kube } from '../kube.ts';
import { addressOf, type ResolvedCluster, withRole } from '../model/resolved-cluster.ts';
import type { ResolvedClusters } from '../resolve/resolved-clusters.ts';
import { type Node, readNodes, uncordon } from './nodes.ts';
import type { ChangeRecord } from './record.ts';
import type { MachineSeen } from './step.ts';
import { ABSENT_AFTER } from './turn.ts';

/** Worker → why it counts as down. */
export type Down = ReadonlyMap<string, string>;

/**
 * The workers that count as down besides those that have their turn. A worker that was left out
 * while its node was drained gets its node back, unless it was ordered to reboot: it would fill its
 * groups until the change ends otherwise. An operator who cordons a node takes nothing down.
 */
export type FindDown = (
  record: Pick<ChangeRecord, 'cluster' | 'id' | 'turns' | 'without' | 'evidence' | 'paused'>,
  machines: readonly MachineSeen[],
) => Promise<Down>;

interface DownDeps {
  readonly clusters: Pick<ResolvedClusters, 'get'>;
  readonly kubes: (cluster: string, address: string) => Kube;
  /** Machines that were ordered to reboot and have not reported another boot. */
  readonly rebooting: (cluster: string) => readonly string[];
  readonly clock: Pick<Clock, 'monotonic'>;
}

/** The nodes are read again after this time, and whenever the turns of the change are others. */
const FRESH = duration('5s');

/** What was read of a cluster's nodes; `key`: of which moment of which change. */
interface Read {
  readonly key: string;
  readonly at: Millis;
  readonly nodes: ReadonlyMap<string, Node>;
}

export function createFindDown(deps: DownDeps): FindDown {
  const last = new Map<string, Read>();

  const nodesOf = async (resolved: ResolvedCluster, record: Parameters<FindDown>[0]) => {
    const { id, turns, without, evidence } = record;
    const key = JSON.stringify([id, turns, without, Object.keys(evidence)]);
    const at = deps.clock.monotonic();
    const known = last.get(resolved.name);
    if (known?.key === key && at - known.at < FRESH) return known.nodes;
    const kube = await firstReady(
      withRole(resolved, 'control-plane').map((one) => deps.kubes(resolved.name, addressOf(one))),
    );
    const rebooting = deps.rebooting(resolved.name);
    const found = await readNodes(kube);
    const leftDrained = without.filter((name) => {
      const node = found.get(name);
      return node?.ready && node.cordonedBy === id && !rebooting.includes(name);
    });
    for (const name of leftDrained) await uncordon(kube, name);
    const nodes = leftDrained.length > 0 ? await readNodes(kube) : found;
    last.set(resolved.name, { key, at, nodes });
    return nodes;
  };

  return async (record, machines) => {
    const resolved = deps.clusters.get(record.cluster)?.resolved;
    if (resolved === undefined || record.paused) return new Map();
    const nodes = await nodesOf(resolved, record).catch(() => undefined);
    const rebooting = deps.rebooting(record.cluster);
    return new Map(
      machines.flatMap((machine): [string, string][] => {
        const why = rebooting.includes(machine.name) ? 'it reboots' : whyDown(machine, nodes);
        return why === undefined || !machine.roles.includes('worker') ? [] : [[machine.name, why]];
      }),
    );
  };
}

function whyDown(
  { name, silentFor }: MachineSeen,
  nodes: ReadonlyMap<string, Node> | undefined,
): string | undefined {
  if (silentFor === undefined || silentFor >= ABSENT_AFTER) return 'it does not report';
  if (nodes === undefined) return 'no API server says how its node is';
  const node = nodes.get(name);
  if (node?.ready === false) return 'its node is not Ready';
  return node?.cordonedBy === undefined ? undefined : 'its node is drained';
}
