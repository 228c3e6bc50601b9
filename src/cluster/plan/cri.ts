/** What every container runtime needs in addition to its own settings. */
import type { PlanLine } from '../../agent/wire/plan.ts';
import type { ResolvedCluster } from '../model/resolved-cluster.ts';
import { FLANNEL_CNI } from '../objects/flannel.ts';
import { put } from './lines.ts';

/** Configures crictl with the runtime's `socket`, a URL. */
export const crictlLine = (socket: string): PlanLine =>
  put('/etc/crictl.yaml', `runtime-endpoint: ${socket}\nimage-endpoint: ${socket}\ntimeout: 10\n`);

/** The file with the CNI configuration; none when a pod of the network installs it. */
export const networkLines = ({ cni }: ResolvedCluster): readonly PlanLine[] =>
  cni.plugin === 'flannel'
    ? [put('/etc/cni/net.d/10-flannel.conflist', `${JSON.stringify(FLANNEL_CNI, undefined, 2)}\n`)]
    : [];
