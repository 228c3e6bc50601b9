/** Objects of Kubernetes as plain values, and the shapes that recur. */
import type { Plain } from '../../base/yaml-text.ts';

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

export const bindCluster = (name: string, to: string, ...subjects: readonly Subject[]): KubeObject => ({
  apiVersion: `${RBAC}/v1`,
  kind: 'ClusterRoleBinding',
  metadata: { name },
  roleRef: { apiGroup: RBAC, kind: 'ClusterRole', name: to },
  subjects,
});

/** Binds to the Role of the same name in the same namespace. */
export const bindRole = (name: string, namespace: string, ...subjects: readonly Subject[]): KubeObject => ({
  apiVersion: `${RBAC}/v1`,
  kind: 'RoleBinding',
  metadata: { name, namespace },
  roleRef: { apiGroup: RBAC, kind: 'Role', name },
  subjects,
});
