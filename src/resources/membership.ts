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

/** The Cluster that gives a machine a role, and the role. */
export interface Membership {
  readonly cluster: string;
  readonly role: 'control plane' | 'worker' | 'etcd';
}

/**
 * By machine name, its membership. If several Clusters give it a role, which `muster apply`
 * refuses, that of the first one.
 */
export function membershipsIn(clusters: Iterable<ClusterDocument>): ReadonlyMap<string, Membership> {
  const found = new Map<string, Membership>();
  for (const { metadata, spec } of clusters) {
    const { controlPlanes = [], workers = [], etcd } = spec.kubernetes ?? {};
    const add = (role: Membership['role'], names: readonly string[]): void => {
      for (const name of names) if (!found.has(name)) found.set(name, { cluster: metadata.name, role });
    };
    add('control plane', controlPlanes);
    add('worker', workers);
    add('etcd', etcd?.machines ?? []);
  }
  return found;
}

/**
 * Name of the Cluster whose configuration a machine gets: the one that its document names,
 * otherwise the one that gives it a role. `roles`: the result of {@link membershipsIn}.
 */
export const clusterOfMachine = (
  name: string,
  machine: Document<'Machine'> | undefined,
  roles: ReadonlyMap<string, Membership>,
): string | undefined => machine?.spec.cluster ?? roles.get(name)?.cluster;
