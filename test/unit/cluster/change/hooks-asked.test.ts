/** Hooks are asked over real connections: what servers answer, and what counts as a yes. */
import { once } from 'node:events';
import http from 'node:http';
import https from 'node:https';
import type { AddressInfo } from 'node:net';
import { Webhook } from 'standardwebhooks';
import { afterEach, expect, test, vi } from 'vitest';
import { ManualClock } from '../../../../src/base/clock.ts';
import { duration } from '../../../../src/base/duration.ts';
import { silentLog } from '../../../../src/base/log.ts';
import { createPost } from '../../../../src/base/post.socket.ts';
import { openHooks } from '../../../../src/cluster/change/hooks/hooks.ts';
import { openMemoryStore } from '../../../../src/store/memory.ts';
import { selfSigned } from '../../../self-signed.ts';
import { hook } from './hooks-kit.ts';

const SECRET = `whsec_${Buffer.from('a key of thirty-two octets, see?').toString('base64')}`;
const closing: (() => void)[] = [];
afterEach(() => {
  for (const close of closing.splice(0).reverse()) close();
});

type Handler = (response: http.ServerResponse, body: string, headers: http.IncomingHttpHeaders) => void;

async function served(handler: Handler, tls?: { readonly cert: string; readonly key: string }) {
  const answer: http.RequestListener = (request, response) => {
    let body = '';
    request.setEncoding('utf8');
    request.on('data', (text) => (body += text));
    request.on('end', () => handler(response, body, request.headers));
  };
  const server = tls ? https.createServer(tls, answer) : http.createServer(answer);
  server.listen(0, '127.0.0.1');
  await once(server, 'listening');
  closing.push(() => {
    server.closeAllConnections();
    server.close();
  });
  return `${tls ? 'https' : 'http'}://127.0.0.1:${(server.address() as AddressInfo).port}/hook`;
}

const TURN = { cluster: 'blue', id: 'roll-1', kind: 'roll', step: 'workers' };
const W1 = { name: 'w1', roles: ['worker'] } as const;

/** Asks the hook at a URL once. Resolves with what the machine waits for; `open`: nothing. */
async function asked(
  url: string,
  {
    ca,
    secret = SECRET,
    meanwhile,
  }: { ca?: string; secret?: string; meanwhile?: (clock: ManualClock) => void } = {},
): Promise<string> {
  const clock = new ManualClock();
  const stop = new AbortController();
  closing.push(() => stop.abort());
  const hooks = await openHooks({
    ...{ store: openMemoryStore(), clock, log: silentLog, events: { record: () => undefined } },
    catalog: {
      get: () => ({ document: { spec: { hooks: [hook('ceph', { url, ...(ca && { ca }) })] } } }) as never,
    },
    secret: () => (secret === '' ? undefined : Buffer.from(secret)),
    post: createPost({ local: true }).postAndRead,
    newId: () => 'one',
    signal: stop.signal,
  });
  hooks.ask(TURN, W1, 'before');
  return vi.waitFor(() => {
    meanwhile?.(clock);
    const gate = hooks.gate(TURN, W1, 'before');
    if (gate.is === 'open') return 'open';
    const text = gate.is === 'held' ? gate.hold.text : gate.text;
    expect(text).not.toBe('its hook ceph is asked');
    return text.replace(/ \(asked.*/, '');
  }, 10_000);
}

test('a hook gets a signed request that says which machine of which change it is about', async () => {
  const got: unknown[] = [];
  const url = await served((response, body, headers) => {
    vi.setSystemTime(Number(headers['webhook-timestamp']) * 1000);
    got.push(new Webhook(SECRET).verify(body, headers as Record<string, string>));
    vi.useRealTimers();
    response.end('{"result": "pass"}');
  });
  expect(await asked(url)).toBe('open');
  expect(got).toEqual([
    {
      ...{ cluster: 'blue', machine: 'w1', node: 'w1', operation: 'roll', change: 'roll-1', step: 'workers' },
      ...{ when: 'before', hook: 'ceph', attempt: 1, since: '2026-01-01T00:00:00.000Z' },
    },
  ]);
});

test.for<readonly [string, Handler, string]>([
  ['204 without a body', (response) => response.writeHead(204).end(), 'open'],
  ['200 without a body', (response) => response.end(), 'open'],
  [
    'fail',
    (response) => response.end('{"result": "fail", "reason": "no"}'),
    'The hook ceph does not let w1 begin: no.',
  ],
  [
    'a reason with control characters, of many lines',
    (response) =>
      response.end(JSON.stringify({ result: 'wait', reason: `\u001b[31mred\n${'x'.repeat(999)}` })),
    `the hook ceph lets it wait: [31mred ${'x'.repeat(191)}`,
  ],
  [
    'another result',
    (response) => response.end('{"result": "ok"}'),
    'the hook ceph lets it wait: it answers with the result "ok"; known are pass, wait and fail',
  ],
  [
    'JSON without a result',
    (response) => response.end('[true]'),
    'the hook ceph lets it wait: it answers with no result; known are pass, wait and fail',
  ],
  [
    'JSON that is cut off',
    (response) => response.end('{"result": "pass"'),
    'the hook ceph lets it wait: it answers 200 with something that is not JSON',
  ],
  [
    '503 with a pass',
    (response) => response.writeHead(503).end('{"result": "pass"}'),
    'the hook ceph lets it wait: it answers 503',
  ],
  [
    'more than 16 KiB',
    (response) => response.end(JSON.stringify({ result: 'pass', reason: 'x'.repeat(17_000) })),
    'the hook ceph lets it wait: it cannot be asked: its answer has more than 16384 octets',
  ],
  [
    'a connection that ends in the middle of the answer',
    (response) => {
      response.writeHead(200, { 'content-length': '100' }).write('{"result": "pass"}');
      setTimeout(() => response.destroy(), 20);
    },
    'the hook ceph lets it wait: it cannot be asked: ECONNRESET',
  ],
])('a hook that answers with %s', async ([, handler, expected]) => {
  expect(await asked(await served(handler))).toBe(expected);
});

test('a redirect is not followed, also where its target would pass', async () => {
  let requests = 0;
  const target = await served((response) => {
    requests++;
    response.end();
  });
  const url = await served((response) => response.writeHead(307, { location: target }).end());
  expect(await asked(url)).toBe('the hook ceph lets it wait: it answers 307, and redirects are not followed');
  expect(requests).toBe(0);
});

test('a hook that is slower than 30 seconds, drop by drop, has not answered', async () => {
  const url = await served((response) => {
    response.writeHead(200);
    const timer = setInterval(() => response.write(' '), 5);
    response.on('close', () => clearInterval(timer));
  });
  const began = Date.now();
  const meanwhile = (clock: ManualClock): void => {
    if (Date.now() - began > 200) clock.advance(duration('10s'));
  };
  expect(await asked(url, { meanwhile })).toBe(
    'the hook ceph lets it wait: it cannot be asked: it does not answer within 30 s',
  );
});

test('a hook whose certificate another CA has signed is not believed, and its own CA is', async () => {
  const own = selfSigned('checks', ['IP:127.0.0.1']);
  const other = selfSigned('checks', ['IP:127.0.0.1']);
  const url = await served((response) => response.end(), { cert: own.certificate, key: own.key });
  expect(await asked(url)).toMatch(/cannot be asked: [A-Z_]*CERT[A-Z_]*$/);
  expect(await asked(url, { ca: other.certificate })).toMatch(/cannot be asked: [A-Z_]+$/);
  expect(await asked(url, { ca: own.certificate })).toBe('open');
});

test('a hook without a server, or without a key for its signature, lets the machine wait', async () => {
  expect(await asked('http://127.0.0.1:1/')).toBe(
    'the hook ceph lets it wait: it cannot be asked: ECONNREFUSED',
  );
  const url = await served((response) => response.end());
  expect(await asked(url, { secret: '' })).toContain('Secret checks has no key signature yet');
  expect(await asked(url, { secret: 'short' })).toContain('shorter than 24 octets');
});
