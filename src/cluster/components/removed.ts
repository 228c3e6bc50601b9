/**
 * What to write instead of flags and names that have left Kubernetes, after the CHANGELOGs of
 * kubernetes/kubernetes. The tables of flags say whether a version has a flag; this one only
 * completes the message.
 */
import type { KubernetesComponent } from './flags.ts';

const STDERR = 'remove it: components log to standard error, which the container runtime or journald keeps';
const HTTPS = 'remove it: only HTTPS is served, at secure-port and bind-address';
const CNI = 'remove it: the container runtime loads the CNI plugins';
const CRI = 'remove it: kubelet talks to every container runtime through CRI';
const CLOUD = 'remove it: cloud controllers run as pods of their own';
const SCHEDULER = 'set it in a KubeSchedulerConfiguration, which the flag config names';
const EVICTION =
  'set default-not-ready-toleration-seconds and default-unreachable-toleration-seconds of kube-apiserver';

const CADVISOR = 'remove it: cAdvisor in kubelet reads it no more';

const LOG_FLAGS = {
  'add-dir-header': STDERR,
  alsologtostderr: STDERR,
  'log-backtrace-at': STDERR,
  'log-dir': STDERR,
  'log-file': STDERR,
  'log-file-max-size': STDERR,
  logtostderr: STDERR,
  'one-output': STDERR,
  'skip-headers': STDERR,
  'skip-log-headers': STDERR,
  stderrthreshold: STDERR,
};

const FLAGS: Readonly<Record<KubernetesComponent, Readonly<Record<string, string>>>> = {
  'kube-apiserver': {
    ...LOG_FLAGS,
    address: HTTPS,
    'audit-dynamic-configuration': 'set audit-policy-file, or audit-webhook-config-file',
    'basic-auth-file': 'set the oidc flags, or authentication-config',
    'cloud-config': CLOUD,
    'cloud-provider': CLOUD,
    'experimental-encryption-provider-config': 'remove it: Muster writes the configuration of encryption',
    'insecure-bind-address': HTTPS,
    'insecure-port': HTTPS,
    'kubelet-https': 'remove it: kubelets are always asked by HTTPS',
    'service-account-api-audiences': 'set api-audiences',
    'enable-swagger-ui': 'remove it: the description of the API is at /openapi/v3',
    'etcd-quorum-read': 'remove it: reads are always of the quorum',
    'master-service-namespace': 'remove it: the Service kubernetes is in the namespace default',
    'ssh-keyfile': 'remove it: API servers make no SSH tunnels; egress-selector-config-file names a proxy',
    'ssh-user': 'remove it: API servers make no SSH tunnels; egress-selector-config-file names a proxy',
    'target-ram-mb': 'set max-requests-inflight',
  },
  'kube-controller-manager': {
    ...LOG_FLAGS,
    address: HTTPS,
    'concurrent-service-syncs': 'remove it: cloud controllers bring load balancers of their own',
    'deployment-controller-sync-period': 'remove it: Deployments are synchronised when they change',
    'enable-taint-manager': 'remove it: pods are always evicted by taints',
    'experimental-cluster-signing-duration': 'set cluster-signing-duration',
    'horizontal-pod-autoscaler-downscale-delay': 'set horizontal-pod-autoscaler-downscale-stabilization',
    'horizontal-pod-autoscaler-upscale-delay': 'set behavior.scaleUp of each HorizontalPodAutoscaler',
    'pod-eviction-timeout': EVICTION,
    port: HTTPS,
    'register-retry-count': 'remove it: kubelets register their Nodes',
    'volume-host-allow-local-loopback': 'remove it: volumes of this kind left Kubernetes',
    'volume-host-cidr-denylist': 'remove it: volumes of this kind left Kubernetes',
  },
  'kube-scheduler': {
    ...LOG_FLAGS,
    address: HTTPS,
    'algorithm-provider': SCHEDULER,
    'hard-pod-affinity-symmetric-weight': SCHEDULER,
    'lock-object-name': 'set leader-elect-resource-name',
    'lock-object-namespace': 'set leader-elect-resource-namespace',
    'policy-config-file': SCHEDULER,
    'policy-configmap': SCHEDULER,
    'policy-configmap-namespace': SCHEDULER,
    port: HTTPS,
    'scheduler-name': SCHEDULER,
    'use-legacy-policy-config': SCHEDULER,
  },
  kubelet: {
    ...LOG_FLAGS,
    'application-metrics-count-limit': CADVISOR,
    'boot-id-file': CADVISOR,
    'container-hints': CADVISOR,
    containerd: CADVISOR,
    'containerd-namespace': CADVISOR,
    'enable-load-reader': CADVISOR,
    'event-storage-age-limit': CADVISOR,
    'event-storage-event-limit': CADVISOR,
    'global-housekeeping-interval': 'set housekeeping-interval',
    'log-cadvisor-usage': CADVISOR,
    'machine-id-file': CADVISOR,
    'storage-driver-buffer-duration': CADVISOR,
    'storage-driver-db': CADVISOR,
    'storage-driver-host': CADVISOR,
    'storage-driver-password': CADVISOR,
    'storage-driver-secure': CADVISOR,
    'storage-driver-table': CADVISOR,
    'storage-driver-user': CADVISOR,
    'allow-privileged': 'remove it: Pod Security Admission decides by the labels of a namespace',
    'azure-container-registry-config': 'set image-credential-provider-config',
    'cadvisor-port': 'remove it: the metrics are at /metrics/cadvisor of port 10250',
    'cni-bin-dir': CNI,
    'cni-cache-dir': CNI,
    'cni-conf-dir': CNI,
    'container-runtime': CRI,
    'docker-endpoint': CRI,
    'dynamic-config-dir': 'remove it: kubelet reads its configuration from one file, overrides.kubelet',
    'experimental-bootstrap-kubeconfig': 'remove it: machines join with certificates of Muster',
    'image-pull-progress-deadline': CRI,
    'keep-terminated-pod-volumes': 'remove it: volumes of ended pods are always unmounted',
    'network-plugin': CNI,
    'network-plugin-mtu': CNI,
    'non-masquerade-cidr': CNI,
    'pod-infra-container-image': 'remove it: the container runtime names the image of the pause container',
    'register-schedulable': 'set registerWithTaints in overrides.kubelet',
    'require-kubeconfig': 'remove it: kubelet always uses its kubeconfig',
    'seccomp-profile-root': 'remove it: profiles are read from seccomp below the directory of kubelet',
  },
};

/** Names of admission plugins. */
const NAMES: Readonly<Record<string, string>> = {
  DenyEscalatingExec: 'Pod Security Admission took its place; remove it',
  DenyExecOnPrivileged: 'Pod Security Admission took its place; remove it',
  Initializers: 'MutatingAdmissionWebhook took its place; remove it',
  PersistentVolumeLabel: 'cloud controllers took its place; remove it',
  PodGroupWorkloadExists: 'a PodGroup may name a Workload that is not there; remove it',
  PodSecurityPolicy: 'PodSecurity took its place and is on: remove it, and label the namespaces',
  SecurityContextDeny: 'PodSecurity took its place and is on: remove it, and label the namespaces',
};

/** The flags of a component that this table knows. */
export const removedFlags = (component: KubernetesComponent): readonly string[] =>
  Object.keys(FLAGS[component]);

/** What to do instead of setting this flag; undefined when that is not known. */
export const insteadOfFlag = (component: KubernetesComponent, flag: string): string | undefined =>
  Object.hasOwn(FLAGS[component], flag) ? FLAGS[component][flag] : undefined;

/** What to do instead of naming this admission plugin; undefined when that is not known. */
export const insteadOfName = (name: string): string | undefined =>
  Object.hasOwn(NAMES, name) ? NAMES[name] : undefined;
