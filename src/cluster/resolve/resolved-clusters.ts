/** Keeps the resolved Clusters; each is resolved once for each state of the documents. */
import { MusterError } from '../../base/errors.ts';
import type { Memberships } from '../../machines/membership.ts';
import type { Catalog } from '../../resources/catalog.ts';
import type { KubernetesSpec } from '../../resources/kinds.ts';
import { machineNames } from '../../resources/membership.ts';
import type { ResolvedCluster } from '../model/resolved-cluster.ts';
import type { MachineFacts } from './machines.ts';
import { sameRelease, specAt } from './mixed.ts';
import { type Release, releaseOf } from './release.ts';
import { type Resolution, resolveCluster } from './resolve.ts';

export interface ResolvedClusters {
  /** Undefined when there is no such Cluster, or it has no spec.kubernetes. */
  get(cluster: string): Resolution | undefined;
  /** The Cluster with the versions of a release; undefined when it is not valid for these. */
  at(cluster: string, release: Release): ResolvedCluster | undefined;
  /** The Cluster with another `version` in its document; undefined when it is not valid then. */
  withVersion(cluster: string, version: string): ResolvedCluster | undefined;
  /** The resolution of the Cluster that gives this machine a role. */
  clusterOf(machine: string): Resolution | undefined;
  /** Stops following the documents. */
  close(): void;
}

/** The error for a Cluster that does not exist or has no spec.kubernetes: E_NOT_FOUND. */
export const noCluster = (name: string): MusterError =>
  new MusterError(
    'E_NOT_FOUND',
    `there is no Cluster "${name}" with spec.kubernetes; \`muster get clusters\` lists them`,
  );

/**
 * The machines of a Cluster that have a document.
 *
 * @param addressesOf Returns the addresses of a Machine document; undefined when there is no such
 *   document.
 */
export function machinesOf(
  spec: KubernetesSpec,
  addressesOf: (name: string) => readonly string[] | undefined,
): readonly MachineFacts[] {
  return [...machineNames(spec)].flatMap((name) => {
    const addresses = addressesOf(name);
    return addresses === undefined ? [] : [{ name, addresses }];
  });
}

/**
 * Resolves Clusters when they are asked for, and forgets the results when a Cluster or Machine
 * document changes.
 */
export function followClusters(catalog: Catalog, memberships: Memberships): ResolvedClusters {
  const known = new Map<string, Resolution>();
  /** Cluster → release, as JSON → the Cluster with that release. */
  const older = new Map<string, ResolvedCluster | undefined>();
  const close = catalog.subscribe((changes) => {
    if (!changes.some(({ kind }) => kind === 'Cluster' || kind === 'Machine')) return;
    known.clear();
    older.clear();
  });

  const addressesOf = (name: string) => {
    const machine = catalog.get('Machine', name)?.document.spec;
    return machine && (machine.addresses ?? []);
  };

  const get = (cluster: string): Resolution | undefined => {
    const spec = catalog.get('Cluster', cluster)?.document.spec.kubernetes;
    if (spec === undefined) return undefined;
    const resolution = known.get(cluster) ?? resolveCluster(cluster, spec, machinesOf(spec, addressesOf));
    known.set(cluster, resolution);
    return resolution;
  };

  const at = (cluster: string, release: Release): ResolvedCluster | undefined => {
    const spec = catalog.get('Cluster', cluster)?.document.spec.kubernetes;
    const current = get(cluster)?.resolved;
    if (spec === undefined) return undefined;
    if (current && sameRelease(releaseOf(current), release)) return current;
    const key = `${cluster} ${JSON.stringify(release)}`;
    const { resolved } = older.has(key)
      ? { resolved: older.get(key) }
      : resolveCluster(cluster, specAt(spec, release), machinesOf(spec, addressesOf));
    older.set(key, resolved);
    return resolved;
  };

  return {
    close,
    get,
    at,
    withVersion(cluster, version) {
      const spec = catalog.get('Cluster', cluster)?.document.spec.kubernetes;
      return spec && resolveCluster(cluster, { ...spec, version }, machinesOf(spec, addressesOf)).resolved;
    },
    clusterOf(machine) {
      const cluster = memberships.roleGiver(machine);
      return cluster === undefined ? undefined : get(cluster);
    },
  };
}
