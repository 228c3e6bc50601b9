/**
 * `muster cluster upgrade`: checks an order and begins the upgrade, or says what it would do; and
 * begins one when a Cluster's document asks for another release.
 */
import { type Fault, firstOf, MusterError } from '../../../base/errors.ts';
import type { LiveCatalog } from '../../../resources/catalog.ts';
import type { Health } from '../../health/health.ts';
import { firstReady, type Kube } from '../../kube.ts';
import { addressOf, type ResolvedCluster, withRole } from '../../model/resolved-cluster.ts';
import type { Required } from '../../resolve/artifacts.ts';
import { sameRelease } from '../../resolve/mixed.ts';
import { type Running, type RunningCluster, releaseOf } from '../../resolve/release.ts';
import { noCluster, type ResolvedClusters } from '../../resolve/resolved-clusters.ts';
import type { Windows } from '../../resolve/windows.ts';
import { type Changes, ordersFor } from '../changes.ts';
import { limitsOf } from '../groups.ts';
import { hooksText } from '../hooks/gate.ts';
import type { AnyKind } from '../kind.ts';
import { fullNodes } from '../nodes.ts';
import { refuseSecond } from '../orders.ts';
import { type ChangePreview, previewOf } from '../preview.ts';
import { type ChangeProgress, progressIn } from '../progress.ts';
import type { ChangeRecord } from '../record.ts';
import { type UpgradeOrder, upgradeOrder } from './order.ts';
import { canaryOf, preflightFaults } from './preflight.ts';
import { changedRoles, isMinorChange, waitsForWindow } from './table.ts';

export interface UpgradeRequest {
  /** The version to go to; absent: what the document says. */
  readonly to?: string | undefined;
  /** Steps before which it pauses. */
  readonly pauseBefore: readonly string[];
  /** Workers that are not waited for. */
  readonly without: readonly string[];
  /** How many workers are changed at the same time; absent: as limitsOf in groups.ts says. */
  readonly maxUnavailable?: number | undefined;
  /** Whether machines are changed also outside of the maintenance windows. */
  readonly now: boolean;
}

/** What an upgrade would do, and what prevents it. */
export interface UpgradePreview extends ChangePreview {
  readonly from: string;
  readonly to: string;
  readonly faults: readonly Fault[];
  /** Before which step it would wait for a maintenance window now, and until when. */
  readonly waits?: string;
  /** The hooks that it would ask. */
  readonly hooks: readonly string[];
}

interface UpgradesDeps {
  readonly changes: Changes;
  readonly kind: AnyKind;
  readonly catalog: Pick<LiveCatalog, 'get' | 'apply'>;
  readonly clusters: Pick<ResolvedClusters, 'get' | 'at' | 'withVersion'>;
  readonly running: Running;
  readonly kubes: (cluster: string, address: string) => Kube;
  readonly health: Pick<Health, 'look'>;
  readonly has: (artifact: Required) => boolean;
  /** Why no machine may be changed now, by the maintenance windows of its cluster. */
  readonly closed: Windows['closedForUpgrades'];
}

export interface Upgrades {
  /**
   * What an upgrade would do; changes nothing.
   *
   * @throws {MusterError} E_NOT_FOUND for an unknown cluster, E_UPGRADE when it was not founded or
   *   has the release already, E_SKEW when the version does not fit
   */
  preview(cluster: string, request: UpgradeRequest): Promise<UpgradePreview>;
  /**
   * Begins an upgrade.
   *
   * @throws {MusterError} what `preview` throws, E_UPGRADE with every fault of the preflight,
   *   E_CHANGE while another change is under way, E_FILE_OWNED when the version of a file has to
   *   be edited there
   */
  begin(cluster: string, request: UpgradeRequest, by: string): Promise<ChangeProgress>;
  /** @throws {MusterError} E_NOT_FOUND when the cluster was never upgraded */
  show(cluster: string): ChangeProgress;
  /** @throws {MusterError} E_CHANGE when no change is under way; the same holds for all orders. */
  pause(cluster: string, by: string): Promise<ChangeProgress>;
  resume(cluster: string, by: string): Promise<ChangeProgress>;
  /** @throws {MusterError} E_CHANGE also after the point of no return */
  rollBack(cluster: string, by: string): Promise<ChangeProgress>;
  /** @throws {MusterError} E_USAGE for a machine that is not a worker */
  leaveOut(cluster: string, machines: readonly string[], by: string): Promise<ChangeProgress>;
}

/**
 * Makes the orders.
 *
 * @throws {MusterError} nothing itself; {@link Upgrades} documents what the orders throw
 */
export function createUpgrades(deps: UpgradesDeps): Upgrades {
  const { changes } = deps;
  const orders = ordersFor(changes, 'upgrade');
  const progress = (record: ChangeRecord): ChangeProgress => progressIn(changes, record);

  return {
    async preview(cluster, request) {
      const wanted = await wantedOf(deps, cluster, request);
      const { record } = deps.kind.begin(
        { cluster, id: 'preview', kind: 'upgrade', order: wanted.order, ...waits(request) },
        undefined,
        { by: '', now: 0 },
      );
      const shown = previewOf(deps.kind.steps(record), wanted.to.machines, request.without);
      const faults = await checked(deps, wanted, request);
      const { from, to } = wanted.order;
      const closed = waitOf(deps, cluster, shown, request);
      return {
        ...{ ...shown, faults, from: from.version, to: to.version },
        ...(closed !== undefined && { waits: closed }),
        hooks: hooksText(deps.catalog.get('Cluster', cluster)?.document.spec.hooks, 'upgrade'),
      };
    },

    async begin(cluster, request, by) {
      refuseSecond(cluster, changes.record(cluster));
      const wanted = await wantedOf(deps, cluster, request);
      const faults = await checked(deps, wanted, request);
      if (faults.length > 0) throw new MusterError('E_UPGRADE', `${cluster}: ${firstOf(faults)}`, { faults });
      if (wanted.edit) await edit(deps, cluster, wanted.order.to.version);
      const change = { cluster, kind: 'upgrade', order: wanted.order, ...waits(request) };
      return progress(await changes.begin(change, by));
    },

    show(cluster) {
      const record = changes.record(cluster);
      if (record?.kind === 'upgrade') return progress(record);
      throw new MusterError('E_NOT_FOUND', `"${cluster}" was never upgraded`);
    },
    pause: async (cluster, by) => progress(await orders.pause(cluster, by)),
    resume: async (cluster, by) => progress(await orders.resume(cluster, by)),

    async rollBack(cluster, by) {
      const record = await orders.rollBack(cluster, by);
      const order = upgradeOrder.parse(record.order);
      const entry = deps.catalog.get('Cluster', cluster);
      // The document of a file stays as it is; only a person edits it.
      if (entry?.origin.from === 'api') await edit(deps, cluster, order.from.version);
      return progress(record);
    },

    async leaveOut(cluster, machines, by) {
      refuseControlPlanes(deps, cluster, machines);
      return progress(await orders.leaveOut(cluster, machines, by));
    },
  };
}

/** The first step that would have to wait now, and why; undefined: none would. */
function waitOf(
  { closed }: UpgradesDeps,
  cluster: string,
  { steps }: ChangePreview,
  { now }: UpgradeRequest,
): string | undefined {
  for (const { name } of steps) {
    const who = waitsForWindow(name);
    const why = who && closed(cluster, who, now);
    if (why !== undefined) return `before the step ${name}: ${why}`;
  }
  return undefined;
}

const waits = ({ pauseBefore, without }: UpgradeRequest) => ({ pauseBefore, without });

interface Wanted {
  readonly order: UpgradeOrder;
  readonly from: ResolvedCluster;
  readonly to: ResolvedCluster;
  readonly running: RunningCluster;
  /** Whether the document has to be edited. */
  readonly edit: boolean;
}

async function wantedOf(deps: UpgradesDeps, cluster: string, request: UpgradeRequest): Promise<Wanted> {
  refuseControlPlanes(deps, cluster, request.without);
  const resolved = deps.clusters.get(cluster)?.resolved;
  if (resolved === undefined) throw noCluster(cluster);
  const running = deps.running.of(cluster);
  if (running === undefined)
    throw new MusterError('E_UPGRADE', `${cluster} was not founded yet; edit the version in its document`);
  const edits = request.to !== undefined && resolved.kubernetes.version !== request.to.replace(/^v/, '');
  const to = edits ? await edited(deps, cluster, request.to!) : resolved;
  const from = deps.clusters.at(cluster, running.release);
  if (from === undefined)
    throw new MusterError(
      'E_UPGRADE',
      `the Cluster is not valid for ${running.release.version}, which it runs`,
    );
  const release = releaseOf(to);
  if (sameRelease(running.release, release))
    throw new MusterError('E_UPGRADE', `${cluster} has Kubernetes ${release.version} already`);
  const canary = canaryOf(resolved, request.without);
  const order: UpgradeOrder = {
    from: running.release,
    to: release,
    ...limitsOf(to.machines, request.maxUnavailable),
    ...(canary !== undefined && { canary }),
    ...(request.now && { now: true }),
  };
  return { order, from, to, running, edit: edits };
}

/** The Cluster with another version, after the checks that an edit of its document has to pass. */
async function edited(deps: UpgradesDeps, cluster: string, version: string): Promise<ResolvedCluster> {
  await edit(deps, cluster, version, { dryRun: true });
  const current = releaseOf(deps.clusters.get(cluster)!.resolved!);
  const found = deps.clusters.withVersion(cluster, version.replace(/^v/, ''));
  if (found) return found;
  throw new MusterError('E_CLUSTER', `the Cluster is not valid for ${version}; it has ${current.version}`);
}

/** Edits the version in the document, as an operator would. */
async function edit(
  { catalog }: UpgradesDeps,
  cluster: string,
  version: string,
  options: { readonly dryRun?: boolean } = {},
): Promise<void> {
  const entry = catalog.get('Cluster', cluster);
  const kubernetes = entry?.document.spec.kubernetes;
  if (entry === undefined || kubernetes === undefined) throw noCluster(cluster);
  if (entry.origin.from === 'file')
    throw new MusterError(
      'E_FILE_OWNED',
      `Cluster "${cluster}" is in ${entry.origin.at.file}:${entry.origin.at.line}; set version to "${version}" there, then repeat this command without --to`,
    );
  const spec = { ...entry.document.spec, kubernetes: { ...kubernetes, version } };
  await catalog.apply([{ ...entry.document, spec }], { ...options, confirm: [cluster] });
}

function refuseControlPlanes({ clusters }: UpgradesDeps, cluster: string, machines: readonly string[]): void {
  const resolved = clusters.get(cluster)?.resolved;
  if (resolved === undefined) throw noCluster(cluster);
  const workers = withRole(resolved, 'worker').map(({ name }) => name);
  const other = machines.find((name) => !workers.includes(name));
  if (other !== undefined)
    throw new MusterError(
      'E_USAGE',
      `${other} is not a worker of ${cluster}; an API server that stays behind stops an upgrade: repair the machine, or \`muster cluster remove-node\` takes it out`,
    );
}

async function checked(
  deps: UpgradesDeps,
  { from, to, running, order }: Wanted,
  { without }: UpgradeRequest,
): Promise<readonly Fault[]> {
  const roles = changedRoles(order);
  // Where only etcd changes, the cluster may be without control planes that run.
  const etcdOnly = roles.every((role) => role === 'etcd');
  const health = await deps.health.look(to.name, { etcdOnly, begins: true });
  const servers = withRole(from, 'control-plane').map((one) => ({
    machine: one.name,
    kube: deps.kubes(to.name, addressOf(one)),
  }));
  const kubes = servers.map(({ kube }) => kube);
  // Without an API server the findings of health say so.
  const kube = etcdOnly ? undefined : await firstReady(kubes).catch(() => undefined);
  // Each API server counts only the requests that it has answered itself.
  const metrics = kube && isMinorChange(order) ? await Promise.all(servers.map(metricsOf)) : [];
  const full = kube ? await fullNodes(kube) : [];
  return preflightFaults({ from, to, running, health, roles, without, has: deps.has, metrics, full });
}

const metricsOf = async ({ machine, kube }: { readonly machine: string; readonly kube: Kube }) => ({
  machine,
  text: await kube('/metrics').then(
    ({ text }) => text,
    () => undefined,
  ),
});
