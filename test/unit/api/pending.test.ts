/** Orders that wait for a second person or need a fresh log-in, over real HTTPS. */
import { afterEach, beforeEach, expect, it } from 'vitest';
import type { Grant } from '../../../src/api/access.ts';
import { type Answer, ROUTES } from '../../../src/api/operations.ts';
import { duration, type Millis } from '../../../src/base/duration.ts';
import type { MusterError } from '../../../src/base/errors.ts';
import { type ApiClient, connectApi } from '../../../src/cli/client.socket.ts';
import { openWorld, type World } from './world.ts';

let world: World;
beforeEach(async () => {
  world = await openWorld(undefined, { https: true, second: true });
});
afterEach(() => world.close());

/** An operator who has just logged in. */
async function operator(name: string, ...grants: Grant[]): Promise<ApiClient> {
  const { operators, sessions } = world.deps.accounts;
  await operators.put(name, grants);
  return clientOf((await sessions.begin(name)).text.reveal());
}

const clientOf = (session: string): ApiClient =>
  connectApi({ url: `https://127.0.0.1:${world.httpsPort}`, authority: world.authority, session });

/** A program with a token of an operator. */
async function program(name: string, ...grants: Grant[]): Promise<ApiClient> {
  const until = (world.clock.now() + duration('30d')) as Millis;
  const { text } = await world.deps.accounts.operators.addToken({
    operator: name,
    label: 't',
    grants,
    until,
  });
  return clientOf(text.reveal());
}

const failure = (work: Promise<unknown>): Promise<MusterError> =>
  work.then(
    () => Promise.reject(new Error('it was carried out')),
    (error: unknown) => error as MusterError,
  );

const quarantine = (client: ApiClient) =>
  client.call('POST', '/v1/machines/node-1/quarantine', { body: { json: { reason: 'stolen' } } });
const waiting = async (client: ApiClient) =>
  (await client.call<Answer<'GET /v1/pending'>>('GET', '/v1/pending')).items;
const isHeld = () => world.roster.get('node-1')?.status.quarantine !== undefined;

it('an order waits until another operator, who may give it too, confirms it once', async () => {
  const ada = await operator('ada', { role: 'admin' });
  const bob = await operator('bob', { role: 'admin' });
  const eve = await operator('eve', { role: 'admin', clusters: ['green'] });
  expect((await failure(quarantine(ada))).code).toBe('E_SECOND_PERSON');
  expect(isHeld()).toBe(false);
  const [order] = await waiting(bob);
  expect(order).toMatchObject({
    by: 'ada',
    path: '/v1/machines/node-1/quarantine',
    body: { reason: 'stolen' },
  });
  const confirm = (client: ApiClient) => client.call('POST', `/v1/pending/${order!.id}/confirm`);
  expect((await failure(confirm(ada))).message).toContain('another operator');
  expect((await failure(confirm(eve))).code).toBe('E_FORBIDDEN');
  expect(isHeld()).toBe(false);
  expect(await confirm(bob)).toMatchObject({ name: 'node-1' });
  expect(isHeld()).toBe(true);
  expect((await failure(confirm(bob))).code).toBe('E_NOT_FOUND');
  const actions = world.deps.events
    .list({})
    .filter(({ kind }) => kind === 'operator.action')
    .map(({ actor, reason }) => `${actor?.user} ${reason?.code}`);
  expect(actions).toContain('operator ada E_SECOND_PERSON');
  expect(actions).toContain('operator bob done');
});

it('an order is gone when it is withdrawn, too old, or its operator lost the role', async () => {
  const ada = await operator('ada', { role: 'admin' });
  const bob = await operator('bob', { role: 'admin' });
  await failure(quarantine(ada));
  await bob.call('DELETE', `/v1/pending/${(await waiting(bob))[0]!.id}`);
  expect(await waiting(bob)).toEqual([]);
  await failure(quarantine(ada));
  world.clock.advance(duration('61m'));
  expect(await waiting(world.client)).toEqual([]);
  await failure(quarantine(await operator('ada', { role: 'admin' })));
  await world.deps.accounts.operators.put('ada', [{ role: 'viewer' }]);
  const again = await operator('bob', { role: 'admin' });
  const confirm = again.call('POST', `/v1/pending/${(await waiting(again))[0]!.id}/confirm`);
  expect((await failure(confirm)).code).toBe('E_FORBIDDEN');
  expect(isHeld()).toBe(false);
});

it('an order that can be undone waits for nobody, and neither does the local socket', async () => {
  const ada = await operator('ada', { role: 'admin' });
  const remove = (clear: boolean) =>
    ada.call('POST', '/v1/clusters/blue/remove-node', { body: { json: { machines: ['x'], clear } } });
  expect((await failure(remove(false))).code).toBe('E_NOT_FOUND');
  expect((await failure(remove(true))).code).toBe('E_SECOND_PERSON');
  await quarantine(world.client);
  expect(isHeld()).toBe(true);
});

it('no more orders wait than fit', async () => {
  const ada = await operator('ada', { role: 'admin' });
  for (let n = 0; n < 101; n++) await failure(quarantine(ada));
  expect((await waiting(ada)).length).toBe(100);
});

it('the first person cannot make the second: accounts, roles and invitations of others wait as well', async () => {
  const ada = await operator('ada', { role: 'admin' });
  await operator('bob', { role: 'admin' });
  const json = { grants: [{ role: 'admin' }] };
  for (const work of [
    () => ada.call('PUT', '/v1/operators/eve', { body: { json } }),
    () => ada.call('PUT', '/v1/operators/bob', { body: { json } }),
    () => ada.call('DELETE', '/v1/operators/bob'),
    () => ada.call('POST', '/v1/operators/bob/invite'),
  ])
    expect((await failure(work())).code).toBe('E_SECOND_PERSON');
  const of = { operator: 'bob', label: 'x', grants: [{ role: 'admin' }], expires: '1h' };
  expect((await failure(ada.call('POST', '/v1/tokens', { body: { json: of } }))).code).toBe('E_FORBIDDEN');
  // Nor an account that root makes for the order afterwards.
  await failure(quarantine(ada));
  world.clock.advance(duration('1s'));
  const late = await operator('late', { role: 'admin' });
  const order = (await waiting(late)).find(({ path }) => path.endsWith('/quarantine'))!;
  const confirm = (client: ApiClient) => client.call('POST', `/v1/pending/${order.id}/confirm`);
  expect((await failure(confirm(late))).message).toContain('younger than the order');
  expect((await failure(confirm(await program('bob', { role: 'admin' })))).message).toContain(
    'a token confirms',
  );
  expect(isHeld()).toBe(false);
});

it('an order that waits shows no private key to those who see it', async () => {
  const ada = await operator('ada', { role: 'admin' });
  const eve = await operator('eve', { role: 'viewer' });
  const pem = ['BEGIN', 'END'].map((mark) => `-----${mark} PRIVATE KEY-----`).join('\nhunter2\n');
  const authority = { keyset: 'ca', certificate: 'PEM of a certificate', key: pem };
  const pair = { certificate: 'PEM of a certificate', key: 'hunter2' };
  for (const [path, json] of [
    ['/v1/pki/blue/import', authority],
    ['/v1/clusters/blue/adopt-kubeadm', { confirm: 'blue', ca: pair, sa: pem }],
  ] as const)
    expect((await failure(ada.call('POST', path, { body: { json } }))).code).toBe('E_SECOND_PERSON');
  const seen = await waiting(eve);
  expect(seen).toMatchObject([
    { body: { keyset: 'ca', certificate: 'PEM of a certificate', key: '…' } },
    { body: { confirm: 'blue', ca: { key: '…' }, sa: '…' } },
  ]);
  expect(JSON.stringify(seen)).not.toContain('hunter2');
});

it('what gives out keys needs a log-in of the last five minutes, and a token never gets it', async () => {
  const ada = await operator('ada', { role: 'admin' });
  const orders = (client: ApiClient) => [
    client.call('POST', '/v1/clusters/blue/kubeconfig'),
    client.call('POST', '/v1/clusters/blue/etcd-client'),
    client.call('POST', '/v1/tokens', {
      body: { json: { operator: 'ada', label: 'x', grants: [{ role: 'viewer' }], expires: '1h' } },
    }),
    client.call('PUT', '/v1/operators/eve', { body: { json: { grants: [{ role: 'viewer' }] } } }),
  ];
  const codes = (client: ApiClient) =>
    Promise.all(
      orders(client).map((one) =>
        one.then(
          () => 'done',
          (error: MusterError) => error.code,
        ),
      ),
    );
  expect(await codes(ada)).toEqual(['E_NOT_FOUND', 'E_NOT_FOUND', 'done', 'E_SECOND_PERSON']);
  expect(new Set(await codes(await program('ada', { role: 'admin' })))).toEqual(new Set(['E_PROOF']));
  world.clock.advance(duration('301s'));
  expect(new Set(await codes(ada))).toEqual(new Set(['E_PROOF']));
  // Everything else goes on.
  expect(await ada.call('POST', '/v1/reload')).toMatchObject({ faults: [] });
});

it('all keys in the clear never cross the network, whoever asks', async () => {
  const ada = await operator('ada', { role: 'admin' });
  for (const path of ['/v1/backup', '/v1/pki/export'])
    expect((await failure(ada.call('POST', path))).code).toBe('E_LOCAL_ONLY');
  expect(await world.client.call('POST', '/v1/pki/export')).toMatchObject({ kind: 'PkiExport' });
});

it('every operation that changes something says what it takes besides the role', () => {
  const silent = ROUTES.filter(
    ({ method, access, takes }) => method !== 'GET' && access !== 'open' && takes === undefined,
  );
  expect(silent.map(({ method, path }) => `${method} ${path}`)).toEqual([]);
});
