/** An object of every kind that a cluster without containers takes, in the order of creation. */

export interface Written {
  /** The path of its collection. */
  readonly collection: string;
  readonly object: {
    readonly metadata: { readonly name: string } & Readonly<Record<string, unknown>>;
  } & object;
}

const NAME = 'every-kind';
const LABELS = { app: NAME };
const POD = {
  metadata: { labels: LABELS },
  spec: {
    containers: [{ name: 'one', image: 'lab.example/one:1' }],
    restartPolicy: 'Always',
    // No node has it, so that none of these pods ever runs.
    nodeSelector: { never: 'true' },
  },
};
const ONCE = { ...POD, spec: { ...POD.spec, restartPolicy: 'Never' } };
const TEMPLATE = { replicas: 0, selector: { matchLabels: LABELS }, template: POD };

const put = (group: string, plural: string, rest: object, name = NAME): Written => ({
  collection: `${group === 'v1' ? '/api/v1' : `/apis/${group}`}/${plural}`,
  object: { metadata: { name, labels: LABELS }, ...rest },
});
const own = (group: string, plural: string, rest: object, name?: string): Written =>
  put(group, `namespaces/${NAME}/${plural}`, rest, name);
const spec = (value: object) => ({ spec: value });
const RULE = { apiGroups: [''], resources: ['pods'], verbs: ['get'] };
const SUBJECTS = [{ kind: 'ServiceAccount', name: NAME, namespace: NAME }];
const role = (kind: string) => ({
  subjects: SUBJECTS,
  roleRef: { apiGroup: 'rbac.authorization.k8s.io', kind, name: NAME },
});
const HOOKED = {
  name: 'every-kind.lab.example',
  clientConfig: { url: 'https://hook.lab.example/' },
  rules: [
    { apiGroups: ['lab.example'], apiVersions: ['v1'], operations: ['DELETE'], resources: ['nothings'] },
  ],
  failurePolicy: 'Ignore',
  sideEffects: 'None',
  admissionReviewVersions: ['v1'],
};

export const EVERY_KIND: readonly Written[] = [
  put('v1', 'namespaces', {}),
  own('v1', 'configmaps', { data: { a: 'b' } }),
  own('v1', 'secrets', { data: { a: 'Yg==' } }),
  own('v1', 'serviceaccounts', {}),
  own('v1', 'services', spec({ selector: LABELS, ports: [{ port: 80 }] })),
  own(
    'v1',
    'persistentvolumeclaims',
    spec({ accessModes: ['ReadWriteOnce'], resources: { requests: { storage: '1Gi' } } }),
  ),
  own('v1', 'podtemplates', { template: POD }),
  own('v1', 'limitranges', spec({ limits: [{ type: 'Container', max: { cpu: '8' } }] })),
  own('v1', 'resourcequotas', spec({ hard: { pods: '99' } })),
  own('v1', 'replicationcontrollers', spec({ replicas: 0, selector: LABELS, template: POD })),
  put(
    'v1',
    'persistentvolumes',
    spec({ capacity: { storage: '1Gi' }, accessModes: ['ReadWriteOnce'], hostPath: { path: '/srv' } }),
  ),
  own('apps/v1', 'deployments', spec(TEMPLATE)),
  own('apps/v1', 'statefulsets', spec({ ...TEMPLATE, serviceName: NAME })),
  own('apps/v1', 'daemonsets', spec({ selector: { matchLabels: LABELS }, template: POD })),
  own('apps/v1', 'replicasets', spec(TEMPLATE), 'alone'),
  own('apps/v1', 'controllerrevisions', { data: { a: 'b' }, revision: 1 }),
  own('batch/v1', 'jobs', spec({ suspend: true, template: ONCE })),
  own(
    'batch/v1',
    'cronjobs',
    spec({ schedule: '0 0 1 1 *', suspend: true, jobTemplate: spec({ template: ONCE }) }),
  ),
  own(
    'autoscaling/v2',
    'horizontalpodautoscalers',
    spec({ maxReplicas: 2, scaleTargetRef: { apiVersion: 'apps/v1', kind: 'Deployment', name: NAME } }),
  ),
  own('policy/v1', 'poddisruptionbudgets', spec({ minAvailable: 1, selector: { matchLabels: LABELS } })),
  own('networking.k8s.io/v1', 'networkpolicies', spec({ podSelector: {} })),
  own(
    'networking.k8s.io/v1',
    'ingresses',
    spec({ defaultBackend: { service: { name: NAME, port: { number: 80 } } } }),
  ),
  put('networking.k8s.io/v1', 'ingressclasses', spec({ controller: 'lab.example/one' })),
  own('discovery.k8s.io/v1', 'endpointslices', { addressType: 'IPv4', endpoints: [], ports: [] }),
  own('coordination.k8s.io/v1', 'leases', spec({ holderIdentity: NAME })),
  own('rbac.authorization.k8s.io/v1', 'roles', { rules: [RULE] }),
  own('rbac.authorization.k8s.io/v1', 'rolebindings', role('Role')),
  put('rbac.authorization.k8s.io/v1', 'clusterroles', { rules: [RULE] }),
  put('rbac.authorization.k8s.io/v1', 'clusterrolebindings', role('ClusterRole')),
  put('scheduling.k8s.io/v1', 'priorityclasses', { value: 7 }),
  put('storage.k8s.io/v1', 'storageclasses', { provisioner: 'lab.example/one' }),
  put('storage.k8s.io/v1', 'csidrivers', spec({ attachRequired: false })),
  put('node.k8s.io/v1', 'runtimeclasses', { handler: 'one' }),
  put('admissionregistration.k8s.io/v1', 'validatingwebhookconfigurations', { webhooks: [HOOKED] }),
  put('admissionregistration.k8s.io/v1', 'mutatingwebhookconfigurations', { webhooks: [HOOKED] }),
  put(
    'flowcontrol.apiserver.k8s.io/v1',
    'prioritylevelconfigurations',
    spec({
      type: 'Limited',
      limited: { nominalConcurrencyShares: 1, limitResponse: { type: 'Reject' } },
    }),
  ),
  put(
    'apiextensions.k8s.io/v1',
    'customresourcedefinitions',
    spec({
      group: 'lab.example',
      names: { kind: 'Thing', plural: 'things' },
      scope: 'Cluster',
      versions: [
        {
          name: 'v1',
          served: true,
          storage: true,
          schema: { openAPIV3Schema: { type: 'object', 'x-kubernetes-preserve-unknown-fields': true } },
        },
      ],
    }),
    'things.lab.example',
  ),
];
