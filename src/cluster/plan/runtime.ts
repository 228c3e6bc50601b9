/** What runs containers: containerd, or CRI-O where the Cluster says so. */
import type { PlanLine } from '../../agent/plan.ts';
import type { ResolvedCluster } from '../spec/resolved-cluster.ts';
import { containerdLines } from './containerd.ts';
import { crioLines } from './cri-o.ts';

interface RuntimeOf {
  readonly unit: string;
  /** Below /var/lib: what is kept on the data filesystem. */
  readonly data: readonly string[];
  readonly lines: typeof containerdLines;
}

/** By `spec.kubernetes.runtime`. */
export const RUNTIMES: Readonly<Record<ResolvedCluster['runtime'], RuntimeOf>> = {
  containerd: { unit: 'containerd.service', data: ['containerd'], lines: containerdLines },
  // In `crio` it notes whether it was ended in order. If not, it looks through `containers` as it
  // starts, and takes away what a power cut left half written.
  'cri-o': { unit: 'crio.service', data: ['containers', 'crio'], lines: crioLines },
};

/** Files of the cluster's runtime, and the line that runs it. */
export const runtimeLines = (resolved: ResolvedCluster, binaries: readonly PlanLine[]) =>
  RUNTIMES[resolved.runtime].lines(resolved, binaries);
