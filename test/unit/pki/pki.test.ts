/** Founding, issuing, the ledger of certificates; no secret is printed. */
import { execFileSync } from 'node:child_process';
import { inspect } from 'node:util';
import { load } from 'js-yaml';
import { expect, test } from 'vitest';
import { duration } from '../../../src/base/duration.ts';
import { Secret } from '../../../src/base/secret.ts';
import { handout } from '../../../src/pki/handout.ts';
import { LEAF_NAMES } from '../../../src/pki/hierarchy.ts';
import { discoveryHash, PrivateKey } from '../../../src/pki/keys.ts';
import { primaryOf, signingCertificate, trustBundle } from '../../../src/pki/keyset.ts';
import { AUTHORITY_NAMES } from '../../../src/pki/keysets.ts';
import { kubeconfigText } from '../../../src/pki/kubeconfig.ts';
import { openPki } from '../../../src/pki/pki.ts';
import { openSecrets } from '../../../src/pki/secrets.ts';
import { serverCertificate } from '../../../src/pki/server-certificate.ts';
import { newVaultKey, vaultFrom } from '../../../src/pki/vault.ts';
import * as views from '../../../src/pki/views.ts';
import { CP1, GOLDEN, world } from './kit.ts';

const servers = { endpoint: 'https://api.golden.test:6443', local: 'https://10.0.0.11:6443' };

test('a cluster that is founded twice concurrently has one set of keys', async () => {
  const { store, clock } = await world();
  const pki = openPki({ store, clock, vault: vaultFrom(newVaultKey(), 't') });
  const [a, b] = await Promise.all([pki.found('twice'), pki.found('twice')]);
  const ids = (keysets: typeof a) => [...keysets].map(([name, { primary }]) => `${name} ${primary}`).sort();
  expect(ids(a)).toEqual(ids(b));
  expect(ids(await pki.found('twice'))).toEqual(ids(a));
});

test('a cluster that was not founded has no keys and issues nothing', async () => {
  const { pki } = await world();
  const publicKey = (await PrivateKey.generate()).publicKey();
  await expect(pki.keysets('other')).rejects.toMatchObject({ code: 'E_NO_KEYS' });
  const order = { leaf: 'admin', holder: CP1, cluster: GOLDEN, publicKey } as const;
  await expect(pki.issue('other', order)).rejects.toMatchObject({ code: 'E_PKI' });
});

test('of two concurrent steps of a rotation, the second must be repeated', async () => {
  const { pki, keysets } = await world();
  const before = (await keysets()).get('ca')!;
  const results = await Promise.allSettled(
    [1, 2].map(() => pki.change('golden', 'ca', (keyset) => ({ ...keyset }))),
  );
  expect(results.map(({ status }) => status).sort()).toEqual(['fulfilled', 'rejected']);
  expect(results.find((one) => one.status === 'rejected')?.reason).toMatchObject({ code: 'E_CONFLICT' });
  expect((await keysets()).get('ca')!.primary).toBe(before.primary);
});

test('the ledger has every issued certificate with its holder and expiry', async () => {
  const { pki, leaves, clock, keysets } = await world();
  await leaves();
  const issued = await pki.issued('golden');
  const mine = [...(await pki.issued('_muster')), ...(await pki.issued('_bmcs'))];
  expect([...issued, ...mine].map(({ leaf }) => leaf).sort()).toEqual([...LEAF_NAMES].sort());
  expect(new Set(issued.map(({ serial }) => serial)).size).toBe(issued.length);
  const applier = issued.find(({ leaf }) => leaf === 'applier')!;
  expect(applier).toMatchObject({ to: 'cp1', subject: 'O = system:masters, CN = muster-applier' });
  const shown = () => views.certificateView(applier, clock.now()).state;
  expect(shown()).toBe('valid');
  clock.advance((55 * 60_000) as never);
  expect(shown()).toBe('expiring');
  clock.advance((5 * 60_000) as never);
  expect(shown()).toBe('expired');
  const status = views.pkiStatusView(
    { keysets: (await keysets()).values(), issued, standing: () => 'current' },
    clock.now(),
    duration('90d'),
  );
  // Both are valid for an hour; the one that expires first is listed first.
  expect(status.certificates.slice(0, 2).map(({ leaf }) => leaf)).toEqual(
    expect.arrayContaining(['applier', 'muster-admin']),
  );
  const ca = status.keysets.find(({ name }) => name === 'ca')!.generations[0]!;
  expect(ca.dependents).toMatchObject({ kubelet: ['cp1'], apiserver: ['cp1'] });
});

test('the discovery hash equals the one that openssl computes from the certificate', async () => {
  const ca = (await (await world()).keysets()).get('ca')!;
  const sh = 'openssl x509 -pubkey -noout | openssl pkey -pubin -outform der | sha256sum';
  const expected = execFileSync('sh', ['-c', sh], { input: signingCertificate(ca), encoding: 'utf8' });
  expect(discoveryHash(primaryOf(ca).publicKey)).toBe(`sha256:${expected.slice(0, 64)}`);
});

test('a text that is not a private key is refused, and the error does not contain it', () => {
  const bad = '-----BEGIN EC FOO-----\nc2VjcmV0\n';
  expect(() => PrivateKey.fromPem(bad)).toThrow('not a private key in PEM');
});

test('kubeconfigs have the same content as kubeadm’s', async () => {
  const of = await world();
  const files = handout({
    roles: ['control-plane', 'etcd', 'operator'],
    cluster: 'golden',
    user: 'cp1',
    keysets: await of.keysets(),
    leaves: await of.leaves(),
    signing: await of.signing('cp1'),
    servers,
  });
  const facts = files.flatMap(({ path, content }) => {
    if (!path.endsWith('.conf') || content.kind === 'link') return [];
    const text =
      content.kind === 'secret' ? content.secret.reveal() : content.kind === 'text' ? content.text : '';
    // biome-ignore lint/suspicious/noExplicitAny: a document as kubectl reads it
    const config = load(text) as any;
    const { server: _, ...trust } = config.clusters[0].cluster;
    const data = trust['certificate-authority-data'];
    if (data !== undefined) expect(Buffer.from(data, 'base64').toString()).toMatch(/BEGIN CERT/);
    return [
      [
        path.replace('/etc/kubernetes/', ''),
        config.clusters[0].cluster.server,
        config.clusters[0].name,
        config['current-context'],
        config.users[0].name,
        Object.keys(config.users[0].user).join(),
        data === undefined ? trust['certificate-authority'] : 'embedded',
      ].join(' '),
    ];
  });
  const data = 'client-certificate-data,client-key-data embedded';
  const named = (user: string) => `golden ${user}@golden ${user}`;
  const manager = `${servers.local} ${named('system:kube-controller-manager')}`;
  const scheduler = `${servers.local} ${named('system:kube-scheduler')}`;
  const byFile = 'client-certificate,client-key /etc/kubernetes';
  expect(facts.sort()).toEqual([
    `/run/muster/applier.conf ${servers.local} ${named('muster-applier')} ${data}`,
    `admin.conf ${servers.endpoint} ${named('kubernetes-admin')} ${data}`,
    `controller-manager.conf ${manager} ${data}`,
    `controller-manager/controller-manager.conf ${manager} ${byFile}/controller-manager/ca-bundle.crt`,
    `kubelet.conf ${servers.local} ${named('system:node:cp1')} ${byFile}/pki/ca-bundle.crt`,
    `scheduler.conf ${scheduler} ${data}`,
    `scheduler/scheduler.conf ${scheduler} ${byFile}/scheduler/ca-bundle.crt`,
    `super-admin.conf ${servers.endpoint} ${named('kubernetes-super-admin')} ${data}`,
  ]);
});

test('a kubeconfig for a machine’s own key is complete when the key’s base64 is appended', async () => {
  const of = await world();
  const { certificate, key } = (await of.leaves()).get('scheduler')!;
  const common = { cluster: 'golden', server: servers.local, caBundle: 'x', user: 'u' };
  const head = kubeconfigText({ ...common, credential: { kind: 'own-key', certificate } });
  const whole = `${head}${Buffer.from(key.pem()).toString('base64')}\n`;
  expect(load(whole)).toEqual(
    load(kubeconfigText({ ...common, credential: { kind: 'embedded', certificate, key } })),
  );
});

test('a bootstrap kubeconfig has its token only in the text', () => {
  const token = new Secret('abcdef.0123456789abcdef');
  const config = {
    cluster: 'c',
    server: 'https://x',
    caBundle: 'y',
    user: 'tls-bootstrap-token-user',
    credential: { kind: 'token' as const, token },
  };
  expect(kubeconfigText(config)).toContain('token: "abcdef.0123456789abcdef"'.replaceAll('"', ''));
  expect(JSON.stringify(config) + inspect(config, { depth: 9 })).not.toContain('0123456789');
});

/**
 * The traces of a printed private key: the lines of its PEM that hold the private number, the
 * number itself in three alphabets, and the PEM in base64. (The later lines of an EC key's PEM are
 * its public half.)
 */
function traces(key: PrivateKey): readonly [string, ...string[]] {
  const pem = key.pem();
  const secret = Buffer.from(String(key.object.export({ format: 'jwk' }).d), 'base64url');
  return [
    Buffer.from(pem).toString('base64').slice(60, 100),
    pem.split('\n')[1]!,
    secret.toString('hex'),
    secret.toString('base64url'),
    secret.toString('base64'),
  ];
}

test('no view, log line, error or inspection shows a private key', async () => {
  const of = await world();
  const all = await of.keysets();
  const made = await of.leaves();
  const issued = await of.pki.issued('golden');
  const now = of.clock.now();
  const encryption = (await of.pki.encryption('golden'))!;
  const files = handout({
    roles: ['control-plane', 'etcd', 'operator'],
    cluster: 'golden',
    user: 'cp1',
    keysets: all,
    leaves: made,
    signing: await of.signing('cp1'),
    servers,
  });
  const { certificate, key } = made.get('admin')!;
  const kubeconfig = {
    cluster: 'c',
    server: 's',
    caBundle: trustBundle(all.get('ca')!),
    user: 'u',
    credential: { kind: 'embedded' as const, certificate, key },
  };
  // Covers every function of the module that makes a view; a new one without an example fails here.
  const examples: Record<Exclude<keyof typeof views, never>, () => unknown> = {
    keysetView: () =>
      [...all.values()].map((keyset) =>
        views.keysetView(keyset, { keysets: [], issued, standing: () => 'current' }, now),
      ),
    encryptionView: () => views.encryptionView(encryption),
    certificateView: () => issued.map((one) => views.certificateView(one, now)),
    pkiStatusView: () =>
      views.pkiStatusView({ keysets: all.values(), issued, standing: () => 'current' }, now, now),
  };
  expect(Object.keys(examples).sort()).toEqual(Object.keys(views).sort());
  const values = [...Object.values(examples).map((make) => make()), kubeconfig, all, files, made, issued];
  const printed = values
    .flatMap((value) => [
      JSON.stringify(value),
      JSON.stringify(value instanceof Map ? [...value] : value),
      inspect(value, { depth: 20, showHidden: true }),
      String(value),
      `${new Error('x', { cause: value })}`,
      inspect(new Error('x', { cause: value }), { depth: 20 }),
    ])
    .join('\n');
  expect(printed).not.toMatch(/PRIVATE/);
  const keys = [
    ...(await Promise.all(AUTHORITY_NAMES.map((name) => of.keyOf(name)))),
    ...[...made.values()].map((held) => held.key),
  ];
  for (const one of keys) for (const trace of traces(one)) expect(printed.includes(trace)).toBe(false);
  // The text of the key itself has all traces.
  expect(kubeconfigText(kubeconfig)).toContain(traces(key)[0]);
});

test('no record of the store holds a private key in the clear', async () => {
  const of = await world();
  await of.leaves();
  const { records } = await of.store.list('pki/');
  const text = records.map(({ value }) => value).join('\n');
  expect(text).not.toContain('PRIVATE');
  for (const name of AUTHORITY_NAMES)
    for (const trace of traces(await of.keyOf(name))) expect(text.includes(trace)).toBe(false);
});

test('a listener whose stored certificate cannot be read gets a new one', async () => {
  const { pki, store, clock } = await world();
  const secrets = openSecrets({ store, vault: vaultFrom(newVaultKey(), 't') });
  const make = () => serverCertificate({ pki, secrets, clock }, ['10.77.0.1']);
  const first = await make();
  expect((await make()).certificate).toBe(first.certificate);
  const whole = JSON.parse((await secrets.get('server'))!);
  for (const torn of ['null', '{', '{}', { ...whole, key: 'k' }, { ...whole, certificate: 'c' }]) {
    await secrets.put('server', typeof torn === 'string' ? torn : JSON.stringify(torn));
    const next = await make();
    expect(next.certificate).toContain('BEGIN CERTIFICATE');
    expect((await make()).certificate).toBe(next.certificate);
  }
});
