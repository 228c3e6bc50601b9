/**
 * kube-router: routes between the machines' pods by BGP among the machines themselves, and network
 * policies; or only these, beside another network. Services stay with kube-proxy. It reaches the
 * API on its own machine, as flannel does.
 */
import { API_PORT } from '../spec/ports.ts';
import type { ResolvedCluster } from '../spec/resolved-cluster.ts';
import { account, bindCluster, clusterRole, configMap, type KubeObject, serviceAccount } from './object.ts';

const SYSTEM = 'kube-system';
const NAME = 'kube-router';
const LABEL = { 'k8s-app': NAME, tier: 'node' } as const;
const CNI_DIRECTORY = '/etc/cni/net.d';
const CNI_FILE = `${CNI_DIRECTORY}/10-kuberouter.conflist`;

/**
 * kube-router writes the node's network of pods into it; so a pod puts it there once, and the plan,
 * which would put it right again, does not.
 */
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

function args({ networks: { pods, services } }: ResolvedCluster, routes: boolean): readonly string[] {
  const ipv6 = pods.some((text) => text.includes(':'));
  const ipv4 = pods.some((text) => !text.includes(':'));
  return [
    `--run-router=${routes}`,
    '--run-firewall=true',
    '--run-service-proxy=false',
    '--run-loadbalancer=false',
    // Without it peers agree on their own address's family only, and no routes of the other one are
    // told (bgp_peers.go of 2.5).
    ...(routes ? ['--bgp-graceful-restart=true'] : []),
    `--enable-ipv4=${ipv4}`,
    `--enable-ipv6=${ipv6}`,
    // A router's number has the form of an IPv4 address; without one it is made from the node's
    // name.
    ...(routes && !ipv4 ? ['--router-id=generate'] : []),
    ...services.map((network) => `--service-cluster-ip-range=${network}`),
  ];
}

/**
 * What it needs to be the network: the firewall alone leaves the directory of CNI to whoever is.
 */
const ROUTES = {
  env: [{ name: 'KUBE_ROUTER_CNI_CONF_FILE', value: CNI_FILE }],
  mounts: [{ mountPath: CNI_DIRECTORY, name: 'cni-conf-dir' }],
  volumes: [
    { hostPath: { path: CNI_DIRECTORY, type: 'DirectoryOrCreate' }, name: 'cni-conf-dir' },
    { configMap: { name: 'kube-router-cfg' }, name: 'kube-router-cfg' },
  ],
} as const;
const FIREWALL = { env: [], mounts: [], volumes: [] } as const;

function daemonSet(resolved: ResolvedCluster, routes: boolean): KubeObject {
  const image = resolved.cni.images?.['kube-router'];
  const { env, mounts, volumes } = routes ? ROUTES : FIREWALL;
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
              args: args(resolved, routes),
              env: [
                { name: 'NODE_NAME', valueFrom: { fieldRef: { fieldPath: 'spec.nodeName' } } },
                ...env,
                { name: 'KUBERNETES_SERVICE_HOST', value: '127.0.0.1' },
                { name: 'KUBERNETES_SERVICE_PORT', value: String(API_PORT) },
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
                ...mounts,
                { mountPath: '/run/xtables.lock', name: 'xtables-lock' },
              ],
            },
          ],
          hostNetwork: true,
          ...(routes && {
            initContainers: [
              {
                command: ['/bin/sh', '-c', INSTALL],
                image,
                name: 'install-cni',
                volumeMounts: [...mounts, { mountPath: '/etc/kube-router', name: 'kube-router-cfg' }],
              },
            ],
          }),
          nodeSelector: { 'kubernetes.io/os': 'linux' },
          priorityClassName: 'system-node-critical',
          serviceAccountName: NAME,
          tolerations: [
            { effect: 'NoSchedule', operator: 'Exists' },
            { effect: 'NoExecute', operator: 'Exists' },
          ],
          volumes: [
            { hostPath: { path: '/lib/modules' }, name: 'lib-modules' },
            ...volumes,
            { hostPath: { path: '/run/xtables.lock', type: 'FileOrCreate' }, name: 'xtables-lock' },
          ],
        },
      },
    },
  };
}

const rights: readonly KubeObject[] = [
  serviceAccount(NAME, SYSTEM),
  clusterRole(
    NAME,
    { resources: ['namespaces', 'pods', 'services', 'nodes', 'endpoints'], verbs: ['get', 'list', 'watch'] },
    { groups: ['networking.k8s.io'], resources: ['networkpolicies'], verbs: ['get', 'list', 'watch'] },
    { groups: ['discovery.k8s.io'], resources: ['endpointslices'], verbs: ['get', 'list', 'watch'] },
  ),
  bindCluster(NAME, NAME, account(NAME, SYSTEM)),
];

/** As the network between pods. */
export const kubeRouterObjects = (resolved: ResolvedCluster): readonly KubeObject[] => [
  ...rights,
  configMap(
    'kube-router-cfg',
    SYSTEM,
    { 'cni-conf.json': `${JSON.stringify(CNI, undefined, 2)}\n` },
    { labels: LABEL },
  ),
  daemonSet(resolved, true),
];

/** Network policies alone, beside another network whose packets the kernel forwards. */
export const kubeRouterFirewall = (resolved: ResolvedCluster): readonly KubeObject[] => [
  ...rights,
  daemonSet(resolved, false),
];
