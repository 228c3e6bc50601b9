import http from 'node:http';
import { afterEach, beforeEach, describe, expect, it } from 'vitest';
import { MAX_DOCUMENTS } from '../../../src/api/operations/documents.ts';
import type { EventView } from '../../../src/api/times.ts';
import { millis } from '../../../src/base/duration.ts';
import { MusterError } from '../../../src/base/errors.ts';
import { parseMac } from '../../../src/base/mac.ts';
import { readEvents } from '../../../src/cli/events/events.ts';
import { openWorld, type World } from './world.ts';

let world: World;
beforeEach(async () => {
  world = await openWorld();
});
afterEach(() => world.close());

interface Answer {
  readonly status: number;
  readonly headers: http.IncomingHttpHeaders;
  readonly body: string;
  readonly json: Record<string, unknown>;
}

/** Sends a raw request, as curl would. */
function ask(
  method: string,
  path: string,
  options: { readonly headers?: Record<string, string>; readonly body?: string } = {},
): Promise<Answer> {
  return new Promise((resolve, reject) => {
    const request = http.request(
      { socketPath: world.socket, method, path, headers: options.headers ?? {} },
      async (response) => {
        let body = '';
        response.setEncoding('utf8');
        for await (const piece of response) body += piece;
        const isJson = /json/.test(response.headers['content-type'] ?? '');
        resolve({
          status: response.statusCode!,
          headers: response.headers,
          body,
          json: isJson && body !== '' ? JSON.parse(body) : {},
        });
      },
    );
    request.once('error', reject);
    request.end(options.body);
  });
}

const MACHINE = (name: string, mac: string, profile = 'worker'): string =>
  JSON.stringify({
    apiVersion: 'muster/v1',
    kind: 'Machine',
    metadata: { name },
    spec: { macs: [mac], profile },
  });

describe('documents', () => {
  it('are listed with their origin', async () => {
    const { json } = await ask('GET', '/v1/machines');
    expect(json).toMatchObject({
      kind: 'MachineList',
      items: [
        {
          kind: 'Machine',
          metadata: { name: 'node-1' },
          status: { phase: 'registered', origin: { from: 'file', at: { line: 18 } } },
        },
      ],
    });
  });

  it('show which profile a machine has, also when a selector gives it', async () => {
    const profile =
      'apiVersion: muster/v1\nkind: Profile\nmetadata: {name: rack-b}\nspec: {boot: hold, selector: {labels: {rack: b}}}\n';
    const machine =
      'apiVersion: muster/v1\nkind: Machine\nmetadata: {name: b1, labels: {rack: b}}\nspec: {macs: ["52:54:00:aa:00:0b"]}\n';
    await ask('POST', '/v1/apply', { body: `${profile}---\n${machine}` });
    expect((await ask('GET', '/v1/machines/b1')).json).toMatchObject({ status: { profile: 'rack-b' } });
    expect((await ask('GET', '/v1/machines')).json).toMatchObject({
      items: [{ status: { profile: 'rack-b' } }, { status: { profile: 'worker' } }],
    });
  });

  it('are created with 201, changed with 200, and read back with an ETag', async () => {
    const path = '/v1/machines/node-2';
    const created = await ask('PUT', path, { body: MACHINE('node-2', '52:54:00:aa:00:02') });
    expect(created).toMatchObject({ status: 201, json: { action: 'created', name: 'node-2' } });
    const read = await ask('GET', path);
    expect(read.headers.etag).toBe(created.headers.etag);
    expect(read.headers.etag).toMatch(/^"r[0-9]+"$/);
    const changed = await ask('PUT', path, { body: MACHINE('node-2', '52:54:00:aa:00:22') });
    expect(changed).toMatchObject({ status: 200, json: { action: 'changed' } });
    expect(changed.headers.etag).not.toBe(read.headers.etag);
  });

  it('are not changed against If-Match, nor created again against If-None-Match', async () => {
    const path = '/v1/machines/node-2';
    const body = MACHINE('node-2', '52:54:00:aa:00:02');
    const { headers } = await ask('PUT', path, { body, headers: { 'if-none-match': '*' } });
    expect(await ask('PUT', path, { body, headers: { 'if-none-match': '*' } })).toMatchObject({
      status: 412,
      json: { code: 'E_CONFLICT' },
    });
    const other = MACHINE('node-2', '52:54:00:aa:00:22');
    expect((await ask('PUT', path, { body: other, headers: { 'if-match': '"r999"' } })).status).toBe(412);
    expect((await ask('PUT', path, { body: other, headers: { 'if-match': headers.etag! } })).status).toBe(
      200,
    );
    expect((await ask('DELETE', path, { headers: { 'if-match': headers.etag! } })).status).toBe(412);
    expect((await ask('DELETE', path)).status).toBe(200);
  });

  it('from a file cannot be changed; the answer names file and line', async () => {
    const { status, json } = await ask('PUT', '/v1/machines/node-1', {
      body: MACHINE('node-1', '52:54:00:aa:00:09'),
    });
    expect(status).toBe(409);
    expect(json).toMatchObject({ code: 'E_FILE_OWNED', detail: expect.stringMatching(/all\.yaml:18/) });
    expect(await ask('DELETE', '/v1/machines/node-1')).toMatchObject({
      status: 409,
      json: { code: 'E_FILE_OWNED' },
    });
  });

  it('that are invalid are refused with a problem that has place, path and fix of every fault', async () => {
    const text =
      'apiVersion: muster/v1\nkind: Machine\nmetadata: {name: x}\nspec:\n  macs: [52]\n  profil: y\n';
    const answer = await ask('PUT', '/v1/machines/x', { body: text, headers: { 'x-muster-file': 'x.yaml' } });
    expect(answer.status).toBe(422);
    expect(answer.headers['content-type']).toBe('application/problem+json');
    expect(answer.json).toMatchObject({
      type: 'urn:muster:error:E_SCHEMA',
      status: 422,
      code: 'E_SCHEMA',
      fix: expect.stringContaining('Correct'),
      errors: [
        { path: 'spec.macs[0]', at: { file: 'x.yaml', line: 5, column: 10 } },
        { path: 'spec.profil', at: { file: 'x.yaml', line: 6, column: 3 } },
      ],
    });
  });

  it('must be the document that the path names', async () => {
    const body = MACHINE('node-3', '52:54:00:aa:00:03');
    expect(await ask('PUT', '/v1/machines/node-2', { body })).toMatchObject({
      status: 400,
      json: { code: 'E_USAGE' },
    });
    expect((await ask('GET', '/v1/machines/node-3')).status).toBe(404);
  });

  it('that were shown with their status can be applied again', async () => {
    await ask('PUT', '/v1/machines/node-2', { body: MACHINE('node-2', '52:54:00:aa:00:02') });
    const shown = await ask('GET', '/v1/machines/node-2');
    expect(shown.json).toMatchObject({ status: { phase: 'registered' } });
    const again = await ask('PUT', '/v1/machines/node-2', { body: shown.body });
    expect(again).toMatchObject({ status: 200, json: { action: 'unchanged' } });
  });
});

describe('apply', () => {
  const sources = (...texts: string[]) => ({
    headers: { 'content-type': 'application/json' },
    body: JSON.stringify({ sources: texts.map((text, n) => ({ file: `${n}.yaml`, text })) }),
  });

  it('applies several files, all or nothing', async () => {
    const good = MACHINE('node-2', '52:54:00:aa:00:02');
    const bad = MACHINE('node-3', 'not a mac');
    const refused = await ask('POST', '/v1/apply', sources(good, bad));
    expect(refused).toMatchObject({ status: 422, json: { errors: [{ at: { file: '1.yaml' } }] } });
    expect((await ask('GET', '/v1/machines/node-2')).status).toBe(404);
    const taken = await ask('POST', '/v1/apply', sources(good, MACHINE('node-3', '52:54:00:aa:00:03')));
    expect(taken.json).toMatchObject({
      dryRun: false,
      results: [{ action: 'created' }, { action: 'created' }],
    });
  });

  it('checks more documents than fit into one commit together, and stores them in batches', async () => {
    const many = Array.from({ length: 300 }, (_, n) =>
      MACHINE(
        `rack-${n}`,
        `52:54:00:cc:${Math.floor(n / 256)}:${(n % 256).toString(16)}`,
        n < 299 ? 'later' : 'worker',
      ),
    );
    const missing = await ask('POST', '/v1/apply', sources(many.join('\n---\n')));
    expect(missing).toMatchObject({ status: 422, json: { code: 'E_REFERENCE' } });
    expect((await ask('GET', '/v1/machines/rack-299')).status).toBe(404);
    // The profile comes last in the text, and is stored first.
    const profile = 'apiVersion: muster/v1\nkind: Profile\nmetadata: {name: later}\nspec: {image: small}\n';
    const taken = await ask('POST', '/v1/apply', sources(many.join('\n---\n'), profile));
    expect(taken.json.results).toHaveLength(301);
    const { json } = await ask('GET', '/v1/machines');
    expect(json.items).toHaveLength(301);
  });

  it('changes nothing with dryRun', async () => {
    const answer = await ask('POST', '/v1/apply?dryRun', sources(MACHINE('node-2', '52:54:00:aa:00:02')));
    expect(answer.json).toMatchObject({ dryRun: true, results: [{ action: 'created' }] });
    expect((await ask('GET', '/v1/machines/node-2')).status).toBe(404);
  });

  it('accepts plain YAML as curl --data-binary sends it', async () => {
    const text = `${MACHINE('node-2', '52:54:00:aa:00:02')}\n---\n${MACHINE('node-3', '52:54:00:aa:00:03')}`;
    const answer = await ask('POST', '/v1/apply', {
      body: text,
      headers: { 'content-type': 'application/yaml' },
    });
    expect(answer.json).toMatchObject({ results: [{ name: 'node-2' }, { name: 'node-3' }] });
  });

  it('warns of what will not work yet', async () => {
    const { json } = await ask('POST', '/v1/apply', {
      body: 'apiVersion: muster/v1\nkind: Profile\nmetadata: {name: new}\nspec: {image: missing}\n',
    });
    expect(json).toMatchObject({ warnings: [{ message: expect.stringContaining('missing') }] });
  });

  it('refuses invalid requests with a code', async () => {
    const post = (body: string) => ask('POST', '/v1/apply', { ...sources(), body });
    expect(await post('{')).toMatchObject({ status: 400, json: { code: 'E_USAGE' } });
    expect(await post('{"sources": [{"file": 1}]}')).toMatchObject({
      status: 400,
      json: { code: 'E_USAGE' },
    });
    expect(await ask('POST', '/v1/apply?dryRun=maybe', sources())).toMatchObject({ status: 400 });
  });

  it('refuses a body that is too large', async () => {
    const answer = await ask('POST', '/v1/apply', { body: 'x'.repeat(17 * 1024 * 1024) });
    expect(answer).toMatchObject({ status: 413, json: { code: 'E_TOO_LARGE' } });
    expect((await ask('GET', '/healthz')).status).toBe(200);
  });

  it('refuses more documents than one change may have, before it compares them', async () => {
    const profile = (n: number) =>
      `---\napiVersion: muster/v1\nkind: Profile\nmetadata: {name: p${n}}\nspec: {}\n`;
    const many = Array.from({ length: MAX_DOCUMENTS + 1 }, (_, n) => profile(n)).join('');
    expect(await ask('POST', '/v1/apply', { body: many })).toMatchObject({
      status: 413,
      json: { code: 'E_TOO_LARGE' },
    });
    // 200,000 documents with faults would be read for seconds before the first fault is known.
    expect(await ask('POST', '/v1/apply', { body: '---\na: 1\n'.repeat(200_000) })).toMatchObject({
      status: 413,
      json: { code: 'E_TOO_LARGE' },
    });
    const documents = Array.from({ length: MAX_DOCUMENTS + 1 }, (_, n) => ({
      kind: 'Profile',
      name: `p${n}`,
    }));
    expect(await ask('POST', '/v1/delete', { body: JSON.stringify({ documents }) })).toMatchObject({
      status: 413,
    });
  });
});

describe('machines', () => {
  const mac = parseMac('52:54:00:bb:00:01')!;
  const sighting = { bootMac: mac, macs: [mac], network: 'lan', arch: 'x86_64', firmware: 'uefi' } as const;

  it('that were only seen are listed without a spec', async () => {
    world.roster.discover(sighting);
    const { json } = await ask('GET', '/v1/machines/m-525400bb0001');
    expect(json).toMatchObject({ status: { phase: 'discovered', seen: { firmware: 'uefi' } } });
    expect(json).not.toHaveProperty('spec');
    expect(await ask('GET', '/v1/machines')).toMatchObject({
      json: { items: [{ metadata: { name: 'm-525400bb0001' } }, { metadata: { name: 'node-1' } }] },
    });
  });

  it('are accepted by name or address and then have a document', async () => {
    world.roster.discover(sighting);
    const answer = await ask('POST', '/v1/machines/52-54-00-BB-00-01/accept', {
      body: '{"profile": "worker", "name": "node-2"}',
    });
    expect(answer).toMatchObject({
      status: 200,
      json: { name: 'node-2', spec: { profile: 'worker', macs: [mac] } },
    });
    expect((await ask('GET', '/v1/machines/node-2')).json).toMatchObject({ status: { phase: 'registered' } });
  });

  it('are forgotten when they were only seen', async () => {
    world.roster.discover(sighting);
    expect((await ask('DELETE', '/v1/machines/m-525400bb0001?dryRun')).status).toBe(200);
    expect((await ask('GET', '/v1/machines/m-525400bb0001')).status).toBe(200);
    expect((await ask('DELETE', '/v1/machines/m-525400bb0001')).status).toBe(200);
    expect((await ask('GET', '/v1/machines/m-525400bb0001')).status).toBe(404);
  });

  it('are added with any spelling of their address, which is their name if none is given', async () => {
    const answer = await ask('POST', '/v1/machines/add', {
      body: '{"mac": "5254.00bb.0001", "profile": "worker", "address": "10.77.0.10"}',
    });
    expect(answer).toMatchObject({
      status: 201,
      json: { name: 'm-525400bb0001', after: { spec: { macs: [mac], addresses: ['10.77.0.10'] } } },
    });
    expect(await ask('POST', '/v1/machines/add', { body: `{"mac": "${mac}"}` })).toMatchObject({
      status: 409,
      json: { code: 'E_CONFLICT' },
    });
  });

  it.for([
    ['{"mac": "x"}', 'not a MAC address'],
    ['{"mac": "52:54:00:bb:00:01", "profle": "x"}', 'unknown key "profle"; did you mean "profile"?'],
    ['[]', 'must be a mapping'],
    ['{', 'not JSON'],
    ['{"mac": 5}', 'mac: must be text, found a number'],
  ] as const)('are not added from %s', async ([body, message]) => {
    const answer = await ask('POST', '/v1/machines/add', { body });
    expect(answer).toMatchObject({ status: 400, json: { detail: expect.stringContaining(message) } });
  });

  it('are explained by name and by address', async () => {
    const byName = await ask('GET', '/v1/explain?machine=node-1');
    expect(byName.json).toMatchObject({ subject: 'node-1', profile: 'worker', image: 'small' });
    const unknown = await ask('GET', '/v1/explain?mac=52:54:00:ff:00:01&firmware=bios&network=lan');
    expect(unknown.json).toMatchObject({ decision: { kind: 'hold', reason: { code: 'unknown_machine' } } });
    expect((await ask('GET', '/v1/explain?machine=nobody')).status).toBe(404);
    expect((await ask('GET', '/v1/explain')).status).toBe(400);
    expect((await ask('GET', '/v1/explain?machine=node-1&firmware=open')).status).toBe(400);
  });

  it('are rendered with the origin of each value', async () => {
    const { json } = await ask('GET', '/v1/render/node-1');
    expect(json).toMatchObject({ machine: 'node-1', format: 'cloud-init' });
    expect(Object.keys(json.files as object)).toContain('user-data');
    expect((await ask('GET', '/v1/render/nobody')).status).toBe(404);
  });

  it('have leases, which are listed by network', async () => {
    const now = world.clock.now();
    await world.leases.write({
      kind: 'write',
      network: 'lan',
      address: 0x0a4d0064 as never,
      lease: { v: 1, mac, state: 'bound', since: now, expires: millis(now + 60_000), machine: 'node-1' },
      writes: [],
    });
    const { json } = await ask('GET', '/v1/leases');
    expect(json.items).toEqual([
      {
        network: 'lan',
        address: '10.77.0.100',
        mac,
        state: 'bound',
        machine: 'node-1',
        expiresAt: new Date(now + 60_000).toISOString(),
      },
    ]);
    expect((await ask('GET', '/v1/leases?network=other')).json.items).toEqual([]);
  });
});

describe('events', () => {
  const record = (subject: string): void => world.deps.events.record({ kind: 'boot.session', subject });

  it('are listed by subject, newest last', async () => {
    record('a');
    record('b');
    record('a');
    const { json } = await ask('GET', '/v1/events?subject=a');
    expect((json.items as EventView[]).map((event) => event.subject)).toEqual(['a', 'a']);
    expect(((await ask('GET', '/v1/events?limit=1')).json.items as EventView[]).length).toBe(1);
    expect((await ask('GET', '/v1/events?limit=-1')).status).toBe(400);
  });

  it('of a machine include events from before it was recognised and from before it was accepted', async () => {
    record('52:54:00:aa:00:01');
    record('m-525400aa0001');
    record('node-1');
    record('node-2');
    for (const asked of ['node-1', '5254.00aa.0001', 'm-525400aa0001']) {
      const { json } = await ask('GET', `/v1/events?subject=${asked}`);
      const expected = ['52:54:00:aa:00:01', 'm-525400aa0001', 'node-1'];
      expect((json.items as EventView[]).map((event) => event.subject)).toEqual(
        asked.startsWith('m-') ? ['m-525400aa0001'] : expected,
      );
    }
    const { json } = await ask('GET', '/v1/events?subject=node-1&limit=1');
    expect((json.items as EventView[]).map((event) => event.subject)).toEqual(['node-1']);
  });

  /** The first `count` events of a stream. */
  async function take(count: number, options: { readonly headers?: Record<string, string> } = {}) {
    const stop = new AbortController();
    const stream = world.client.stream('/v1/events', {
      query: { follow: 'true', subject: 'a' },
      signal: stop.signal,
      ...options,
    });
    const events: EventView[] = [];
    for await (const event of readEvents(stream)) {
      events.push(event);
      if (events.length === count) break;
    }
    stop.abort();
    return events;
  }

  it('can be followed: first the kept ones are sent, then new ones', async () => {
    record('a');
    const two = take(2);
    await expect.poll(() => world.deps.metrics.text()).toContain('muster');
    // The stream is open once its first event has arrived; then another event happens.
    setTimeout(() => record('a'), 50);
    expect((await two).map((event) => event.subject)).toEqual(['a', 'a']);
  });

  it('continue after Last-Event-ID, or from the start when that is from before a restart', async () => {
    record('a');
    record('a');
    record('a');
    const [first] = await take(1);
    const rest = await take(2, { headers: { 'last-event-id': String(first!.sequence) } });
    expect(rest.map((event) => event.sequence)).toEqual([first!.sequence + 1, first!.sequence + 2]);
    const all = await take(3, { headers: { 'last-event-id': '999999' } });
    expect(all[0]!.sequence).toBe(first!.sequence);
  });

  it('end when the server stops', async () => {
    const stream = world.client.stream('/v1/events', { query: { follow: 'true' } });
    let text = '';
    const reading = (async () => {
      for await (const piece of stream) {
        if (text === '') void world.close();
        text += piece;
      }
    })();
    await reading;
    expect(text).toContain(': muster events');
    world = await openWorld();
  });
});

describe('the server', () => {
  it('lists its routes', async () => {
    const { json } = await ask('GET', '/v1');
    for (const path of ['/v1/apply', '/v1/assets/:sha256/verify'])
      expect(json.routes).toContainEqual(expect.objectContaining({ method: 'POST', path }));
  });

  it('answers an unknown path with a problem, and an unknown method with the known ones', async () => {
    expect(await ask('GET', '/nothing')).toMatchObject({ status: 404, json: { code: 'E_NOT_FOUND' } });
    expect(await ask('GET', '/v1/pods')).toMatchObject({ status: 404, json: { code: 'E_NOT_FOUND' } });
    const wrong = await ask('PATCH', '/v1/machines/node-1');
    expect(wrong).toMatchObject({ status: 405, json: { code: 'E_METHOD' } });
    expect(wrong.headers.allow).toBe('GET, PUT, DELETE');
    expect(await ask('GET', '/v1/machines/%zz')).toMatchObject({ status: 400, json: { code: 'E_USAGE' } });
  });

  it('shows no details of an unexpected error, except in its log', async () => {
    const { accept } = world.deps;
    (world.deps as { accept: unknown }).accept = () => Promise.reject(new Error('secret detail'));
    const answer = await ask('POST', '/v1/machines/node-1/accept');
    (world.deps as { accept: unknown }).accept = accept;
    expect(answer).toMatchObject({ status: 500, json: { code: 'E_INTERNAL' } });
    expect(answer.body).not.toContain('secret detail');
  });

  it('counts requests by route and status', async () => {
    await ask('GET', '/v1/machines');
    await ask('GET', '/v1/machines/x');
    await ask('GET', '/x');
    const { body } = await ask('GET', '/metrics');
    expect(body).toContain('muster_api_requests_total{route="GET /v1/:kind",status="200"} 1');
    expect(body).toContain('muster_api_requests_total{route="GET /v1/:kind/:name",status="404"} 1');
    expect(body).toContain('muster_api_requests_total{route="none",status="404"} 1');
  });

  it('reloads the configuration directory and answers with its faults', async () => {
    expect(await ask('POST', '/v1/reload')).toMatchObject({ status: 200, json: { faults: [] } });
  });

  it('says whether it is ready', async () => {
    expect(await ask('GET', '/readyz')).toMatchObject({ status: 200, body: 'ready\nok   store: open\n' });
    world.ready = false;
    const waiting = await ask('GET', '/readyz');
    expect(waiting).toMatchObject({ status: 503, body: 'not ready\nWAIT store: open\n' });
    expect(waiting.headers['retry-after']).toBe('1');
    expect((await ask('GET', '/v1/status')).json).toMatchObject({ version: '1.2.3', ready: false });
  });

  it('serves health and metrics by TCP, and nothing else there', async () => {
    const get = async (path: string) => (await fetch(`http://127.0.0.1:${world.metricsPort}${path}`)).status;
    expect(await Promise.all(['/healthz', '/readyz', '/metrics', '/version'].map(get))).toEqual([
      200, 200, 200, 200,
    ]);
    expect(await Promise.all(['/v1', '/v1/machines', '/v1/events'].map(get))).toEqual([404, 404, 404]);
  });

  it('sends problems that the client converts back to the same faults', async () => {
    const failed = await world.client.call('GET', '/v1/machines/nobody').catch((error: unknown) => error);
    expect(failed).toBeInstanceOf(MusterError);
    expect((failed as MusterError).code).toBe('E_NOT_FOUND');
  });
});

describe('names in paths', () => {
  it('of backups never lead out of their directory', async () => {
    for (const name of ['..', '%2e%2e%2f..', 'a%2f..%2fb', 'blue%00', 'Blue', 'a'.repeat(64)])
      for (const [method, rest] of [
        ['GET', 'backups'],
        ['POST', 'backups/1/verify'],
        ['POST', 'backups/1/content'],
      ] as const) {
        const { status } = await ask(method, `/v1/clusters/${name}/${rest}`);
        expect([name, method, rest, status]).toEqual([name, method, rest, 404]);
      }
  });
});
