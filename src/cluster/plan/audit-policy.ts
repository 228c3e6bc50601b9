/**
 * Which requests to the API are recorded, and how much of them: who did what to what, of whatever
 * changes or discloses something; not the reads and renewals by which the cluster itself lives. As
 * audit.k8s.io/v1; the first rule that fits counts.
 */
import type { Plain } from '../../base/yaml-text.ts';

const READS = ['get', 'list', 'watch'];
const WRITES = ['create', 'update', 'patch', 'delete', 'deletecollection'];

/**
 * Components that are known by a certificate. kube-controller-manager's controllers are service
 * accounts besides.
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
  // Probes and discovery: all day, by everybody, of nothing.
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
  // Signs of life, every few seconds from every node and every leader.
  ...(['users', 'userGroups'] as const).map(
    (who): Rule => ({
      level: 'None',
      [who]: who === 'users' ? COMPONENTS : [NODES, 'system:serviceaccounts'],
      verbs: ['get', 'update', 'patch'],
      resources: [{ group: 'coordination.k8s.io', resources: ['leases'] }],
    }),
  ),
  // kubelet lists what a pod mounts, which is recorded, and then watches it as long as the pod
  // runs; components do alike.
  { level: 'None', userGroups: [NODES], verbs: ['watch'], resources: [core('secrets', 'configmaps')] },
  { level: 'None', users: COMPONENTS, verbs: ['watch'], resources: [core('secrets', 'configmaps')] },
  // What is or holds a secret: never its content, whoever it is.
  {
    level: 'Metadata',
    resources: [
      core('secrets', 'configmaps', 'serviceaccounts/token'),
      { group: 'authentication.k8s.io', resources: ['tokenreviews'] },
    ],
  },
  // Ways into a pod or node: some of them are reads by their verb.
  {
    level: 'Metadata',
    resources: [
      core('pods/exec', 'pods/attach', 'pods/portforward', 'pods/proxy', 'services/proxy', 'nodes/proxy'),
    ],
  },
  // What the cluster reads of itself.
  { level: 'None', users: COMPONENTS, verbs: READS },
  { level: 'None', userGroups: [NODES, 'system:serviceaccounts:kube-system'], verbs: READS },
  { level: 'None', resources: [core('events'), { group: 'events.k8s.io', resources: ['events'] }] },
  // Who may do what, and who is asked: the whole of it, since the name alone does not say what was
  // changed.
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
 * A line a request, written when it was answered; long ones (watches) when they begin and when they
 * end.
 */
export const auditPolicy: Plain = {
  apiVersion: 'audit.k8s.io/v1',
  kind: 'Policy',
  omitManagedFields: true,
  omitStages: ['RequestReceived'],
  rules: RULES as unknown as Plain,
};
