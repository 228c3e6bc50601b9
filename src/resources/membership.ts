/**
 * Finds the Cluster of a machine: its Machine document names the Cluster, or a Cluster with
 * Kubernetes gives it a role. Pure.
 */
import type { ClusterSpec, Document, KubernetesSpec } from './kinds.ts';

/** Names of the machines to which a Cluster gives roles. */
export const machineNames = (spec: KubernetesSpec): ReadonlySet<string> =>
  new Set([...spec.controlPlanes, ...(spec.workers ?? []), ...(spec.etcd?.machines ?? [])]);

/** Names of the machines on which a Cluster runs etcd. */
export function etcdMembers({ spec }: { readonly spec: ClusterSpec }): readonly string[] {
  const { controlPlanes = [], etcd } = spec.kubernetes ?? {};
  return etcd?.topology === 'external' ? (etcd.machines ?? []) : controlPlanes;
}

type ClusterDocument = Pick<Document<'Cluster'>, 'metadata'> & { readonly spec: ClusterSpec };

/**
 * By machine name, the name of the Cluster that gives it a role. If several Clusters do, which
 * `muster apply` refuses, the first one.
 */
export function clustersByMachine(clusters: Iterable<ClusterDocument>): ReadonlyMap<string, string> {
  const found = new Map<string, string>();
  for (const { metadata, spec } of clusters)
    for (const name of spec.kubernetes ? machineNames(spec.kubernetes) : [])
      if (!found.has(name)) found.set(name, metadata.name);
  return found;
}

/**
 * Name of the Cluster whose configuration a machine gets: the one that its document names,
 * otherwise the one that gives it a role. `roles`: the result of {@link clustersByMachine}.
 */
export const clusterOfMachine = (
  name: string,
  machine: Document<'Machine'> | undefined,
  roles: ReadonlyMap<string, string>,
): string | undefined => machine?.spec.cluster ?? roles.get(name);
