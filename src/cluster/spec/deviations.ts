/**
 * Where manifests and kubelet's configuration differ from kubeadm's, each with its reason. A test
 * holds the list to be exact.
 */
import type { Value } from './resolved-cluster.ts';

export interface ClusterDeviation {
  /** The paths that differ, in `FILE FIELD` form. */
  readonly fields: RegExp;
  readonly reason: string;
}

export const CLUSTER_DEVIATIONS = {
  initialCluster: {
    fields: /^etcd --initial-cluster$/,
    reason: 'All members from the start: they come up in any order, without a first one.',
  },
  initialClusterState: {
    fields: /^etcd --initial-cluster-state$/,
    reason: 'Said explicitly: "new" is a grant that is given once, everything later is "existing".',
  },
  initialClusterToken: {
    fields: /^etcd --initial-cluster-token$/,
    reason:
      'A token for each founding: members of two foundings never take each other for their own, whatever was wiped.',
  },
  startupProbe: {
    fields: /^etcd startupProbe\.httpGet\.path$/,
    reason:
      'Asks /livez: with /readyz kubelet kills the member after four minutes without quorum, while it waits for the others.',
  },
  apiserverStartup: {
    fields: /^kube-apiserver startupProbe\.failureThreshold$/,
    reason:
      'Fifteen minutes: kubelet counts on when the container ends and starts again, as one does while etcd has no quorum, and would kill the one that has its etcd at last.',
  },
  etcdServers: {
    fields: /^kube-apiserver --etcd-servers$/,
    reason: 'All members: an apiserver outlives the replacement of the member on its own machine.',
  },
  trustBundles: {
    fields:
      /^\S+ --(trusted-ca-file|peer-trusted-ca-file|client-ca-file|etcd-cafile|requestheader-client-ca-file|root-ca-file)$/,
    reason:
      'A bundle for trust, apart from the single certificate that signs: two generations of a CA can be trusted.',
  },
  encryption: {
    fields: /^kube-apiserver --encryption-provider-config$/,
    reason:
      'Secrets are encrypted before they reach etcd: its disks, copies and backups do not give them away.',
  },
  audit: {
    fields: /^kube-apiserver (--audit-\S+|(mounts|volumes)\.audit\.\S+)$/,
    reason:
      'Who changed or read what is recorded from the first request on, on the machine, bounded in size.',
  },
  admission: {
    fields: /^kube-apiserver --admission-control-config-file$/,
    reason:
      'Namespaces that name no Pod Security Standard are held to one; by itself Kubernetes admits everything.',
  },
  apiserverDirectory: {
    fields: /^kube-apiserver (mounts|volumes)\.apiserver\.\S+$/,
    reason: 'A directory of its own for what only the apiserver reads, so that no other pod sees its keys.',
  },
  serviceAccountVerifiers: {
    fields: /^kube-apiserver --service-account-key-file$/,
    reason: 'All trusted verifiers in one file: the signing key can be replaced without an outage.',
  },
  kubeconfigDirectories: {
    fields:
      /^kube-(controller-manager|scheduler) (--(authentication-|authorization-)?kubeconfig|(mounts|volumes)\.kubeconfig\.\S+)$/,
    reason: 'Mounted as a directory: a file mounted by itself hides its replacement by rename.',
  },
  kubeletTrustBundle: {
    fields: /^kubelet authentication\.x509\.clientCAFile$/,
    reason: 'The bundle, as above.',
  },
  kubeletServing: {
    fields: /^kubelet (tlsCertFile|tlsPrivateKeyFile)$/,
    reason:
      'A serving certificate from Muster, with the names and addresses of the inventory, so that logs and metrics are reached over verified TLS.',
  },
  kubeletCrashLoop: {
    fields: /^kubelet crashLoopBackOff\.maxContainerRestartPeriod$/,
    reason:
      'At most 5 s on control planes: an apiserver exits 20 s after its start without quorum and would wait up to 5 min.',
  },
  kubeletTaint: {
    fields: /^kubelet registerWithTaints$/,
    reason: 'The taint is there from registration: kubeadm sets it later, from the first node.',
  },
  kubeletResolver: {
    fields: /^kubelet resolvConf$/,
    reason:
      'A link that the unit of kubelet sets as kubeadm would decide on the machine: the file of systemd-resolved where that runs, else /etc/resolv.conf.',
  },
  kubeletNodeIp: {
    fields: /^kubelet --node-ip$/,
    reason:
      'The address that the certificates name, not the one that kubelet guesses; both families for dual stack.',
  },
  imageDigest: {
    fields: /^(kube-\S+|etcd) image$/,
    reason:
      'Images that Muster has are named by their digest too: every control plane runs the same octets, whatever becomes of the tag.',
  },
  revision: {
    fields: /^(kube-apiserver|etcd) env$/,
    reason:
      'What the process was started with, so that its agent sees whether a change has arrived: the next machine is changed only then.',
  },
  reads: {
    fields: /^(kube-\S+|etcd) annotations\.muster\/reads$/,
    reason:
      'A digest of what the pod reads only when it starts: kubelet starts it anew when one of these files changes.',
  },
} as const satisfies Readonly<Record<string, ClusterDeviation>>;

export type ClusterDeviationName = keyof typeof CLUSTER_DEVIATIONS;

/**
 * Who says a value that follows from nothing: kubeadm, or Muster by the deviation that this field
 * or one below it (as above) is of.
 */
export function saidBy(field: string, value: Value): string {
  const fields = leavesOf(field, value);
  const found = Object.entries(CLUSTER_DEVIATIONS).find(([, deviation]) =>
    fields.some((one) => deviation.fields.test(one)),
  );
  return found === undefined ? 'kubeadm' : `Muster: ${found[0]}`;
}

const leavesOf = (field: string, value: Value): readonly string[] =>
  typeof value !== 'object' || value === null || Array.isArray(value)
    ? [field]
    : Object.entries(value).flatMap(([key, inner]) => leavesOf(`${field}.${key}`, inner));

/** The same for in-cluster objects, as `KIND NAMESPACE/NAME FIELD`. */
export const OBJECT_DEVIATIONS = {
  network: {
    fields: /kube-flannel|^ClusterRole(Binding)? \/flannel$/,
    reason: 'The network between pods, which kubeadm leaves to a person.',
  },
  apiserverSettings: {
    fields:
      /^ConfigMap kube-system\/kubeadm-config data\.ClusterConfiguration\.apiServer\.extra(Args|Volumes)\./,
    reason:
      'What kubeadm has to keep when a person lets it write a manifest: an apiserver without the key cannot read Secrets.',
  },
  replicas: {
    fields: /^Deployment kube-system\/coredns spec\.replicas$/,
    reason:
      'Two, until somebody else says how many. kubeadm looks how many there are; an object that is applied without a look does not name them.',
  },
  localApi: {
    fields: /^ConfigMap kube-system\/kube-proxy data\.kubeconfig\.conf\.clusters\.default\.cluster\.server$/,
    reason:
      'kube-proxy reaches the API on its own machine, through the balancer there: no virtual address and no name stands between.',
  },
} as const satisfies Readonly<Record<string, ClusterDeviation>>;

export type ObjectDeviationName = keyof typeof OBJECT_DEVIATIONS;
