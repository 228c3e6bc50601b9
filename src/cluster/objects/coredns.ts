/** CoreDNS, the cluster's DNS, as kubeadm sets it up. */
import type { ResolvedCluster } from '../model/resolved-cluster.ts';
import { account, bindCluster, clusterRole, configMap, type KubeObject, serviceAccount } from './object.ts';

const SYSTEM = 'kube-system';
const LABEL = { 'k8s-app': 'kube-dns' } as const;

const corefile = (dnsDomain: string): string => `.:53 {
    errors
    health {
       lameduck 5s
    }
    ready
    kubernetes ${dnsDomain} in-addr.arpa ip6.arpa {
       pods insecure
       fallthrough in-addr.arpa ip6.arpa
       ttl 30
    }
    prometheus :9153
    forward . /etc/resolv.conf {
       max_concurrent 1000
    }
    cache 30 {
       disable success ${dnsDomain}
       disable denial ${dnsDomain}
    }
    loop
    reload
    loadbalance
}
`;

/** The ConfigMap with the Corefile. Operators edit it, so it is created only when it is missing. */
export const corednsConfig = (resolved: ResolvedCluster): KubeObject =>
  configMap('coredns', SYSTEM, { Corefile: corefile(resolved.dnsDomain) });

const port = (name: string, number: number, protocol: 'UDP' | 'TCP') => ({
  containerPort: number,
  name,
  protocol,
});

const probe = (path: string, at: string, failureThreshold: number, timing: object) => ({
  failureThreshold,
  httpGet: { path, port: at, scheme: 'HTTP' },
  ...timing,
});

/**
 * The replicas: two unless the Cluster says otherwise, so that one may fail. The number is
 * proposed, not enforced: as with kubeadm, an operator or an autoscaler may set another one.
 */
export const corednsReplicas = ({ coreDNS: { replicas } }: ResolvedCluster): KubeObject => ({
  apiVersion: 'apps/v1',
  kind: 'Deployment',
  metadata: { name: 'coredns', namespace: SYSTEM },
  spec: { replicas },
});

const deployment = (resolved: ResolvedCluster): KubeObject => ({
  apiVersion: 'apps/v1',
  kind: 'Deployment',
  metadata: { labels: LABEL, name: 'coredns', namespace: SYSTEM },
  spec: {
    selector: { matchLabels: LABEL },
    strategy: { rollingUpdate: { maxUnavailable: 1 }, type: 'RollingUpdate' },
    template: {
      metadata: { labels: LABEL },
      spec: {
        affinity: {
          podAntiAffinity: {
            preferredDuringSchedulingIgnoredDuringExecution: [
              {
                podAffinityTerm: {
                  labelSelector: {
                    matchExpressions: [{ key: 'k8s-app', operator: 'In', values: ['kube-dns'] }],
                  },
                  topologyKey: 'kubernetes.io/hostname',
                },
                weight: 100,
              },
            ],
          },
        },
        containers: [
          {
            args: ['-conf', '/etc/coredns/Corefile'],
            image: resolved.images.coredns,
            imagePullPolicy: 'IfNotPresent',
            livenessProbe: probe('/health', 'liveness-probe', 5, {
              initialDelaySeconds: 60,
              successThreshold: 1,
              timeoutSeconds: 5,
            }),
            name: 'coredns',
            ports: [
              port('dns', 53, 'UDP'),
              port('dns-tcp', 53, 'TCP'),
              port('metrics', 9153, 'TCP'),
              port('liveness-probe', 8080, 'TCP'),
              port('readiness-probe', 8181, 'TCP'),
            ],
            readinessProbe: probe('/ready', 'readiness-probe', 3, {}),
            resources: { limits: { memory: '170Mi' }, requests: { cpu: '100m', memory: '70Mi' } },
            securityContext: {
              allowPrivilegeEscalation: false,
              capabilities: { add: ['NET_BIND_SERVICE'], drop: ['ALL'] },
              readOnlyRootFilesystem: true,
            },
            volumeMounts: [{ mountPath: '/etc/coredns', name: 'config-volume', readOnly: true }],
          },
        ],
        dnsPolicy: 'Default',
        nodeSelector: { 'kubernetes.io/os': 'linux' },
        priorityClassName: 'system-cluster-critical',
        serviceAccountName: 'coredns',
        tolerations: [
          { key: 'CriticalAddonsOnly', operator: 'Exists' },
          { effect: 'NoSchedule', key: 'node-role.kubernetes.io/control-plane' },
        ],
        volumes: [
          {
            configMap: { items: [{ key: 'Corefile', path: 'Corefile' }], name: 'coredns' },
            name: 'config-volume',
          },
        ],
      },
    },
  },
});

const service = (resolved: ResolvedCluster): KubeObject => ({
  apiVersion: 'v1',
  kind: 'Service',
  metadata: {
    annotations: { 'prometheus.io/port': '9153', 'prometheus.io/scrape': 'true' },
    labels: { ...LABEL, 'kubernetes.io/cluster-service': 'true', 'kubernetes.io/name': 'CoreDNS' },
    name: 'kube-dns',
    namespace: SYSTEM,
  },
  spec: {
    clusterIP: resolved.serviceAddresses.dns[0],
    clusterIPs: resolved.serviceAddresses.dns,
    ipFamilyPolicy: resolved.serviceAddresses.dns.length > 1 ? 'RequireDualStack' : 'SingleStack',
    ports: [
      { name: 'dns', port: 53, protocol: 'UDP', targetPort: 53 },
      { name: 'dns-tcp', port: 53, protocol: 'TCP', targetPort: 53 },
      { name: 'metrics', port: 9153, protocol: 'TCP', targetPort: 9153 },
    ],
    selector: LABEL,
  },
});

/** The objects of CoreDNS, without its ConfigMap. */
export const corednsObjects = (resolved: ResolvedCluster): readonly KubeObject[] => [
  serviceAccount('coredns', SYSTEM),
  clusterRole(
    'system:coredns',
    { resources: ['endpoints', 'services', 'pods', 'namespaces'], verbs: ['list', 'watch'] },
    { groups: ['discovery.k8s.io'], resources: ['endpointslices'], verbs: ['list', 'watch'] },
  ),
  bindCluster('system:coredns', 'system:coredns', account('coredns', SYSTEM)),
  service(resolved),
  deployment(resolved),
];
