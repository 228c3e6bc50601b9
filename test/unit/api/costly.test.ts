/** What takes the server long has a limit for each operator. */
import https from 'node:https';
import { afterEach, beforeEach, expect, it } from 'vitest';
import { ROUTES } from '../../../src/api/operations.ts';
import { duration } from '../../../src/base/duration.ts';
import { DOCUMENTS, openWorld, type World } from './world.ts';

let world: World;
let agent: https.Agent;
beforeEach(async () => {
  world = await openWorld(DOCUMENTS, { https: true });
  agent = new https.Agent({ keepAlive: true, maxSockets: 8 });
});
afterEach(async () => {
  agent.destroy();
  await world.close();
});

async function tokenOf(operator: string): Promise<string> {
  const grants = [{ role: 'admin' as const }];
  await world.client.call('PUT', `/v1/operators/${operator}`, { body: { json: { grants } } });
  const json = { operator, label: 't', grants, expires: '1d' };
  return (await world.client.call<{ token: string }>('POST', '/v1/tokens', { body: { json } })).token;
}

interface Got {
  readonly status: number;
  readonly wait: string | undefined;
  readonly code: string | undefined;
}

function ask(token: string, path: string, method = 'GET', body?: string): Promise<Got> {
  return new Promise((resolve, reject) => {
    const headers = { authorization: `Bearer ${token}`, origin: `https://127.0.0.1:${world.httpsPort}` };
    const options = { method, headers, ca: world.authority, agent };
    const request = https.request(`https://127.0.0.1:${world.httpsPort}${path}`, options, (response) => {
      let text = '';
      response.setEncoding('utf8').on('data', (piece) => (text += piece));
      response.once('end', () =>
        resolve({
          status: response.statusCode!,
          wait: response.headers['retry-after'],
          code: response.statusCode! >= 400 ? (JSON.parse(text) as { code: string }).code : undefined,
        }),
      );
    });
    request.once('error', reject);
    request.end(body);
  });
}

const many = (n: number, token: string, path: string, ...more: string[]): Promise<readonly Got[]> =>
  Promise.all(Array.from({ length: n }, () => ask(token, path, ...more)));
const refused = (all: readonly Got[]): number => all.filter(({ status }) => status === 429).length;

it('a reader of what is costly waits after thirty requests, with all tokens, and nobody else does', async () => {
  const [one, two, other] = [await tokenOf('ada'), await tokenOf('ada'), await tokenOf('bob')];
  expect(refused(await many(20, one, '/v1/machines'))).toBe(0);
  const more = await many(20, two, '/v1/explain?machine=node-1');
  expect(refused(more)).toBe(10);
  expect(more.find(({ status }) => status === 429)).toEqual({ status: 429, wait: '1', code: 'E_READ_LIMIT' });
  expect(refused(await many(10, other, '/v1/machines'))).toBe(0);
  // What is cheap is answered meanwhile, and so is an order; its preview is not.
  expect(refused(await many(40, one, '/v1/machines/node-1'))).toBe(0);
  const profile = 'apiVersion: muster/v1\nkind: Profile\nmetadata: {name: p}\nspec: {image: small}\n';
  expect(await ask(one, '/v1/apply?dryRun=true', 'POST', profile)).toMatchObject({ status: 429 });
  expect(await ask(one, '/v1/apply', 'POST', profile)).toMatchObject({ status: 200 });
  world.clock.advance(duration('1s'));
  expect(refused(await many(3, one, '/v1/machines'))).toBe(1);
});

it('the local socket has no limit', async () => {
  for (let n = 0; n < 100; n++) await world.client.call('GET', '/v1/machines');
});

/** Reads that cost the server little: they look at one thing, or at a table in memory. */
const CHEAP = [
  '/v1/bmcs/ca',
  '/v1',
  '/openapi.json',
  '/healthz',
  '/readyz',
  '/version',
  '/v1/:kind/:name',
  '/v1/assets',
  '/v1/assets/:sha256',
  '/v1/audit',
  '/v1/backup',
  '/v1/clusters/:name/backups',
  '/v1/clusters/:name/change',
  '/v1/clusters/:name/endpoint',
  '/v1/clusters/:name/founding',
  '/v1/clusters/:name/running',
  '/v1/clusters/:name/space',
  '/v1/login',
  '/v1/login/provider',
  '/v1/login/provider/return',
  '/v1/machines/:name/data-keys',
  '/v1/machines/:name/life',
  '/v1/machines/:name/tests',
  '/v1/machines/:name/wipes',
  '/v1/networks/:network/snippet',
  '/v1/operators',
  '/v1/passkeys',
  '/v1/pending',
  '/v1/sessions',
  '/v1/status',
  '/v1/tokens',
  '/v1/uploads',
  '/v1/waiting',
  '/v1/whoami',
  '/v1/whoami/sessions',
];

it('each operation that reads is limited, or listed as one that costs little', () => {
  const free = ROUTES.filter(({ method, costly }) => method === 'GET' && costly === undefined);
  expect(free.map(({ path }) => path).sort()).toEqual([...CHEAP].sort());
});
