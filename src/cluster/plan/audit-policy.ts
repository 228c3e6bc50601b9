/**
 * The audit policy (audit.k8s.io/v1): records who changed or disclosed what, and leaves out the
 * reads and renewals of the cluster's own components. The first rule that matches counts.
 */
import type { Plain } from '../../base/yaml-text.ts';

const READS = ['get', 'list', 'watch'];
const WRITES = ['create', 'update', 'patch', 'delete', 'deletecollection'];

/**
 * Users of components with a certificate. The controllers in kube-controller-manager use service
 * accounts.
 */
const COMPONENTS = ['system:apiserver', 'system:kube-controller-manager', 'system:kube-scheduler'];
const NODES = 'system:nodes';

type Level = 'None' | 'Metadata' | 'Request';

interface Rule {
  readonly level: Level;
  readonly users?: readonly string[];
  readonly userGroups?: readonly string[];
  readonly verbs?: readonly string[];
  readonly resources?: readonly { readonly group: string; readonly resources?: readonly string[] }[];
  readonly nonResourceURLs?: readonly string[];
}

const core = (...resources: readonly string[]) => ({ group: '', resources });

const RULES: readonly Rule[] = [
  // Probes and discovery, which every client repeats constantly.
  {
    level: 'None',
    nonResourceURLs: [
      '/healthz*',
      '/livez*',
      '/readyz*',
      '/version',
      '/openapi/*',
      '/api',
      '/api/*',
      '/apis',
      '/apis/*',
    ],
  },
  // Leases, which every node and every leader renews every few seconds.
  ...(['users', 'userGroups'] as const).map(
    (who): Rule => ({
      level: 'None',
      [who]: who === 'users' ? COMPONENTS : [NODES, 'system:serviceaccounts'],
      verbs: ['get', 'update', 'patch'],
      resources: [{ group: 'coordination.k8s.io', resources: ['leases'] }],
    }),
  ),
  // kubelet lists the Secrets and ConfigMaps that a pod mounts, and then watches them while the pod
  // runs; other components do the same. The list is recorded, the watch is not.
  { level: 'None', userGroups: [NODES], verbs: ['watch'], resources: [core('secrets', 'configmaps')] },
  { level: 'None', users: COMPONENTS, verbs: ['watch'], resources: [core('secrets', 'configmaps')] },
  // Objects that contain secrets: the request is recorded, never the content.
  {
    level: 'Metadata',
    resources: [
      core('secrets', 'configmaps', 'serviceaccounts/token'),
      { group: 'authentication.k8s.io', resources: ['tokenreviews'] },
    ],
  },
  // Ways into a pod or node; some of them are requested with a verb of reading.
  {
    level: 'Metadata',
    resources: [
      core('pods/exec', 'pods/attach', 'pods/portforward', 'pods/proxy', 'services/proxy', 'nodes/proxy'),
    ],
  },
  // Reads by the cluster's own components.
  { level: 'None', users: COMPONENTS, verbs: READS },
  { level: 'None', userGroups: [NODES, 'system:serviceaccounts:kube-system'], verbs: READS },
  { level: 'None', resources: [core('events'), { group: 'events.k8s.io', resources: ['events'] }] },
  // Permissions and webhooks: the whole request is recorded, since a name alone does not show what
  // was changed.
  {
    level: 'Request',
    verbs: WRITES,
    resources: [
      { group: 'rbac.authorization.k8s.io' },
      { group: 'admissionregistration.k8s.io' },
      { group: 'apiregistration.k8s.io' },
      { group: 'certificates.k8s.io' },
    ],
  },
  { level: 'Metadata' },
];

/**
 * The policy. One line is written for each request, when it was answered; a watch has one line at
 * its start and one at its end.
 */
export const auditPolicy: Plain = {
  apiVersion: 'audit.k8s.io/v1',
  kind: 'Policy',
  omitManagedFields: true,
  omitStages: ['RequestReceived'],
  rules: RULES as unknown as Plain,
};
