/**
 * The effect of our files on real API servers: Secrets in etcd, the audit log, refused pods. Needs
 * MUSTER_ARTIFACTS: test/artifacts.ts.
 */
import { execFileSync, spawnSync } from 'node:child_process';
import fs from 'node:fs';
import { afterAll, beforeAll, describe, expect, test, vi } from 'vitest';
import { duration } from '../../src/base/duration.ts';
import { withWebhookSecrets } from '../../src/cluster/plan/apiserver.ts';
import { newEncryptionKey } from '../../src/pki/encryption.ts';
import { addTrusted, promote } from '../../src/pki/keyset.ts';
import { kubernetesSpec } from '../../src/resources/cluster-spec.ts';
import type { KubernetesSpec } from '../../src/resources/kinds.ts';
import { ARTIFACTS } from '../artifacts.ts';
import { clusterDocument, rig, settle, TestMachine } from '../unit/cluster/planner-kit.ts';
import { PlacedPlan } from './placed-plan.ts';

const ADDRESS = '10.0.0.12';
const FOUNDING = { state: 'new', token: 'one', members: [{ name: 'cp1', address: ADDRESS }] } as const;
const SPEC: Partial<KubernetesSpec> = { endpoint: ADDRESS, controlPlanes: ['cp1'], workers: [], sans: [] };

// API servers start slowly on a busy host, and these tests start several.
const TIMEOUT = 600_000;

describe.skipIf(ARTIFACTS === undefined)('with the binaries of Kubernetes', { timeout: TIMEOUT }, () => {
  const placed = new PlacedPlan();
  const machine = new TestMachine('cp1');
  let world: Awaited<ReturnType<typeof rig>>;

  /** Runs kubectl as system:masters, since there are no role bindings. */
  const kubectl = (...args: readonly string[]): string =>
    placed.run('kubectl', '--kubeconfig', placed.inside('/run/muster/applier.conf'), ...args);

  /** kubectl's message when it is refused. */
  function refusal(document: unknown): string {
    const file = placed.inside('/document.json');
    fs.writeFileSync(file, JSON.stringify(document));
    const admin = placed.inside('/run/muster/applier.conf');
    const args = ['--kubeconfig', admin, 'create', '--dry-run=server', '-f', file];
    const { status, stderr } = spawnSync(`${placed.bin}/kubectl`, args, { encoding: 'utf8' });
    return status === 0 ? '' : stderr;
  }

  /** A value in etcd, read through its JSON gateway. */
  function stored(key: string): string {
    const pki = placed.inside('/etc/kubernetes/pki');
    const client = [
      `${pki}/etcd/ca-bundle.crt`,
      `${pki}/apiserver-etcd-client.crt`,
      `${pki}/apiserver-etcd-client.key`,
    ];
    const body = JSON.stringify({ key: Buffer.from(key).toString('base64') });
    const out = execFileSync(
      'curl',
      [
        '-sf',
        '--cacert',
        client[0]!,
        '--cert',
        client[1]!,
        '--key',
        client[2]!,
        '-d',
        body,
        `https://${ADDRESS}:2379/v3/kv/range`,
      ],
      { encoding: 'utf8' },
    );
    const { kvs } = JSON.parse(out) as { kvs: { value: string }[] };
    return Buffer.from(kvs[0]!.value, 'base64').toString('latin1');
  }

  /** Writes the files of the present plan, and restarts the API server with them. */
  async function apply(): Promise<void> {
    world.clock.advance(duration('10s'));
    placed.put(await settle(world.planner, machine), machine);
    await placed.stop('kube-apiserver');
    placed.start('kube-apiserver');
    await vi.waitFor(() => expect(ready()).toBe(true), { timeout: 250_000, interval: 500 });
  }

  function ready(): boolean {
    try {
      return kubectl('get', '--raw', '/readyz') === 'ok';
    } catch {
      return false;
    }
  }

  beforeAll(async () => {
    execFileSync('ip', ['address', 'replace', `${ADDRESS}/24`, 'dev', 'lo']);
    world = await rig({
      spec: SPEC,
      machines: [{ name: 'cp1', addresses: [ADDRESS] }],
      etcd: async () => ({ lines: [], founding: FOUNDING }),
    });
    placed.put(await settle(world.planner, machine), machine);
    fs.mkdirSync(placed.inside('/var/lib/etcd'), { recursive: true, mode: 0o700 });
    placed.start('etcd');
    await apply();
    for (const space of ['default', 'kube-system'])
      kubectl('create', '-n', space, 'serviceaccount', 'default');
  }, TIMEOUT);

  afterAll(() => placed.close());

  const secret = (name: string, text: string) =>
    kubectl('create', 'secret', 'generic', name, `--from-literal=word=${text}`);
  const read = (name: string) =>
    Buffer.from(kubectl('get', 'secret', name, '-o', 'jsonpath={.data.word}'), 'base64').toString();
  const PREFIX = '/registry/secrets/default';

  test('a Secret is encrypted in etcd, and other objects are not', async () => {
    secret('first', 'open-sesame');
    kubectl('create', 'configmap', 'open', '--from-literal=word=open-sesame');
    const { primary } = (await world.pki.encryption('golden'))!;
    const value = stored(`${PREFIX}/first`);
    expect(value.startsWith(`k8s:enc:secretbox:v1:${primary}:`)).toBe(true);
    expect(value).not.toContain('open-sesame');
    expect(stored('/registry/configmaps/default/open')).toContain('open-sesame');
    expect(read('first')).toBe('open-sesame');
  });

  test('with encryption turned off Secrets are written in plain text and encrypted ones are still read; turned on again, the reverse', async () => {
    world.known.put(clusterDocument({ ...SPEC, encryptSecrets: false }));
    await apply();
    secret('plain', 'in-the-open');
    expect(stored(`${PREFIX}/plain`)).toContain('in-the-open');
    expect(read('first')).toBe('open-sesame');
    world.known.put(clusterDocument(SPEC));
    await apply();
    expect(read('plain')).toBe('in-the-open');
    const all = kubectl('get', 'secret', 'plain', '-o', 'json');
    fs.writeFileSync(placed.inside('/all.json'), all);
    kubectl('replace', '-f', placed.inside('/all.json'));
    expect(stored(`${PREFIX}/plain`)).toMatch(/^k8s:enc:secretbox:v1:/);
  });

  test('a new encryption key is used for reading before writing, and what the old key wrote stays readable', async () => {
    const next = newEncryptionKey(world.clock.now());
    const before = (await world.pki.encryption('golden'))!.primary;
    await world.pki.changeEncryption('golden', (keyset) => addTrusted(keyset, next));
    await apply();
    secret('second', 'a');
    expect(stored(`${PREFIX}/second`)).toContain(`:${before}:`);
    await world.pki.changeEncryption('golden', (keyset) => promote(keyset, next.id));
    await apply();
    secret('third', 'b');
    expect(stored(`${PREFIX}/third`)).toContain(`:${next.id}:`);
    expect([read('first'), read('second'), read('third')]).toEqual(['open-sesame', 'a', 'b']);
  });

  interface AuditLine {
    readonly level: string;
    readonly stage: string;
    readonly verb: string;
    readonly requestURI: string;
    readonly objectRef?: { readonly resource: string; readonly name?: string };
    readonly requestObject?: unknown;
  }
  const audit = (): AuditLine[] =>
    fs
      .readFileSync(placed.inside('/var/log/kubernetes/audit.log'), 'utf8')
      .trim()
      .split('\n')
      .map((line) => JSON.parse(line) as AuditLine);
  const of = (resource: string) => audit().filter(({ objectRef }) => objectRef?.resource === resource);

  test('the audit log has who wrote and read a Secret, but not the Secret', () => {
    const lines = of('secrets').filter(({ objectRef }) => objectRef?.name === 'first');
    expect(lines.map(({ verb }) => verb)).toContain('get');
    expect(new Set(of('secrets').map(({ level }) => level))).toEqual(new Set(['Metadata']));
    const text = fs.readFileSync(placed.inside('/var/log/kubernetes/audit.log'), 'utf8');
    expect(text).not.toContain('open-sesame');
    expect(text).not.toContain(Buffer.from('open-sesame').toString('base64'));
  });

  test('the audit log has a changed permission with its content, but no probes, leases or reads by components', () => {
    kubectl('create', 'clusterrolebinding', 'seen', '--clusterrole=view', '--user=anna');
    const bound = of('clusterrolebindings').filter(({ requestObject }) =>
      JSON.stringify(requestObject ?? '').includes('anna'),
    );
    expect(bound.map(({ level, verb }) => `${level} ${verb}`)).toEqual(['Request create']);
    expect(of('leases').filter(({ verb }) => verb === 'update')).toEqual([]);
    expect(audit().filter(({ requestURI }) => /^\/(readyz|livez|healthz)/.test(requestURI))).toEqual([]);
    expect(audit().filter(({ stage }) => stage === 'RequestReceived')).toEqual([]);
  });

  const pod = (namespace: string, container: object = {}) => ({
    apiVersion: 'v1',
    kind: 'Pod',
    metadata: { name: 'p', namespace },
    spec: { containers: [{ name: 'c', image: 'example.org/c', ...container }] },
  });
  const PRIVILEGED = { securityContext: { privileged: true } };

  test('a privileged pod is refused by default, and admitted in kube-system and where the namespace allows it', () => {
    expect(refusal(pod('default', PRIVILEGED))).toContain('violates PodSecurity "baseline:latest"');
    expect(refusal(pod('default'))).toBe('');
    expect(refusal(pod('kube-system', PRIVILEGED))).toBe('');
    kubectl('create', 'namespace', 'root');
    kubectl('create', '-n', 'root', 'serviceaccount', 'default');
    kubectl('label', 'namespace', 'root', 'pod-security.kubernetes.io/enforce=privileged');
    expect(refusal(pod('root', PRIVILEGED))).toBe('');
  });

  test('a restricted namespace refuses a pod that baseline admits, and podSecurity makes all namespaces restricted', async () => {
    kubectl('create', 'namespace', 'strict');
    kubectl('create', '-n', 'strict', 'serviceaccount', 'default');
    kubectl('label', 'namespace', 'strict', 'pod-security.kubernetes.io/enforce=restricted');
    expect(refusal(pod('strict'))).toContain('violates PodSecurity "restricted:latest"');
    world.known.put(clusterDocument({ ...SPEC, podSecurity: 'restricted' }));
    await apply();
    expect(refusal(pod('default'))).toContain('violates PodSecurity "restricted:latest"');
  });

  test('an API server that refuses anonymous requests tells its health to the machine, by the certificate of the plan', async () => {
    const flags = { 'kube-apiserver': { 'anonymous-auth': 'false' } };
    world.known.put(clusterDocument({ ...SPEC, overrides: { flags } }));
    await apply();
    const file = placed.inside('/etc/muster/health.pem');
    const status = (path: string, ...options: readonly string[]): string =>
      execFileSync(
        'curl',
        ['-s', '-k', '-o', '/dev/null', '-w', '%{http_code}', ...options, `https://${ADDRESS}:6443${path}`],
        { encoding: 'utf8' },
      );
    expect(status('/readyz')).toBe('401');
    expect(status('/readyz', '--cert', file, '--key', file)).toBe('200');
    expect(status('/api/v1/secrets', '--cert', file, '--key', file)).toBe('403');
    expect(fs.statSync(file).mode & 0o777).toBe(0o600);
  });

  test('an API server takes every document of apiServer, and health is told to everybody by conditions alone', async () => {
    const kubeconfig = {
      apiVersion: 'v1',
      kind: 'Config',
      clusters: [{ name: 'hook', cluster: { server: 'https://127.0.0.1:1/ask' } }],
      users: [{ name: 'api', user: { token: { valueFrom: { secret: 'hook', key: 'token' } } } }],
      contexts: [{ name: 'hook', context: { cluster: 'hook', user: 'api' } }],
      'current-context': 'hook',
    };
    const apiVersion = 'apiserver.config.k8s.io/v1';
    const apiServer = kubernetesSpec.shape.apiServer.parse({
      auditPolicy: { apiVersion: 'audit.k8s.io/v1', kind: 'Policy', rules: [{ level: 'Metadata' }] },
      auditWebhook: kubeconfig,
      tokenWebhook: kubeconfig,
      authentication: {
        apiVersion,
        kind: 'AuthenticationConfiguration',
        jwt: [
          {
            issuer: { url: 'https://idp.example', audiences: ['kubernetes'] },
            claimMappings: {
              username: { claim: 'sub', prefix: 'idp:' },
              groups: { expression: 'claims.groups' },
            },
          },
        ],
        anonymous: { enabled: true, conditions: [{ path: '/livez' }, { path: '/readyz' }] },
      },
      authorization: {
        apiVersion,
        kind: 'AuthorizationConfiguration',
        authorizers: [
          { type: 'Node', name: 'node' },
          { type: 'RBAC', name: 'rbac' },
          {
            type: 'Webhook',
            name: 'hook',
            webhook: {
              timeout: '1s',
              subjectAccessReviewVersion: 'v1',
              matchConditionSubjectAccessReviewVersion: 'v1',
              failurePolicy: 'NoOpinion',
              connectionInfo: { type: 'KubeConfig', kubeConfig: kubeconfig },
              matchConditions: [{ expression: "request.user == 'nobody'" }],
            },
          },
        ],
      },
    });
    world.known.put(clusterDocument({ ...SPEC, ...(apiServer && { apiServer }) }));
    const config = withWebhookSecrets(() => ({}), world.clusters)('cp1');
    expect(config.files).toHaveLength(3);
    for (const { path: file } of config.files ?? []) {
      fs.mkdirSync(placed.inside('/etc/kubernetes/apiserver/webhooks'), { recursive: true });
      fs.writeFileSync(placed.inside(file), 'a-token');
    }
    await apply();
    const status = (path: string): string =>
      execFileSync(
        'curl',
        ['-s', '-k', '-o', '/dev/null', '-w', '%{http_code}', `https://${ADDRESS}:6443${path}`],
        {
          encoding: 'utf8',
        },
      );
    expect([status('/readyz'), status('/livez'), status('/version')]).toEqual(['200', '200', '401']);
    kubectl('get', 'namespaces');
    expect(audit().some(({ requestURI }) => requestURI.startsWith('/readyz'))).toBe(true);
  });
});
