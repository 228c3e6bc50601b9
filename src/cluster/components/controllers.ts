/**
 * The controllers of kube-controller-manager (cmd/kube-controller-manager/names), each with the
 * name that it had before 1.28 if it had another one. Both names are taken.
 */
const NAMES = `
  bootstrap-signer-controller bootstrapsigner
  certificatesigningrequest-approving-controller csrapproving
  certificatesigningrequest-cleaner-controller csrcleaner
  certificatesigningrequest-signing-controller csrsigning
  cloud-node-lifecycle-controller cloud-node-lifecycle
  clusterrole-aggregation-controller clusterrole-aggregation
  cronjob-controller cronjob
  daemonset-controller daemonset
  deployment-controller deployment
  device-taint-eviction-controller
  disruption-controller disruption
  endpoints-controller endpoint
  endpointslice-controller endpointslice
  endpointslice-mirroring-controller endpointslicemirroring
  ephemeral-volume-controller ephemeral-volume
  garbage-collector-controller garbagecollector
  horizontal-pod-autoscaler-controller horizontalpodautoscaling
  job-controller job
  kube-apiserver-serving-clustertrustbundle-publisher-controller
  legacy-serviceaccount-token-cleaner-controller legacy-service-account-token-cleaner
  namespace-controller namespace
  node-ipam-controller nodeipam
  node-lifecycle-controller nodelifecycle
  node-route-controller route
  persistentvolume-attach-detach-controller attachdetach
  persistentvolume-binder-controller persistentvolume-binder
  persistentvolume-expander-controller persistentvolume-expander
  persistentvolume-protection-controller pv-protection
  persistentvolumeclaim-protection-controller pvc-protection
  pod-garbage-collector-controller podgc
  podcertificaterequest-cleaner-controller
  podgroup-protection-controller
  replicaset-controller replicaset
  replicationcontroller-controller replicationcontroller
  resourceclaim-controller resource-claim-controller
  resourcepoolstatusrequest-controller
  resourcequota-controller resourcequota
  root-ca-certificate-publisher-controller root-ca-cert-publisher
  selinux-warning-controller
  service-ca-certificate-publisher-controller service-ca-cert-publisher
  service-cidr-controller
  service-lb-controller service
  serviceaccount-controller serviceaccount
  serviceaccount-token-controller serviceaccount-token
  statefulset-controller statefulset
  storage-version-migrator-controller svm
  storageversion-garbage-collector-controller storage-version-gc
  taint-eviction-controller
  token-cleaner-controller tokencleaner
  ttl-after-finished-controller ttl-after-finished
  ttl-controller ttl
  validatingadmissionpolicy-status-controller
  volumeattributesclass-protection-controller
`;

/** Each name → the name of today. */
export const CONTROLLERS: ReadonlyMap<string, string> = new Map(
  NAMES.trim()
    .split('\n')
    .flatMap((line) => {
      const [name = '', ...before] = line.trim().split(' ');
      return [name, ...before].map((one): [string, string] => [one, name]);
    }),
);

/**
 * Without one of these, pods of the cluster itself do not run, or get no address, or kubelets
 * cannot renew their certificates.
 */
const NEEDED = [
  'certificatesigningrequest-approving-controller',
  'certificatesigningrequest-signing-controller',
  'clusterrole-aggregation-controller',
  'daemonset-controller',
  'deployment-controller',
  'endpointslice-controller',
  'namespace-controller',
  'node-ipam-controller',
  'node-lifecycle-controller',
  'replicaset-controller',
  'root-ca-certificate-publisher-controller',
  'serviceaccount-controller',
];

/** The needed controllers that a value of the flag `controllers` does not start. */
export function missingControllers(value: string, needed: readonly string[] = NEEDED): readonly string[] {
  const given = value.split(',').map((part) => {
    const name = part.replace(/^-/, '');
    return [CONTROLLERS.get(name) ?? name, !part.startsWith('-')] as const;
  });
  const isOn = (name: string): boolean =>
    given.find(([one]) => one === name)?.[1] ?? given.some(([one]) => one === '*');
  return needed.filter((name) => !isOn(name));
}
