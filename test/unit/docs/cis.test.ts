/**
 * docs/cis.md answers every automated check of the CIS Kubernetes Benchmark 1.10 that concerns
 * flags and files; here the plans of examples/cis.yaml are checked for what it says.
 */
import fs from 'node:fs';
import { load, loadAll } from 'js-yaml';
import { expect, test } from 'vitest';
import { keyPathOf, type PlanLine } from '../../../src/agent/wire/plan.ts';
import { MODES } from '../../../src/pki/hierarchy.ts';
import type { Document } from '../../../src/resources/kinds.ts';
import { rig, settle, TestMachine } from '../cluster/planner-kit.ts';

// biome-ignore lint/suspicious/noExplicitAny: documents as their readers see them
type Loose = any;

const documents = loadAll(fs.readFileSync('examples/cis.yaml', 'utf8')) as Document[];
const cluster = documents.find(({ kind }) => kind === 'Cluster') as Document<'Cluster'>;
const machines = documents
  .filter((one): one is Document<'Machine'> => one.kind === 'Machine')
  .map(({ metadata, spec }) => ({ name: metadata.name, addresses: spec.addresses ?? [] }));

/** The lines of a control plane and of a worker. */
async function planned(): Promise<readonly PlanLine[]> {
  const founding = {
    state: 'new' as const,
    token: 't',
    members: machines.slice(0, 3).map(({ name, addresses: [address = ''] }) => ({ name, address })),
  };
  const { planner } = await rig({
    spec: cluster.spec.kubernetes!,
    machines,
    etcd: async () => ({ lines: [], founding }),
  });
  const lines = (await settle(planner, new TestMachine('cp1'))).lines;
  return [...lines, ...(await settle(planner, new TestMachine('w1'))).lines];
}

const lines = await planned();
/** A pair is two files: the certificate, and the key with its own mode. */
const files = lines.flatMap((line): readonly Loose[] => {
  if (line.do === 'put' || line.do === 'put-with-key') return [line];
  return line.do === 'put-pair' ? [line, { path: keyPathOf(line.path), mode: MODES.key }] : [];
});
const written = (path: string): Loose => files.find((file) => file.path === path);
const mode = (path: string, most: number): boolean => {
  const found = written(path);
  return found !== undefined && (found.mode & ~most) === 0;
};
const yaml = (path: string): Loose => load(written(path).content.text);
function flag(component: string, name: string): string | undefined {
  const [{ command }] = yaml(`/etc/kubernetes/manifests/${component}.yaml`).spec.containers;
  return (command as string[]).find((one) => one.startsWith(`--${name}=`))?.slice(name.length + 3);
}
const api = (name: string): string | undefined => flag('kube-apiserver', name);
const manager = (name: string): string | undefined => flag('kube-controller-manager', name);
const plugins = (which: 'enable' | 'disable'): string[] =>
  (api(`${which}-admission-plugins`) ?? '').split(',');
const kubelet = yaml('/var/lib/kubelet/config.yaml');
const manifest = (name: string) => (): boolean => mode(`/etc/kubernetes/manifests/${name}.yaml`, 0o600);
const own = (): boolean => lines.every((line) => line.do !== 'put-owned');

/** Check → whether the plan fulfils it. The agent writes every file of a plan as root:root. */
const CHECKS: Readonly<Record<string, () => boolean>> = {
  '1.1.1': manifest('kube-apiserver'),
  '1.1.2': own,
  '1.1.3': manifest('kube-controller-manager'),
  '1.1.4': own,
  '1.1.5': manifest('kube-scheduler'),
  '1.1.6': own,
  '1.1.7': manifest('etcd'),
  '1.1.8': own,
  '1.1.11': () => true,
  '1.1.12': () => false,
  '1.1.13': () => mode('/etc/kubernetes/admin.conf', 0o600),
  '1.1.14': own,
  '1.1.15': () => mode('/etc/kubernetes/scheduler.conf', 0o600),
  '1.1.16': own,
  '1.1.17': () => mode('/etc/kubernetes/controller-manager.conf', 0o600),
  '1.1.18': own,
  '1.1.19': own,
  '1.2.2': () => api('token-auth-file') === undefined,
  '1.2.4': () => api('kubelet-client-certificate') !== undefined && api('kubelet-client-key') !== undefined,
  '1.2.5': () => api('kubelet-certificate-authority') !== undefined,
  '1.2.6': () => !api('authorization-mode')!.includes('AlwaysAllow'),
  '1.2.7': () => api('authorization-mode')!.split(',').includes('Node'),
  '1.2.8': () => api('authorization-mode')!.split(',').includes('RBAC'),
  '1.2.10': () => !plugins('enable').includes('AlwaysAdmit'),
  '1.2.12': () => !plugins('disable').includes('ServiceAccount'),
  '1.2.13': () => !plugins('disable').includes('NamespaceLifecycle'),
  '1.2.14': () => plugins('enable').includes('NodeRestriction'),
  '1.2.15': () => api('profiling') === 'false',
  '1.2.16': () => api('audit-log-path') !== undefined,
  '1.2.17': () => Number(api('audit-log-maxage')) >= 30,
  '1.2.18': () => Number(api('audit-log-maxbackup')) >= 10,
  '1.2.19': () => Number(api('audit-log-maxsize')) >= 100,
  '1.2.21': () => api('service-account-lookup') !== 'false',
  '1.2.22': () => api('service-account-key-file') !== undefined,
  '1.2.23': () => api('etcd-certfile') !== undefined && api('etcd-keyfile') !== undefined,
  '1.2.24': () => api('tls-cert-file') !== undefined && api('tls-private-key-file') !== undefined,
  '1.2.25': () => api('client-ca-file') !== undefined,
  '1.2.26': () => api('etcd-cafile') !== undefined,
  '1.3.2': () => manager('profiling') === 'false',
  '1.3.3': () => manager('use-service-account-credentials') === 'true',
  '1.3.4': () => manager('service-account-private-key-file') !== undefined,
  '1.3.5': () => manager('root-ca-file') !== undefined,
  '1.3.6': () => !(manager('feature-gates') ?? '').includes('RotateKubeletServerCertificate=false'),
  '1.3.7': () => manager('bind-address') === '127.0.0.1',
  '1.4.1': () => flag('kube-scheduler', 'profiling') === 'false',
  '1.4.2': () => flag('kube-scheduler', 'bind-address') === '127.0.0.1',
  '2.1': () => flag('etcd', 'cert-file') !== undefined && flag('etcd', 'key-file') !== undefined,
  '2.2': () => flag('etcd', 'client-cert-auth') === 'true',
  '2.3': () => flag('etcd', 'auto-tls') !== 'true',
  '2.4': () => flag('etcd', 'peer-cert-file') !== undefined && flag('etcd', 'peer-key-file') !== undefined,
  '2.5': () => flag('etcd', 'peer-client-cert-auth') === 'true',
  '2.6': () => flag('etcd', 'peer-auto-tls') !== 'true',
  '4.1.1': () => mode('/etc/systemd/system/kubelet.service.d/10-kubeadm.conf', 0o600),
  '4.1.2': own,
  '4.1.5': () => mode('/etc/kubernetes/kubelet.conf', 0o600),
  '4.1.6': own,
  '4.1.9': () => mode('/var/lib/kubelet/config.yaml', 0o600),
  '4.1.10': own,
  '4.2.1': () => kubelet.authentication.anonymous.enabled === false,
  '4.2.2': () => kubelet.authorization.mode === 'Webhook',
  '4.2.3': () => kubelet.authentication.x509.clientCAFile !== undefined,
  '4.2.6': () => kubelet.makeIPTablesUtilChains === true,
  '4.2.10': () => kubelet.rotateCertificates === true,
};

/** The rows of the page: check → whether it says that the check passes. */
const rows = new Map(
  [...fs.readFileSync('docs/cis.md', 'utf8').matchAll(/^\| ([0-9.]+) \| [^|]+ \| (yes|no) \|/gm)].map(
    ([, id, answer]) => [id!, answer === 'yes'] as const,
  ),
);

test('the page answers every automated check about flags and files once', () => {
  expect([...rows.keys()].sort()).toEqual(Object.keys(CHECKS).sort());
});

test.each(Object.keys(CHECKS))('the answer to check %s is what the plan does', (id) => {
  expect(CHECKS[id]!()).toBe(rows.get(id));
});

test('the manual checks about flags that the example answers are answered by its plan', () => {
  expect(api('anonymous-auth')).toBe('false');
  expect(plugins('enable')).toContain('DenyServiceExternalIPs');
  expect(api('encryption-provider-config')).toBeDefined();
  expect(kubelet).toMatchObject({ readOnlyPort: 0, seccompDefault: true, podPidsLimit: 4096 });
});
