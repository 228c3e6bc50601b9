/**
 * Directories of the host that are mounted into kube-apiserver's pod in addition to those of
 * kubeadm.
 */
import { APISERVER_DIRECTORY } from '../../pki/hierarchy.ts';
import type { ResolvedCluster } from './resolved-cluster.ts';

export interface HostDirectory {
  readonly name: string;
  readonly path: string;
  readonly readOnly: boolean;
}

/**
 * The directory of Muster's own files for kube-apiserver, and the directory of the audit log,
 * wherever an override puts the log. A log that is turned off or written to the pod's output needs
 * no directory.
 */
export function apiserverMounts({ flags }: Pick<ResolvedCluster, 'flags'>): readonly HostDirectory[] {
  const log = flags['kube-apiserver']['audit-log-path'];
  const found = typeof log === 'string' ? /^(\/[\s\S]+)\/[^/]+$/.exec(log) : null;
  return [
    { name: 'apiserver', path: APISERVER_DIRECTORY, readOnly: true },
    ...(found ? [{ name: 'audit', path: found[1]!, readOnly: false }] : []),
  ];
}
