/**
 * The interface between a machine's plan and the upgrades of its cluster: which versions a machine
 * may have now is decided in `src/cluster/change/upgrade`.
 */
import type { ClusterMachine, ResolvedCluster } from '../model/resolved-cluster.ts';

export type Allowed =
  | {
      /** The Cluster with the versions that the machine may have now. */
      readonly resolved: ResolvedCluster;
      /**
       * The Cluster whose images the machine fetches ahead of their use; absent while no upgrade is
       * under way.
       */
      readonly ahead?: ResolvedCluster;
    }
  /** Why the machine's plan cannot be made. */
  | { readonly resolved: undefined; readonly why: string };

export type AllowedVersions = (resolved: ResolvedCluster, machine: ClusterMachine) => Allowed;
