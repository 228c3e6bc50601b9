/**
 * Handlers for clusters beyond their documents: the resolved Cluster, plans of machines, add-ons,
 * the founding of etcd, health.
 */

import { MusterError } from '../base/errors.ts';
import { beforeChange } from '../base/rehearsal.ts';
import type { FoundingStatus } from '../cluster/etcd/status.ts';
import { type AddonState, addonsPart } from '../cluster/objects/addons/library.ts';
import { previewText } from '../cluster/plan/preview.ts';
import type { AddonManifest } from '../cluster/spec/addon.ts';
import type { ClusterFault } from '../cluster/spec/fault.ts';
import { type Resolution, resolveCluster } from '../cluster/spec/resolve.ts';
import type { Provenance, ResolvedCluster } from '../cluster/spec/resolved-cluster.ts';
import { machinesOf } from '../cluster/spec/resolved-clusters.ts';
import { machineNames } from '../resources/membership.ts';
import type { ApiDeps } from './deps.ts';
import { flag, type Handler, json } from './handler.ts';
import { partOf } from './listing.ts';
import { fieldsOf } from './machines.ts';
import { type FoundingRecordView, foundingView } from './times.ts';

type H = Handler<ApiDeps>;

/** A resolved Cluster, with the origin of every value. */
export interface ResolvedClusterView {
  readonly name: string;
  /** Absent when one of the faults is an error. */
  readonly full?: ResolvedCluster;
  readonly provenance: Readonly<Record<string, Provenance>>;
  readonly faults: readonly ClusterFault[];
}

function resolutionOf({ catalog }: Pick<ApiDeps, 'catalog'>, name: string): Resolution {
  const spec = catalog.get('Cluster', name)?.document.spec.kubernetes;
  if (spec === undefined)
    throw new MusterError(
      'E_NOT_FOUND',
      `there is no Cluster "${name}" with spec.kubernetes; \`muster get clusters\` lists them`,
    );
  const addressesOf = (machine: string) => {
    const found = catalog.get('Machine', machine)?.document.spec;
    return found && (found.addresses ?? []);
  };
  return resolveCluster(name, spec, machinesOf(spec, addressesOf));
}

export const showResolvedCluster: H = (request, deps) => {
  const name = request.params.name ?? '';
  const { resolved, provenance, faults } = resolutionOf(deps, name);
  const view: ResolvedClusterView = {
    name,
    ...(resolved && { full: resolved }),
    provenance: Object.fromEntries(provenance),
    faults,
  };
  return json(view);
};

/**
 * Shows the plan that a machine of a cluster gets once it has its certificates, as text without
 * secrets.
 */
export const showPlan: H = async (request, deps) => {
  const name = request.params.name ?? '';
  const cluster = deps.catalog
    .list('Cluster')
    .find(({ document: { spec } }) => spec.kubernetes && machineNames(spec.kubernetes).has(name));
  if (cluster === undefined) {
    const spec = deps.catalog.get('Cluster', name)?.document.spec.kubernetes;
    throw new MusterError(
      'E_NOT_FOUND',
      spec === undefined
        ? `no Cluster gives the machine "${name}" a role; \`muster get clusters\` lists clusters`
        : `"${name}" is a Cluster, but plans belong to machines: write \`muster cluster plan ${spec.controlPlanes[0]}\`, or \`muster artifacts plan ${name}\` for the files that it needs`,
    );
  }
  const { resolved, faults } = resolutionOf(deps, cluster.document.metadata.name);
  const machine = resolved?.machines.find((one) => one.name === name);
  if (resolved === undefined || machine === undefined)
    throw new MusterError('E_CLUSTER', faults[0]?.fault.message ?? `${name} is left out of its cluster`, {
      faults: faults.map(({ fault }) => fault),
    });
  const { ready } = addonsPart(resolved.name, await deps.addons.of(resolved));
  return json({ machine: name, cluster: resolved.name, plan: previewText(resolved, machine, ready) });
};

/** An add-on as the API shows it. */
export interface AddonView {
  readonly name: string;
  /**
   * `missing`: the asset store lacks a file. `faulty`: a file is not a manifest, or a patch cannot
   * be applied.
   */
  readonly state: AddonState['state'];
  /** What is missing or wrong. */
  readonly detail?: string;
  readonly manifests: readonly AddonManifest[];
  /** Number of its objects, when it is ready. */
  readonly objects?: number;
  /** Images that its objects need, when it is ready. */
  readonly images?: readonly string[];
}

function viewOf(state: AddonState): AddonView {
  const { name, manifests } = state.addon;
  switch (state.state) {
    case 'ready':
      return {
        name,
        state: 'ready',
        manifests,
        objects: state.rendered.count,
        images: state.rendered.images,
      };
    case 'missing':
      return { name, state: 'missing', manifests, detail: `not here: ${state.missing.join(', ')}` };
    case 'faulty':
      return { name, state: 'faulty', manifests, detail: state.fault };
  }
}

/** Lists the add-ons of a cluster in the order of its document. */
export const showAddons: H = async (request, deps) => {
  const name = request.params.name ?? '';
  const { resolved, faults } = resolutionOf(deps, name);
  if (resolved === undefined)
    throw new MusterError('E_CLUSTER', faults[0]?.fault.message ?? `${name} is incomplete`, {
      faults: faults.map(({ fault }) => fault),
    });
  const items = (await deps.addons.of(resolved)).map(viewOf);
  return json(partOf(request.query, items, (addon) => addon.name));
};

/** A founding as the API shows it. */
export type FoundingView = Omit<FoundingStatus, 'record'> & {
  readonly record?: FoundingRecordView;
  /** Machine that is being removed → what its removal waits for. */
  readonly leaving: Readonly<Record<string, string>>;
};

/** Shows the founding of a cluster, and the last decision for each member. */
export const showFounding: H = async ({ params: { name = '' } }, { founding, waiting }) => {
  const { record, ...status } = await founding.status(name);
  const view: FoundingView = {
    ...status,
    ...(record && { record: foundingView(record) }),
    leaving: waiting(name),
  };
  return json(view);
};

/** Opens the founding of a cluster. Body: `{confirm}`, which repeats the cluster's name. */
export const foundCluster: H = async (request, { founding }) => {
  const name = request.params.name ?? '';
  const { confirm } = await fieldsOf(request, ['confirm']);
  if (confirm !== name)
    throw new MusterError('E_USAGE', `to found the etcd of ${name}, repeat its name: {"confirm": "${name}"}`);
  return json(foundingView(await founding.order(name)));
};

/** Shows the alarms and the space of a cluster's etcd. */
export const showSpace: H = async ({ params }, { etcdSpace }) => {
  const { condition, ...report } = await etcdSpace.space(params.name ?? '');
  const { members, silent, quota } = condition;
  return json({
    ...report,
    ...(Number.isFinite(quota) && { quota }),
    members: members.map(({ name, id, leader, octets, inUse, reads }) => ({
      ...{ name, octets, inUse, reads },
      leader: id === leader,
    })),
    silent,
  });
};

/** Begins to reclaim the space of etcd. Body: `{confirm}`, which repeats the cluster's name. */
export const reclaimSpace: H = async (request, { etcdSpace }) => {
  const name = request.params.name ?? '';
  const { confirm } = await fieldsOf(request, ['confirm']);
  if (confirm !== name)
    throw new MusterError(
      'E_USAGE',
      `to reclaim the space of the etcd of ${name}, repeat its name: {"confirm": "${name}"}`,
    );
  await etcdSpace.reclaim(name);
  return json({}, 202);
};

/** Shows the health of a cluster and changes nothing. Query: `etcd` checks only etcd. */
export const showHealth: H = async ({ params, query }, { health }) =>
  json(await health.look(params.name ?? '', { etcdOnly: flag(query, 'etcd') }));

/** Like {@link showHealth}, and runs probe pods. Query: `etcd`, `image`. */
export const verifyCluster: H = async ({ params, query, signal }, { catalog, health }) => {
  const name = params.name ?? '';
  const etcdOnly = flag(query, 'etcd');
  if (catalog.get('Cluster', name)) beforeChange(`probe cluster/${name}`);
  const probe = { image: query.get('image') ?? undefined, signal };
  return json(await health.look(name, { etcdOnly, probe }));
};
