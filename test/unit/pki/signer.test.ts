/**
 * The signer, through its sockets: what a server gets of it, and what one that was taken over does
 * not get. Each test whose title begins with "A server that was taken over" is a row of the table
 * in docs/security.md.
 */
import { createPublicKey, X509Certificate } from 'node:crypto';
import fs from 'node:fs';
import path from 'node:path';
import { afterAll, beforeAll, expect, test } from 'vitest';
import { ManualClock, systemClock } from '../../../src/base/clock.ts';
import { duration, type Millis } from '../../../src/base/duration.ts';
import { silentLog } from '../../../src/base/log.ts';
import { auditVerifier } from '../../../src/events/audit-verify.ts';
import { newGeneration } from '../../../src/pki/issue.ts';
import { PrivateKey } from '../../../src/pki/keys.ts';
import { type Generation, primaryOf } from '../../../src/pki/keyset.ts';
import { AUTHORITY_NAMES, type KeysetName } from '../../../src/pki/keysets.ts';
import { openPki, type Pki } from '../../../src/pki/pki.ts';
import { openSecrets } from '../../../src/pki/secrets.ts';
import { NO_CLUSTER } from '../../../src/pki/server-certificate.ts';
import { SignerClient } from '../../../src/pki/signer/client.socket.ts';
import { openInventory } from '../../../src/pki/signer/inventory.files.ts';
import type { SignerStatus } from '../../../src/pki/signer/orders.ts';
import { REQUEST_KINDS } from '../../../src/pki/signer/requests.ts';
import { runSigner } from '../../../src/pki/signer/run.socket.ts';
import { isSigned } from '../../../src/pki/signer/signing-key.ts';
import { newVaultKey, vaultOver } from '../../../src/pki/vault.ts';
import { BMC_SCOPE, KEYS, MUSTER_SCOPE } from '../../../src/store/keys.ts';
import { openMemoryStore } from '../../../src/store/memory.ts';
import { scopeOf, temporary } from './kit.ts';

const machine = (name: string, n: number): string => `---
apiVersion: muster/v1
kind: Machine
metadata: {name: ${name}}
spec: {macs: ["52:54:00:aa:00:0${n}"]}
`;
const DOCUMENTS = `${machine('cp1', 1)}${machine('w1', 2)}${machine('stray', 3)}---
apiVersion: muster/v1
kind: Cluster
metadata: {name: blue}
spec:
  trust: approved
  kubernetes:
    version: 1.34.1
    endpoint: 10.0.0.10
    controlPlanes: [cp1]
    workers: [w1]
`;

const directory = temporary();
const vaultKey = newVaultKey();
let stop: AbortController;
const store = openMemoryStore();
let running: Promise<void>;
let server: SignerClient;
let operator: SignerClient;
let pki: Pki;

const at = (name: string): string => path.join(directory.path, name);
const order = (kind: string, body: unknown = {}): Promise<unknown> => operator.request(kind, body);
const logged = (): string =>
  fs
    .readdirSync(at('state/audit'))
    .map((file) => fs.readFileSync(path.join(at('state/audit'), file), 'utf8'))
    .join('');

beforeAll(async () => {
  fs.mkdirSync(at('documents'));
  directory.write('documents/all.yaml', DOCUMENTS);
  directory.write('vault.key', `${vaultKey}\n`);
  await start();
  server = new SignerClient(at('run/server.sock'));
  operator = new SignerClient(at('run/operator.sock'));
  pki = openPki({ store, clock: systemClock, vault: vaultOver(server.ask) });
  await pki.found('blue');
  await pki.found(MUSTER_SCOPE);
  await pki.found(BMC_SCOPE);
});

async function start(): Promise<void> {
  stop = new AbortController();
  const ready = Promise.withResolvers<void>();
  running = runSigner(
    {
      state: at('state'),
      config: at('documents'),
      vaultKey: at('vault.key'),
      directory: at('run'),
    },
    { log: silentLog, signal: stop.signal, ready: ready.resolve },
  );
  await Promise.race([ready.promise, running]);
}

afterAll(async () => {
  stop.abort();
  await running;
  await server[Symbol.asyncDispose]();
  await operator[Symbol.asyncDispose]();
  directory[Symbol.dispose]();
});

const leaf = async (name: 'kubelet' | 'apiserver' | 'agent' | 'person', holder: string, scope = 'blue') => {
  const publicKey = (await PrivateKey.generate()).publicKey();
  return pki.issue(scope, {
    leaf: name,
    holder: { name: holder, addresses: ['10.0.0.11'] },
    cluster: { ...NO_CLUSTER, name: scope },
    publicKey,
  });
};
const generation = async (name: KeysetName, scope = 'blue'): Promise<Generation> =>
  primaryOf((await pki.keysets(scope)).get(name)!);
const sealedOf = ({ id, sealed, certificate }: Generation) => ({ id, sealed, certificate });
const REFUSED = { code: 'E_SIGNER_REFUSED' };

test('a server founds clusters, issues certificates and hands out keys without the key of the vault', async () => {
  const { certificate } = await leaf('kubelet', 'w1');
  const ca = await generation('ca');
  expect(new X509Certificate(certificate).verify(new X509Certificate(ca.certificate!).publicKey)).toBe(true);
  expect((await leaf('agent', 'w1', MUSTER_SCOPE)).subject).toBe('O = muster:agents, CN = w1');
  const given = await pki.handedOut('blue', 'cp1', await pki.keysets('blue'));
  expect([...given.keys()].sort()).toEqual(['ca', 'sa']);
  expect(PrivateKey.fromPem(given.get('ca')!.reveal()).publicKey().pin()).toBe(ca.publicKey.pin());
  const secrets = openSecrets({ store, vault: vaultOver(server.ask) });
  await secrets.put('x', 'secret text');
  expect(await secrets.get('x')).toBe('secret text');
});

test('a rotation through the signer makes bridges, and what the new CA signs is accepted', async () => {
  const old = await generation('etcd-ca');
  const { generation: next } = await pki.transition('blue', 'etcd-ca', { do: 'make' });
  const made = (await pki.keysets('blue')).get('etcd-ca')!.made[0]!;
  expect(made.bridges?.map(({ issuer }) => issuer)).toEqual([old.id]);
  const { state } = await pki.transition('blue', 'etcd-ca', { do: 'promote', generation: next });
  expect(state.primary).toBe(next);
  expect(await pki.rewrap()).toBe(0);
});

test('A server that was taken over gets a kubelet’s certificate for no machine outside of the inventory', async () => {
  await expect(leaf('kubelet', 'invented')).rejects.toMatchObject(REFUSED);
  await expect(leaf('agent', 'invented', MUSTER_SCOPE)).rejects.toThrow(/not a machine of the inventory/);
  await expect(leaf('kubelet', 'w1', 'blue2')).rejects.toThrow();
  await expect(leaf('kubelet', 'stray')).rejects.toThrow(
    /stray is not a machine of the inventory in cluster blue/,
  );
});

test('A server that was taken over gets no control plane’s certificate for a worker', async () => {
  await expect(leaf('apiserver', 'w1')).rejects.toThrow(/w1 is not approved as control-plane of blue/);
});

test('A server that was taken over gets 24 certificates of a kind for a machine, then six an hour', async () => {
  const body = {
    scope: 'blue',
    generation: sealedOf(await generation('ca')),
    leaf: 'kubelet',
    holder: { name: 'cp1', addresses: [] },
    cluster: NO_CLUSTER,
    publicKey: (await PrivateKey.generate()).publicKey().spki.toString('base64'),
    now: Date.now(),
  };
  for (let n = 0; n < 24; n++) await server.request('issue', body);
  await expect(server.request('issue', body)).rejects.toThrow(/was asked for often lately; again in 10 min/);
  // The limit counts by the signer's own clock.
  const clock = new ManualClock(Date.now() as Millis);
  const site = openInventory({ documents: undefined, file: at('none.json'), clock });
  for (let n = 0; n < 24; n++) expect(site.take('x')).toBeUndefined();
  let more = 0;
  for (let minute = 0; minute < 60; minute++) {
    if (site.take('x') === undefined) more++;
    clock.advance(duration('1m'));
  }
  expect(more).toBeLessThanOrEqual(6);
});

test('A server that was taken over gets the key of a cluster’s CA for approved control planes alone', async () => {
  const keysets = await pki.keysets('blue');
  for (const name of ['w1', 'stray', 'invented'])
    await expect(pki.handedOut('blue', name, keysets)).rejects.toMatchObject(REFUSED);
  await order('approve', { machines: ['stray'], cluster: 'blue', roles: ['control-plane', 'etcd'] });
  expect((await pki.handedOut('blue', 'stray', keysets)).size).toBe(2);
  await order('withdraw', { machines: ['stray'] });
  const again = {
    scope: 'blue',
    keyset: 'ca',
    machine: 'stray',
    generation: sealedOf(await generation('ca')),
  };
  const { certificate: _, ...asked } = again.generation;
  await expect(server.request('handOut', { ...again, generation: asked })).rejects.toMatchObject(REFUSED);
});

test('A server that was taken over gets the keys of etcd’s, the front proxy’s and Muster’s own CA for nobody', async () => {
  for (const name of AUTHORITY_NAMES.filter((one) => one !== 'ca')) {
    const scope = scopeOf(name, 'blue');
    const { id, sealed } = await generation(name, scope);
    const record = `${KEYS.keyset.key(scope, name)}/${id}`;
    const asked = { scope, keyset: name, generation: { id, sealed } };
    await expect(server.request('handOut', { ...asked, machine: 'cp1' })).rejects.toMatchObject(REFUSED);
    await expect(server.request('export', asked)).rejects.toMatchObject(REFUSED);
    await expect(server.request('open', { record, sealed })).rejects.toMatchObject(REFUSED);
    // Under another name it does not open.
    for (const wrong of [`x/${id}`, `${record}/`, 'pki/_muster/secret/x'])
      await expect(server.request('open', { record: wrong, sealed })).rejects.toMatchObject({
        message: expect.any(String),
      });
    const other = { scope, keyset: 'sa', machine: 'cp1', generation: { id, sealed } };
    await expect(server.request('handOut', other)).rejects.toThrow();
    const twisted = { ...other, scope: `${scope}/keyset/${name}/` };
    await expect(server.request('handOut', twisted)).rejects.toMatchObject({ code: 'E_SIGNER' });
  }
});

test('A server that was taken over exports no key, and brings no CA of its own, unless a person at the host allows it', async () => {
  const own = await newGeneration('ca', { now: Date.now() as Millis });
  await expect(pki.take('blue', 'ca', own)).rejects.toThrow(/nobody at the host has allowed/);
  const record = `${KEYS.keyset.key('blue', 'ca')}/${own.id}`;
  await expect(server.request('seal', { record, text: own.key.pem() })).rejects.toMatchObject(REFUSED);
  const ca = await generation('ca');
  await expect(pki.exported('blue', 'ca', ca)).rejects.toThrow(/nobody at the host has allowed/);
  // A key that is not sealed as one of the cluster gets no bridge.
  const { sealed } = await generation('ca');
  const bridge = { id: own.id, sealed, certificate: own.certificate };
  const asked = { scope: 'blue', keyset: 'ca', now: Date.now(), bridgesFrom: [bridge] };
  await expect(server.request('make', asked)).rejects.toThrow();

  await order('allow', { what: 'export' });
  expect((await pki.exported('blue', 'ca', ca)).reveal()).toContain('PRIVATE KEY');
  await expect(pki.take('blue', 'ca', own)).rejects.toMatchObject(REFUSED);
  await order('allow', { what: 'import' });
  expect((await pki.take('blue', 'ca', own)).id).toBe(own.id);
});

test('what is allowed ends after five minutes by the signer’s clock', () => {
  const clock = new ManualClock(Date.now() as Millis);
  const site = openInventory({ documents: undefined, file: at('none.json'), clock });
  site.allow('export');
  clock.advance(duration('4m59s'));
  expect([site.proved('export'), site.proved('import')]).toEqual([true, false]);
  clock.advance(duration('2s'));
  expect(site.proved('export')).toBe(false);
});

test('A server that was taken over approves and allows nothing: those orders have a socket of their own', async () => {
  for (const kind of ['approve', 'allow', 'withdraw', 'status', '__proto__', 'constructor'])
    await expect(server.request(kind, { what: 'export' })).rejects.toMatchObject({ code: 'E_SIGNER' });
  for (const kind of REQUEST_KINDS)
    await expect(order(kind, { what: 'export' })).rejects.toMatchObject({ code: 'E_SIGNER' });
  for (const name of ['server.sock', 'operator.sock'])
    expect(fs.statSync(at(`run/${name}`)).isSocket()).toBe(true);
  expect(fs.statSync(at('run')).mode & 0o777).toBe(0o700);
});

test('A server that was taken over signs for no other time than now', async () => {
  const clock = new ManualClock((Date.now() - duration('1h')) as Millis);
  const early = openPki({ store, clock, vault: vaultOver(server.ask) });
  const publicKey = (await PrivateKey.generate()).publicKey();
  const what = {
    leaf: 'person',
    holder: { name: 'ada', addresses: [] },
    cluster: NO_CLUSTER,
    publicKey,
  } as const;
  await expect(early.issue('blue', what)).rejects.toThrow(/clock differs/);
});

test('A server that was taken over gets certificates for persons, and each is in the log of the signer', async () => {
  await leaf('person', 'eve');
  await expect.poll(logged).toContain('"subject":"eve"');
  const text = logged();
  for (const kind of ['issue', 'handOut', 'make', 'take', 'export', 'open', 'seal'])
    expect(text).toContain(`"request":"${kind}"`);
  expect(text).toContain('"kind":"signer.refused"');
  expect(text).toContain('"kind":"signer.allowed"');
  expect(text).toContain('"kind":"signer.approved"');
  expect(text).not.toContain('PRIVATE');
  expect(text).not.toContain('secret text');
});

test('A server that was taken over opens what the server needs for its work, and each is in the log of the signer', async () => {
  const vault = vaultOver(server.ask);
  const given = KEYS.givenSecret.key('registry', 'password');
  expect(await vault.open(given, await vault.seal(given, 'a value'))).toBe('a value');
  const [mine, other] = ['w1', 'invented'].map((name) => KEYS.dataKey.key(name, 'f')) as [string, string];
  expect(await vault.open(mine, await vault.seal(mine, 'of a disk'))).toBe('of a disk');
  await expect(vault.open(other, await vault.seal(other, 'x'))).rejects.toThrow(
    /not a machine of the inventory/,
  );
  await expect.poll(logged).toContain(`"subject":"${mine}"`);
  expect(logged()).toContain(`"subject":"${given}"`);
});

test('A server that was taken over has any backup signed, and its hash is in the log of the signer', async () => {
  const sha256 = 'ab'.repeat(32);
  expect(isSigned(await vaultOver(server.ask).signBackup(sha256), sha256)).toBe(true);
  await expect.poll(logged).toContain(sha256);
});

test('lines that are no requests get an answer, and the signer goes on', async () => {
  for (const body of [undefined, null, [], 'x', { record: 1 }, { record: 'r', sealed: {}, more: 1 }])
    await expect(server.request('open', body)).rejects.toMatchObject({ code: expect.stringMatching(/^E_/) });
  expect(await vaultOver(server.ask).keys()).toMatchObject({
    ids: [expect.stringMatching(/^[0-9a-f]{16}$/)],
  });
});

test('a server asks on when the signer was restarted, and what was admitted and logged stays', async () => {
  await order('approve', { machines: ['stray'], cluster: 'blue', roles: ['worker'] });
  const { log } = (await order('status')) as SignerStatus;
  stop.abort();
  await running;
  const asked = leaf('kubelet', 'stray');
  await start();
  expect((await asked).to).toBe('stray');
  expect(((await order('status')) as SignerStatus).log.entries).toBeGreaterThan(log.entries);
});

test('the log of the signer is one that `muster audit verify` finds whole, signed with the key that it shows', async () => {
  const { signs } = (await order('status')) as SignerStatus;
  stop.abort();
  await running;
  const verifier = auditVerifier(new Map([[signs.id, createPublicKey(signs.pem)]]));
  for (const line of logged().trimEnd().split('\n')) verifier.line(line, 'log');
  const verdict = verifier.end();
  expect(verdict).toMatchObject({ ok: true, problems: [] });
  // The last entry is the checkpoint itself.
  expect(verdict.signedTo).toBe(verdict.last! - 1);
});

test('every test that the table in docs/security.md names is there', () => {
  const text = fs.readFileSync('docs/security.md', 'utf8');
  const table = text.slice(text.indexOf('| with its socket it'), text.indexOf('The tests without a file'));
  const rows = table
    .split('\n')
    .filter((line) => line.startsWith('| ') && !line.startsWith('| ---'))
    .slice(1);
  expect(rows.length).toBeGreaterThan(12);
  const here = ['test/unit/pki/signer.test.ts', 'test/peers/systemd-manager.test.ts'];
  const tests = here.map((file) => fs.readFileSync(file, 'utf8')).join('');
  for (const row of rows) {
    const cell = row.split(' | ').at(-1)!;
    const named = [...cell.matchAll(/`([^`]+)`/g)].map(([, name]) => name!);
    if (named.length === 0) expect(cell).toMatch(/^(the same|not prevented) \|$/);
    for (const name of named) if (!name.endsWith('.ts')) expect(tests, row).toContain(name);
  }
});
