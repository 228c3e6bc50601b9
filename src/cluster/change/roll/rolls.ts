/** `muster cluster roll`: checks an order and begins the roll, or says what it would do. */
import { type Fault, firstOf, MusterError } from '../../../base/errors.ts';
import type { AgentStatus } from '../../../machines/machine.ts';
import type { Catalog } from '../../../resources/catalog.ts';
import type { FoundingStatus } from '../../etcd/status.ts';
import type { Health } from '../../health/health.ts';
import type { ClusterMachine, ResolvedCluster } from '../../model/resolved-cluster.ts';
import type { Running } from '../../resolve/release.ts';
import { noCluster, type ResolvedClusters } from '../../resolve/resolved-clusters.ts';
import type { Windows } from '../../resolve/windows.ts';
import { type Changes, ordersFor } from '../changes.ts';
import { limitsOf } from '../groups.ts';
import { hooksText } from '../hooks/gate.ts';
import type { AnyKind } from '../kind.ts';
import { refuseSecond } from '../orders.ts';
import { type ChangePreview, previewOf } from '../preview.ts';
import { type ChangeProgress, progressIn } from '../progress.ts';
import type { ChangeRecord } from '../record.ts';
import { whyEtcdChanges } from '../rotation/rotations.ts';
import type { RollOrder, WantedImage } from './order.ts';

export interface RollRequest {
  /** Names of machines; empty: all. */
  readonly machines: readonly string[];
  /** Only machines that run another image than they would boot. */
  readonly outdated: boolean;
  /** Machines that are left out. */
  readonly without: readonly string[];
  /** How many workers are down at the same time; absent: as limitsOf in groups.ts says. */
  readonly maxUnavailable?: number | undefined;
  /** Whether machines reboot also outside of the maintenance windows. */
  readonly now: boolean;
}

/** The image that a machine runs, and the one that it would boot. */
export interface ImageOfMachine {
  readonly machine: string;
  /** The name of the Image, or the beginning of its root image's SHA-256; absent: not known. */
  readonly runs?: string;
  readonly wants?: string;
  /** Whether it is known that they differ. */
  readonly outdated: boolean;
}

/** What a roll would do, and what prevents it. */
export interface RollPreview extends ChangePreview {
  readonly machines: readonly ImageOfMachine[];
  readonly faults: readonly Fault[];
  /** When machines get their turn, if they would have to wait for a maintenance window now. */
  readonly waits?: string;
  /** The hooks that it would ask. */
  readonly hooks: readonly string[];
}

interface RollsDeps {
  readonly catalog: Pick<Catalog, 'get'>;
  readonly changes: Changes;
  readonly kind: AnyKind;
  readonly clusters: Pick<ResolvedClusters, 'get'>;
  readonly running: Running;
  readonly health: Pick<Health, 'look'>;
  readonly founding: (cluster: string) => Promise<FoundingStatus>;
  /** What the machine's agent reported last. */
  readonly agent: (machine: string) => AgentStatus | undefined;
  /** Why a machine would be held if it booted now. */
  readonly stopped: (machine: string) => { readonly text: string } | undefined;
  readonly wants: (machine: string) => WantedImage | undefined;
  /** Why no machine of a cluster may go down now, by its maintenance windows. */
  readonly closed: Windows['closed'];
  /** The name of the Image with this root image. */
  readonly imageName: (root: string) => string | undefined;
}

export interface Rolls {
  /**
   * What a roll would do; changes nothing.
   *
   * @throws {MusterError} E_NOT_FOUND for an unknown cluster, E_USAGE for an unknown machine,
   *   E_ROLL when no machine has to boot or the cluster was not founded
   */
  preview(cluster: string, request: RollRequest): Promise<RollPreview>;
  /**
   * Begins a roll.
   *
   * @throws {MusterError} what `preview` throws, E_ROLL with every fault, E_CHANGE while another
   *   change is under way or while etcd's members change
   */
  begin(cluster: string, request: RollRequest, by: string): Promise<ChangeProgress>;
  /** @throws {MusterError} E_NOT_FOUND when the cluster was never rolled */
  show(cluster: string): ChangeProgress;
  /** @throws {MusterError} E_CHANGE when no change is under way; the same holds for all orders. */
  pause(cluster: string, by: string): Promise<ChangeProgress>;
  resume(cluster: string, by: string): Promise<ChangeProgress>;
  cancel(cluster: string, by: string): Promise<ChangeProgress>;
  leaveOut(cluster: string, machines: readonly string[], by: string): Promise<ChangeProgress>;
  /** The images of a machine of a cluster; undefined when neither is known. */
  image(machine: string): ImageOfMachine | undefined;
}

/**
 * Makes the orders.
 *
 * @throws {MusterError} nothing itself; {@link Rolls} documents what the orders throw
 */
export function createRolls(deps: RollsDeps): Rolls {
  const { changes } = deps;
  const orders = ordersFor(changes, 'roll');
  const progress = (record: ChangeRecord): ChangeProgress => progressIn(changes, record);

  return {
    async preview(cluster, request) {
      const resolved = resolvedOf(deps, cluster);
      const machines = chosen(deps, resolved, request);
      const order = orderOf(deps, resolved, machines, request);
      const { record } = deps.kind.begin(
        { cluster, id: 'preview', kind: 'roll', order, pauseBefore: [], without: [] },
        undefined,
        { by: '', now: 0 },
      );
      const waits = deps.closed(cluster, request.now);
      return {
        ...previewOf(deps.kind.steps(record), resolved.machines, []),
        machines: machines.map(({ name }) => imageOf(deps, name)),
        faults: await faultsOf(deps, resolved, machines, request),
        ...(waits !== undefined && { waits }),
        hooks: hooksText(deps.catalog.get('Cluster', cluster)?.document.spec.hooks, 'roll'),
      };
    },

    async begin(cluster, request, by) {
      const resolved = resolvedOf(deps, cluster);
      refuseSecond(cluster, changes.record(cluster));
      const machines = chosen(deps, resolved, request);
      const why = whyEtcdChanges(await deps.founding(cluster));
      if (why !== undefined)
        throw new MusterError('E_CHANGE', `${cluster}: ${why}; a roll begins after that`);
      const faults = await faultsOf(deps, resolved, machines, request);
      if (faults.length > 0) throw new MusterError('E_ROLL', `${cluster}: ${firstOf(faults)}`, { faults });
      const order = orderOf(deps, resolved, machines, request);
      return progress(
        await changes.begin({ cluster, kind: 'roll', order, pauseBefore: [], without: [] }, by),
      );
    },

    show(cluster) {
      const record = changes.record(cluster);
      if (record?.kind === 'roll') return progress(record);
      throw new MusterError('E_NOT_FOUND', `the machines of "${cluster}" were never rolled`);
    },
    pause: async (cluster, by) => progress(await orders.pause(cluster, by)),
    resume: async (cluster, by) => progress(await orders.resume(cluster, by)),
    cancel: async (cluster, by) => progress(await orders.rollBack(cluster, by)),
    async leaveOut(cluster, machines, by) {
      refuseUnknown(resolvedOf(deps, cluster), machines);
      return progress(await orders.leaveOut(cluster, machines, by));
    },
    image: (machine) => {
      const found = imageOf(deps, machine);
      return found.runs === undefined && found.wants === undefined ? undefined : found;
    },
  };
}

function resolvedOf({ clusters, running }: RollsDeps, cluster: string): ResolvedCluster {
  const resolved = clusters.get(cluster)?.resolved;
  if (resolved === undefined) throw noCluster(cluster);
  if (running.of(cluster) === undefined)
    throw new MusterError('E_ROLL', `${cluster} was not founded yet; reboot its machines as you like`);
  return resolved;
}

function refuseUnknown({ name: cluster, machines }: ResolvedCluster, names: readonly string[]): void {
  const unknown = names.find((one) => !machines.some(({ name }) => name === one));
  if (unknown !== undefined) throw new MusterError('E_USAGE', `${unknown} is not a machine of ${cluster}`);
}

/** The machines that an order is about. */
function chosen(
  deps: RollsDeps,
  resolved: ResolvedCluster,
  { machines, outdated, without }: RollRequest,
): readonly ClusterMachine[] {
  refuseUnknown(resolved, [...machines, ...without]);
  const named = resolved.machines.filter(
    ({ name }) => !without.includes(name) && (machines.length === 0 || machines.includes(name)),
  );
  const found = outdated ? named.filter(({ name }) => imageOf(deps, name).outdated) : named;
  if (found.length > 0) return found;
  throw new MusterError(
    'E_ROLL',
    outdated
      ? `${resolved.name}: every machine runs the image that it would boot, as far as its agent reports it`
      : `${resolved.name}: no machine is left to reboot`,
  );
}

function orderOf(
  { agent, wants }: RollsDeps,
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
    ...(now && { now }),
  };
}

function imageOf({ running, wants, imageName }: RollsDeps, machine: string): ImageOfMachine {
  const cluster = running.clusterOf(machine);
  const root = cluster === undefined ? undefined : running.of(cluster)?.machines.get(machine)?.image;
  const wanted = wants(machine);
  const outdated = root !== undefined && wanted?.root !== undefined && wanted.root !== root;
  const runs = root === wanted?.root ? wanted?.name : root && (imageName(root) ?? root.slice(0, 12));
  return {
    machine,
    ...(root !== undefined && runs !== undefined && { runs }),
    ...(wanted && { wants: wanted.name }),
    outdated,
  };
}

const fault = (message: string): Fault => ({ code: 'E_ROLL', message });

/** Why the machines cannot be rebooted one after the other now. */
async function faultsOf(
  { health, agent, stopped }: RollsDeps,
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
