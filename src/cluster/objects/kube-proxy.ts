/**
 * kube-proxy as kubeadm sets it up, but that it reaches the API on its own machine: see deviations.
 */
import { type Plain, yamlText } from '../../base/yaml-text.ts';
import { API_PORT } from '../spec/ports.ts';
import type { ResolvedCluster } from '../spec/resolved-cluster.ts';
import { componentHash } from './kubeadm.ts';
import {
  account,
  bindCluster,
  bindRole,
  configMap,
  group,
  type KubeObject,
  role,
  serviceAccount,
} from './object.ts';

const SYSTEM = 'kube-system';
const LABEL = { 'k8s-app': 'kube-proxy' } as const;
const ACCOUNT = '/var/run/secrets/kubernetes.io/serviceaccount';

/** On every machine: the apiserver itself on control planes, the balancer on workers. */
const LOCAL_API = `https://127.0.0.1:${API_PORT}`;

/** In order of names: kubeadm's annotation is a digest of the text. */
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

const daemonSet = (resolved: ResolvedCluster): KubeObject => ({
  apiVersion: 'apps/v1',
  kind: 'DaemonSet',
  metadata: { labels: LABEL, name: 'kube-proxy', namespace: SYSTEM },
  spec: {
    selector: { matchLabels: LABEL },
    template: {
      metadata: { labels: LABEL },
      spec: {
        containers: [
          {
            command: [
              '/usr/local/bin/kube-proxy',
              '--config=/var/lib/kube-proxy/config.conf',
              '--hostname-override=$(NODE_NAME)',
            ],
            env: [{ name: 'NODE_NAME', valueFrom: { fieldRef: { fieldPath: 'spec.nodeName' } } }],
            image: resolved.images['kube-proxy'],
            imagePullPolicy: 'IfNotPresent',
            name: 'kube-proxy',
            securityContext: { privileged: true },
            volumeMounts: [
              { mountPath: '/var/lib/kube-proxy', name: 'kube-proxy' },
              { mountPath: '/run/xtables.lock', name: 'xtables-lock' },
              { mountPath: '/lib/modules', name: 'lib-modules', readOnly: true },
            ],
          },
        ],
        hostNetwork: true,
        nodeSelector: { 'kubernetes.io/os': 'linux' },
        priorityClassName: 'system-node-critical',
        serviceAccountName: 'kube-proxy',
        tolerations: [{ operator: 'Exists' }],
        volumes: [
          { configMap: { name: 'kube-proxy' }, name: 'kube-proxy' },
          { hostPath: { path: '/run/xtables.lock', type: 'FileOrCreate' }, name: 'xtables-lock' },
          { hostPath: { path: '/lib/modules' }, name: 'lib-modules' },
        ],
      },
    },
    updateStrategy: { type: 'RollingUpdate' },
  },
});

export function kubeProxyObjects(resolved: ResolvedCluster): readonly KubeObject[] {
  const data = { 'config.conf': proxyConfiguration(resolved), 'kubeconfig.conf': kubeconfig };
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
