/** Kubernetes objects as plain values, and constructors for the shapes that recur. */
import type { Plain } from '../../base/yaml-text.ts';
import { API_PORT } from '../model/ports.ts';

export interface KubeObject {
  readonly apiVersion: string;
  readonly kind: string;
  readonly metadata: {
    readonly name: string;
    readonly namespace?: string;
    readonly labels?: Readonly<Record<string, string>>;
    readonly annotations?: Readonly<Record<string, string>>;
  };
  readonly [field: string]: unknown;
}

export const asPlain = (object: KubeObject): Plain => object as unknown as Plain;

type Metadata = Partial<Omit<KubeObject['metadata'], 'name'>>;

export const configMap = (
  name: string,
  namespace: string,
  data: Readonly<Record<string, string>>,
  metadata: Metadata = {},
): KubeObject => ({ apiVersion: 'v1', kind: 'ConfigMap', metadata: { ...metadata, name, namespace }, data });

export const serviceAccount = (name: string, namespace: string): KubeObject => ({
  apiVersion: 'v1',
  kind: 'ServiceAccount',
  metadata: { name, namespace },
});

export interface Rule {
  readonly groups?: readonly string[];
  readonly resources: readonly string[];
  readonly names?: readonly string[];
  readonly verbs: readonly string[];
}

const rules = (all: readonly Rule[]) =>
  all.map(({ groups = [''], resources, names, verbs }) => ({
    apiGroups: groups,
    ...(names && { resourceNames: names }),
    resources,
    verbs,
  }));

const RBAC = 'rbac.authorization.k8s.io';

export const clusterRole = (name: string, ...all: readonly Rule[]): KubeObject => ({
  apiVersion: `${RBAC}/v1`,
  kind: 'ClusterRole',
  metadata: { name },
  rules: rules(all),
});

export const role = (name: string, namespace: string, ...all: readonly Rule[]): KubeObject => ({
  apiVersion: `${RBAC}/v1`,
  kind: 'Role',
  metadata: { name, namespace },
  rules: rules(all),
});

export interface Subject {
  readonly apiGroup?: string;
  readonly kind: 'Group' | 'User' | 'ServiceAccount';
  readonly name: string;
  readonly namespace?: string;
}

export const group = (name: string): Subject => ({ apiGroup: RBAC, kind: 'Group', name });
export const user = (name: string): Subject => ({ apiGroup: RBAC, kind: 'User', name });
export const account = (name: string, namespace: string): Subject => ({
  kind: 'ServiceAccount',
  name,
  namespace,
});

/** Binds the subjects to the ClusterRole `to`, in a ClusterRoleBinding called `name`. */
export const bindCluster = (name: string, to: string, ...subjects: readonly Subject[]): KubeObject => ({
  apiVersion: `${RBAC}/v1`,
  kind: 'ClusterRoleBinding',
  metadata: { name },
  roleRef: { apiGroup: RBAC, kind: 'ClusterRole', name: to },
  subjects,
});

/** Binds the subjects to the Role of the same name in the same namespace. */
export const bindRole = (name: string, namespace: string, ...subjects: readonly Subject[]): KubeObject => ({
  apiVersion: `${RBAC}/v1`,
  kind: 'RoleBinding',
  metadata: { name, namespace },
  roleRef: { apiGroup: RBAC, kind: 'Role', name },
  subjects,
});

interface NodePods {
  readonly name: string;
  readonly namespace: string;
  readonly labels: Readonly<Record<string, string>>;
  readonly serviceAccountName: string;
  readonly tolerations?: readonly object[];
  readonly containers: readonly object[];
  readonly initContainers?: readonly object[];
  readonly volumes: readonly object[];
  /** Further fields of the DaemonSet's spec. */
  readonly spec?: object;
}

/** Tolerates the taints of every node, including control planes and nodes that are not ready. */
const ANY_NODE = [
  { effect: 'NoSchedule', operator: 'Exists' },
  { effect: 'NoExecute', operator: 'Exists' },
];

/**
 * A DaemonSet for a program that every Linux node needs: it uses the host's network, and its pods
 * are never evicted in favour of others.
 */
export const nodeDaemonSet = (pods: NodePods): KubeObject => ({
  apiVersion: 'apps/v1',
  kind: 'DaemonSet',
  metadata: { labels: pods.labels, name: pods.name, namespace: pods.namespace },
  spec: {
    selector: { matchLabels: pods.labels },
    template: {
      metadata: { labels: pods.labels },
      spec: {
        containers: pods.containers,
        hostNetwork: true,
        ...(pods.initContainers && { initContainers: pods.initContainers }),
        nodeSelector: { 'kubernetes.io/os': 'linux' },
        priorityClassName: 'system-node-critical',
        serviceAccountName: pods.serviceAccountName,
        tolerations: pods.tolerations ?? ANY_NODE,
        volumes: pods.volumes,
      },
    },
    ...pods.spec,
  },
});

/** The lock that iptables takes, shared with the host. */
export const XTABLES_LOCK = {
  mount: { mountPath: '/run/xtables.lock', name: 'xtables-lock' },
  volume: { hostPath: { path: '/run/xtables.lock', type: 'FileOrCreate' }, name: 'xtables-lock' },
} as const;

/** The host's kernel modules, read-only. */
export const KERNEL_MODULES = {
  mount: { mountPath: '/lib/modules', name: 'lib-modules', readOnly: true },
  volume: { hostPath: { path: '/lib/modules' }, name: 'lib-modules' },
} as const;

/** A variable with the name of the pod's node. */
export const NODE_NAME = { name: 'NODE_NAME', valueFrom: { fieldRef: { fieldPath: 'spec.nodeName' } } };

/**
 * Lets client-go reach the API on its own machine instead of through a Service, which needs a
 * working network.
 */
export const LOCAL_API_ENV = [
  { name: 'KUBERNETES_SERVICE_HOST', value: '127.0.0.1' },
  { name: 'KUBERNETES_SERVICE_PORT', value: String(API_PORT) },
] as const;
