/** What runs containers: containerd, or CRI-O where the Cluster says so. */
import type { PlanLine } from '../../agent/plan.ts';
import type { FullCluster } from '../full.ts';
import { containerdLines } from './containerd.ts';
import { crioLines } from './cri-o.ts';

interface RuntimeOf {
  readonly unit: string;
  /** Below /var/lib: what is kept on the data filesystem. */
  readonly data: string;
  readonly lines: typeof containerdLines;
}

/** By `spec.kubernetes.runtime`. */
export const RUNTIMES: Readonly<Record<FullCluster['runtime'], RuntimeOf>> = {
  containerd: { unit: 'containerd.service', data: 'containerd', lines: containerdLines },
  'cri-o': { unit: 'crio.service', data: 'containers', lines: crioLines },
};

/** Files of the cluster's runtime, and the line that runs it. */
export const runtimeLines = (full: FullCluster, binaries: readonly PlanLine[]) =>
  RUNTIMES[full.runtime].lines(full, binaries);
