/** Lists in parts, by labels and by fields; and where streams of events continue. */
import http from 'node:http';
import { gunzipSync } from 'node:zlib';
import fc from 'fast-check';
import { afterEach, beforeEach, expect, it } from 'vitest';
import { isForeign } from '../../../src/api/access.ts';
import { listText, partOf, wantedOf } from '../../../src/api/listing.ts';
import type { Answer } from '../../../src/api/operations.ts';
import { contractOf, OPERATIONS, type OperationKey } from '../../../src/api/operations.ts';
import { byFields, byLabels } from '../../../src/api/selectors.ts';
import { parseMac } from '../../../src/base/mac.ts';
import { openWorld, type World } from './world.ts';

let world: World;
beforeEach(async () => {
  world = await openWorld();
});
afterEach(() => world.close());

type List = Answer<'GET /v1/:kind'>;
const list = (query: Record<string, string>) => world.client.call<List>('GET', '/v1/machines', { query });

it('machines are listed in parts, by label and by field', async () => {
  const machine = (n: number) =>
    `apiVersion: muster/v1\nkind: Machine\nmetadata: {name: x${n}, labels: {rack: ${n % 2 ? 'b' : 'c'}}}\nspec: {macs: ["52:54:00:aa:01:0${n}"], profile: worker}\n`;
  await world.client.call('POST', '/v1/apply', { body: [1, 2, 3, 4, 5].map(machine).join('---\n') });
  const names = ({ items }: List) => items.map(({ metadata }) => metadata.name);
  const first = await list({ limit: '4' });
  expect(names(first)).toEqual(['node-1', 'x1', 'x2', 'x3']);
  const second = await list({ limit: '4', continue: first.continue! });
  expect(names(second)).toEqual(['x4', 'x5']);
  expect(second.continue).toBeUndefined();
  expect(names(await list({ labels: 'rack=b' }))).toEqual(['x1', 'x3', 'x5']);
  expect(names(await list({ labels: 'rack!=b', fields: 'status.origin.from=api' }))).toEqual(['x2', 'x4']);
  expect(names(await list({ fields: 'spec.macs=52:54:00:aa:01:04' }))).toEqual(['x4']);
  await expect(list({ labels: 'rack' })).rejects.toThrow('labels rack: write key=value');
});

it('a brief list has what a table shows of machines with a document, and the others whole', async () => {
  const mac = parseMac('52:54:00:bb:00:01')!;
  world.roster.discover({
    bootMac: mac,
    macs: [mac],
    network: 'lan',
    uuid: '00000000-0000-4000-8000-000000000001',
  });
  const { items } = await list({ brief: 'true' });
  const whole = (await list({})).items;
  expect(items.map(({ metadata }) => metadata.name)).toEqual(whole.map(({ metadata }) => metadata.name));
  const [seen, node] = items;
  expect(node).toMatchObject({
    spec: { profile: 'worker' },
    status: { phase: 'registered', profile: 'worker' },
  });
  expect(Object.keys(node!.status)).not.toContain('origin');
  expect(whole.find(({ metadata }) => metadata.name === 'node-1')!.status).toMatchObject(node!.status);
  expect(seen).toEqual(whole[0]);
});

it('a brief list is compressed for clients that take that, and whole documents are not, whose length would tell something of what is secret in them', async () => {
  const get = async (headers: Record<string, string>, path = '/v1/machines?brief=true') => {
    const { promise, resolve, reject } = Promise.withResolvers<http.IncomingMessage>();
    const where = { socketPath: world.socket, path, headers };
    http.get(where, resolve).once('error', reject);
    const answer = await promise;
    return { headers: answer.headers, body: Buffer.concat(await answer.toArray()) };
  };
  const plain = await get({});
  const packed = await get({ 'accept-encoding': 'br, gzip' });
  expect(plain.headers['content-encoding']).toBeUndefined();
  expect(packed.headers).toMatchObject({ 'content-encoding': 'gzip', vary: 'accept-encoding' });
  expect(gunzipSync(packed.body)).toEqual(plain.body);
  for (const path of ['/v1/machines', '/v1/profiles'])
    expect((await get({ 'accept-encoding': 'gzip' }, path)).headers['content-encoding']).toBeUndefined();
});

it('parts of a list put together are the whole list, whatever the selector and the limit', async () => {
  const item = fc.record({ even: fc.boolean(), n: fc.integer({ min: 0, max: 3 }) });
  await fc.assert(
    fc.asyncProperty(
      fc.dictionary(fc.stringMatching(/^[a-z]{1,3}$/), item, { noNullPrototype: true }),
      fc.integer({ min: 1, max: 5 }),
      fc.constantFrom(undefined, 'n=1', 'even=true', 'even!=true'),
      async (all, limit, fields) => {
        const names = Object.keys(all).sort();
        const show = (name: string) => ({ metadata: {}, name, ...all[name]! });
        const page = async (after: string) => {
          const given = {
            limit,
            ...(fields && { fields }),
            ...(after && { continue: after }),
          };
          let text = '';
          for await (const piece of listText('Profile', names, show, wantedOf(given))) text += piece;
          return JSON.parse(text) as { items: { name: string }[]; continue?: string };
        };
        const found: string[] = [];
        let after: string | undefined = '';
        while (after !== undefined) {
          const { items, continue: next } = await page(after);
          expect(items.length).toBeLessThanOrEqual(limit);
          found.push(...items.map(({ name }) => name));
          after = next;
        }
        const fits = byFields(fields, 'fields');
        expect(found).toEqual(names.filter((name) => fits(show(name))));
      },
    ),
  );
});

/** Lists that continue by sequence numbers, because they grow at their end. */
const BY_SEQUENCE: readonly OperationKey[] = ['GET /v1/events', 'GET /v1/audit/entries'];

it('every list has limit, continue and fields, and labels where its items are about machines', () => {
  const lists = OPERATIONS.map(({ key }): OperationKey => key).filter((operation) => {
    const { answer } = contractOf(operation);
    const list = 'shape' in answer && 'items' in (answer.shape as object);
    return operation.startsWith('GET ') && list && !BY_SEQUENCE.includes(operation);
  });
  expect(lists.length).toBeGreaterThan(12);
  for (const operation of lists) {
    const names = Object.keys(contractOf(operation).query?.shape ?? {});
    expect([operation, names]).toEqual([operation, expect.arrayContaining(['fields', 'limit', 'continue'])]);
  }
  for (const operation of ['GET /v1/leases', 'GET /v1/inventory', 'GET /v1/waiting'] as const)
    expect(contractOf(operation).query?.shape).toHaveProperty('labels');
});

it('short lists are listed in parts as well, and a part whose place is gone is refused', async () => {
  for (const name of ['ada', 'bob', 'eve'])
    await world.client.call('PUT', `/v1/operators/${name}`, {
      body: { json: { grants: [{ role: 'viewer' }] } },
    });
  type Operators = Answer<'GET /v1/operators'>;
  const operators = (query: Record<string, string>) =>
    world.client.call<Operators>('GET', '/v1/operators', { query });
  const names = ({ items }: Operators) => items.map(({ name }) => name);
  const first = await operators({ limit: '2' });
  expect(names(first)).toEqual(['ada', 'bob']);
  const second = await operators({ limit: '2', continue: first.continue! });
  expect([names(second), second.continue]).toEqual([['eve'], undefined]);
  expect(names(await operators({ fields: 'grants.role=viewer,name!=bob' }))).toEqual(['ada', 'eve']);
  await expect(operators({ continue: 'gone' })).rejects.toMatchObject({ code: 'E_CONFLICT' });
  await expect(operators({ labels: 'a=b' })).rejects.toMatchObject({ code: 'E_USAGE' });
});

it('parts of a short list put together are the whole list', () => {
  fc.assert(
    fc.property(fc.uniqueArray(fc.string()), fc.integer({ min: 1, max: 4 }), (keys, limit) => {
      const items = keys.map((key) => ({ key: `k${key}` }));
      const found: string[] = [];
      for (let after: string | undefined = ''; after !== undefined; ) {
        const part: { items: readonly { key: string }[]; continue?: string } = partOf(
          { limit, continue: after },
          items,
          ({ key }) => key,
        );
        found.push(...part.items.map(({ key }) => key));
        after = part.continue;
      }
      expect(found).toEqual(items.map(({ key }) => key));
    }),
  );
});

it('a selector never throws anything but a usage error, and selects nothing by inherited names', () => {
  fc.assert(
    fc.property(fc.string(), (text) => {
      try {
        byLabels(text, 'labels')({ metadata: { labels: { a: 'b' } } });
        byFields(text, 'fields')({ a: [{ b: 1 }] });
      } catch (error) {
        expect((error as { code?: string }).code).toBe('E_USAGE');
      }
    }),
  );
  expect(byFields('constructor.name=Object', 'fields')({})).toBe(false);
});

it('a stream of events continues after its last one, and begins again after a restart of the server', async () => {
  const stop = new AbortController();
  const frames = async (last?: string): Promise<readonly string[]> => {
    const headers = { ...(last !== undefined && { 'last-event-id': last }) };
    const found: string[] = [];
    const query = { follow: 'true', subject: 'Profile/p' };
    for await (const piece of world.client.stream('/v1/events', { query, headers, signal: stop.signal })) {
      found.push(...[...piece.matchAll(/^id: (.*)$/gm)].map(([, id]) => id!));
      if (found.length > 0) break;
    }
    return found;
  };
  const put = (boot: string) =>
    world.client.call('PUT', '/v1/profiles/p', {
      body: `apiVersion: muster/v1\nkind: Profile\nmetadata: {name: p}\nspec: {boot: ${boot}}\n`,
    });
  await put('hold');
  const [first] = await frames();
  expect(first).toMatch(/^[0-9a-z]+\.[0-9]+$/);
  await put('disk');
  const [second] = await frames(first);
  expect(second).not.toBe(first);
  const number = second!.split('.')[1]!;
  expect(await frames(`otherrun.${number}`)).toEqual([first]);
  expect(await frames(String(Number(number) - 1))).toEqual([second]);
});

it('requests that another site caused are foreign, and those of the page and of programs are not', () => {
  const host = 'boot:8444';
  const page = { host, origin: 'https://boot:8444', 'sec-fetch-site': 'same-origin' };
  expect(isForeign('POST', page, true)).toBe(false);
  expect(isForeign('POST', { host }, false)).toBe(false);
  expect(isForeign('POST', { host }, true)).toBe(true);
  expect(isForeign('POST', { host, origin: 'https://evil.example' }, false)).toBe(true);
  expect(isForeign('POST', { ...page, 'sec-fetch-site': 'same-site' }, true)).toBe(true);
  expect(isForeign('GET', { host, 'sec-fetch-site': 'cross-site', 'sec-fetch-mode': 'no-cors' }, true)).toBe(
    true,
  );
  expect(isForeign('GET', { host, 'sec-fetch-site': 'same-site', 'sec-fetch-mode': 'navigate' }, true)).toBe(
    false,
  );
  expect(isForeign('GET', { host, 'sec-fetch-site': 'none' }, true)).toBe(false);
});
