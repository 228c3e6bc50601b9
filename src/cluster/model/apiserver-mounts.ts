/**
 * Directories of the host that are mounted into kube-apiserver's pod in addition to those of
 * kubeadm.
 */
import { APISERVER_DIRECTORY, KUBERNETES_DIRECTORY, PKI_DIRECTORY } from '../../pki/hierarchy.ts';
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

/** The host's directory with the CAs of its distribution, in every static pod that speaks TLS. */
const HOST_CAS = '/etc/ssl/certs';

/** Directories of the host from which a static pod of the control plane can read files. */
export function mountedDirectories(
  resolved: Pick<ResolvedCluster, 'flags' | 'hostCertificates' | 'staticPods' | 'etcd'>,
  component: 'kube-apiserver' | 'kube-controller-manager' | 'kube-scheduler' | 'etcd',
): readonly string[] {
  const added = resolved.staticPods?.[component]?.volumes?.map(({ path }) => path) ?? [];
  const shared = [PKI_DIRECTORY, HOST_CAS, ...resolved.hostCertificates, ...added];
  switch (component) {
    case 'kube-apiserver':
      return [...apiserverMounts(resolved).map(({ path }) => path), ...shared];
    case 'kube-controller-manager':
      return [`${KUBERNETES_DIRECTORY}/controller-manager`, ...shared];
    case 'kube-scheduler':
      return [`${KUBERNETES_DIRECTORY}/scheduler`, ...added];
    case 'etcd':
      return [`${PKI_DIRECTORY}/etcd`, resolved.etcd.dataDirectory, ...added];
  }
}
