/**
 * The differences between Muster's manifests and kubelet configuration and those of kubeadm, in any
 * of the versions of Kubernetes, each with its reason. A test checks that the list is complete and
 * that nothing in it is superfluous.
 */
import type { Value } from '../model/resolved-cluster.ts';

interface ClusterDeviation {
  /** Matches the differing paths, each written as `FILE FIELD`. */
  readonly fields: RegExp;
  readonly reason: string;
}

export const CLUSTER_DEVIATIONS = {
  initialCluster: {
    fields: /^etcd --initial-cluster$/,
    reason: 'Lists all members from the start: they come up in any order, without a first one.',
  },
  initialClusterState: {
    fields: /^etcd --initial-cluster-state$/,
    reason: 'Set explicitly: "new" is a grant that is given once; later it is always "existing".',
  },
  initialClusterToken: {
    fields: /^etcd --initial-cluster-token$/,
    reason: 'A token for each founding: members of two foundings never join each other, whatever was wiped.',
  },
  startupProbe: {
    fields: /^etcd startupProbe\.httpGet\.path$/,
    reason:
      'Probes /livez: with /readyz kubelet kills a member that waits for the others after four minutes without quorum.',
  },
  apiserverStartup: {
    fields: /^kube-apiserver startupProbe\.failureThreshold$/,
    reason:
      'Fifteen minutes: without quorum the container exits and restarts, and kubelet keeps counting. With less time it would kill the container that finally has its etcd.',
  },
  etcdServers: {
    fields: /^kube-apiserver --etcd-servers$/,
    reason: 'All members: the API server keeps working while the member on its machine is replaced.',
  },
  trustBundles: {
    fields:
      /^\S+ --(trusted-ca-file|peer-trusted-ca-file|client-ca-file|etcd-cafile|requestheader-client-ca-file|root-ca-file)$/,
    reason:
      'Trust is a bundle, separate from the single certificate that signs: two generations of a CA can be trusted.',
  },
  encryption: {
    fields: /^kube-apiserver --encryption-provider-config(-automatic-reload)?$/,
    reason:
      'Secrets are encrypted before they reach etcd: its disks, copies and backups do not reveal them. Another key is read without a restart.',
  },
  kubeletAuthority: {
    fields: /^kube-apiserver --kubelet-certificate-authority$/,
    reason:
      'The API server verifies kubelets: Muster, or the cluster by request, issues the serving certificates of all of them.',
  },
  watchTermination: {
    fields: /^kube-apiserver --shutdown-watch-termination-grace-period$/,
    reason:
      'Five seconds: an API server that ends waits a minute for open watches, and kubelet kills it after 30 s; so each restart would take half a minute and cut the audit log.',
  },
  audit: {
    fields: /^kube-apiserver (--audit-\S+|(mounts|volumes)\.audit\.\S+)$/,
    reason: 'Changes and reads are recorded from the first request on, on the machine, bounded in size.',
  },
  admission: {
    fields: /^kube-apiserver --admission-control-config-file$/,
    reason: 'Namespaces that name no Pod Security Standard get one; by default Kubernetes admits everything.',
  },
  apiserverDirectory: {
    fields: /^kube-apiserver (mounts|volumes)\.apiserver\.\S+$/,
    reason:
      'A separate directory for files that only the API server reads, so that no other pod sees its keys.',
  },
  serviceAccountVerifiers: {
    fields: /^kube-apiserver --service-account-key-file$/,
    reason: 'One file with all trusted verification keys: the signing key can be replaced without an outage.',
  },
  kubeconfigDirectories: {
    fields:
      /^kube-(controller-manager|scheduler) (--(authentication-|authorization-)?kubeconfig|(mounts|volumes)\.kubeconfig\.\S+)$/,
    reason: 'Mounted as a directory: a file mounted by itself hides its replacement by rename.',
  },
  kubeletTrustBundle: {
    fields: /^kubelet authentication\.x509\.clientCAFile$/,
    reason: 'The trust bundle, as for the control plane.',
  },
  kubeletServing: {
    fields: /^kubelet (tlsCertFile|tlsPrivateKeyFile)$/,
    reason:
      'A serving certificate from Muster, with the names and addresses in its Machine, so that clients verify TLS when they fetch logs and metrics.',
  },
  kubeletCrashLoop: {
    fields: /^kubelet crashLoopBackOff\.maxContainerRestartPeriod$/,
    reason:
      'At most 5 s on control planes: without quorum an API server exits 20 s after its start, and would wait up to 5 min for the next try.',
  },
  crashLoopGate: {
    fields: /^kubelet featureGates\.KubeletCrashLoopBackOffMax$/,
    reason: 'kubelet 1.34 takes the shorter time to the next try only with this gate; later ones need none.',
  },
  flexVolume: {
    fields: /^kube-controller-manager (mounts|volumes)\.flexvolume-dir\.\S+$/,
    reason:
      'No directory for FlexVolume plugins, as kubeadm 1.36 has none: it is below /usr, which is read-only on some systems, and the image could not run such plugins anyway.',
  },
  sandboxImage: {
    fields: /^kubelet --pod-infra-container-image$/,
    reason:
      'containerd and CRI-O say themselves which image their sandboxes have, and kubelet keeps that one; kubelet 1.35 has no such flag any more.',
  },
  kubeletTaint: {
    fields: /^kubelet registerWithTaints$/,
    reason: 'The node has the taint from its registration; kubeadm sets it later, from the first node.',
  },
  kubeletResolver: {
    fields: /^kubelet resolvConf$/,
    reason:
      "A link that kubelet's unit sets as kubeadm would choose: the file of systemd-resolved where that runs, else /etc/resolv.conf.",
  },
  kubeletNodeIp: {
    fields: /^kubelet --node-ip$/,
    reason: 'The addresses in the certificates, not one that kubelet guesses; both families for dual stack.',
  },
  imageDigest: {
    fields: /^(kube-\S+|etcd) image$/,
    reason:
      'Images that Muster has are named by digest too: every control plane runs the same octets, even if the tag moves.',
  },
  revision: {
    fields: /^(kube-\S+|etcd) env$/,
    reason:
      'The revision that the process was started with, so that its agent sees whether a change has arrived; only then the next machine changes.',
  },
  reads: {
    fields: /^(kube-\S+|etcd) annotations\.muster\/reads$/,
    reason:
      'A digest of the files that the pod reads only when it starts: kubelet restarts it when one of them changes.',
  },
} as const satisfies Readonly<Record<string, ClusterDeviation>>;

/**
 * The origin of a default: `kubeadm`, or `Muster: NAME`, where NAME is the deviation that covers
 * this field or a field below it.
 *
 * @param field The field, written as `FILE FIELD`.
 */
export function defaultOrigin(field: string, value: Value): string {
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

/** Differences of in-cluster objects, with paths written as `KIND NAMESPACE/NAME FIELD`. */
export const OBJECT_DEVIATIONS = {
  network: {
    fields: /kube-flannel|^ClusterRole(Binding)? \/flannel$/,
    reason: 'The network between pods, which kubeadm leaves to the operator.',
  },
  apiserverSettings: {
    fields:
      /^ConfigMap kube-system\/kubeadm-config data\.ClusterConfiguration\.apiServer\.extra(Args|Volumes)\./,
    reason:
      'Settings that kubeadm has to keep when it writes a manifest: an API server without the key cannot read Secrets.',
  },
  replicas: {
    fields: /^Deployment kube-system\/coredns spec\.replicas$/,
    reason:
      'Two, until somebody else sets another number. kubeadm reads the current number first; an object that is applied without reading it leaves the field out.',
  },
  localApi: {
    fields: /^ConfigMap kube-system\/kube-proxy data\.kubeconfig\.conf\.clusters\.default\.cluster\.server$/,
    reason:
      'kube-proxy reaches the API on its own machine, through the balancer there, and depends on no virtual address and no name.',
  },
} as const satisfies Readonly<Record<string, ClusterDeviation>>;
