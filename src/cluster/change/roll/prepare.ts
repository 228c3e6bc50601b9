/** How a roll is ordered: `muster cluster roll`. */
import { type Fault, MusterError } from '../../../base/errors.ts';
import type { AgentStatus } from '../../../machines/machine.ts';
import type { Catalog } from '../../../resources/catalog.ts';
import type { FoundingStatus } from '../../etcd/status.ts';
import type { Health } from '../../health/health.ts';
import type { ClusterMachine, ResolvedCluster } from '../../model/resolved-cluster.ts';
import type { Running } from '../../resolve/release.ts';
import { noCluster, type ResolvedClusters } from '../../resolve/resolved-clusters.ts';
import type { Windows } from '../../resolve/windows.ts';
import { limitsOf } from '../groups.ts';
import { hooksText } from '../hooks/gate.ts';
import type { ChangeOrdered } from '../kind.ts';
import { etcdFaults } from '../settled.ts';
import type { ImageOf } from './images.ts';
import { type RollOrder, type RollRequest, rollRequest, type WantedImage } from './order.ts';

interface RollOrdersDeps {
  readonly catalog: Pick<Catalog, 'get'>;
  readonly clusters: Pick<ResolvedClusters, 'get'>;
  readonly running: Pick<Running, 'of'>;
  readonly health: Pick<Health, 'look'>;
  readonly founding: (cluster: string) => Promise<FoundingStatus>;
  /** What the machine's agent reported last. */
  readonly agent: (machine: string) => AgentStatus | undefined;
  /** Why a machine would be held if it booted now. */
  readonly stopped: (machine: string) => { readonly text: string } | undefined;
  readonly wants: (machine: string) => WantedImage | undefined;
  /** Why no machine of a cluster may go down now, by its maintenance windows. */
  readonly closed: Windows['closed'];
  readonly imageOf: ImageOf;
}

/**
 * How rolls are ordered.
 *
 * @throws {MusterError} `prepare`: E_NOT_FOUND for an unknown cluster, E_USAGE for an unknown
 *   machine, E_ROLL when no machine has to boot or the cluster was not founded
 */
export const rollOrders = (deps: RollOrdersDeps): ChangeOrdered<RollOrder, RollRequest> => ({
  request: rollRequest,
  async prepare(cluster, request) {
    const resolved = resolvedOf(deps, cluster);
    const machines = chosen(deps, resolved, request);
    const why = deps.closed(cluster, request.now);
    return {
      order: orderOf(deps, resolved, machines, request),
      faults: [
        ...etcdFaults(await deps.founding(cluster), 'roll'),
        ...(await faultsOf(deps, resolved, machines, request)),
      ],
      // Those that are left out are not in the order.
      without: [],
      about: Object.fromEntries(machines.map(({ name }) => [name, imagesText(deps.imageOf(name))])),
      waits: why && `No machine reboots yet: ${why}.`,
      hooks: hooksText(deps.catalog.get('Cluster', cluster)?.document.spec.hooks, 'roll'),
    };
  },
});

const imagesText = ({ runs = 'an unknown image', wants = 'none', outdated }: ReturnType<ImageOf>): string =>
  outdated ? `it runs ${runs}, and would boot ${wants}` : `it runs ${runs}`;

function resolvedOf({ clusters, running }: RollOrdersDeps, cluster: string): ResolvedCluster {
  const resolved = clusters.get(cluster)?.resolved;
  if (resolved === undefined) throw noCluster(cluster);
  if (running.of(cluster) === undefined)
    throw new MusterError('E_ROLL', `${cluster} was not founded yet; reboot its machines as you like`);
  return resolved;
}

/** The machines that an order is about. */
function chosen(
  deps: RollOrdersDeps,
  resolved: ResolvedCluster,
  { machines, outdated, without }: RollRequest,
): readonly ClusterMachine[] {
  const unknown = machines.find((one) => !resolved.machines.some(({ name }) => name === one));
  if (unknown !== undefined)
    throw new MusterError('E_USAGE', `${unknown} is not a machine of ${resolved.name}`);
  const named = resolved.machines.filter(
    ({ name }) => !without.includes(name) && (machines.length === 0 || machines.includes(name)),
  );
  const found = outdated ? named.filter(({ name }) => deps.imageOf(name).outdated) : named;
  if (found.length > 0) return found;
  throw new MusterError(
    'E_ROLL',
    outdated
      ? `${resolved.name}: every machine runs the image that it would boot, as far as its agent reports it`
      : `${resolved.name}: no machine is left to reboot`,
  );
}

function orderOf(
  { agent, wants }: RollOrdersDeps,
  resolved: ResolvedCluster,
  machines: readonly ClusterMachine[],
  { maxUnavailable, now }: RollRequest,
): RollOrder {
  const serves = ({ roles }: ClusterMachine): boolean => roles.some((role) => role !== 'worker');
  const workers = machines.filter((one) => !serves(one)).map(({ name }) => name);
  const images: Record<string, string> = {};
  const known = machines.map(({ name }): [string, RollOrder['machines'][string]] => {
    const wanted = wants(name);
    if (wanted?.root !== undefined) images[wanted.name] = wanted.root;
    const image = wanted?.root === undefined ? {} : { image: wanted.name };
    return [name, { bootId: agent(name)?.bootId ?? '', ...image }];
  });
  return {
    machines: Object.fromEntries(known),
    images,
    servers: machines.filter(serves).map(({ name }) => name),
    workers,
    ...(workers[0] !== undefined && { canary: workers[0] }),
    ...limitsOf(resolved.machines, maxUnavailable),
    ...(now && { now: true }),
  };
}

const fault = (message: string): Fault => ({ code: 'E_ROLL', message });

/** Why the machines cannot be rebooted one after the other now. */
async function faultsOf(
  { health, agent, stopped }: RollOrdersDeps,
  { name: cluster }: ResolvedCluster,
  machines: readonly ClusterMachine[],
  { without }: RollRequest,
): Promise<readonly Fault[]> {
  // A cluster whose members of etcd alone reboot may be without control planes that run.
  const etcdOnly = machines.every(({ roles }) => roles.every((role) => role === 'etcd'));
  const { findings } = await health.look(cluster, { etcdOnly, begins: true });
  const unwell = findings
    .filter(({ ok, subject }) => !ok && !without.includes(subject))
    .map(({ check, subject, says, fix }) => fault(`${check} ${subject}: ${says}${fix ? `; ${fix}` : ''}`));
  return [...unwell, ...machines.flatMap(({ name }) => machineFaults(name, agent(name), stopped(name)))];
}

function machineFaults(
  name: string,
  agent: AgentStatus | undefined,
  stopped: { readonly text: string } | undefined,
): readonly Fault[] {
  if (agent === undefined) return [fault(`${name}: no agent of it has reported, so nothing can reboot it`)];
  return stopped ? [fault(`${name} would not boot: ${stopped.text}`)] : [];
}
