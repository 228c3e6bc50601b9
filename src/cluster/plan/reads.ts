/**
 * Which files each program of the control plane reads only when it starts, so that a change of them
 * restarts it. It reads all others again by itself: certificates and keys of listeners and of
 * clients, and the CAs by which it verifies clients. All of this was measured with the programs;
 * test/peers/kubernetes-evidence.test.ts shows what they read again.
 */
import { ENCRYPTION } from '../../pki/encryption.ts';
import { AUTHORITIES, COMPONENT_KUBECONFIGS, SERVICE_ACCOUNT } from '../../pki/hierarchy.ts';
import { ADMISSION_CONFIG, POLICIES_READ_AT_START } from '../components/policies.ts';
import type { ResolvedCluster } from '../model/resolved-cluster.ts';
import { minorOf } from '../model/versions.ts';
import { AUDIT_POLICY } from '../resolve/derive.ts';
import type { Rolled } from './restarts.ts';

interface Read {
  readonly path: string;
  /** From this minor version of the program on it reads the file again by itself. */
  readonly until?: number;
}

const CA = AUTHORITIES.ca.bundle.path;
const ETCD_CA = AUTHORITIES['etcd-ca'].bundle.path;
/** From 1.36 on clients read the CA of their server again (client-go's ClientsAllowCARotation). */
const CLIENTS_READ_CA = 36;
/**
 * From 1.35 on the API server says which configuration it has loaded. An older one reads a new one
 * within a minute, too, but does not say so; only its restart proves it.
 */
const SAYS_ENCRYPTION = 35;

type StaticPodName = Exclude<Rolled, 'kubelet' | 'haproxy'>;

const READS: Readonly<Record<StaticPodName, readonly Read[]>> = {
  etcd: [{ path: ETCD_CA }],
  'kube-apiserver': [
    { path: ADMISSION_CONFIG },
    { path: AUDIT_POLICY },
    ...POLICIES_READ_AT_START.map((path) => ({ path })),
    { path: SERVICE_ACCOUNT.key },
    { path: SERVICE_ACCOUNT.verifiers },
    { path: ETCD_CA },
    // For --kubelet-certificate-authority.
    { path: CA, until: CLIENTS_READ_CA },
    { path: ENCRYPTION.path, until: SAYS_ENCRYPTION },
  ],
  'kube-controller-manager': [
    { path: COMPONENT_KUBECONFIGS['controller-manager'].path },
    // For --root-ca-file, which it publishes in every namespace.
    { path: CA },
    { path: SERVICE_ACCOUNT.key },
  ],
  'kube-scheduler': [
    { path: COMPONENT_KUBECONFIGS.scheduler.path },
    { path: COMPONENT_KUBECONFIGS.scheduler.authority, until: CLIENTS_READ_CA },
  ],
};

/** Whether the pod's program reads this file only when it starts. */
export function readAtStart({ versions }: ResolvedCluster, pod: string, path: string): boolean {
  const reads = READS[pod as StaticPodName] ?? [];
  const minor = Number(minorOf(versions[pod as StaticPodName]).split('.')[1]);
  return reads.some((read) => read.path === path && (read.until === undefined || minor < read.until));
}
