/**
 * The list of all tests that are skipped where MUSTER_ARTIFACTS does not name a directory, because
 * no registry that CI reaches has what they need. test/audit/conventions.test.ts refuses a skipped
 * test that is not listed here.
 */
export const NEED_ARTIFACTS: Readonly<Record<string, string>> = {
  'test/lab/scenarios.test.ts':
    'scenarios with `artifacts: {given: true}`: what each says in its first lines',
  'test/peers/agent-restore-crio.test.ts': 'bin/ with crio, conmon, pinns, runc and crictl',
  'test/peers/binaries.test.ts':
    'bin/ with kube-apiserver, kube-controller-manager, kube-scheduler and kubelet, of one version of Kubernetes',
  'test/peers/bridges.test.ts': 'bin/ with etcd, for that version as well',
  'test/peers/component-values.test.ts':
    'bin/ with etcd 3.6, kube-apiserver, kube-controller-manager, kube-scheduler, kubelet and kube-proxy, static, of one version of Kubernetes',
  'test/peers/etcd-lower.test.ts': 'bin/ with etcd 3.6',
  'test/peers/kubernetes-addons.test.ts':
    'bin/ with etcd, kube-apiserver and kubectl; with cluster-proportional-autoscaler, dns-autoscaler as well',
  'test/peers/kubernetes-adopt.test.ts': 'bin/ with kubeadm',
  'test/peers/kubernetes-api.test.ts':
    'bin/ with etcd, kube-apiserver, kubectl and kubeadm, static, of one version of Kubernetes',
  'test/peers/kubernetes-evidence.test.ts':
    'bin/ with etcd, kube-apiserver, kube-controller-manager and kube-scheduler, static, of one version of Kubernetes',
  'test/peers/kubernetes-joining.test.ts':
    'bin/ with etcd, kube-apiserver, kube-controller-manager, kubectl and kubeadm, static, of one version of Kubernetes',
  'test/peers/kubernetes-operate.test.ts':
    'bin/ with etcd, kube-apiserver and kubectl, static, of one version of Kubernetes',
  'test/peers/kubernetes-rotate-all.test.ts':
    'bin/ with kube-apiserver, kube-controller-manager, kube-scheduler and kubectl, static, of one version of Kubernetes',
  'test/peers/kubernetes-rotation.test.ts':
    'bin/ with kube-apiserver, kube-controller-manager and kubectl, static, of one version of Kubernetes',
  'test/peers/kubernetes-security.test.ts':
    'bin/ with etcd, kube-apiserver and kubectl, static, of one version of Kubernetes',
  'test/peers/kubernetes-tokens.test.ts':
    'bin/ with etcd, kube-apiserver, kube-controller-manager and kubectl, static, of one version of Kubernetes',
  'test/peers/kubernetes-upgrade.test.ts':
    'bin/ with kubectl, kube-apiserver, kube-controller-manager and kube-scheduler, MUSTER_FORMER_ARTIFACTS with the last three of the minor version before, and cc',
  'torture/ageing.test.ts':
    'bin/ with kube-apiserver, kube-controller-manager, kube-scheduler and kubectl, static, of one version of Kubernetes',
};

/** The directory that MUSTER_ARTIFACTS names, if it is set. */
export const ARTIFACTS = process.env.MUSTER_ARTIFACTS;

/** The directory that MUSTER_FORMER_ARTIFACTS names, if it is set: the minor version before. */
export const FORMER_ARTIFACTS = process.env.MUSTER_FORMER_ARTIFACTS;
