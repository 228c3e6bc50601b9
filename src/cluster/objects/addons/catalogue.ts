/**
 * Known add-ons, and where their publishers offer them. `muster addon pin` starts from an entry
 * here and writes everything into the Cluster, so a newer catalogue changes no cluster.
 *
 * The catalogue holds no hashes, because a hash protects only if somebody compared it. `muster
 * addon pin` downloads the file once and shows its hash, and the operator compares it with the
 * publisher's.
 */
import type { AddonPatch } from '../../model/addon.ts';
import { account, bindCluster, clusterRole, type KubeObject, serviceAccount } from '../object.ts';

export interface CatalogueEntry {
  readonly about: string;
  /** The version that this entry was written for, without a leading `v`; others are untested. */
  readonly version: string;
  /** The publisher's documentation. */
  readonly home: string;
  /** What operators need to know before they use it. */
  readonly note?: string;
  /** URLs of the manifests of a version. */
  readonly manifests?: (version: string) => readonly string[];
  /** Objects that are written here, because the publisher has no manifest that works unchanged. */
  readonly objects?: (version: string) => readonly KubeObject[];
  readonly patches?: readonly AddonPatch[];
  /** Images that the add-on's objects name outside of containers. */
  readonly images?: readonly string[];
  /**
   * For an add-on that is published only as a chart: the commands that render its manifest, on any
   * machine that reaches the publisher.
   */
  readonly rendered?: (version: string) => readonly string[];
}

const github = (project: string, tag: string, file: string): string =>
  `https://raw.githubusercontent.com/${project}/${tag}/${file}`;
const release = (project: string, tag: string, file: string): string =>
  `https://github.com/${project}/releases/download/${tag}/${file}`;

const OWN_NETWORK = 'A network between pods: set cni: none.';

const SNAPSHOTS = ['volumesnapshotclasses', 'volumesnapshotcontents', 'volumesnapshots'] as const;

export const CATALOGUE: Readonly<Record<string, CatalogueEntry>> = {
  calico: {
    about: 'network between pods, with policies; by BGP or VXLAN',
    version: '3.31.7',
    home: 'https://docs.tigera.io/calico/latest/getting-started/kubernetes/self-managed-onprem/onpremises',
    note: `${OWN_NETWORK} It takes the pods' network from kubeadm's ConfigMap.`,
    manifests: (version) => [github('projectcalico/calico', `v${version}`, 'manifests/calico.yaml')],
  },
  'cert-manager': {
    about: 'certificates for what runs in the cluster',
    version: '1.19.1',
    home: 'https://cert-manager.io/docs/installation/kubectl/',
    manifests: (version) => [release('cert-manager/cert-manager', `v${version}`, 'cert-manager.yaml')],
  },
  cilium: {
    about: 'network between pods, with policies; by eBPF',
    version: '1.20.1',
    home: 'https://docs.cilium.io/en/stable/installation/k8s-install-helm/',
    note: OWN_NETWORK,
    rendered: (version) => [
      `helm template cilium cilium --repo https://helm.cilium.io --version ${version} --namespace kube-system --set ipam.mode=kubernetes --set k8sServiceHost=127.0.0.1 --set k8sServicePort=6443`,
    ],
  },
  'csi-nfs': {
    about: 'volumes on an NFS server, by CSI',
    version: '4.13.4',
    home: 'https://github.com/kubernetes-csi/csi-driver-nfs',
    note: 'Name the NFS server in a StorageClass with provisioner nfs.csi.k8s.io, under objects of the same entry. Its snapshotter needs the add-on csi-snapshots first.',
    manifests: (version) =>
      ['rbac-csi-nfs', 'csi-nfs-driverinfo', 'csi-nfs-controller', 'csi-nfs-node'].map((part) =>
        github('kubernetes-csi/csi-driver-nfs', `v${version}`, `deploy/v${version}/${part}.yaml`),
      ),
  },
  'csi-snapshots': {
    about: 'snapshots of volumes, for CSI drivers that make them',
    version: '8.2.0',
    home: 'https://github.com/kubernetes-csi/external-snapshotter',
    manifests: (version) => [
      ...SNAPSHOTS.map((kind) =>
        github(
          'kubernetes-csi/external-snapshotter',
          `v${version}`,
          `client/config/crd/snapshot.storage.k8s.io_${kind}.yaml`,
        ),
      ),
      ...['rbac', 'setup'].map((part) =>
        github(
          'kubernetes-csi/external-snapshotter',
          `v${version}`,
          `deploy/kubernetes/snapshot-controller/${part}-snapshot-controller.yaml`,
        ),
      ),
    ],
  },
  dashboard: {
    about: 'the Kubernetes dashboard, in the last version that was published as a manifest',
    version: '2.7.0',
    home: 'https://github.com/kubernetes/dashboard',
    note: 'Later versions are published only as Helm charts, and the project is looking for maintainers.',
    manifests: (version) => [github('kubernetes/dashboard', `v${version}`, 'aio/deploy/recommended.yaml')],
  },
  'dns-autoscaler': {
    about: 'as many replicas of CoreDNS as the cluster needs',
    version: '1.8.8',
    home: 'https://kubernetes.io/docs/tasks/administer-cluster/dns-horizontal-autoscaling/',
    objects: dnsAutoscaler,
  },
  'gateway-api': {
    about: 'the CRDs of the Gateway API; you choose and install the controller',
    version: '1.4.0',
    home: 'https://gateway-api.sigs.k8s.io/guides/',
    manifests: (version) => [release('kubernetes-sigs/gateway-api', `v${version}`, 'standard-install.yaml')],
  },
  'ingress-nginx': {
    about: 'Ingress by nginx, at ports of the nodes',
    version: '1.13.3',
    home: 'https://kubernetes.github.io/ingress-nginx/deploy/baremetal/',
    note: 'Its project announced the end of its maintenance for March 2026.',
    manifests: (version) => [
      github(
        'kubernetes/ingress-nginx',
        `controller-v${version}`,
        'deploy/static/provider/baremetal/deploy.yaml',
      ),
    ],
  },
  'local-path': {
    about: 'volumes in directories of the nodes',
    version: '0.0.32',
    home: 'https://github.com/rancher/local-path-provisioner',
    note: 'Its helper pods run an image that its ConfigMap names (helperPod.yaml): list it under images.',
    patches: [
      {
        // The helper pods mount directories of the node, which the default Pod Security Standard
        // forbids.
        target: { kind: 'Namespace', name: 'local-path-storage' },
        merge: { metadata: { labels: { 'pod-security.kubernetes.io/enforce': 'privileged' } } },
      },
    ],
    manifests: (version) => [
      github('rancher/local-path-provisioner', `v${version}`, 'deploy/local-path-storage.yaml'),
    ],
  },
  metallb: {
    about: 'addresses for Services of type LoadBalancer, by ARP or BGP',
    version: '0.15.2',
    home: 'https://metallb.universe.tf/installation/',
    note: 'Define its addresses with an IPAddressPool and an L2Advertisement, under objects of the same entry.',
    manifests: (version) => [
      github('metallb/metallb', `v${version}`, 'config/manifests/metallb-native.yaml'),
    ],
  },
  'metrics-server': {
    about: '`kubectl top`, and autoscaling by processor and memory',
    version: '0.8.1',
    home: 'https://github.com/kubernetes-sigs/metrics-server',
    note: "It verifies the certificates of kubelets against the cluster's CA. Muster's certificates pass, so --kubelet-insecure-tls is not needed.",
    manifests: (version) => [release('kubernetes-sigs/metrics-server', `v${version}`, 'components.yaml')],
  },
  multus: {
    about: 'several networks for a pod, in addition to that of the cluster',
    version: '4.2.2',
    home: 'https://github.com/k8snetworkplumbingwg/multus-cni',
    manifests: (version) => [
      github('k8snetworkplumbingwg/multus-cni', `v${version}`, 'deployments/multus-daemonset-thick.yml'),
    ],
  },
  registry: {
    about: 'a container registry in the cluster, without users and over HTTP',
    version: '2.8.1',
    home: 'https://distribution.github.io/distribution/',
    note: 'Its volume is lost with the pod, unless a patch gives it another one.',
    objects: registry,
  },
};

const DNS_AUTOSCALER = { name: 'dns-autoscaler', namespace: 'kube-system' } as const;

function dnsAutoscaler(version: string): readonly KubeObject[] {
  const { name, namespace } = DNS_AUTOSCALER;
  const labels = { 'k8s-app': name };
  return [
    serviceAccount(name, namespace),
    clusterRole(
      `system:${name}`,
      { resources: ['nodes'], verbs: ['list', 'watch'] },
      { resources: ['replicationcontrollers/scale'], verbs: ['get', 'update'] },
      { groups: ['apps'], resources: ['deployments/scale', 'replicasets/scale'], verbs: ['get', 'update'] },
      { resources: ['configmaps'], verbs: ['get', 'create'] },
    ),
    bindCluster(`system:${name}`, `system:${name}`, account(name, namespace)),
    {
      apiVersion: 'apps/v1',
      kind: 'Deployment',
      metadata: { name, namespace, labels },
      spec: {
        selector: { matchLabels: labels },
        template: {
          metadata: { labels },
          spec: {
            containers: [
              {
                name: 'autoscaler',
                image: `registry.k8s.io/cpa/cluster-proportional-autoscaler:v${version}`,
                command: [
                  '/cluster-proportional-autoscaler',
                  `--namespace=${namespace}`,
                  `--configmap=${name}`,
                  '--target=Deployment/coredns',
                  // One replica for 256 cores or 16 nodes, and two as soon as there are two nodes.
                  '--default-params={"linear":{"coresPerReplica":256,"nodesPerReplica":16,"preventSinglePointFailure":true,"includeUnschedulableNodes":true}}',
                  '--logtostderr=true',
                ],
                resources: { requests: { cpu: '20m', memory: '10Mi' } },
                securityContext: { allowPrivilegeEscalation: false, capabilities: { drop: ['ALL'] } },
              },
            ],
            nodeSelector: { 'kubernetes.io/os': 'linux' },
            priorityClassName: 'system-cluster-critical',
            serviceAccountName: name,
            tolerations: [
              { key: 'CriticalAddonsOnly', operator: 'Exists' },
              { effect: 'NoSchedule', key: 'node-role.kubernetes.io/control-plane' },
            ],
          },
        },
      },
    },
  ];
}

function registry(version: string): readonly KubeObject[] {
  const name = 'registry';
  const labels = { app: name };
  return [
    { apiVersion: 'v1', kind: 'Namespace', metadata: { name } },
    {
      apiVersion: 'apps/v1',
      kind: 'Deployment',
      metadata: { name, namespace: name, labels },
      spec: {
        replicas: 1,
        selector: { matchLabels: labels },
        template: {
          metadata: { labels },
          spec: {
            containers: [
              {
                name,
                image: `docker.io/library/registry:${version}`,
                ports: [{ containerPort: 5000, name: 'http' }],
                readinessProbe: { httpGet: { path: '/', port: 'http' } },
                volumeMounts: [{ mountPath: '/var/lib/registry', name: 'images' }],
              },
            ],
            volumes: [{ emptyDir: {}, name: 'images' }],
          },
        },
      },
    },
    {
      apiVersion: 'v1',
      kind: 'Service',
      metadata: { name, namespace: name, labels },
      spec: { ports: [{ name: 'http', port: 5000, targetPort: 'http' }], selector: labels },
    },
  ];
}
