/** Mirrors, logins and CAs of single registries in the files of containerd and CRI-O. */
import { describe, expect, test } from 'vitest';
import type { PlanLine } from '../../../../src/agent/wire/plan.ts';
import type { ResolvedCluster } from '../../../../src/cluster/model/resolved-cluster.ts';
import { previewText } from '../../../../src/cluster/plan/preview.ts';
import { runtimeLines } from '../../../../src/cluster/plan/runtime.ts';
import { withMirrors } from '../../../../src/cluster/plan/supplies.ts';
import { secretsOf } from '../../../../src/resources/secret-references.ts';
import { selfSigned } from '../../../self-signed.ts';
import { faults, resolved } from '../kit.ts';
import { clusterDocument, rig, settle, TestMachine } from '../planner-kit.ts';

const { certificate: CA } = selfSigned('harbor.example');
const { certificate: OTHER } = selfSigned('other.example');
const PASSWORD = { valueFrom: { secret: 'registry', key: 'password' } };
const LOGIN = { username: 'robot$rack', password: PASSWORD };
const REGISTRIES = [
  {
    registry: 'docker.io',
    mirrors: [
      { url: 'https://harbor.example/v2/dockerhub', ca: CA, login: LOGIN },
      { url: 'http://plain.example:5000' },
    ],
  },
  { registry: 'quay.io', upstream: false, mirrors: [{ url: 'https://harbor.example/v2/quay' }] },
  { registry: 'registry.example:5000', ca: OTHER, login: { ...LOGIN, username: 'own' } },
];
const BOOT_HOST = 'https://10.0.0.1:8443';

const cluster = (runtime: ResolvedCluster['runtime'], more: object = {}) =>
  withMirrors(resolved({ runtime, registries: REGISTRIES, mirrors: ['https://all.example'], ...more }), [
    BOOT_HOST,
  ]);

const LOGINS = [
  { host: 'harbor.example', username: 'robot$rack', password: 'pa"ss', tag: 'T1' },
  { host: 'docker.io', username: 'own', password: 'x', tag: 'T2' },
];

const texts = (lines: readonly PlanLine[]) =>
  new Map(
    lines.flatMap((line) =>
      line.do === 'put' && 'text' in line.content ? [[line.path, line.content.text]] : [],
    ),
  );

describe('containerd', () => {
  const files = texts(runtimeLines(cluster('containerd'), []).files);
  const hosts = (registry: string) => files.get(`/etc/containerd/certs.d/${registry}/hosts.toml`);

  test('asks Muster, the mirrors of the registry, those of all registries, then the registry', () => {
    expect(hosts('docker.io')).toBe(`[host."${BOOT_HOST}"]
capabilities = ["pull", "resolve"]
ca = "/etc/muster/ca.crt"

[host."https://harbor.example/v2/dockerhub"]
capabilities = ["pull", "resolve"]
override_path = true
ca = "/etc/muster/registries/harbor.example.crt"

[host."http://plain.example:5000"]
capabilities = ["pull", "resolve"]

[host."https://all.example"]
capabilities = ["pull", "resolve"]
ca = "/etc/muster/ca.crt"
`);
    expect(files.get('/etc/muster/registries/harbor.example.crt')).toBe(CA);
    expect(hosts('_default')).not.toContain('harbor');
  });

  test('has the last mirror as server where the registry itself is never asked', () => {
    expect(hosts('quay.io')).toBe(`server = "https://all.example"
capabilities = ["pull", "resolve"]
ca = "/etc/muster/ca.crt"

[host."${BOOT_HOST}"]
capabilities = ["pull", "resolve"]
ca = "/etc/muster/ca.crt"

[host."https://harbor.example/v2/quay"]
capabilities = ["pull", "resolve"]
override_path = true
ca = "/etc/muster/registries/harbor.example.crt"
`);
  });

  test('trusts the CA of the registry itself', () => {
    expect(hosts('registry.example:5000')?.split('\n')[0]).toBe(
      'ca = "/etc/muster/registries/registry.example:5000.crt"',
    );
  });

  test.each([
    ['1.7.24', 'io.containerd.grpc.v1.cri'],
    ['2.1.0', 'io.containerd.cri.v1.images'],
  ])('of version %s has logins in a file that only root can read', (containerd, plugin) => {
    const of = cluster('containerd', { overrides: { versions: { containerd } } });
    const line = runtimeLines(of, [], LOGINS).files.find(
      (one) => one.do === 'put' && one.path === '/etc/containerd/config.toml',
    );
    expect(line).toMatchObject({ mode: 0o600, content: { secret: true } });
    const text = texts([line!]).get('/etc/containerd/config.toml');
    expect(text).toContain(`[plugins."${plugin}".registry.configs."harbor.example".auth]
username = "robot$rack"
password = "pa\\"ss"
`);
    // Docker Hub answers at another name.
    expect(text).toContain(`.registry.configs."registry-1.docker.io".auth]\nusername = "own"`);
  });

  test('restarts for another login, with a digest that tells nothing about the password', () => {
    const digest = (password: string, tag: string) => {
      const { run } = runtimeLines(cluster('containerd'), [], [{ ...LOGINS[0]!, password, tag }]);
      return run.do === 'run' ? run.digest : '';
    };
    expect(digest('a', 'T1')).toBe(digest('b', 'T1'));
    expect(digest('a', 'T1')).not.toBe(digest('a', 'T2'));
  });

  test('has each mirror of all registries once, because two tables of one name are no TOML', () => {
    const twice = resolved({ mirrors: ['https://a.example', 'https://a.example'] });
    const text = texts(runtimeLines(twice, []).files).get('/etc/containerd/certs.d/_default/hosts.toml');
    expect(text?.match(/\[host\./g)).toHaveLength(1);
  });
});

describe('CRI-O', () => {
  const lines = runtimeLines(cluster('cri-o'), [], LOGINS).files;
  const files = texts(lines);
  const entry = (registry: string) =>
    files
      .get('/etc/containers/registries.conf.d/90-muster.conf')!
      .split('\n\n')
      .find((text) => text.includes(`prefix = "${registry}"`));

  test('asks the same in the same order', () => {
    expect(entry('docker.io')).toBe(`[[registry]]
prefix = "docker.io"
location = "docker.io"
[[registry.mirror]]
location = "10.0.0.1:8443/docker.io"
[[registry.mirror]]
location = "harbor.example/dockerhub"
[[registry.mirror]]
location = "plain.example:5000"
insecure = true
[[registry.mirror]]
location = "all.example/docker.io"`);
    expect(entry('quay.io')).toMatch(/prefix = "quay.io"\nlocation = "all.example\/quay.io"\n/);
    expect(entry('quay.io')?.match(/mirror\]\]/g)).toHaveLength(2);
    expect(entry('registry.example:5000')).toContain('location = "registry.example:5000"');
  });

  test('trusts for each host its own CA, or Muster’s', () => {
    const links = new Map(lines.flatMap((line) => (line.do === 'link' ? [[line.path, line.to]] : [])));
    const at = (host: string) => links.get(`/etc/containers/certs.d/${host}/ca.crt`);
    expect(at('harbor.example')).toBe('/etc/muster/registries/harbor.example.crt');
    expect(at('registry.example:5000')).toBe('/etc/muster/registries/registry.example:5000.crt');
    expect(at('10.0.0.1:8443')).toBe('/etc/muster/ca.crt');
    expect(at('plain.example:5000')).toBeUndefined();
  });

  test('has logins in a file that only root can read, and no such file without any', () => {
    expect(lines.find((one) => one.do === 'put' && one.path === '/etc/crio/auth.json')).toMatchObject({
      mode: 0o600,
      content: { secret: true },
    });
    const { auths } = JSON.parse(files.get('/etc/crio/auth.json')!) as {
      auths: Record<string, { auth: string }>;
    };
    expect(Buffer.from(auths['harbor.example']!.auth, 'base64').toString()).toBe('robot$rack:pa"ss');
    expect(files.get('/etc/crio/crio.conf.d/90-muster.conf')).toContain(
      'global_auth_file = "/etc/crio/auth.json"',
    );
    const without = texts(runtimeLines(cluster('cri-o'), []).files);
    expect(without.has('/etc/crio/auth.json')).toBe(false);
    expect(without.get('/etc/crio/crio.conf.d/90-muster.conf')).not.toContain('auth');
  });
});

describe('the Cluster is refused', () => {
  const mirror = (url: string, more: object = {}) => ({ url, ...more });

  test('where nobody would be asked', () => {
    const never = { registry: 'quay.io', upstream: false };
    expect(faults({ registries: [never] })).toEqual([
      expect.stringMatching(/^error registries\[0\]\.upstream: quay\.io itself is never asked/),
    ]);
    expect(faults({ registries: [never], mirrors: ['https://all.example'] })).toEqual([]);
  });

  test('where a host would have two CAs or two logins', () => {
    const at = (registry: string, more: object) => ({
      registry,
      mirrors: [mirror(`https://h.example/v2/${registry}`, more)],
    });
    const other = { username: 'other', password: PASSWORD };
    expect(
      faults({
        registries: [at('docker.io', { ca: CA, login: LOGIN }), at('quay.io', { ca: OTHER, login: other })],
      }),
    ).toEqual([
      expect.stringMatching(
        /^error registries\[1\]\.mirrors\[0\]\.ca: h\.example has another ca at registries\[0\]/,
      ),
      expect.stringMatching(/^error registries\[1\]\.mirrors\[0\]\.login: h\.example has another login/),
    ]);
    expect(
      faults({ registries: [at('docker.io', { ca: CA }), at('quay.io', { ca: CA, login: LOGIN })] }),
    ).toEqual([]);
  });

  test('where CRI-O cannot reach the API of a mirror', () => {
    const registries = [{ registry: 'docker.io', mirrors: [mirror('https://a.example/api/docker/x/v2')] }];
    expect(faults({ runtime: 'cri-o', registries })).toEqual([
      expect.stringMatching(
        /^error registries\[0\]\.mirrors\[0\]\.url: CRI-O asks for https:\/\/a\.example\/v2\/… only/,
      ),
    ]);
    expect(faults({ registries })).toEqual([]);
    expect(faults({ runtime: 'cri-o', mirrors: ['https://a.example/api/v2/x'] })).toEqual([
      expect.stringMatching(/^error mirrors\[0\]: /),
    ]);
  });

  test('where containerd may not know logins any more', () => {
    const registries = [{ registry: 'docker.io', login: LOGIN }];
    expect(faults({ registries, overrides: { versions: { containerd: '2.4.0' } } })).toEqual([
      expect.stringContaining('may not read logins'),
    ]);
  });
});

test('a Secret is known as used by its registry', () => {
  expect(secretsOf(clusterDocument({ registries: REGISTRIES }))).toEqual([
    expect.objectContaining({ use: 'login', path: expect.arrayContaining([0, 'mirrors', 0, 'login']) }),
    expect.objectContaining({
      use: 'login',
      path: ['spec', 'kubernetes', 'registries', 2, 'login', 'password'],
    }),
  ]);
});

test('machines get the password from the Secret, and report which value they have', async () => {
  let value: Buffer | undefined = Buffer.from('hunter2\n');
  const given = { value: () => value, tag: () => (value === undefined ? undefined : 'ab'.repeat(16)) };
  const { planner } = await rig({ spec: { registries: REGISTRIES }, given });
  const machine = new TestMachine('cp1');
  const { lines } = await settle(planner, machine);
  expect(texts(lines).get('/etc/containerd/config.toml')).toContain('password = "hunter2"');
  expect(lines).toContainEqual({ do: 'secret', id: 'registry:password', tag: 'ab'.repeat(16) });
  for (const [wrong, code] of [
    [undefined, 'secret-missing'],
    [Buffer.from('two\nlines'), 'secret-no-password'],
  ] as const) {
    value = wrong;
    const missing = (await settle(planner, machine)).lines;
    expect(texts(missing).get('/etc/containerd/config.toml')).not.toContain('auth');
    expect(missing.filter((line) => line.do === 'hold')).toEqual([
      expect.objectContaining({ code, text: expect.stringContaining('harbor.example') }),
      expect.objectContaining({ code }),
    ]);
    // Everything else of the machine goes on.
    expect(missing).toContainEqual(expect.objectContaining({ do: 'run', unit: 'kubelet.service' }));
  }
});

test('a preview shows where logins go, and no text of the file', () => {
  const of = cluster('containerd');
  const text = previewText(of, of.machines[0]!);
  expect(text).toContain('put 0600 /etc/containerd/config.toml\n');
  expect(text).not.toContain('robot');
});
