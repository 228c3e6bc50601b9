/**
 * Handlers for clusters beyond their documents: the full specification, plans of machines, the
 * founding of etcd.
 */

import { MusterError } from '../base/errors.ts';
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
import { fieldsOf } from './machines.ts';
import { type FoundingRecordView, foundingView } from './times.ts';

type H = Handler<ApiDeps>;

/** What a cluster is made of, every value with where it came from. */
export interface FullView {
  readonly name: string;
  /** Absent when there is an error among the faults. */
  readonly full?: ResolvedCluster;
  readonly provenance: Readonly<Record<string, Provenance>>;
  readonly faults: readonly ClusterFault[];
}

function completedOf({ catalog }: Pick<ApiDeps, 'catalog'>, name: string): Resolution {
  const spec = catalog.get('Cluster', name)?.document.spec.kubernetes;
  if (spec === undefined)
    throw new MusterError('E_NOT_FOUND', `there is no Cluster "${name}" with spec.kubernetes`);
  const addressesOf = (machine: string) => {
    const found = catalog.get('Machine', machine)?.document.spec;
    return found && (found.addresses ?? []);
  };
  return resolveCluster(name, spec, machinesOf(spec, addressesOf));
}

export const showFull: H = (request, deps) => {
  const name = request.params.name ?? '';
  const { resolved, provenance, faults } = completedOf(deps, name);
  const view: FullView = {
    name,
    ...(resolved && { full: resolved }),
    provenance: Object.fromEntries(provenance),
    faults,
  };
  return json(view);
};

/**
 * What a machine of a cluster is told to do once it has its certificates, as text; no secret is in
 * it.
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
        : `"${name}" is a Cluster, and plans are those of machines: write \`muster cluster plan ${spec.controlPlanes[0]}\`, or \`muster artifacts plan ${name}\` for the files that it needs`,
    );
  }
  const { resolved, faults } = completedOf(deps, cluster.document.metadata.name);
  const machine = resolved?.machines.find((one) => one.name === name);
  if (resolved === undefined || machine === undefined)
    throw new MusterError('E_CLUSTER', faults[0]?.fault.message ?? `${name} is left out of its cluster`, {
      faults: faults.map(({ fault }) => fault),
    });
  const { ready } = addonsPart(resolved.name, await deps.addons.of(resolved));
  return json({ machine: name, cluster: resolved.name, plan: previewText(resolved, machine, ready) });
};

/** An add-on as it is shown. */
export interface AddonView {
  readonly name: string;
  /** missing: a file is not here; faulty: a file is no manifest, or a patch does not fit. */
  readonly state: AddonState['state'];
  /** What is wrong. */
  readonly detail?: string;
  readonly manifests: readonly AddonManifest[];
  /** How many objects it has, and which images they need; when it is ready. */
  readonly objects?: number;
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

/** The add-ons of a cluster, in their order. */
export const showAddons: H = async (request, deps) => {
  const name = request.params.name ?? '';
  const { resolved, faults } = completedOf(deps, name);
  if (resolved === undefined)
    throw new MusterError('E_CLUSTER', faults[0]?.fault.message ?? `${name} is incomplete`, {
      faults: faults.map(({ fault }) => fault),
    });
  return json({ items: (await deps.addons.of(resolved)).map(viewOf) });
};

/** A founding as the API shows it. */
export type FoundingView = Omit<FoundingStatus, 'record'> & {
  readonly record?: FoundingRecordView;
  /** Machine that is being removed → why it is still where it is. */
  readonly leaving: Readonly<Record<string, string>>;
};

/** What is known of a cluster's founding, and each member's last decision. */
export const showFounding: H = async ({ params: { name = '' } }, { founding, waiting }) => {
  const { record, ...status } = await founding.status(name);
  const view: FoundingView = {
    ...status,
    ...(record && { record: foundingView(record) }),
    leaving: waiting(name),
  };
  return json(view);
};

/** Body: `{confirm}`, the cluster's name once more. */
export const foundCluster: H = async (request, { founding }) => {
  const name = request.params.name ?? '';
  const { confirm } = await fieldsOf(request, ['confirm']);
  if (confirm !== name)
    throw new MusterError(
      'E_USAGE',
      `to found the etcd of ${name}, confirm it by its name: {"confirm": "${name}"}`,
    );
  return json(foundingView(await founding.order(name)));
};

/**
 * What is well and what is not, without touching anything. Query: `etcd`, nothing of Kubernetes.
 */
export const showHealth: H = async ({ params, query }, { health }) =>
  json(await health.look(params.name ?? '', { etcdOnly: flag(query, 'etcd') }));

/** The same, and probe pods are made. Query: `etcd`, `image`. */
export const verifyCluster: H = async ({ params, query, signal }, { health }) =>
  json(
    await health.look(params.name ?? '', {
      etcdOnly: flag(query, 'etcd'),
      probe: { image: query.get('image') ?? undefined, signal },
    }),
  );
