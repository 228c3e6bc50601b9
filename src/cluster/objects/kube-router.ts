/**
 * kube-router in one of two uses: as the network between pods (routes by BGP between the machines)
 * together with network policies, or only as the firewall for network policies next to another pod
 * network. Services are left to kube-proxy. kube-router reaches the API on its own machine, as
 * flannel does.
 */
import type { ResolvedCluster } from '../model/resolved-cluster.ts';
import {
  account,
  bindCluster,
  clusterRole,
  configMap,
  KERNEL_MODULES,
  type KubeObject,
  LOCAL_API_ENV,
  NODE_NAME,
  nodeDaemonSet,
  serviceAccount,
  XTABLES_LOCK,
} from './object.ts';

const SYSTEM = 'kube-system';
const NAME = 'kube-router';
const LABEL = { 'k8s-app': NAME, tier: 'node' } as const;
const CNI_DIRECTORY = '/etc/cni/net.d';
const CNI_FILE = `${CNI_DIRECTORY}/10-kuberouter.conflist`;

/**
 * The CNI configuration. kube-router writes the node's pod network into this file, so an init
 * container installs it once; the plan would overwrite that change.
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
    // Without this flag peers exchange only routes of their own address's family (bgp_peers.go of
    // 2.5).
    ...(routes ? ['--bgp-graceful-restart=true'] : []),
    `--enable-ipv4=${ipv4}`,
    `--enable-ipv6=${ipv6}`,
    // A router id has the form of an IPv4 address; kube-router derives one from the node's name.
    ...(routes && !ipv4 ? ['--router-id=generate'] : []),
    ...services.map((network) => `--service-cluster-ip-range=${network}`),
  ];
}

/**
 * What kube-router needs as the pod network. When it is only a firewall, the other network owns
 * CNI's directory.
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
  const installer = {
    command: ['/bin/sh', '-c', INSTALL],
    image,
    name: 'install-cni',
    volumeMounts: [...mounts, { mountPath: '/etc/kube-router', name: 'kube-router-cfg' }],
  };
  return nodeDaemonSet({
    name: NAME,
    namespace: SYSTEM,
    labels: LABEL,
    serviceAccountName: NAME,
    containers: [
      {
        args: args(resolved, routes),
        env: [NODE_NAME, ...env, ...LOCAL_API_ENV],
        image,
        livenessProbe: {
          httpGet: { path: '/healthz', port: 20244 },
          initialDelaySeconds: 10,
          periodSeconds: 3,
        },
        name: NAME,
        resources: { requests: { cpu: '100m', memory: '100Mi' } },
        securityContext: { privileged: true },
        volumeMounts: [KERNEL_MODULES.mount, ...mounts, XTABLES_LOCK.mount],
      },
    ],
    ...(routes && { initContainers: [installer] }),
    volumes: [KERNEL_MODULES.volume, ...volumes, XTABLES_LOCK.volume],
  });
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

/** kube-router as the network between pods. */
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

/** Network policies alone, next to another network whose packets the kernel forwards. */
export const kubeRouterFirewall = (resolved: ResolvedCluster): readonly KubeObject[] => [
  ...rights,
  daemonSet(resolved, false),
];
