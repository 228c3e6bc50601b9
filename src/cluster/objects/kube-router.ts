/**
 * kube-router: routes between the machines' pods by BGP among the machines themselves, and network policies. Services stay with kube-proxy.
 * It reaches the API on its own machine, as flannel does.
 */
import type { FullCluster } from '../full.ts';
import { account, bindCluster, clusterRole, configMap, type KubeObject, serviceAccount } from './object.ts';

const SYSTEM = 'kube-system';
const NAME = 'kube-router';
const LABEL = { 'k8s-app': NAME, tier: 'node' } as const;
const CNI_DIRECTORY = '/etc/cni/net.d';
const CNI_FILE = `${CNI_DIRECTORY}/10-kuberouter.conflist`;

/** kube-router writes the node's network of pods into it; so a pod puts it there once, and the plan, which would put it right again, does not. */
const CNI = {
  cniVersion: '0.3.1',
  name: 'kubernetes',
  plugins: [
    {
      type: 'bridge',
      name: 'kubernetes',
      bridge: 'kube-bridge',
      isDefaultGateway: true,
      hairpinMode: true,
      ipam: { type: 'host-local' },
    },
    { type: 'portmap', capabilities: { snat: true, portMappings: true } },
  ],
} as const;

const INSTALL = `test -e ${CNI_FILE} || { cp /etc/kube-router/cni-conf.json ${CNI_DIRECTORY}/.kuberouter && mv ${CNI_DIRECTORY}/.kuberouter ${CNI_FILE}; }`;

function args({ networks: { pods, services } }: FullCluster): readonly string[] {
  const ipv6 = pods.some((text) => text.includes(':'));
  const ipv4 = pods.some((text) => !text.includes(':'));
  return [
    '--run-router=true',
    '--run-firewall=true',
    '--run-service-proxy=false',
    '--run-loadbalancer=false',
    // Without it peers agree on their own address's family only, and no routes of the other one are told (bgp_peers.go of 2.5).
    '--bgp-graceful-restart=true',
    `--enable-ipv4=${ipv4}`,
    `--enable-ipv6=${ipv6}`,
    // A router's number has the form of an IPv4 address; without one it is made from the node's name.
    ...(ipv4 ? [] : ['--router-id=generate']),
    ...services.map((network) => `--service-cluster-ip-range=${network}`),
  ];
}

function daemonSet(full: FullCluster): KubeObject {
  const image = full.cni.images?.['kube-router'];
  const cniDirectory = { mountPath: CNI_DIRECTORY, name: 'cni-conf-dir' };
  return {
    apiVersion: 'apps/v1',
    kind: 'DaemonSet',
    metadata: { labels: LABEL, name: NAME, namespace: SYSTEM },
    spec: {
      selector: { matchLabels: LABEL },
      template: {
        metadata: { labels: LABEL },
        spec: {
          containers: [
            {
              args: args(full),
              env: [
                { name: 'NODE_NAME', valueFrom: { fieldRef: { fieldPath: 'spec.nodeName' } } },
                { name: 'KUBE_ROUTER_CNI_CONF_FILE', value: CNI_FILE },
                { name: 'KUBERNETES_SERVICE_HOST', value: '127.0.0.1' },
                { name: 'KUBERNETES_SERVICE_PORT', value: '6443' },
              ],
              image,
              livenessProbe: {
                httpGet: { path: '/healthz', port: 20244 },
                initialDelaySeconds: 10,
                periodSeconds: 3,
              },
              name: NAME,
              resources: { requests: { cpu: '100m', memory: '100Mi' } },
              securityContext: { privileged: true },
              volumeMounts: [
                { mountPath: '/lib/modules', name: 'lib-modules', readOnly: true },
                cniDirectory,
                { mountPath: '/run/xtables.lock', name: 'xtables-lock' },
              ],
            },
          ],
          hostNetwork: true,
          initContainers: [
            {
              command: ['/bin/sh', '-c', INSTALL],
              image,
              name: 'install-cni',
              volumeMounts: [cniDirectory, { mountPath: '/etc/kube-router', name: 'kube-router-cfg' }],
            },
          ],
          nodeSelector: { 'kubernetes.io/os': 'linux' },
          priorityClassName: 'system-node-critical',
          serviceAccountName: NAME,
          tolerations: [
            { effect: 'NoSchedule', operator: 'Exists' },
            { effect: 'NoExecute', operator: 'Exists' },
          ],
          volumes: [
            { hostPath: { path: '/lib/modules' }, name: 'lib-modules' },
            { hostPath: { path: CNI_DIRECTORY, type: 'DirectoryOrCreate' }, name: 'cni-conf-dir' },
            { configMap: { name: 'kube-router-cfg' }, name: 'kube-router-cfg' },
            { hostPath: { path: '/run/xtables.lock', type: 'FileOrCreate' }, name: 'xtables-lock' },
          ],
        },
      },
    },
  };
}

export const kubeRouterObjects = (full: FullCluster): readonly KubeObject[] => [
  serviceAccount(NAME, SYSTEM),
  clusterRole(
    NAME,
    { resources: ['namespaces', 'pods', 'services', 'nodes', 'endpoints'], verbs: ['get', 'list', 'watch'] },
    { groups: ['networking.k8s.io'], resources: ['networkpolicies'], verbs: ['get', 'list', 'watch'] },
    { groups: ['discovery.k8s.io'], resources: ['endpointslices'], verbs: ['get', 'list', 'watch'] },
  ),
  bindCluster(NAME, NAME, account(NAME, SYSTEM)),
  configMap(
    'kube-router-cfg',
    SYSTEM,
    { 'cni-conf.json': `${JSON.stringify(CNI, undefined, 2)}\n` },
    { labels: LABEL },
  ),
  daemonSet(full),
];
