/** Orders that wait for a second person, over real HTTPS with tokens. */
import { afterEach, beforeEach, expect, it } from 'vitest';
import type { Grant } from '../../../src/api/access.ts';
import type { Answer } from '../../../src/api/operations.ts';
import { duration, type Millis } from '../../../src/base/duration.ts';
import type { MusterError } from '../../../src/base/errors.ts';
import { type ApiClient, connectApi } from '../../../src/cli/client.socket.ts';
import { openWorld, type World } from './world.ts';

let world: World;
beforeEach(async () => {
  world = await openWorld(undefined, { https: true, second: true });
});
afterEach(() => world.close());

async function operator(name: string, ...grants: Grant[]): Promise<ApiClient> {
  const { operators } = world.deps.accounts;
  await operators.put(name, grants);
  const until = (world.clock.now() + duration('30d')) as Millis;
  const { text } = await operators.addToken({ operator: name, label: 'test', grants, until });
  const url = `https://127.0.0.1:${world.httpsPort}`;
  return connectApi({ url, authority: world.authority, session: text.reveal() });
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
  expect(await waiting(bob)).toEqual([]);
  await failure(quarantine(ada));
  await world.deps.accounts.operators.put('ada', [{ role: 'viewer' }]);
  const confirm = bob.call('POST', `/v1/pending/${(await waiting(bob))[0]!.id}/confirm`);
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
