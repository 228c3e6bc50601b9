/** What kube-apiserver records and admits unless a Cluster says otherwise. */
import { load } from 'js-yaml';
import { expect, test } from 'vitest';
import { apiserverLines } from '../../../../src/cluster/plan/apiserver.ts';
import { manifestFiles } from '../../../../src/cluster/plan/manifests.ts';
import type { KubernetesSpec } from '../../../../src/resources/kinds.ts';
import { resolved } from '../kit.ts';

// biome-ignore lint/suspicious/noExplicitAny: documents as their readers see them
type Loose = any;

/** A file of the first control plane. */
function fileOf(name: string, changes: Partial<KubernetesSpec> = {}): Loose {
  const cluster = resolved(changes);
  const found = apiserverLines(cluster, cluster.machines[0]!).flatMap((line) =>
    line.do === 'put' && line.path.endsWith(`/${name}`) && 'text' in line.content ? [line.content.text] : [],
  );
  return load(found[0]!);
}

interface Request {
  readonly user: string;
  readonly groups?: readonly string[];
  readonly verb: string;
  readonly resource?: string;
  readonly group?: string;
  readonly url?: string;
}

/** As kube-apiserver evaluates a policy: the first rule of which everything that is said fits. */
function levelOf({ user, groups = [], verb, resource, group = '', url }: Request): string {
  const matches = (rule: Loose): boolean => {
    if (rule.users && !rule.users.includes(user)) return false;
    if (rule.userGroups && !rule.userGroups.some((one: string) => groups.includes(one))) return false;
    if (rule.verbs && !rule.verbs.includes(verb)) return false;
    if (!rule.resources && !rule.nonResourceURLs) return true;
    if (url !== undefined)
      return (rule.nonResourceURLs ?? []).some((one: string) =>
        one.endsWith('*') ? url.startsWith(one.slice(0, -1)) : url === one,
      );
    return (rule.resources ?? []).some(
      (one: Loose) => one.group === group && (!one.resources || one.resources.includes(resource)),
    );
  };
  return fileOf('audit-policy.yaml').rules.find(matches).level;
}

const PERSON = { user: 'anna', groups: ['kubeadm:cluster-admins'] };
const KUBELET = { user: 'system:node:w1', groups: ['system:nodes'] };
const POD = {
  user: 'system:serviceaccount:shop:web',
  groups: ['system:serviceaccounts', 'system:serviceaccounts:shop'],
};
const CONTROLLER = {
  user: 'system:serviceaccount:kube-system:job-controller',
  groups: ['system:serviceaccounts', 'system:serviceaccounts:kube-system'],
};
const SCHEDULER = { user: 'system:kube-scheduler' };
const LEASE = { group: 'coordination.k8s.io', resource: 'leases' };

test.for([
  ['a person’s reading of a Secret', { ...PERSON, verb: 'get', resource: 'secrets' }, 'Metadata'],
  ['a person’s writing of a Secret', { ...PERSON, verb: 'create', resource: 'secrets' }, 'Metadata'],
  ['a pod’s listing of Secrets', { ...POD, verb: 'list', resource: 'secrets' }, 'Metadata'],
  ['kubelet’s listing of a Secret', { ...KUBELET, verb: 'list', resource: 'secrets' }, 'Metadata'],
  ['kubelet’s watching of a ConfigMap', { ...KUBELET, verb: 'watch', resource: 'configmaps' }, 'None'],
  [
    'the scheduler’s watching of a ConfigMap',
    { ...SCHEDULER, verb: 'watch', resource: 'configmaps' },
    'None',
  ],
  ['a pod’s watching of Secrets', { ...POD, verb: 'watch', resource: 'secrets' }, 'Metadata'],
  ['a controller’s reading of a Secret', { ...CONTROLLER, verb: 'get', resource: 'secrets' }, 'Metadata'],
  ['a new token', { ...KUBELET, verb: 'create', resource: 'serviceaccounts/token' }, 'Metadata'],
  [
    'the review of a token',
    { ...KUBELET, verb: 'create', group: 'authentication.k8s.io', resource: 'tokenreviews' },
    'Metadata',
  ],
  ['a command in a pod', { ...PERSON, verb: 'get', resource: 'pods/exec' }, 'Metadata'],
  ['a controller’s command in a pod', { ...CONTROLLER, verb: 'get', resource: 'pods/exec' }, 'Metadata'],
  ['a person’s reading of pods', { ...PERSON, verb: 'list', resource: 'pods' }, 'Metadata'],
  ['a controller’s reading of pods', { ...CONTROLLER, verb: 'watch', resource: 'pods' }, 'None'],
  ['the scheduler’s reading of pods', { ...SCHEDULER, verb: 'watch', resource: 'pods' }, 'None'],
  ['a controller’s new pod', { ...CONTROLLER, verb: 'create', resource: 'pods' }, 'Metadata'],
  ['kubelet’s reading of its node', { ...KUBELET, verb: 'get', resource: 'nodes' }, 'None'],
  ['kubelet’s sign of life', { ...KUBELET, verb: 'update', ...LEASE }, 'None'],
  ['a leader’s sign of life', { ...SCHEDULER, verb: 'update', ...LEASE }, 'None'],
  ['a person’s change of a lease', { ...PERSON, verb: 'patch', ...LEASE }, 'Metadata'],
  ['an event', { ...POD, verb: 'create', resource: 'events' }, 'None'],
  [
    'a new binding',
    { ...PERSON, verb: 'create', group: 'rbac.authorization.k8s.io', resource: 'clusterrolebindings' },
    'Request',
  ],
  ['a probe', { user: 'system:anonymous', verb: 'get', url: '/readyz/etcd' }, 'None'],
  ['discovery', { ...PERSON, verb: 'get', url: '/apis/apps/v1' }, 'None'],
  ['the metrics', { ...PERSON, verb: 'get', url: '/metrics' }, 'Metadata'],
] as const)('%s is recorded at its level', ([, request, level]) => {
  expect(levelOf(request)).toBe(level);
});

test('no rule records responses, which may contain secrets', () => {
  const levels = new Set(fileOf('audit-policy.yaml').rules.map(({ level }: Loose) => level));
  expect([...levels].sort()).toEqual(['Metadata', 'None', 'Request']);
});

test.for([
  [undefined, 'baseline', 'restricted'],
  ['restricted', 'restricted', 'restricted'],
  ['privileged', 'privileged', 'privileged'],
] as const)('podSecurity %s enforces %s and notes what is not %s', ([podSecurity, enforced, noted]) => {
  const { plugins } = fileOf('admission.yaml', podSecurity ? { podSecurity } : {});
  expect(plugins).toHaveLength(1);
  const { defaults, exemptions } = plugins[0].configuration;
  expect(defaults).toMatchObject({ enforce: enforced, warn: enforced, audit: noted });
  expect(exemptions.namespaces).toEqual(['kube-system']);
});

/** The directories that the apiserver's pod may write to. */
function writable(changes: Partial<KubernetesSpec>): string[] {
  const cluster = resolved(changes);
  const file = manifestFiles(cluster, cluster.machines[0]!).find(({ path }) =>
    path.endsWith('kube-apiserver.yaml'),
  )!;
  const [{ volumeMounts }] = (load(file.text) as Loose).spec.containers;
  return volumeMounts.flatMap((one: Loose) => (one.readOnly ? [] : [one.mountPath]));
}

const overridden = (flags: Record<string, string | null>) => ({
  overrides: { flags: { 'kube-apiserver': flags } },
});

test('the pod may write where its audit log is, and nowhere else', () => {
  expect(writable({})).toEqual(['/var/log/kubernetes']);
  expect(writable(overridden({ 'audit-log-path': '/srv/audit/today.log' }))).toEqual(['/srv/audit']);
  expect(writable(overridden({ 'audit-log-path': '-' }))).toEqual([]);
  expect(writable(overridden({ 'audit-log-path': null }))).toEqual([]);
});

test('workers get none of it', () => {
  const cluster = resolved();
  expect(apiserverLines(cluster, cluster.machines.find(({ name }) => name === 'w1')!)).toEqual([]);
});
