/**
 * Which machine is of which Cluster: a Machine says so itself, or a Cluster with Kubernetes gives
 * it a role. Pure.
 */
import type { ClusterSpec, Document, KubernetesSpec } from './kinds.ts';

/** Names of the machines that a Cluster gives roles to. */
export const machineNames = (spec: KubernetesSpec): ReadonlySet<string> =>
  new Set([...spec.controlPlanes, ...(spec.workers ?? []), ...(spec.etcd?.machines ?? [])]);

type ClusterDocument = Pick<Document<'Cluster'>, 'metadata'> & { readonly spec: ClusterSpec };

/**
 * By machine, the Cluster that gives it a role; of several, which are refused when they are
 * applied, the first.
 */
export function clustersByMachine(clusters: Iterable<ClusterDocument>): ReadonlyMap<string, string> {
  const found = new Map<string, string>();
  for (const { metadata, spec } of clusters)
    for (const name of spec.kubernetes ? machineNames(spec.kubernetes) : [])
      if (!found.has(name)) found.set(name, metadata.name);
  return found;
}

/**
 * The Cluster whose configuration a machine takes: the one that its document names, else the one
 * that gives it a role. `roles` is what {@link clustersByMachine} returns.
 */
export const clusterOfMachine = (
  name: string,
  machine: Document<'Machine'> | undefined,
  roles: ReadonlyMap<string, string>,
): string | undefined => machine?.spec.cluster ?? roles.get(name);
