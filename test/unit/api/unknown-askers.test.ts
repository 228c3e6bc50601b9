/** Who is not logged in writes little into the logs, and gets nothing that goes on. */
import https from 'node:https';
import { afterEach, beforeEach, expect, it, vi } from 'vitest';
import { duration } from '../../../src/base/duration.ts';
import { connectApi } from '../../../src/cli/client.socket.ts';
import { openWorld, type World } from './world.ts';

let world: World;
let agent: https.Agent;
beforeEach(async () => {
  world = await openWorld(undefined, { https: true });
  agent = new https.Agent({ keepAlive: true, maxSockets: 4 });
});
afterEach(async () => {
  agent.destroy();
  await world.close();
});

function ask(method: string, where: string, headers: Record<string, string> = {}) {
  return new Promise<{ status: number; headers: Record<string, unknown> }>((resolve, reject) => {
    const options = { method, headers, ca: world.authority, agent };
    const request = https.request(`https://127.0.0.1:${world.httpsPort}${where}`, options, (response) => {
      response.resume();
      response.once('end', () => resolve({ status: response.statusCode!, headers: response.headers }));
    });
    request.once('error', reject);
    request.end();
  });
}

const entries = async () =>
  (await world.client.ask('GET /v1/audit/entries', { query: { limit: 5000 } })).items;

it('a thousand requests without a log-in leave twenty entries with an address, and none of their texts', async () => {
  for (let n = 0; n < 1_000; n += 50)
    await Promise.all(
      Array.from({ length: 50 }, async (_, m) => {
        const path = `/v1/machines/${`evil${n + m}`.padEnd(200, 'B')}/release?x=${'A'.repeat(200)}`;
        const headers = m % 2 === 0 ? {} : { authorization: 'Bearer stolen', origin: 'https://evil.example' };
        expect([401, 403]).toContain((await ask('POST', path, headers)).status);
      }),
    );
  const refused = (await entries()).filter(({ kind }) => kind === 'operator.refused');
  expect(refused.length).toBe(20);
  expect(new Set(refused.map(({ subject }) => subject))).toEqual(new Set(['127.0.0.1']));
  const all = JSON.stringify([await entries(), world.deps.events.list({})]);
  expect(all).not.toContain('evil');
  // What is left out is counted, once the ten minutes are over.
  world.clock.advance(duration('11m'));
  expect(JSON.stringify(world.deps.events.list({}))).toContain('980 further events');
});

it('what an operator who is logged in does is recorded each time', async () => {
  for (let n = 0; n < 400; n++) await world.client.call('POST', '/v1/reload');
  const done = (await entries()).filter(({ kind }) => kind === 'operator.action');
  expect(done.length).toBe(400);
});

it('a stream of events ends within seconds when its operator is removed, or loses a role', async () => {
  const grants = [{ role: 'viewer' }];
  const tokenOf = async (operator: string) => {
    await world.client.call('PUT', `/v1/operators/${operator}`, { body: { json: { grants } } });
    const json = { operator, label: 't', grants, expires: '1d' };
    return (await world.client.call<{ token: string }>('POST', '/v1/tokens', { body: { json } })).token;
  };
  const followed = async (operator: string) => {
    const authorization = `Bearer ${await tokenOf(operator)}`;
    const stream = { ended: false };
    await new Promise<void>((resolve, reject) => {
      const options = { headers: { authorization }, ca: world.authority, agent };
      const url = `https://127.0.0.1:${world.httpsPort}/v1/events?follow=true`;
      https
        .get(url, options, (response) => {
          response.resume();
          response.once('end', () => (stream.ended = true));
          resolve();
        })
        .once('error', reject);
    });
    return stream;
  };
  const [stays, leaves, changes] = [
    await followed('stays'),
    await followed('leaves'),
    await followed('changes'),
  ];
  await world.client.call('DELETE', '/v1/operators/leaves');
  const json = { grants: [{ role: 'viewer', clusters: ['blue'] }] };
  await world.client.call('PUT', '/v1/operators/changes', { body: { json } });
  world.clock.advance(duration('5s'));
  await vi.waitFor(() => expect([leaves.ended, changes.ended]).toEqual([true, true]), 20_000);
  expect(stays.ended).toBe(false);
});

it('answers of every kind are kept nowhere, run nothing, and bind a browser to TLS', async () => {
  const grants = [{ role: 'viewer' }];
  await world.client.call('PUT', '/v1/operators/ada', { body: { json: { grants } } });
  const json = { operator: 'ada', label: 't', grants, expires: '1d' };
  const { token } = await world.client.call<{ token: string }>('POST', '/v1/tokens', { body: { json } });
  const known = { authorization: `Bearer ${token}` };
  const kinds: readonly (readonly [number, string, string, Record<string, string>?])[] = [
    [200, 'GET', '/v1/login'],
    [200, 'GET', '/openapi.json'],
    [401, 'GET', '/v1/machines'],
    [404, 'GET', '/nothing'],
    [405, 'DELETE', '/v1/whoami'],
    [400, 'GET', '/v1/machines/%ff'],
    [400, 'POST', '/v1/login', { 'content-type': 'application/json' }],
    [200, 'GET', '/v1/machines', known],
    [200, 'GET', '/v1/machines?brief=true', { ...known, 'accept-encoding': 'gzip' }],
    [200, 'HEAD', '/v1/machines', known],
    [200, 'GET', '/metrics', known],
    [403, 'GET', '/v1/operators', known],
    [403, 'POST', '/v1/reload', { ...known, origin: 'https://evil.example' }],
    [404, 'GET', '/v1/machines/absent', known],
    [400, 'GET', '/v1/machines?nonsense=1', known],
  ];
  for (const [status, method, path, headers] of kinds) {
    const answer = await ask(method, path, headers);
    expect([path, answer.status]).toEqual([path, status]);
    expect(answer.headers, path).toMatchObject({
      'cache-control': 'no-store',
      'content-security-policy': "default-src 'none'; frame-ancestors 'none'",
      'referrer-policy': 'no-referrer',
      'strict-transport-security': 'max-age=31536000',
      'x-content-type-options': 'nosniff',
    });
  }
});

it('a session is listed without its text, and an administrator ends it', async () => {
  await world.client.call('PUT', '/v1/operators/ada', { body: { json: { grants: [{ role: 'viewer' }] } } });
  const { invitation } = await world.client.ask('POST /v1/operators/:name/invite', {
    params: { name: 'ada' },
  });
  const url = `https://127.0.0.1:${world.httpsPort}`;
  const open = connectApi({ url, authority: world.authority });
  const json = { invitation, password: 'correct horse battery' };
  const { session } = await open.call<{ session: string }>('POST', '/v1/invitation', { body: { json } });
  const mine = connectApi({ url, authority: world.authority, session });
  const { items } = await world.client.ask('GET /v1/sessions');
  expect(items).toMatchObject([{ operator: 'ada' }]);
  expect(session).not.toContain(items[0]!.id);
  await world.client.ask('DELETE /v1/sessions/:id', { params: { id: items[0]!.id } });
  await expect(mine.call('GET', '/v1/machines')).rejects.toMatchObject({ code: 'E_UNAUTHENTICATED' });
});
