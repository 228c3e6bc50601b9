/** How an upgrade is ordered: `muster cluster upgrade`, or an edit of the document (follow.ts). */
import { parseDuration } from '../../../base/duration.ts';
import { type Fault, MusterError } from '../../../base/errors.ts';
import type { LiveCatalog } from '../../../resources/catalog.ts';
import type { Health } from '../../health/health.ts';
import { firstReady, type Kube } from '../../kube.ts';
import { addressOf, type ResolvedCluster, withRole } from '../../model/resolved-cluster.ts';
import type { Required } from '../../resolve/artifacts.ts';
import { sameRelease } from '../../resolve/mixed.ts';
import { type Running, type RunningCluster, releaseOf } from '../../resolve/release.ts';
import { noCluster, type ResolvedClusters } from '../../resolve/resolved-clusters.ts';
import type { Windows } from '../../resolve/windows.ts';
import { limitsOf } from '../groups.ts';
import { hooksText } from '../hooks/gate.ts';
import type { ChangeOrdered } from '../kind.ts';
import { fullNodes } from '../nodes.ts';
import { endsSoon, objectsThatEnd } from './ending.ts';
import { type UpgradeOrder, type UpgradeRequest, upgradeRequest } from './order.ts';
import { canaryOf, preflightFaults } from './preflight.ts';
import { changedRoles, isMinorChange, lowersEtcd, UPGRADE, waitsForWindow } from './table.ts';

interface UpgradeOrdersDeps {
  readonly catalog: Pick<LiveCatalog, 'get' | 'apply'>;
  readonly clusters: Pick<ResolvedClusters, 'get' | 'at' | 'withVersion'>;
  readonly running: Running;
  readonly kubes: (cluster: string, address: string) => Kube;
  readonly health: Pick<Health, 'look'>;
  readonly has: (artifact: Required) => boolean;
  /** Why no machine may be changed now, by the maintenance windows of its cluster. */
  readonly closed: Windows['closedForUpgrades'];
}

/**
 * How upgrades are ordered.
 *
 * @throws {MusterError} `prepare`: E_NOT_FOUND for an unknown cluster, E_UPGRADE when it was not
 *   founded or has the release already, E_SKEW when the version does not fit, E_FILE_OWNED when the
 *   version of a file has to be edited there
 */
export const upgradeOrders = (deps: UpgradeOrdersDeps): ChangeOrdered<UpgradeOrder, UpgradeRequest> => ({
  request: upgradeRequest,
  async prepare(cluster, request) {
    const wanted = await wantedOf(deps, cluster, request);
    const { order, to } = wanted;
    const versions = `Kubernetes ${order.from.version} to ${order.to.version}`;
    return {
      order,
      faults: await checked(deps, wanted, request),
      machines: to.machines,
      about: { [cluster]: versions, ...endsSoon(wanted.running.machines, order.to.version) },
      waits: waitOf(deps, cluster, order),
      hooks: hooksText(deps.catalog.get('Cluster', cluster)?.document.spec.hooks, 'upgrade'),
      commit: async () => {
        if (wanted.edit) await edit(deps, cluster, order.to.version);
      },
    };
  },
  mustStay: (cluster, { name, roles }) =>
    roles.includes('worker')
      ? undefined
      : `${name} is not a worker of ${cluster}; an API server that stays behind stops an upgrade: repair the machine, or \`muster cluster remove-node\` takes it out`,
  async tookBack(cluster, order) {
    if (!returnsLate(order)) await returnDocument(deps, cluster, order);
  },
});

/** The first step that would have to wait now, and why; undefined: none would. */
function waitOf({ closed }: UpgradeOrdersDeps, cluster: string, order: UpgradeOrder): string | undefined {
  for (const { name } of UPGRADE.forward(order)) {
    const who = waitsForWindow(name);
    const why = who && closed(cluster, who, order.now === true);
    if (why !== undefined) return `It waits before the step ${name}: ${why}.`;
  }
  return undefined;
}

interface Wanted {
  readonly order: UpgradeOrder;
  readonly from: ResolvedCluster;
  readonly to: ResolvedCluster;
  readonly running: RunningCluster;
  /** Whether the document has to be edited. */
  readonly edit: boolean;
}

async function wantedOf(deps: UpgradeOrdersDeps, cluster: string, request: UpgradeRequest): Promise<Wanted> {
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
    throw new MusterError(
      'E_UPGRADE',
      `${cluster} has Kubernetes ${release.version} already; \`muster cluster upgrade ${cluster} --to VERSION --dry-run\` shows the steps to another`,
    );
  const canary = canaryOf(resolved, request.without);
  const order: UpgradeOrder = {
    from: running.release,
    to: release,
    ...limitsOf(to.machines, request.maxUnavailable),
    ...(canary !== undefined && { canary }),
    ...(request.now && { now: true }),
    ...(request.soak !== undefined && { soak: parseDuration(request.soak)! }),
  };
  if (order.soak !== undefined) mustSoak(order, to);
  return { order, from, to, running, edit: edits };
}

/**
 * Whether programs of the new version can emulate the old one at first.
 *
 * @throws {MusterError} E_UPGRADE when they cannot
 */
function mustSoak(order: UpgradeOrder, to: ResolvedCluster): void {
  if (!isMinorChange(order))
    throw new MusterError(
      'E_UPGRADE',
      `${order.from.version} and ${order.to.version} are of one minor version, so that the way back stays open without a soak`,
    );
  if ([to.flags['kube-apiserver'], to.flags['kube-scheduler']].some((flags) => flags['emulated-version']))
    throw new MusterError(
      'E_UPGRADE',
      'overrides.flags name an emulated-version themselves; take it out, then a soak sets it',
    );
}

/** The Cluster with another version, after the checks that an edit of its document has to pass. */
async function edited(deps: UpgradeOrdersDeps, cluster: string, version: string): Promise<ResolvedCluster> {
  await edit(deps, cluster, version, { dryRun: true });
  const current = releaseOf(deps.clusters.get(cluster)!.resolved!);
  const found = deps.clusters.withVersion(cluster, version.replace(/^v/, ''));
  if (found) return found;
  throw new MusterError('E_CLUSTER', `the Cluster is not valid for ${version}; it has ${current.version}`);
}

/**
 * Whether the step settle-back edits the document: until then newer programs run, of which no
 * document may ask that they become older.
 */
export const returnsLate = (order: UpgradeOrder): boolean => order.soak !== undefined || lowersEtcd(order);

/** The document of a file stays as it is; only a person edits it. */
export async function returnDocument(
  deps: Pick<UpgradeOrdersDeps, 'catalog'>,
  cluster: string,
  { from }: Pick<UpgradeOrder, 'from'>,
): Promise<void> {
  const entry = deps.catalog.get('Cluster', cluster);
  if (entry?.origin.from === 'api') await edit(deps, cluster, from.version);
}

/** Edits the version in the document, as an operator would. */
async function edit(
  { catalog }: Pick<UpgradeOrdersDeps, 'catalog'>,
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

async function checked(
  deps: UpgradeOrdersDeps,
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
  const [old, next] = [from, to].map(({ versions }) => versions['kube-apiserver']) as [string, string];
  const ending = kube && isMinorChange(order) ? await objectsThatEnd(kube, old, next) : [];
  const seen = { health, metrics, full, ending };
  return preflightFaults({ ...seen, from, to, running, roles, without, has: deps.has });
}

const metricsOf = async ({ machine, kube }: { readonly machine: string; readonly kube: Kube }) => ({
  machine,
  text: await kube('/metrics').then(
    ({ text }) => text,
    () => undefined,
  ),
});
