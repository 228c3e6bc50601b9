/**
 * kube-proxy as kubeadm sets it up, except that it reaches the API on its own machine (see
 * OBJECT_DEVIATIONS).
 */
import { type Plain, yamlText } from '../../base/yaml-text.ts';
import { API_PORT } from '../model/ports.ts';
import type { ResolvedCluster } from '../model/resolved-cluster.ts';
import { componentHash } from './kubeadm.ts';
import {
  account,
  bindCluster,
  bindRole,
  configMap,
  group,
  KERNEL_MODULES,
  type KubeObject,
  NODE_NAME,
  nodeDaemonSet,
  role,
  serviceAccount,
  XTABLES_LOCK,
} from './object.ts';

const SYSTEM = 'kube-system';
const LABEL = { 'k8s-app': 'kube-proxy' } as const;
const ACCOUNT = '/var/run/secrets/kubernetes.io/serviceaccount';

/** The API on every machine: kube-apiserver on control planes, the balancer on workers. */
const LOCAL_API = `https://127.0.0.1:${API_PORT}`;

/** The fields are in alphabetical order, because kubeadm's annotation is a digest of the text. */
const proxyConfiguration = ({ kubeProxy: { config } }: ResolvedCluster): string =>
  yamlText(
    Object.fromEntries(
      Object.entries({
        ...config,
        apiVersion: 'kubeproxy.config.k8s.io/v1alpha1',
        kind: 'KubeProxyConfiguration',
      }).sort(([a], [b]) => (a < b ? -1 : 1)),
    ) as Plain,
  );

const kubeconfig = yamlText({
  apiVersion: 'v1',
  kind: 'Config',
  clusters: [
    { cluster: { 'certificate-authority': `${ACCOUNT}/ca.crt`, server: LOCAL_API }, name: 'default' },
  ],
  contexts: [{ context: { cluster: 'default', namespace: 'default', user: 'default' }, name: 'default' }],
  'current-context': 'default',
  users: [{ name: 'default', user: { tokenFile: `${ACCOUNT}/token` } }],
});

const daemonSet = (resolved: ResolvedCluster): KubeObject =>
  nodeDaemonSet({
    name: 'kube-proxy',
    namespace: SYSTEM,
    labels: LABEL,
    serviceAccountName: 'kube-proxy',
    tolerations: [{ operator: 'Exists' }],
    containers: [
      {
        command: [
          '/usr/local/bin/kube-proxy',
          '--config=/var/lib/kube-proxy/config.conf',
          '--hostname-override=$(NODE_NAME)',
        ],
        env: [NODE_NAME],
        image: resolved.images['kube-proxy'],
        imagePullPolicy: 'IfNotPresent',
        name: 'kube-proxy',
        securityContext: { privileged: true },
        volumeMounts: [
          { mountPath: '/var/lib/kube-proxy', name: 'kube-proxy' },
          XTABLES_LOCK.mount,
          KERNEL_MODULES.mount,
        ],
      },
    ],
    volumes: [
      { configMap: { name: 'kube-proxy' }, name: 'kube-proxy' },
      XTABLES_LOCK.volume,
      KERNEL_MODULES.volume,
    ],
    spec: { updateStrategy: { type: 'RollingUpdate' } },
  });

/** The files of kube-proxy's ConfigMap, by name. */
export const kubeProxyFiles = (resolved: ResolvedCluster): Readonly<Record<string, string>> => ({
  'config.conf': proxyConfiguration(resolved),
  'kubeconfig.conf': kubeconfig,
});

/** The objects of kube-proxy: its configuration, permissions and DaemonSet. */
export function kubeProxyObjects(resolved: ResolvedCluster): readonly KubeObject[] {
  const data = kubeProxyFiles(resolved);
  return [
    serviceAccount('kube-proxy', SYSTEM),
    bindCluster('kubeadm:node-proxier', 'system:node-proxier', account('kube-proxy', SYSTEM)),
    role('kube-proxy', SYSTEM, { resources: ['configmaps'], names: ['kube-proxy'], verbs: ['get'] }),
    bindRole('kube-proxy', SYSTEM, group('system:bootstrappers:kubeadm:default-node-token')),
    configMap('kube-proxy', SYSTEM, data, {
      annotations: componentHash(data),
      labels: { app: 'kube-proxy' },
    }),
    daemonSet(resolved),
  ];
}
