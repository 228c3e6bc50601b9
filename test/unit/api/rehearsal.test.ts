/** `dryRun`: every route that changes something says what it would do, and changes nothing. */
import { createHash } from 'node:crypto';
import path from 'node:path';
import { isDeepStrictEqual } from 'node:util';
import { afterEach, beforeEach, expect, it } from 'vitest';
import { startApi } from '../../../src/api/api.server.ts';
import { isRehearsed, type Method, rehearsal } from '../../../src/api/contract/contract.ts';
import { contractOf, OPERATIONS, type OperationKey } from '../../../src/api/operations.ts';
import { openArtifactBook } from '../../../src/artifacts/book.ts';
import { systemClock } from '../../../src/base/clock.ts';
import { millis } from '../../../src/base/duration.ts';
import { MusterError } from '../../../src/base/errors.ts';
import { silentLog } from '../../../src/base/log.ts';
import { apart, beforeChange, rehearse } from '../../../src/base/rehearsal.ts';
import { type ApiClient, type CallOptions, connectApi } from '../../../src/cli/client.socket.ts';
import { newGeneration } from '../../../src/pki/issue.ts';
import { type Assets, openAssets } from '../../../src/pxe/assets/assets.files.ts';
import { KEYS } from '../../../src/store/keys.ts';
import { openMemoryStore } from '../../../src/store/memory.ts';
import { DOCUMENTS, openWorld, type World } from './world.ts';

const CLUSTER = `apiVersion: muster/v1
kind: Machine
metadata: {name: cp1}
spec: {macs: ["52:54:00:aa:00:11"], profile: worker, addresses: [10.77.0.11], dataDisk: {serial: D}}
---
apiVersion: muster/v1
kind: Cluster
metadata: {name: one}
spec: {trust: segment, kubernetes: {version: "1.36", endpoint: api.one.test, controlPlanes: [cp1]}}
`;
const PROFILE = `apiVersion: muster/v1
kind: Profile
metadata: {name: other}
spec: {image: small}
`;
const FILE = 'a file of a cluster';
const SHA256 = createHash('sha256').update(FILE).digest('hex');

interface Asked {
  readonly query?: Readonly<Record<string, string>>;
  readonly json?: unknown;
  readonly text?: string;
  /**
   * The first change that the server names, `nothing`, or the code of the error that it answers
   * with; `…` at the end is a random identifier.
   */
  readonly would: string;
  /** The request changes nothing that {@link everything} has: it gives something out, say. */
  readonly unseen?: true;
  /** It is not carried out. */
  readonly previewOnly?: true;
}

const KEY = 'ssh-ed25519 AAAAC3NzaC1lZDI1NTE5AAAAIIcNAMZZfRiAAhyBYI15Jz0+Zzx28DEptsF4c2liEcP2';
const confirm = { confirm: 'one' };
const noChange = { would: 'E_CHANGE' };
const SA = { kind: 'rotation', keysets: ['sa'] };
const machines = { machines: ['node-1'] };

interface Values {
  /** A CA with its key, in PEM. */
  readonly certificate: string;
  readonly key: string;
}

/** The body with which a cluster counts as founded: all of its keys are the same one here. */
const keysOfKubeadm = (pair: Values) =>
  Object.fromEntries(['ca', 'etcd-ca', 'front-proxy-ca', 'sa'].map((keyset) => [keyset, pair]));

/** A CA of somebody else. */
async function newValues(): Promise<Values> {
  const { certificate = '', key } = await newGeneration('ca', { now: world.clock.now() });
  return { certificate, key: key.pem() };
}

/**
 * Requests for every route that changes something, in an order in which most of them are carried
 * out. TOKEN, SESSION and ORDER in a path are the identifiers of the first one that there is.
 */
const requests = ({ certificate, key }: Values): readonly (readonly [string, Asked])[] => [
  ['PUT /v1/operators/ada', { json: { grants: [{ role: 'admin' }] }, would: 'put operator/ada' }],
  ['PUT /v1/operators/a b', { json: { grants: [{ role: 'admin' }] }, would: 'E_USAGE' }],
  ['POST /v1/operators/ada/invite', { would: 'put operator/ada' }],
  ['POST /v1/operators/eve/invite', { would: 'E_NOT_FOUND' }],
  [
    'POST /v1/tokens',
    {
      json: { operator: 'ada', label: 'ci', grants: [{ role: 'viewer' }], expires: '30d' },
      would: 'put operator-token/…',
    },
  ],
  ['DELETE /v1/tokens/TOKEN', { would: 'delete operator-token/…' }],
  ['DELETE /v1/machines/node-1/data-keys/none', { would: 'E_NOT_FOUND' }],
  ['DELETE /v1/sessions/SESSION', { would: 'delete operator-session/…' }],
  ['DELETE /v1/pending/ORDER', { would: 'delete order/…' }],
  ['POST /v1/pending/ORDER/confirm', { would: 'carry out order/…' }],
  ['DELETE /v1/operators/ada', { would: 'delete operator/ada' }],
  ['PUT /v1/secrets/s/k', { text: 'value', would: 'put pki/_muster/given/s/k' }],
  ['DELETE /v1/secrets/s/k', { would: 'delete pki/_muster/given/s/k' }],
  ['DELETE /v1/names/lab.example', { would: 'E_NOT_FOUND' }],
  ['POST /v1/hosts/hand-over', { would: 'E_NO_STANDBY' }],
  ['POST /v1/hosts/invitations', { json: { host: 'host2' }, would: 'E_CONFLICT' }],
  ['DELETE /v1/hosts/invitations/host2', { would: 'E_NOT_FOUND' }],
  ['DELETE /v1/hosts/host2', { would: 'E_NOT_FOUND' }],
  ['DELETE /v1/secrets/s', { would: 'E_NOT_FOUND' }],
  ['POST /v1/apply', { text: PROFILE, would: 'preview' }],
  ['PUT /v1/profiles/other', { text: PROFILE.replace('image', 'imgae'), would: 'E_SCHEMA' }],
  ['POST /v1/delete', { json: { documents: [{ kind: 'Profile', name: 'other' }] }, would: 'preview' }],
  ['PUT /v1/profiles/other', { text: PROFILE, would: 'preview' }],
  ['DELETE /v1/profiles/other', { would: 'preview' }],
  ['POST /v1/reload', { would: 'read the configuration again', unseen: true }],
  [
    'POST /v1/machines/add',
    { json: { mac: '52:54:00:aa:00:22', name: 'm2' }, would: 'put document/Machine/m2' },
  ],
  ['POST /v1/power', { json: { order: 'on', machines: ['node-1'] }, would: 'E_BMC' }],
  ['POST /v1/bmcs/rotate', { json: { machines: ['node-1'] }, would: 'E_BMC' }],
  ['POST /v1/bmcs/ca', { would: 'put pki/_bmcs/keyset/bmc-ca' }],
  ['POST /v1/bmcs/search', { would: 'search for Redfish services', unseen: true }],
  ['POST /v1/machines/node-1/identify', { json: {}, would: 'E_BMC' }],
  ['POST /v1/machines/node-1/console', { json: { text: 'root' }, would: 'E_BMC' }],
  ['DELETE /v1/machines/node-1/bmc', { would: 'nothing' }],
  ['POST /v1/machines/node-1/accept', { json: {}, would: 'put machine/node-1' }],
  ['POST /v1/machines/node-1/rearm', { would: 'put machine/node-1' }],
  ['POST /v1/machines/node-1/approve', { json: { code: '7QK-3FD' }, would: 'E_AGENT_WAIT' }],
  ['POST /v1/machines/node-1/install', { json: {}, would: 'E_HOME' }],
  ['POST /v1/machines/node-1/quarantine', { json: { reason: 'lost' }, would: 'put machine/node-1' }],
  ['POST /v1/machines/node-1/release', { would: 'put machine/node-1' }],
  ['POST /v1/machines/node-1/release', { would: 'E_CONFLICT' }],
  ['POST /v1/machines/node-1/take-out', { json: { reason: 'fan' }, would: 'put machine/node-1' }],
  [
    'POST /v1/machines/node-1/wipe',
    { json: { confirm: 'node-1', reason: 'x', level: 'tables' }, would: 'E_LIFE' },
  ],
  ['POST /v1/machines/node-1/test', { json: {}, would: 'E_LIFE' }],
  ['POST /v1/machines/node-1/call-off', { would: 'E_LIFE' }],
  ['POST /v1/machines/node-1/replace', { json: { by: 'node-1', confirm: 'node-1' }, would: 'E_CONFLICT' }],
  ['POST /v1/machines/node-1/rescue', { json: { reason: 'x', key: KEY }, would: 'E_LIFE' }],
  ['POST /v1/machines/node-1/retire', { json: { confirm: 'node-1', reason: 'x' }, would: 'E_LIFE' }],
  ['POST /v1/machines/node-1/bring-back', { would: 'put machine/node-1' }],
  ['PUT /v1/assets/SHA256', { text: FILE, would: 'put asset/SHA256' }],
  ['POST /v1/assets/SHA256/verify', { would: 'nothing' }],
  [
    'POST /v1/artifacts',
    {
      json: {
        artifacts: [
          {
            kind: 'binary',
            name: 'kubelet',
            version: 'v1.36.3',
            arch: 'x86_64',
            form: 'file',
            sha256: SHA256,
          },
        ],
      },
      would: 'put artifact/binary/kubelet/v1.36.3/x86_64',
    },
  ],
  ['DELETE /v1/assets/SHA256', { would: 'E_ASSET_USED' }],
  [
    'DELETE /v1/artifacts',
    {
      query: { name: 'binary/kubelet/v1.36.3/x86_64' },
      would: 'delete artifact/binary/kubelet/v1.36.3/x86_64',
    },
  ],
  ['DELETE /v1/assets/SHA256', { would: 'delete asset/SHA256' }],
  [
    'POST /v1/clusters/one/adopt-kubeadm',
    {
      json: { ...confirm, ...keysOfKubeadm({ certificate, key }) },
      would: 'put pki/one/keyset/ca',
    },
  ],
  ['POST /v1/pki/one/import', { json: { keyset: 'ca', certificate: 'x', key: 'x' }, would: 'E_CA_IMPORT' }],
  ['POST /v1/pki/one/import', { json: { keyset: 'ca', certificate, key }, would: 'put pki/one/keyset/ca' }],
  ['POST /v1/pki/one/renew', { json: { machine: 'cp1' }, would: 'put pki/one/renewals' }],
  ['POST /v1/pki/export', { query: { cluster: 'one' }, would: 'give out the keys of one', unseen: true }],
  [
    'POST /v1/pki/exported',
    { json: { scopes: [{ scope: 'one', generations: [] }] }, would: 'put pki/one/exported' },
  ],
  ['POST /v1/pki/reseal', { would: 'preview', unseen: true }],
  ['POST /v1/clusters/one/kubeconfig', { query: { user: 'ada' }, would: 'put pki/one/issued/…' }],
  ['POST /v1/clusters/one/credential', { query: { user: 'ada' }, would: 'put pki/one/issued/…' }],
  ['POST /v1/clusters/one/etcd-client', { query: { user: 'ada' }, would: 'put pki/one/issued/…' }],
  ['POST /v1/clusters/one/verify', { would: 'probe cluster/one', unseen: true }],
  ['POST /v1/clusters/none/verify', { would: 'E_NOT_FOUND' }],
  [
    'POST /v1/clusters/one.agents/change',
    { json: { kind: 'agent-upgrade' }, would: 'preview', previewOnly: true },
  ],
  ['POST /v1/clusters/one/change', { json: { kind: 'agent-upgrade' }, would: 'E_USAGE' }],
  ['POST /v1/clusters/one/change', { json: SA, would: 'preview', previewOnly: true }],
  ['POST /v1/clusters/one/change', { json: { kind: 'upgrade', to: '1.35.0' }, would: 'E_UPGRADE' }],
  ['POST /v1/clusters/one/change', { json: { kind: 'roll', machines: ['cp1'] }, would: 'E_ROLL' }],
  ['POST /v1/clusters/one/change', { json: { kind: 'heal', machine: 'cp1' }, would: 'E_HEAL' }],
  ['POST /v1/clusters/one/change/pause', noChange],
  ['POST /v1/clusters/one/change/resume', noChange],
  ['POST /v1/clusters/one/change/roll-back', noChange],
  ['POST /v1/clusters/one/change/leave-out', { json: { without: ['cp1'] }, ...noChange }],
  ['POST /v1/pki/one/accept', { json: confirm, would: 'E_CHANGE' }],
  ['POST /v1/clusters/one/found', { json: confirm, would: 'E_FOUNDING' }],
  ['POST /v1/clusters/one/add-node', { json: machines, would: 'put document/Cluster/one' }],
  ['POST /v1/clusters/one/remove-node', { json: { machines: ['none'] }, would: 'E_NOT_FOUND' }],
  ['POST /v1/clusters/one/remove-node', { json: machines, would: 'put founding/one' }],
  ['POST /v1/clusters/one/reclaim-space', { json: confirm, would: 'E_ETCD_SPACE' }],
  ['POST /v1/clusters/one/backup', { would: 'order a snapshot of one' }],
  ['POST /v1/clusters/one/backups/x/verify', { would: 'E_NOT_FOUND' }],
  ['POST /v1/clusters/one/backups/x/content', { would: 'E_NOT_FOUND' }],
  ['POST /v1/clusters/one/restore', { json: { ...confirm, member: 'cp1' }, would: 'E_FOUNDING' }],
  ['POST /v1/clusters/one/adopt', { json: { ...confirm, member: 'cp1' }, would: 'E_FOUNDING' }],
  ['POST /v1/clusters/one/call-off', { json: { member: 'cp1' }, would: 'E_FOUNDING' }],
  ['POST /v1/clusters/one/reset', { json: confirm, would: 'put founding/one' }],
  ['POST /v1/backup', { would: 'give out all keys and records', unseen: true }],
  ['POST /v1/backup/accept', { would: 'put life' }],
];

let world: World;
let assets: Assets;
let api: Awaited<ReturnType<typeof startApi>>;
let client: ApiClient;
beforeEach(async () => {
  world = await openWorld(DOCUMENTS, { second: true });
  const { directory, store, deps } = world;
  assets = await openAssets({
    directory: path.join(directory, 'assets'),
    loaderDirectories: [],
    log: silentLog,
  });
  const book = await openArtifactBook(store);
  const socket = path.join(directory, 'all.sock');
  api = await startApi({ listen: { socket }, deps: { ...deps, assets, artifacts: book } });
  client = connectApi(socket);
  await client.call('POST', '/v1/apply', { body: CLUSTER });
});
afterEach(async () => {
  await api.close();
  await world.close();
});

/** The operations that change something, without log-ins and a person's own passkeys. */
const writes = OPERATIONS.map(({ key }): OperationKey => key).filter(
  (operation) =>
    !operation.startsWith('GET ') && !['open', 'own'].includes(contractOf(operation).access as string),
);
const operationOf = (asked: string): OperationKey | undefined =>
  writes.find((operation) => new RegExp(`^${operation.replace(/:\w+/g, '[^/]+')}$`).test(asked));

/** The records of the store, without the place in the security log, which notes rehearsals too. */
const records = async (): Promise<ReadonlyMap<string, number>> => {
  const all = (await world.store.list('')).records.map(({ key, revision }) => [key, revision] as const);
  return new Map(all.filter(([key]) => key !== KEYS.secret.key('audit-head')));
};

/** Everything that a request can change here. */
async function everything(): Promise<unknown> {
  const { deps, roster } = world;
  return {
    records: await records(),
    machines: roster.list().map(({ name, status }) => [name, JSON.stringify(status)]),
    operators: [deps.accounts.operators.list(), deps.accounts.operators.tokens()],
    sessions: deps.accounts.sessions.list(),
    orders: deps.pending?.list().map(({ id }) => id),
    snapshots: await deps.snapshots.list('one'),
    files: [await assets.list(), await assets.partials()],
    events: deps.events.list({}).filter(({ kind }) => kind !== 'operator.action'),
  };
}

/** What the store wrote between two times. */
function written(before: ReadonlyMap<string, number>, after: ReadonlyMap<string, number>): string[] {
  const put = [...after].filter(([key, revision]) => before.get(key) !== revision);
  const gone = [...before.keys()].filter((key) => !after.has(key));
  return [...put.map(([key]) => `put ${key}`), ...gone.map((key) => `delete ${key}`)];
}

/** The answer of a request, or its error. */
type Outcome = { readonly answer: unknown } | { readonly error: unknown };

async function ask(asked: string, { query, json, text }: Asked, dry: boolean): Promise<Outcome> {
  const [method = '', to = ''] = asked.split(/ (.*)/s);
  const options: CallOptions = {
    query: { ...query, ...(dry && { dryRun: 'true' }) },
    ...(json === undefined ? text !== undefined && { body: text } : { body: { json } }),
  };
  return client.call<unknown>(method, encodeURI(to), options).then(
    (answer) => ({ answer }),
    (error: unknown) => ({ error }),
  );
}

/** The first change that an answer to `dryRun` names, or the code of the error. */
function saidOf(outcome: Outcome, rehearsed: boolean): string {
  if ('error' in outcome)
    return outcome.error instanceof MusterError ? outcome.error.code : 'no error of ours';
  return rehearsed ? (rehearsal.parse(outcome.answer).changes[0] ?? 'nothing') : 'preview';
}

const fits = (said: string, would: string): boolean =>
  would.endsWith('…') ? said.startsWith(would.slice(0, -1)) && said.length >= would.length : said === would;

it('every route that changes something has a preview of its own or is rehearsed, and a request here', () => {
  const asked = requests({ certificate: '', key: '' }).map(([text]) => operationOf(text));
  expect(writes.length).toBeGreaterThan(50);
  expect(writes.filter((operation) => !asked.includes(operation))).toEqual([]);
  for (const operation of writes) {
    const own = contractOf(operation).query?.shape.dryRun !== undefined;
    expect([operation, own || isRehearsed(operation.split(' ')[0] as Method, contractOf(operation))]).toEqual(
      [operation, true],
    );
  }
});

/** Two orders that wait for a second person. */
function holdOrders({ pending }: World['deps']): void {
  const route = { method: 'POST', path: '/v1/machines/:name/quarantine', access: 'operate' } as const;
  const principal = { name: 'ada', by: 'token', grants: [{ role: 'admin' }] } as const;
  const carryOut = () => ({ status: 200 });
  for (const name of ['node-1', 'cp1'])
    expect(() => pending?.hold({ route, params: { name }, body: Buffer.of(), carryOut }, principal)).toThrow(
      MusterError,
    );
}

/** The request with the identifiers of the first token and the first order that waits. */
const filled = (text: string): string =>
  text
    .replace('SESSION', world.deps.accounts.sessions.list()[0]?.id ?? 'none')
    .replace('TOKEN', world.deps.accounts.operators.tokens()[0]?.id ?? 'none')
    .replace('ORDER', world.deps.pending?.list()[0]?.id ?? 'none')
    .replace('SHA256', SHA256);

/** Rehearses a request and carries it out. Returns what is wrong with the rehearsal. */
async function compare(text: string, asked: Asked): Promise<readonly string[]> {
  const operation = operationOf(text)!;
  const request = filled(text);
  const rehearsed = isRehearsed(operation.split(' ')[0] as Method, contractOf(operation));
  const before = await everything();
  const dry = await ask(request, asked, true);
  const said = saidOf(dry, rehearsed);
  const wrong = fits(said, filled(asked.would)) ? [] : [`it says ${said}`];
  if (!isDeepStrictEqual(await everything(), before)) wrong.push('it changed something');
  if (asked.previewOnly) return wrong;
  const was = await records();
  const real = await ask(request, asked, false);
  if ('error' in dry || 'error' in real) {
    const messages = [dry, real].map((one) => ('error' in one ? String(one.error) : 'none'));
    return messages[0] === messages[1] ? wrong : [...wrong, `the errors differ: ${messages.join(' / ')}`];
  }
  const did = written(was, await records());
  const stored = /^(put|delete) (?!asset|order)/.test(said);
  if (stored && !did.some((one) => fits(one, filled(asked.would)))) wrong.push(`it did ${did.join(', ')}`);
  if (said !== 'nothing' && !asked.unseen && isDeepStrictEqual(await everything(), before))
    wrong.push('it did nothing');
  return wrong;
}

it('dryRun changes nothing, and says what the same request then does, or the error that it gets', async () => {
  holdOrders(world.deps);
  await world.deps.accounts.sessions.begin('eve');
  const wrong: string[] = [];
  for (const [text, asked] of requests(await newValues()))
    wrong.push(...(await compare(text, asked)).map((what) => `${text}: ${what}`));
  expect(wrong).toEqual([]);
});

it('dryRun of an order to a change that is under way leaves it as it is', async () => {
  const keys = keysOfKubeadm(await newValues());
  await client.call('POST', '/v1/clusters/one/adopt-kubeadm', { body: { json: { ...confirm, ...keys } } });
  const path = '/v1/clusters/one/change';
  const state = async () => {
    const { paused, back, without, ended } = await client.ask('GET /v1/clusters/:name/change', {
      params: { name: 'one' },
    });
    return { paused, back, without, ended };
  };
  await client.call('POST', path, { body: { json: SA } });
  for (const order of ['pause', 'leave-out', 'resume', 'roll-back']) {
    const asked = order === 'leave-out' ? { json: { without: ['cp1'] }, would: '' } : { would: '' };
    const before = await state();
    const dry = await ask(`POST ${path}/${order}`, asked, true);
    expect([order, saidOf(dry, true)]).toEqual([order, 'put change/one']);
    expect([order, await state()]).toEqual([order, before]);
    expect(await ask(`POST ${path}/${order}`, asked, false)).toHaveProperty('answer');
    expect([order, await state()]).not.toEqual([order, before]);
  }
});

it('a log-in has no dryRun, because it changes nothing of the site', async () => {
  await expect(client.call('POST', '/v1/logout', { query: { dryRun: 'true' } })).rejects.toMatchObject({
    code: 'E_USAGE',
  });
});

it('what a rehearsal left running cannot write either, and other work can', async () => {
  const store = openMemoryStore();
  const put = (key: string) => store.commit([{ key, put: '{"v":1}' }]);
  const later: Promise<unknown>[] = [];
  const changes = await rehearse(async () => {
    expect(await store.commit([])).toMatchObject({ ok: true });
    const both = [put('a'), put('b')];
    later.push(...both);
    await Promise.all(both);
  });
  expect(changes).toEqual(['put a']);
  expect((await Promise.allSettled(later)).map(({ status }) => status)).toEqual(['rejected', 'rejected']);
  await put('c');
  expect((await store.list('')).records.map(({ key }) => key)).toEqual(['c']);
  await expect(rehearse(() => Promise.reject(new Error('refused')))).rejects.toThrow('refused');
  expect(await rehearse(() => 'nothing to do')).toEqual([]);
  expect(() => beforeChange('outside of a rehearsal')).not.toThrow();
});

it('a commit in a rehearsal has the conflicts that the same commit has', async () => {
  const store = openMemoryStore();
  await store.commit([{ key: 'a', put: '{"v":1}' }]);
  const writes = [{ key: 'a', put: '{"v":2}', expect: 'absent' }] as const;
  const real = await store.commit(writes);
  expect(real).toEqual({ ok: false, conflicts: [{ key: 'a', actual: 1 }] });
  await rehearse(async () => expect(await store.commit(writes)).toEqual(real));
});

it('a loop or a timer that a rehearsal begins for all requests is no part of it', async () => {
  const store = openMemoryStore();
  const work = async () => void (await store.commit([{ key: 'a', put: '{"v":1}' }]));
  let timer: Promise<void> | undefined;
  await rehearse(async () => {
    await apart(work);
    timer = new Promise((resolve, reject) => {
      systemClock.after(millis(0), () => void work().then(resolve, reject));
    });
  });
  await timer;
  expect((await store.list('')).revision).toBe(2);
});
