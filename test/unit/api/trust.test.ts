/**
 * Keys, certificates and kubeconfigs as operators get them, through the command line and the
 * socket. openssl verifies them.
 */
import { execFileSync } from 'node:child_process';
import { X509Certificate } from 'node:crypto';
import fs from 'node:fs';
import path from 'node:path';
import { load } from 'js-yaml';
import { afterEach, expect, test } from 'vitest';
import type { Millis } from '../../../src/base/duration.ts';
import { connectApi } from '../../../src/cli/client.socket.ts';
import { PrivateKey } from '../../../src/pki/keys.ts';
import { NO_CLUSTER } from '../../../src/pki/server-certificate.ts';
import { MUSTER_SCOPE } from '../../../src/store/keys.ts';
import { run } from '../cli/run.ts';
import { DOCUMENTS, openWorld, type World } from './world.ts';

const CLUSTER = `${DOCUMENTS}---
apiVersion: muster/v1
kind: Machine
metadata: {name: cp1}
spec: {macs: ["52:54:00:aa:00:11"], profile: worker, addresses: [10.77.0.11]}
---
apiVersion: muster/v1
kind: Cluster
metadata: {name: one}
spec: {trust: segment, kubernetes: {version: "1.36", endpoint: api.one.test, controlPlanes: [cp1]}}
`;

let world: World;
afterEach(() => world.close());

const muster = (...args: string[]) => run(args, { socket: world.socket });

test('a kubeconfig has the cluster’s endpoint and a new certificate that the cluster’s CA signed', async () => {
  world = await openWorld(CLUSTER);
  const early = await muster('kubeconfig', 'one', '--user', 'jane');
  expect(early.code).toBe(1);
  expect(early.err).toMatch(/one has no keys yet \(E_NO_KEYS\)\n.*power its machines on/);
  await world.pki.found('one');
  const { code, out } = await muster('kubeconfig', 'one', '--user', 'jane');
  expect(code).toBe(0);
  const config = load(out) as {
    clusters: { cluster: { server: string; 'certificate-authority-data': string } }[];
    users: { name: string; user: { 'client-certificate-data': string; 'client-key-data': string } }[];
  };
  expect(config.clusters[0]!.cluster.server).toBe('https://api.one.test:6443');
  const { user } = config.users[0]!;
  const file = (name: string, base64: string): string => {
    const at = path.join(world.directory, name);
    fs.writeFileSync(at, Buffer.from(base64, 'base64'));
    return at;
  };
  const [ca, certificate] = [
    file('ca.crt', config.clusters[0]!.cluster['certificate-authority-data']),
    file('jane.crt', user['client-certificate-data']),
  ];
  const at = String(Math.floor(world.clock.now() / 1000));
  execFileSync('openssl', ['verify', '-attime', at, '-purpose', 'sslclient', '-CAfile', ca, certificate]);
  const read = new X509Certificate(fs.readFileSync(certificate));
  expect(read.subject).toBe('O=kubeadm:cluster-admins\nCN=jane');
  expect(Date.parse(read.validTo) - world.clock.now()).toBe(12 * 3_600_000);
  const key = PrivateKey.fromPem(Buffer.from(user['client-key-data'], 'base64').toString());
  expect(read.checkPrivateKey(key.object)).toBe(true);
  const again = await muster('kubeconfig', 'one', '--user', 'jane');
  expect(again.out).not.toBe(out);
  const events = JSON.stringify(world.deps.events.list({ subject: 'Cluster/one' }));
  expect(events).toContain('cluster.kubeconfig');
  expect(events).toContain('"user":"jane"');
});

test('kubectl can fetch certificates for an hour, which are kept until shortly before their end', async () => {
  world = await openWorld(CLUSTER);
  await world.pki.found('one');
  world.clock.leap((Date.now() - world.clock.now()) as Millis);
  const env = { XDG_CACHE_HOME: world.directory, USER: 'jane' };
  const kubectl = (...args: string[]) => run(['kubeconfig', 'one', ...args], { socket: world.socket, env });
  const config = load((await kubectl('--exec')).out) as {
    users: { name: string; user: { exec: { command: string; args: string[]; env: object[] } } }[];
  };
  const { name, user } = config.users[0]!;
  expect([name, user.exec]).toMatchObject([
    'jane',
    {
      apiVersion: 'client.authentication.k8s.io/v1',
      command: 'muster',
      args: ['kubeconfig', 'one', '--credential', '--user', 'jane'],
      env: [{ name: 'MUSTER_SOCKET', value: world.socket }],
      interactiveMode: 'Never',
    },
  ]);
  const first = await run(user.exec.args, { socket: world.socket, env });
  const { kind, status } = JSON.parse(first.out);
  const read = new X509Certificate(status.clientCertificateData);
  expect([kind, read.subject]).toEqual(['ExecCredential', 'O=kubeadm:cluster-admins\nCN=jane']);
  expect(Date.parse(read.validTo) - world.clock.now()).toBeLessThanOrEqual(3_600_000);
  expect(read.checkPrivateKey(PrivateKey.fromPem(status.clientKeyData).object)).toBe(true);
  expect((await kubectl('--credential', '--user', 'jane')).out).toBe(first.out);
  expect((await kubectl('--credential', '--user', 'joan')).out).not.toBe(first.out);
  const kept = fs.readdirSync(path.join(world.directory, 'muster/credentials'));
  for (const file of kept)
    expect(fs.statSync(path.join(world.directory, 'muster/credentials', file)).mode & 0o777).toBe(0o600);
});

test('an operator who is logged in gets certificates in the own name only', async () => {
  world = await openWorld(CLUSTER, { https: true });
  await world.pki.found('one');
  const { operators, sessions } = world.deps.accounts;
  await operators.put('ada', [{ role: 'admin' }]);
  const session = (await sessions.begin('ada')).text.reveal();
  const url = `https://127.0.0.1:${world.httpsPort}`;
  const ada = connectApi({ url, authority: world.authority, session });
  for (const what of ['kubeconfig', 'etcd-client', 'credential']) {
    const post = (query: Record<string, string>) => ada.call('POST', `/v1/clusters/one/${what}`, { query });
    await expect(post({ user: 'joan' })).rejects.toMatchObject({ code: 'E_FORBIDDEN' });
    await post({ user: 'ada' });
    await post({});
  }
  const issued = await world.pki.issued('one');
  expect(new Set(issued.map(({ to }) => to))).toEqual(new Set(['ada']));
});

test('a kubeconfig is refused for a user name of Kubernetes itself, and for an unknown cluster', async () => {
  world = await openWorld(CLUSTER);
  await world.pki.found('one');
  for (const user of ['system:admin', '', 'a b', '-x'.repeat(40)]) {
    const answer = await muster('kubeconfig', 'one', `--user=${user}`);
    expect(answer.code, user).not.toBe(0);
  }
  expect((await muster('kubeconfig', 'two', '--user', 'jane')).err).toContain('E_NOT_FOUND');
  expect(await world.pki.issued('one')).toHaveLength(0);
});

test('an etcd client is three files that only their owner can read, and the environment variables for etcdctl', async () => {
  world = await openWorld(CLUSTER);
  await world.pki.found('one');
  const directory = path.join(world.directory, 'etcd');
  const { code, out } = await muster('cluster', 'etcd-client', 'one', directory, '--user', 'jane');
  expect([code, out]).toEqual([
    0,
    [
      "export ETCDCTL_ENDPOINTS='https://10.77.0.11:2379'",
      ...[
        ['CACERT', 'ca.crt'],
        ['CERT', 'client.crt'],
        ['KEY', 'client.key'],
      ].map(([name, file]) => `export ETCDCTL_${name}='${directory}/${file}'`),
      '',
    ].join('\n'),
  ]);
  const at = String(Math.floor(world.clock.now() / 1000));
  const [ca, certificate, key] = ['ca.crt', 'client.crt', 'client.key'].map((file) =>
    path.join(directory, file),
  ) as [string, string, string];
  execFileSync('openssl', ['verify', '-attime', at, '-purpose', 'sslclient', '-CAfile', ca, certificate]);
  const read = new X509Certificate(fs.readFileSync(certificate));
  expect([read.subject, read.issuer]).toEqual(['CN=jane', 'CN=etcd-ca']);
  expect(read.checkPrivateKey(PrivateKey.fromPem(fs.readFileSync(key, 'utf8')).object)).toBe(true);
  expect(fs.statSync(key).mode & 0o777).toBe(0o600);
  expect(JSON.stringify(world.deps.events.list({ subject: 'Cluster/one' }))).toContain('cluster.etcd-client');
  const printed = JSON.parse((await muster('cluster', 'etcd-client', 'one', '-o', 'json')).out) as object;
  expect(printed).toMatchObject({ members: [{ name: 'cp1', url: 'https://10.77.0.11:2379' }] });
  expect((await muster('cluster', 'etcd-client', 'one')).code).toBe(2);
  expect((await muster('cluster', 'etcd-client', 'two', '-o', 'json')).err).toContain('E_NOT_FOUND');
});

test('the status of keys lists every certificate, and shows no private key', async () => {
  world = await openWorld(CLUSTER);
  expect((await muster('pki', 'status')).err).toContain('No keys yet');
  await world.pki.found('one');
  await world.pki.found(MUSTER_SCOPE);
  await muster('kubeconfig', 'one', '--user', 'jane');
  const key = await PrivateKey.generate();
  await world.pki.issue(MUSTER_SCOPE, {
    leaf: 'agent',
    holder: { name: 'cp1', addresses: [] },
    cluster: NO_CLUSTER,
    publicKey: key.publicKey(),
  });
  const { out } = await muster('pki', 'status');
  expect(out).toMatch(/^one +etcd-ca +[0-9a-f]{16} +primary/m);
  expect(out).toMatch(/^muster +transport-ca/m);
  expect(out).toMatch(/^one +person +jane +valid/m);
  // A certificate that the machine's record does not name is not valid.
  expect(out).toMatch(/^muster +agent +cp1 +superseded/m);
  const all = JSON.parse((await muster('pki', 'status', '-o', 'json')).out) as { scope: string }[];
  expect(all.map(({ scope }) => scope).sort()).toEqual(['muster', 'one']);
  expect(JSON.stringify(all)).not.toMatch(/PRIVATE|sealed|"ct"/);
  const one = JSON.parse((await muster('pki', 'status', 'one', '-o', 'json')).out) as { scope: string }[];
  expect(one.map(({ scope }) => scope)).toEqual(['one']);
  expect((await muster('pki', 'status', 'two')).code).toBe(1);
});

test('the secret of tickets is among the keysets, with the one before while its tickets are accepted', async () => {
  world = await openWorld(CLUSTER);
  await world.pki.found(MUSTER_SCOPE);
  const keys = await world.agents.ticketKeys();
  const old = keys.id();
  expect((await muster('pki', 'status')).out).toMatch(
    new RegExp(`^muster +ticket-secret +${old} +primary`, 'm'),
  );
  await keys.replace(old);
  const { out } = await muster('pki', 'status');
  expect(out).toMatch(new RegExp(`^muster +ticket-secret +${keys.id()} +primary +\\d{4}-`, 'm'));
  expect(out).toMatch(new RegExp(`^muster +ticket-secret +${old} +trusted .*\\d{4}-`, 'm'));
});

test("Muster's own keys are rotated without naming a cluster; the status of keys says how far it is", async () => {
  world = await openWorld(CLUSTER);
  expect((await muster('pki', 'rotate', 'transport-ca')).err).toContain('has no keys yet');
  await world.pki.found(MUSTER_SCOPE);
  const preview = await muster('pki', 'rotate', 'all', '--dry-run');
  const steps = preview.out.split('\n').map((line) => line.split(' ')[0]);
  for (const step of ['generate', 'trust', 'issue', 'tickets', 'distrust', 'forget', 'end-tickets'])
    expect(steps).toContain(step);
  expect((await muster('pki', 'rotate', 'ca')).err).toContain('for a key of a cluster, name the cluster');
  expect((await muster('pki', 'rotate', 'transport-ca', '--without', 'cp9')).err).toContain('cp9 is not');
  const unconfirmed = await muster('pki', 'distrust', 'transport-ca', '--now');
  expect(unconfirmed.err).toContain('add --confirm muster');
  const begun = await muster('pki', 'rotate', 'transport-ca', '--pause-before', 'generate');
  expect(begun.out).toContain('own-rotation of muster, ordered by');
  expect(begun.out).toContain('muster change _muster shows how far it is');
  expect((await muster('pki', 'status')).out).toContain(
    'Keys of muster are being rotated, at the step generate (paused): muster change _muster',
  );
  expect((await muster('change', '_muster', 'roll-back')).out).toContain('rolling back');
});

test('the list of machines shows an alarm until the machine is rearmed', async () => {
  world = await openWorld(CLUSTER);
  const member = world.roster.get('cp1')!;
  world.roster.change(member, { alarm: { code: 'other_key', text: 'two keys', at: world.clock.now() } });
  expect((await muster('get', 'machines')).out).toMatch(/^cp1 .*ALARM:other_key$/m);
  expect((await muster('explain', 'cp1')).out).toContain('two keys [other_key]');
  expect(await muster('machine', 'rearm', 'cp1', '--keep')).toMatchObject({
    code: 0,
    out: 'machine/cp1 rearmed\n',
  });
  expect((await muster('get', 'machines')).out).not.toContain('ALARM');
  expect((await muster('machine', 'rearm', 'nobody')).err).toContain('E_NOT_FOUND');
});

test('the status of keys says who renews what, what is due, and what depends on each generation', async () => {
  world = await openWorld(CLUSTER);
  await world.pki.found('one');
  for (const leaf of ['apiserver', 'kubelet'] as const)
    await world.pki.issue('one', {
      leaf,
      holder: { name: 'cp1', addresses: [] },
      cluster: NO_CLUSTER,
      publicKey: (await PrivateKey.generate()).publicKey(),
    });
  await muster('kubeconfig', 'one', '--user', 'jane');
  const { generation } = await world.pki.transition('one', 'ca', { do: 'make' });
  const { out } = await muster('pki', 'status', '--cluster', 'one', '--within', '365d');
  expect(out).toMatch(/^one +ca +[0-9a-f]{16} +primary .*apiserver \(1\), kubelet \(1\), person \(1\)$/m);
  expect(out).toMatch(new RegExp(`^one +ca +${generation} +made `, 'm'));
  expect(out).toMatch(/^one +apiserver +cp1 +valid +\S+ \S+ +agent +\d{4}-/m);
  expect(out).toMatch(/^one .* certificate person +jane +ends; its user asks for another one/m);
  expect(out).toMatch(/^one .* certificate kubelet +cp1 +kubelet renews it/m);
  expect(out).toMatch(
    /^Without the boot host, one keeps running .*: then certificate apiserver of cp1 ends\.$/m,
  );
  const near = await muster('pki', 'status', 'one', '--within', '1h');
  expect(near.out).toContain('Within 1h nothing is renewed and nothing ends.');
  expect((await muster('pki', 'status', '--within', 'soon')).code).toBe(2);
});

test('renewals are ordered for a cluster, a machine or a certificate, and refused for what no machine gets by its plan', async () => {
  world = await openWorld(CLUSTER);
  await world.pki.found('one');
  const { code, out } = await muster('pki', 'renew', 'one', '--certificate', 'kubelet', '--new-keys');
  expect([code, out]).toEqual([
    0,
    'certificate kubelet of the machines of one will be replaced, with new keys, each when its agent polls; see muster pki status one\n',
  ]);
  expect(await world.pki.renewals('one')).toEqual([
    { at: world.clock.now(), leaf: 'kubelet', newKeys: true },
  ]);
  for (const leaf of ['agent', 'person', 'probe', 'nonsense'])
    expect((await muster('pki', 'renew', 'one', '--certificate', leaf)).err, leaf).toContain('E_USAGE');
  expect((await muster('pki', 'renew', 'one', '--machine', 'w9')).err).toContain('E_NOT_FOUND');
  expect((await muster('pki', 'renew', 'two')).err).toContain('E_NOT_FOUND');
});

test('a certificate of a machine that has left the cluster is marked, with its expiry date', async () => {
  world = await openWorld(CLUSTER);
  await world.pki.found('one');
  for (const name of ['cp1', 'w9'])
    await world.pki.issue('one', {
      leaf: 'kubelet',
      holder: { name, addresses: [] },
      cluster: NO_CLUSTER,
      publicKey: (await PrivateKey.generate()).publicKey(),
    });
  const { out } = await muster('pki', 'status', 'one');
  expect(out).toMatch(/^one +kubelet +cp1 +valid +\d{4}-/m);
  expect(out).toMatch(/^one +kubelet +w9 +removed +\d{4}-/m);
});

test('the list of machines marks a machine whose secrets are delivered inline', async () => {
  const worker =
    'metadata: {name: w1}\nspec: {macs: ["52:54:00:aa:00:21"], profile: worker, addresses: [10.77.0.21], delivery: inline}';
  world = await openWorld(
    `${CLUSTER.replace('[cp1]', '[cp1], workers: [w1]')}---\napiVersion: muster/v1\nkind: Machine\n${worker}\n`,
  );
  expect((await muster('get', 'machines')).out).toMatch(/^w1 .*INLINE$/m);
  expect((await muster('get', 'machines')).out).not.toMatch(/^cp1 .*INLINE$/m);
});
