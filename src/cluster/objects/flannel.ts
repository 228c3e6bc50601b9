/**
 * Flannel, the network between pods: a VXLAN between the machines, with the pod networks that
 * kube-controller-manager gave to the nodes. Flannel reaches the API on its own machine, so it does
 * not need a working Service network.
 */
import type { ResolvedCluster } from '../model/resolved-cluster.ts';
import {
  account,
  bindCluster,
  clusterRole,
  configMap,
  type KubeObject,
  LOCAL_API_ENV,
  nodeDaemonSet,
  serviceAccount,
  XTABLES_LOCK,
} from './object.ts';

const SPACE = 'kube-flannel';
const LABEL = { app: 'flannel', tier: 'node' } as const;

/**
 * The CNI configuration that the runtime uses for each pod. The plan writes this file to the
 * machine, so no image needs a program that copies files.
 */
export const FLANNEL_CNI = {
  name: 'cbr0',
  cniVersion: '0.3.1',
  plugins: [
    { type: 'flannel', delegate: { hairpinMode: true, isDefaultGateway: true } },
    { type: 'portmap', capabilities: { portMappings: true } },
  ],
} as const;

const json = (value: unknown): string => `${JSON.stringify(value, undefined, 2)}\n`;

function networkConfiguration({ networks: { pods } }: ResolvedCluster): unknown {
  const ipv4 = pods.find((text) => !text.includes(':'));
  const ipv6 = pods.find((text) => text.includes(':'));
  return {
    ...(ipv4 === undefined ? { EnableIPv4: false } : { Network: ipv4 }),
    ...(ipv6 !== undefined && { EnableIPv6: true, IPv6Network: ipv6 }),
    EnableNFTables: false,
    // VXLAN's registered port (RFC 7348) instead of the kernel's older default, 8472.
    Backend: { Type: 'vxlan', Port: 4789 },
  };
}

const directory = (name: string, path: string) => ({ hostPath: { path, type: 'DirectoryOrCreate' }, name });

function daemonSet(resolved: ResolvedCluster): KubeObject {
  const { flannel, 'flannel-cni-plugin': plugin = '' } = resolved.cni.images ?? {};
  const installer = {
    args: ['-f', '/flannel', '/opt/cni/bin/flannel'],
    command: ['cp'],
    image: plugin,
    name: 'install-cni-plugin',
    volumeMounts: [{ mountPath: '/opt/cni/bin', name: 'cni-plugin' }],
  };
  return nodeDaemonSet({
    name: 'kube-flannel-ds',
    namespace: SPACE,
    labels: LABEL,
    serviceAccountName: 'flannel',
    containers: [
      {
        args: ['--ip-masq', '--kube-subnet-mgr'],
        command: ['/opt/bin/flanneld'],
        env: [
          { name: 'POD_NAME', valueFrom: { fieldRef: { fieldPath: 'metadata.name' } } },
          { name: 'POD_NAMESPACE', valueFrom: { fieldRef: { fieldPath: 'metadata.namespace' } } },
          ...LOCAL_API_ENV,
          { name: 'EVENT_QUEUE_DEPTH', value: '5000' },
        ],
        image: flannel,
        name: 'kube-flannel',
        resources: { requests: { cpu: '100m', memory: '50Mi' } },
        securityContext: { capabilities: { add: ['NET_ADMIN', 'NET_RAW'] }, privileged: false },
        volumeMounts: [
          { mountPath: '/run/flannel', name: 'run' },
          { mountPath: '/etc/kube-flannel', name: 'flannel-cfg' },
          XTABLES_LOCK.mount,
        ],
      },
    ],
    ...(plugin !== '' && { initContainers: [installer] }),
    volumes: [
      directory('run', '/run/flannel'),
      ...(plugin === '' ? [] : [directory('cni-plugin', resolved.cniPlugins)]),
      { configMap: { name: 'kube-flannel-cfg' }, name: 'flannel-cfg' },
      XTABLES_LOCK.volume,
    ],
  });
}

/** Without the labels for `warn` and `audit` the API warns at every apply, and writes it down. */
const PRIVILEGED = Object.fromEntries(
  ['enforce', 'warn', 'audit'].map((mode) => [`pod-security.kubernetes.io/${mode}`, 'privileged']),
);

/** The objects of Flannel: its namespace, permissions, configuration and DaemonSet. */
export const flannelObjects = (resolved: ResolvedCluster): readonly KubeObject[] => [
  {
    apiVersion: 'v1',
    kind: 'Namespace',
    // Flannel's pods use the host's network and capabilities, which the stricter levels forbid.
    metadata: { labels: PRIVILEGED, name: SPACE },
  },
  serviceAccount('flannel', SPACE),
  clusterRole(
    'flannel',
    { resources: ['pods'], verbs: ['get'] },
    { resources: ['nodes'], verbs: ['get', 'list', 'watch'] },
    { resources: ['nodes/status'], verbs: ['patch'] },
  ),
  bindCluster('flannel', 'flannel', account('flannel', SPACE)),
  configMap(
    'kube-flannel-cfg',
    SPACE,
    { 'net-conf.json': json(networkConfiguration(resolved)) },
    { labels: LABEL },
  ),
  daemonSet(resolved),
];
