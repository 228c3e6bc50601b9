/** The container runtime of a cluster: containerd or CRI-O. */
import type { PlanLine } from '../../agent/wire/plan.ts';
import type { ResolvedCluster } from '../model/resolved-cluster.ts';
import { containerdLines } from './containerd.ts';
import { crioLines } from './cri-o.ts';
import type { Login } from './registries.ts';

interface RuntimeOf {
  readonly unit: string;
  /** Directories below /var/lib that are kept on the data filesystem. */
  readonly data: readonly string[];
  readonly lines: typeof containerdLines;
}

/** The runtimes, by the value of `spec.kubernetes.runtime`. */
export const RUNTIMES: Readonly<Record<ResolvedCluster['runtime'], RuntimeOf>> = {
  containerd: { unit: 'containerd.service', data: ['containerd'], lines: containerdLines },
  // CRI-O records in `crio` whether it stopped cleanly. If it did not, it checks `containers` at
  // its start and removes what a power cut left incomplete.
  'cri-o': { unit: 'crio.service', data: ['containers', 'crio'], lines: crioLines },
};

/** The files of the cluster's runtime, and the line that runs it. */
export const runtimeLines = (
  resolved: ResolvedCluster,
  binaries: readonly PlanLine[],
  logins: readonly Login[] = [],
) => RUNTIMES[resolved.runtime].lines(resolved, binaries, logins);
