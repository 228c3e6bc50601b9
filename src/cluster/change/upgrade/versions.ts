/** Answers the planner: which versions a machine may have now. */

import type { ClusterMachine, ResolvedCluster } from '../../model/resolved-cluster.ts';
import type { Allowed, AllowedVersions } from '../../plan/allowed.ts';
import { emulated, mixed } from '../../resolve/mixed.ts';
import type { Running, RunningCluster } from '../../resolve/release.ts';
import type { ResolvedClusters } from '../../resolve/resolved-clusters.ts';
import type { ChangeRecord } from '../record.ts';
import { allowed, allowedWhenSettled, emulating } from './allowed.ts';
import type { UpgradeOrder } from './order.ts';
import { emulatedMinor } from './table.ts';

interface VersionsDeps {
  readonly clusters: Pick<ResolvedClusters, 'at'>;
  readonly running: Running;
  /** The upgrade of a cluster that is under way. */
  readonly upgrade: (cluster: string) => ChangeRecord<UpgradeOrder> | undefined;
  /** Whether a machine that has its turn may begin (upgrade.ts). */
  readonly mayBegin: (cluster: string, machine: string) => boolean;
}

/**
 * Makes the answer. A cluster that was not founded has what its document says. A founded one has
 * its release, or during an upgrade what each step allows, whatever its document says meanwhile.
 */
export function allowedVersions(deps: VersionsDeps): AllowedVersions {
  return (resolved, machine) => {
    const known = deps.running.of(resolved.name);
    if (known === undefined) return { resolved };
    const record = deps.upgrade(resolved.name);
    return record ? during(deps, resolved, machine, known, record) : settled(deps, resolved, machine, known);
  };
}

const askingOf = ({ name, roles }: ClusterMachine, { machines }: RunningCluster, mayBegin: boolean) => ({
  name,
  roles,
  versions: machines.get(name)?.versions ?? {},
  mayBegin,
});

function during(
  { clusters, mayBegin }: VersionsDeps,
  { name }: ResolvedCluster,
  machine: ClusterMachine,
  known: RunningCluster,
  record: ChangeRecord<UpgradeOrder>,
): Allowed {
  const from = clusters.at(name, record.order.from);
  const to = clusters.at(name, record.order.to);
  if (from === undefined || to === undefined) return invalid(record.order[from ? 'to' : 'from'].version);
  const asking = askingOf(machine, known, mayBegin(name, machine.name));
  const has = allowed(record, asking);
  const parts = emulating(record, asking, has);
  const mix = emulated(mixed(from, to, has), emulatedMinor(record.order) ?? '', parts);
  return { resolved: mix, ...(record.route === 'forward' && { ahead: to }) };
}

function settled(
  { clusters }: VersionsDeps,
  resolved: ResolvedCluster,
  machine: ClusterMachine,
  known: RunningCluster,
): Allowed {
  const { release, former } = known;
  const to = clusters.at(resolved.name, release);
  if (to === undefined) return invalid(release.version);
  const has = allowedWhenSettled(release, askingOf(machine, known, false));
  const from = has.node || former === undefined ? to : clusters.at(resolved.name, former);
  return { resolved: from === undefined ? to : mixed(from, to, has) };
}

const invalid = (version: string): Allowed => ({
  resolved: undefined,
  why: `The Cluster is not valid for Kubernetes ${version}, which its machines run.`,
});
