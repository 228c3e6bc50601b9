/** The description of the API, and the requests that the typed client makes of it. */
import { expect, it } from 'vitest';
import { requestOf } from '../../../src/api/contract/request.ts';
import { openApiOf } from '../../../src/api/openapi.ts';
import { ROUTES } from '../../../src/api/operations.ts';
import { MusterError } from '../../../src/base/errors.ts';
import { openWorld } from './world.ts';

interface Described {
  readonly openapi: string;
  readonly paths: Record<string, Record<string, { operationId: string; parameters: { name: string }[] }>>;
  readonly components: { schemas: Record<string, unknown> };
}

it('describes every route once, and every reference in it leads to a schema', () => {
  const described = openApiOf(ROUTES, '1.2.3') as unknown as Described;
  const operations = Object.values(described.paths).flatMap((path) => Object.values(path));
  const ids = operations.map(({ operationId }) => operationId);
  expect(new Set(ids).size).toBe(ROUTES.length);
  const references = [...JSON.stringify(described).matchAll(/"\$ref":"([^"]+)"/g)].map(([, to]) => to!);
  expect(references.length).toBeGreaterThan(20);
  for (const to of references)
    expect(Object.keys(described.components.schemas)).toContain(to.replace('#/components/schemas/', ''));
});

it('names all parameters of paths, and marks those of queries', () => {
  const { paths } = openApiOf(ROUTES, '') as unknown as Described;
  const names = (path: string, method: string) => paths[path]?.[method]?.parameters.map(({ name }) => name);
  expect(names('/v1/clusters/{name}/backups/{id}/verify', 'post')).toEqual(['name', 'id', 'dryRun']);
  expect(names('/v1/{kind}/{name}', 'put')).toEqual([
    'kind',
    'name',
    'dryRun',
    'confirm',
    'If-Match',
    'If-None-Match',
  ]);
});

it('is served, without a log-in', async () => {
  const world = await openWorld();
  const served = await world.client.call<Described>('GET', '/openapi.json');
  expect(served).toEqual(JSON.parse(JSON.stringify(openApiOf(ROUTES, '1.2.3'))));
  await world.close();
});

it('a misspelt parameter changes nothing', async () => {
  const world = await openWorld();
  const body = 'apiVersion: muster/v1\nkind: Profile\nmetadata: {name: p}\nspec: {boot: hold}\n';
  const refused = await world.client
    .call('POST', '/v1/apply', { query: { dryrun: 'true' }, body })
    .catch((error: unknown) => error);
  expect(refused).toBeInstanceOf(MusterError);
  expect((refused as MusterError).message).toContain('did you mean "dryRun"?');
  expect(world.deps.catalog.get('Profile', 'p')).toBeUndefined();
  await world.close();
});

it('the typed client writes names into the path and leaves out what is not given', () => {
  expect(requestOf('GET /v1/:kind/:name', { params: { kind: 'machines', name: 'a b/c' } })).toEqual({
    method: 'GET',
    path: '/v1/machines/a%20b%2Fc',
  });
  expect(requestOf('GET /v1/events', { query: { limit: 5, follow: true } })).toEqual({
    method: 'GET',
    path: '/v1/events?limit=5&follow=true',
  });
  expect(requestOf('GET /v1/status')).toEqual({ method: 'GET', path: '/v1/status' });
  const order = { params: { name: 'cp1' }, body: { code: 'k7m2' } };
  expect(requestOf('POST /v1/machines/:name/approve', order)).toMatchObject({ body: { code: 'k7m2' } });
});
