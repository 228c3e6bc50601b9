/**
 * What a founded cluster runs: the release that its machines may have, the settings with which it
 * was founded, and the versions that agents report. A changed Cluster is compared with these and
 * not with a former document, which somebody may have deleted or edited while Muster was away.
 */
import type { AgentFacts, RunningVersions } from '../../agent/wire/facts.ts';
import type { ClusterMachine, ResolvedCluster } from '../model/resolved-cluster.ts';

/** The versions that the machines of a cluster may have when no upgrade is running. */
export interface Release {
  readonly version: string;
  readonly versions: ResolvedCluster['versions'];
  readonly images: ResolvedCluster['images'];
}

/** Settings that a running cluster was built with. */
export interface Fixed {
  readonly services: readonly string[];
  readonly pods: readonly string[];
  readonly dnsDomain: string;
  readonly cni: string;
  readonly runtime: string;
  readonly etcdTopology: string;
  readonly endpoint: string;
  readonly virtualAddresses: readonly string[];
}

export interface RunningMachine {
  /** Whether it is a control plane or a member of etcd. */
  readonly serves: boolean;
  readonly versions: RunningVersions;
  /** SHA-256 of the root image that it booted. */
  readonly image?: string;
  /** The selector by which it found its data disk; absent while that disk holds no data. */
  readonly dataDisk?: string;
  /** The address at which the others know it. */
  readonly address?: string;
  /** Whether it is a member of etcd. */
  readonly member?: boolean;
  /** The hardware addresses of the network cards that its agent reported last. */
  readonly macs?: readonly string[];
}

/** A founded cluster, as far as it is known what it runs. */
export interface RunningCluster {
  readonly release: Release;
  /** The release before the last upgrade. */
  readonly former?: Release;
  readonly fixed: Fixed;
  /** Machine → what its agent reported last. */
  readonly machines: ReadonlyMap<string, RunningMachine>;
}

/** Finds what founded clusters run. */
export interface Running {
  /** Undefined for a cluster that was not founded, or was reset. */
  of(cluster: string): RunningCluster | undefined;
  /** The founded cluster that a machine works for. */
  clusterOf(machine: string): string | undefined;
}

/** Finds what founded clusters run, and notes what machines report. */
export interface Releases extends Running {
  /** Notes what a machine of a founded cluster reports; it is durable when this resolves. */
  heard(resolved: ResolvedCluster, machine: ClusterMachine, facts: AgentFacts): Promise<void>;
  /** Makes a release the one that the machines of a cluster may have. */
  settle(cluster: string, release: Release): Promise<void>;
  /** Forgets a machine that is taken out of its cluster. */
  forget(cluster: string, machine: string): Promise<void>;
  /** Forgets a cluster that was reset. */
  reset(cluster: string): Promise<void>;
}

export const releaseOf = ({ kubernetes, versions, images }: ResolvedCluster): Release => ({
  version: kubernetes.version,
  versions,
  images,
});

export const fixedOf = (resolved: ResolvedCluster): Fixed => ({
  services: resolved.networks.services,
  pods: resolved.networks.pods,
  dnsDomain: resolved.dnsDomain,
  cni: resolved.cni.plugin,
  runtime: resolved.runtime,
  etcdTopology: resolved.etcd.topology,
  endpoint: `${resolved.endpoint.host}:${resolved.endpoint.port}`,
  virtualAddresses: resolved.virtualAddress?.addresses ?? [],
});
