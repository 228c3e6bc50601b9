/** Documents that API servers read, and additions to static pods. */
import { load } from 'js-yaml';
import { expect, test } from 'vitest';
import { apiserverLines, withWebhookSecrets } from '../../../../src/cluster/plan/apiserver.ts';
import { manifestFiles } from '../../../../src/cluster/plan/manifests.ts';
import { readAtStart } from '../../../../src/cluster/plan/reads.ts';
import { answersAnonymous } from '../../../../src/cluster/resolve/health-requests.ts';
import type { ResolvedClusters } from '../../../../src/cluster/resolve/resolved-clusters.ts';
import { kubernetesSpec } from '../../../../src/resources/cluster-spec.ts';
import type { KubernetesSpec } from '../../../../src/resources/kinds.ts';
import { secretsOf } from '../../../../src/resources/secret-references.ts';
import { selfSigned } from '../../../self-signed.ts';
import { completed, FOUNDING, faults, resolved } from '../kit.ts';
import { clusterDocument } from '../planner-kit.ts';

// biome-ignore lint/suspicious/noExplicitAny: documents as their readers see them
type Loose = any;
type ApiServer = NonNullable<KubernetesSpec['apiServer']>;

const schema = kubernetesSpec.shape.apiServer;
/** The faults of a document: path and message. */
const wrong = (apiServer: unknown): string[] =>
  (schema.safeParse(apiServer).error?.issues ?? []).map(
    ({ path, message }) => `${path.join('.')}: ${message}`,
  );
const parsed = (apiServer: unknown): ApiServer => schema.parse(apiServer)!;

const KUBECONFIG = {
  apiVersion: 'v1',
  kind: 'Config',
  clusters: [{ name: 'hook', cluster: { server: 'https://hook.example/ask' } }],
  users: [{ name: 'api', user: { token: { valueFrom: { secret: 'hook', key: 'token' } } } }],
  contexts: [{ name: 'hook', context: { cluster: 'hook', user: 'api' } }],
  'current-context': 'hook',
};
const AUDIT = {
  apiVersion: 'audit.k8s.io/v1',
  kind: 'Policy',
  rules: [{ level: 'None', nonResourceURLs: ['/healthz*'] }, { level: 'Metadata' }],
};
const JWT = {
  issuer: { url: 'https://idp.example', audiences: ['kubernetes'] },
  claimMappings: { username: { claim: 'sub', prefix: 'idp:' } },
};
const CONFIG = 'apiserver.config.k8s.io/v1';
const AUTHENTICATION = {
  apiVersion: CONFIG,
  kind: 'AuthenticationConfiguration',
  jwt: [JWT],
  anonymous: { enabled: true, conditions: [{ path: '/livez' }, { path: '/readyz' }, { path: '/healthz' }] },
};
const HOOK = {
  timeout: '3s',
  subjectAccessReviewVersion: 'v1',
  failurePolicy: 'Deny',
  connectionInfo: { type: 'KubeConfig', kubeConfig: KUBECONFIG },
};
const AUTHORIZATION = {
  apiVersion: CONFIG,
  kind: 'AuthorizationConfiguration',
  authorizers: [
    { type: 'Node', name: 'node' },
    { type: 'Webhook', name: 'hook', webhook: HOOK },
    { type: 'RBAC', name: 'rbac' },
  ],
};
const ALL = {
  auditPolicy: AUDIT,
  auditWebhook: KUBECONFIG,
  authentication: AUTHENTICATION,
  tokenWebhook: KUBECONFIG,
  authorization: AUTHORIZATION,
};

function filesOf(spec: Partial<KubernetesSpec>): ReadonlyMap<string, string> {
  const cluster = resolved(spec);
  return new Map(
    apiserverLines(cluster, cluster.machines[0]!).flatMap((line) =>
      line.do === 'put' && 'text' in line.content ? [[line.path, line.content.text] as const] : [],
    ),
  );
}

function containerOf(spec: Partial<KubernetesSpec>, name = 'kube-apiserver'): Loose {
  const cluster = resolved(spec);
  const file = manifestFiles(cluster, cluster.machines[0]!, FOUNDING).find(({ pod }) => pod === name)!;
  const pod = (load(file.text) as Loose).spec;
  return { ...pod.containers[0], pod };
}

test.for(['1.34', '1.35', '1.36'])('Kubernetes %s: each document is a file that a flag names', (version) => {
  const spec = { version, apiServer: parsed(ALL) };
  expect(faults(spec)).toEqual([]);
  const files = filesOf(spec);
  const flags = (containerOf(spec).command as string[]).flatMap((flag) => {
    const [, name = '', path = ''] = /^--([^=]+)=(.*)$/.exec(flag) ?? [];
    return files.has(path) ? [name] : [];
  });
  expect(flags.sort()).toEqual([
    'admission-control-config-file',
    'audit-policy-file',
    'audit-webhook-config-file',
    'authentication-config',
    'authentication-token-webhook-config-file',
    'authorization-config',
  ]);
  expect(containerOf(spec).command.join(' ')).not.toContain('authorization-mode');
});

test('a kubeconfig names the files of its secrets, and no document has their values', () => {
  const files = filesOf({ apiServer: parsed(ALL) });
  const token = load(files.get('/etc/kubernetes/apiserver/webhooks/token.conf')!) as Loose;
  expect(token.users[0].user).toEqual({ tokenFile: '/etc/kubernetes/apiserver/webhooks/token-0.token' });
  const { authorizers } = load(files.get('/etc/kubernetes/apiserver/authorization.yaml')!) as Loose;
  expect(authorizers[1].webhook.connectionInfo).toEqual({
    type: 'KubeConfigFile',
    kubeConfigFile: '/etc/kubernetes/apiserver/webhooks/authorizer-hook.conf',
  });
  expect(files.has('/etc/kubernetes/apiserver/webhooks/authorizer-hook.conf')).toBe(true);
});

test('control planes alone get these secrets, and the Cluster is known to use them', () => {
  const spec = { apiServer: parsed({ tokenWebhook: KUBECONFIG }) };
  const known = { clusterOf: () => completed(spec) } as unknown as Pick<ResolvedClusters, 'clusterOf'>;
  const configuration = withWebhookSecrets(() => ({}), known);
  const valueFrom = { secret: 'hook', key: 'token' };
  expect(configuration('cp1').files).toEqual([
    { path: '/etc/kubernetes/apiserver/webhooks/token-0.token', mode: '0600', content: { valueFrom } },
  ]);
  expect(configuration('w1').files).toBeUndefined();
  expect(secretsOf(clusterDocument(spec))).toEqual([
    {
      ...valueFrom,
      use: 'file',
      path: ['spec', 'kubernetes', 'apiServer', 'tokenWebhook', 'users', 0, 'user', 'token'],
    },
  ]);
});

test('a file that is read at the start alone restarts the API server', () => {
  const cluster = resolved({ apiServer: parsed(ALL) });
  const reads = (name: string) => readAtStart(cluster, 'kube-apiserver', `/etc/kubernetes/apiserver/${name}`);
  expect(['audit-policy.yaml', 'webhooks/audit.conf', 'webhooks/token.conf'].map(reads)).toEqual([
    true,
    true,
    true,
  ]);
  expect(['authentication.yaml', 'authorization.yaml'].map(reads)).toEqual([false, false]);
});

test.for([
  [undefined, true],
  [{ enabled: true }, true],
  [{ enabled: true, conditions: [{ path: '/livez' }, { path: '/readyz' }] }, true],
  [{ enabled: true, conditions: [{ path: '/livez' }] }, false],
  [{ enabled: false }, false],
] as const)('anonymous %j: health is told to everybody: %s', ([anonymous, told]) => {
  const { anonymous: _, ...rest } = AUTHENTICATION;
  const apiServer = parsed({ authentication: { ...rest, ...(anonymous && { anonymous }) } });
  expect(answersAnonymous(resolved({ apiServer }))).toBe(told);
});

const rules = (...all: unknown[]) => ({ auditPolicy: { ...AUDIT, rules: all } });
const authn = (change: object) => ({ authentication: { ...AUTHENTICATION, ...change } });
const jwt = (change: object) => authn({ jwt: [{ ...JWT, ...change }] });
const issuer = (change: object) => jwt({ issuer: { ...JWT.issuer, ...change } });
const authz = (...authorizers: unknown[]) => ({ authorization: { ...AUTHORIZATION, authorizers } });
const hook = (change: object) => ({ type: 'Webhook', name: 'hook', webhook: { ...HOOK, ...change } });
const NODE = { type: 'Node', name: 'node' };
const RBAC = { type: 'RBAC', name: 'rbac' };
const kubeconfig = (change: object) => ({ tokenWebhook: { ...KUBECONFIG, ...change } });

test.for<[string, object, RegExp]>([
  ['no rules', rules(), /ends at a policy without rules/],
  ['an unknown level', rules({ level: 'All' }), /level/],
  ['an unknown field', rules({ level: 'None', nonResourceUrls: ['/'] }), /nonResourceUrls/],
  ['paths and objects', rules({ level: 'None', nonResourceURLs: ['/x'], resources: [{}] }), /two rules/],
  ['a star within a path', rules({ level: 'None', nonResourceURLs: ['/a*b'] }), /at its end/],
  ['a group with its version', rules({ level: 'None', resources: [{ group: 'apps/v1' }] }), /no version/],
  [
    'names without resources',
    rules({ level: 'None', resources: [{ resourceNames: ['a'] }] }),
    /need resources/,
  ],
  ['another version', { auditPolicy: { ...AUDIT, apiVersion: 'audit.k8s.io/v1beta1' } }, /apiVersion/],
  [
    'v1alpha1',
    authn({ apiVersion: 'apiserver.config.k8s.io/v1alpha1' }),
    /write apiserver.config.k8s.io\/v1/,
  ],
  ['an issuer without TLS', issuer({ url: 'http://idp.example' }), /not an https/],
  ['an issuer with a query', issuer({ url: 'https://idp.example?x' }), /no "\?"/],
  ['no audience', issuer({ audiences: [] }), /audiences/],
  ['two audiences', issuer({ audiences: ['a', 'b'] }), /MatchAny/],
  ['a CA that is none', issuer({ certificateAuthority: 'CA' }), /not certificates in PEM/],
  ['a path of a CA', issuer({ certificateAuthority: '/etc/ca.pem' }), /not certificates in PEM/],
  ['a claim without prefix', jwt({ claimMappings: { username: { claim: 'sub' } } }), /prefix: ""/],
  [
    'claim and expression',
    jwt({ claimMappings: { username: { claim: 'a', prefix: '', expression: 'b' } } }),
    /either/,
  ],
  ['no mapping of the user', jwt({ claimMappings: {} }), /username/],
  ['an issuer twice', authn({ jwt: [JWT, JWT] }), /listed twice/],
  [
    'conditions of what is off',
    authn({ anonymous: { enabled: false, conditions: [{ path: '/' }] } }),
    /enabled/,
  ],
  ['no RBAC', authz(NODE), /type RBAC is needed/],
  ['no Node', authz(RBAC), /type Node is needed/],
  ['AlwaysAllow', authz(NODE, RBAC, { type: 'AlwaysAllow', name: 'x' }), /open the cluster/],
  ['a name twice', authz(NODE, { ...RBAC, name: 'node' }), /listed twice/],
  ['a webhook without its part', authz(NODE, RBAC, { type: 'Webhook', name: 'x' }), /needs it/],
  ['a slow webhook', authz(NODE, RBAC, hook({ timeout: '31s' })), /up to 30s/],
  ['a path of a kubeconfig', authz(NODE, RBAC, hook({ connectionInfo: { type: 'KubeConfigFile' } })), /type/],
  [
    'conditions without version',
    authz(NODE, RBAC, hook({ matchConditions: [{ expression: 'true' }] })),
    /Version: v1/,
  ],
  ['an unknown context', kubeconfig({ 'current-context': 'x' }), /contexts has no "x"/],
  ['an unknown user', kubeconfig({ users: [] }), /users has no "api"/],
  [
    'a token in the document',
    kubeconfig({ users: [{ name: 'api', user: { token: 'abc' } }] }),
    /muster secret put/,
  ],
  ['a path of a token', kubeconfig({ users: [{ name: 'api', user: { tokenFile: '/t' } }] }), /tokenFile/],
  [
    'a server that is no web server',
    kubeconfig({ clusters: [{ name: 'hook', cluster: { server: 'ftp://h' } }] }),
    /https/,
  ],
])('%s is refused', ([, apiServer, says]) => {
  expect(wrong(apiServer).join('\n')).toMatch(says);
});

test.for<[string, object, Record<string, string>, RegExp]>([
  [
    'oidc-issuer-url',
    authn({}),
    { 'oidc-issuer-url': 'https://idp.example' },
    /apiServer.authentication.jwt/,
  ],
  ['anonymous-auth', authn({}), { 'anonymous-auth': 'true' }, /says it already/],
  ['authorization-mode', authz(NODE, RBAC), { 'authorization-mode': 'RBAC' }, /authorizers/],
  [
    'authorization-config',
    authz(NODE, RBAC),
    { 'authorization-config': '/etc/kubernetes/pki/x' },
    /one of the two/,
  ],
])('the flag %s beside the document that replaces it is refused', ([flag, apiServer, flags, says]) => {
  const found = faults({ apiServer: parsed(apiServer), overrides: { flags: { 'kube-apiserver': flags } } });
  expect(found).toHaveLength(1);
  expect(found[0]).toMatch(new RegExp(`flags.kube-apiserver.${flag}: `));
  expect(found[0]).toMatch(says);
});

test('CAs of an issuer that no flag names have no effect and are refused', () => {
  const pem = selfSigned('idp', []).certificate;
  expect(faults({ apiServer: parsed({ oidcCA: pem }) })[0]).toMatch(/oidcCA: it has no effect/);
  const flags = { 'oidc-issuer-url': 'https://idp.example', 'oidc-client-id': 'k' };
  const spec = { apiServer: parsed({ oidcCA: pem }), overrides: { flags: { 'kube-apiserver': flags } } };
  expect(faults(spec)).toEqual([]);
  expect(filesOf(spec).get('/etc/kubernetes/apiserver/oidc-ca.pem')).toContain('BEGIN CERTIFICATE');
});

test('volumes, environment, resources and priority are added to a static pod, and others stay', () => {
  const spec: Partial<KubernetesSpec> = {
    staticPods: {
      'kube-scheduler': {
        volumes: [{ path: '/srv/extra' }, { path: '/srv/socket', type: 'Socket', readOnly: false }],
        env: { GOMEMLIMIT: '1GiB' },
        resources: { requests: { memory: '64Mi' }, limits: { memory: '1Gi' } },
        priorityClassName: 'system-cluster-critical',
      },
    },
  };
  const container = containerOf(spec, 'kube-scheduler');
  expect(container.resources).toEqual({
    requests: { cpu: '100m', memory: '64Mi' },
    limits: { memory: '1Gi' },
  });
  expect(container.env.map(({ name }: Loose) => name)).toEqual(['GOMEMLIMIT', 'MUSTER_REVISION']);
  expect(container.volumeMounts.at(-2)).toEqual({ mountPath: '/srv/extra', name: 'added-0', readOnly: true });
  expect(container.pod.volumes.at(-1)).toEqual({
    hostPath: { path: '/srv/socket', type: 'Socket' },
    name: 'added-1',
  });
  expect(container.pod).toMatchObject({
    priority: 2_000_000_000,
    priorityClassName: 'system-cluster-critical',
  });
  expect(containerOf(spec)).toEqual(containerOf({}));
});

test('a file of a flag may be in a volume that the Cluster adds', () => {
  const flags = { 'kube-apiserver': { 'admission-control-config-file': '/srv/admission/config.yaml' } };
  expect(faults({ overrides: { flags } })[0]).toMatch(/does not see/);
  const staticPods = { 'kube-apiserver': { volumes: [{ path: '/srv/admission' }] } };
  expect(faults({ overrides: { flags }, staticPods })).toEqual([]);
});

test.each([
  [
    { 'kube-apiserver': { resources: { limits: { cpu: '100m' } } } },
    'staticPods.kube-apiserver.resources.limits.cpu: 100m is less than what is reserved, 250m',
  ],
  [
    { etcd: { resources: { requests: { memory: '2Gi' }, limits: { memory: '1Gi' } } } },
    'staticPods.etcd.resources.limits.memory: 1Gi is less than what is reserved, 2Gi',
  ],
  [
    { 'kube-apiserver': { volumes: [{ path: '/etc/kubernetes/pki' }] } },
    'staticPods.kube-apiserver.volumes[0].path: the pod sees /etc/kubernetes/pki already',
  ],
  [
    { etcd: { volumes: [{ path: '/srv/a' }, { path: '/srv/a' }] } },
    'staticPods.etcd.volumes[1].path: /srv/a is listed twice',
  ],
] as const)('%j, which kubelet would not start, is refused', (staticPods, message) => {
  expect(faults({ staticPods } as Partial<KubernetesSpec>)).toEqual([expect.stringContaining(message)]);
});
