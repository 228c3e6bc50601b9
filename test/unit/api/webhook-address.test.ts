/** Who sees the addresses of Webhooks and hooks: path and query often are their only secret. */
import { afterEach, beforeEach, expect, test } from 'vitest';
import type { Role } from '../../../src/api/access.ts';
import type { ApiRequest } from '../../../src/api/handler.ts';
import { ROUTES } from '../../../src/api/operations.ts';
import { openWorld, type World } from './world.ts';

let world: World;

beforeEach(async () => {
  world = await openWorld();
});

afterEach(() => world.close());

const URL_TEXT = 'https://chat.example/hooks/hunter2?token=hunter2';

test.for<[Role, boolean]>([
  ['viewer', false],
  ['operator', false],
  ['admin', true],
])('the role %s sees path and query: %s', async ([role, sees]) => {
  const spec = {
    url: URL_TEXT,
    events: ['machine.*'],
    secret: { valueFrom: { secret: 'chat', key: 'key' } },
  };
  await world.deps.catalog.apply([
    { apiVersion: 'muster/v1', kind: 'Webhook', metadata: { name: 'chat' }, spec },
  ]);
  const hook = { name: 'ready', when: 'before', url: URL_TEXT, secret: spec.secret };
  await world.deps.catalog.apply([
    {
      apiVersion: 'muster/v1',
      kind: 'Cluster',
      metadata: { name: 'blue' },
      spec: { hooks: [hook] },
    },
  ]);
  for (const params of [
    { kind: 'webhooks', name: 'chat' },
    { kind: 'clusters', name: 'blue' },
  ]) {
    const request = {
      params,
      query: new URLSearchParams(),
      headers: {},
      principal: { name: 'ada', by: 'token', grants: [{ role }] },
    } as unknown as ApiRequest;
    for (const { handler } of ROUTES.filter(({ key }) => /^GET \/v1\/:kind/.test(key))) {
      const { body } = await handler(request, world.deps);
      let text = '';
      for await (const piece of typeof body === 'string' ? [body] : body!) text += piece;
      expect(text).toContain(sees ? URL_TEXT : '"https://chat.example/…"');
      expect(text.includes('hunter2')).toBe(sees);
    }
  }
  expect(JSON.stringify(world.deps.events.list?.({}) ?? [])).not.toContain('hunter2');
});
