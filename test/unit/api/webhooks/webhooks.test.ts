/** Webhooks against a real HTTP server that verifies with the library that receivers use. */
import { once } from 'node:events';
import http from 'node:http';
import type { AddressInfo } from 'node:net';
import { Webhook } from 'standardwebhooks';
import { afterEach, expect, test, vi } from 'vitest';
import { MAX_REFUSALS, MAX_WAITING, pauseAfter } from '../../../../src/api/webhooks/delivery.ts';
import { startWebhooks } from '../../../../src/api/webhooks/webhooks.ts';
import { ManualClock } from '../../../../src/base/clock.ts';
import { duration, millis } from '../../../../src/base/duration.ts';
import { silentLog } from '../../../../src/base/log.ts';
import { createMetrics } from '../../../../src/base/metrics.ts';
import { createPost } from '../../../../src/base/post.socket.ts';
import { keyOf } from '../../../../src/base/signature.ts';
import { createEventLog } from '../../../../src/events/log.ts';
import type { CatalogChange } from '../../../../src/resources/catalog.ts';

const SECRET = `whsec_${Buffer.from('a key of thirty-two octets, see?').toString('base64')}`;
const closing: (() => void)[] = [];
afterEach(() => {
  for (const close of closing.splice(0).reverse()) close();
});

interface Got {
  readonly id: string;
  readonly subject: string;
  readonly answer: (status: number) => void;
}

/** A server that verifies every request, and answers when the test says. */
async function receiver(port = 0) {
  const got: Got[] = [];
  const server = http.createServer((request, response) => {
    let body = '';
    request.setEncoding('utf8');
    request.on('data', (text) => (body += text));
    request.on('end', () => {
      // The clock of the test is not that of the library, which compares times.
      vi.setSystemTime(Number(request.headers['webhook-timestamp']) * 1000);
      const event = new Webhook(SECRET).verify(body, request.headers as Record<string, string>) as Got;
      vi.useRealTimers();
      got.push({
        id: request.headers['webhook-id'] as string,
        subject: event.subject,
        answer: (status) => response.writeHead(status).end('ignored'),
      });
    });
  });
  server.listen(port, '127.0.0.1');
  await once(server, 'listening');
  const close = () => {
    server.closeAllConnections();
    server.close();
  };
  closing.push(close);
  const next = (count: number) =>
    vi.waitFor(() => {
      expect(got.length).toBe(count);
      return got[count - 1]!;
    }, 20_000);
  return { got, next, close, port: (server.address() as AddressInfo).port };
}

function world(url: string, events: readonly string[], secret: () => string | undefined = () => SECRET) {
  const clock = new ManualClock();
  const metrics = createMetrics();
  const log = createEventLog({
    metrics: createMetrics(),
    clock,
    log: silentLog,
    perSubject: 10,
    subjects: 10,
  });
  const spec = { url, secret: { valueFrom: { secret: 's', key: 'k' } }, events: [...events] };
  const entry = { document: { apiVersion: 'muster/v1', kind: 'Webhook', metadata: { name: 'hook' }, spec } };
  let changed: (changes: readonly CatalogChange[]) => void = () => {};
  const stop = startWebhooks({
    catalog: {
      list: () => [entry] as never,
      subscribe(listener) {
        changed = listener;
        return () => {};
      },
    },
    events: log,
    secret: () => {
      const text = secret();
      return text === undefined ? undefined : Buffer.from(text);
    },
    ...{ post: createPost({ local: true }).post, metrics, clock, log: silentLog },
  });
  closing.push(stop);
  return {
    clock,
    record: (subject: string, kind: 'machine.held' | 'machine.phase' | 'dhcp.offer' = 'machine.held') =>
      log.record({ kind, subject }),
    count: async (outcome: string) => {
      const line = new RegExp(
        `^muster_webhook_events_total\\{webhook="hook",outcome="${outcome}"\\} (.*)$`,
        'm',
      );
      return Number(line.exec(await metrics.text())?.[1] ?? 0);
    },
    waiting: async () =>
      Number(/^muster_webhook_waiting\{webhook="hook"\} (.*)$/m.exec(await metrics.text())![1]),
    change: (next: Partial<typeof spec> | undefined) =>
      changed([
        {
          kind: 'Webhook',
          name: 'hook',
          entry: next && { document: { ...entry.document, spec: { ...spec, ...next } } },
        } as never,
      ]),
  };
}

/** Waits until the failure was noted and the next attempt is planned. */
const failed = (of: ReturnType<typeof world>, times: number) =>
  vi.waitFor(async () => expect(await of.count('failed')).toBe(times), 20_000);

test('events of the chosen kinds are sent in their order, signed as receivers verify it', async () => {
  const server = await receiver();
  const hook = world(`http://127.0.0.1:${server.port}/x`, ['machine.*']);
  hook.record('one');
  hook.record('ignored', 'dhcp.offer');
  hook.record('two', 'machine.phase');
  (await server.next(1)).answer(204);
  (await server.next(2)).answer(200);
  await vi.waitFor(async () => expect(await hook.count('delivered')).toBe(2), 20_000);
  expect(server.got.map(({ subject }) => subject)).toEqual(['one', 'two']);
  expect(await hook.waiting()).toBe(0);
});

test('an event that the server fails to take is sent again with the same id, later each time, before later ones', async () => {
  const server = await receiver();
  const hook = world(`http://127.0.0.1:${server.port}/`, ['machine.held']);
  hook.record('one');
  hook.record('two');
  (await server.next(1)).answer(500);
  await failed(hook, 1);
  hook.clock.advance(millis(999));
  expect(server.got.length).toBe(1);
  hook.clock.advance(millis(1));
  (await server.next(2)).answer(503);
  await failed(hook, 2);
  hook.clock.advance(millis(2000));
  (await server.next(3)).answer(200);
  (await server.next(4)).answer(200);
  expect(server.got.map(({ subject }) => subject)).toEqual(['one', 'one', 'one', 'two']);
  expect(new Set(server.got.slice(0, 3).map(({ id }) => id)).size).toBe(1);
  expect(server.got[3]!.id).not.toBe(server.got[0]!.id);
});

test('a server that does not answer is given up after ten seconds and asked again', async () => {
  const server = await receiver();
  const hook = world(`http://127.0.0.1:${server.port}/`, ['machine.held']);
  hook.record('one');
  await server.next(1);
  hook.clock.advance(duration('10s'));
  await failed(hook, 1);
  hook.clock.advance(duration('1s'));
  (await server.next(2)).answer(200);
  await vi.waitFor(async () => expect(await hook.count('delivered')).toBe(1), 20_000);
});

test('what was recorded while the server was away arrives when it comes back', async () => {
  const first = await receiver();
  first.close();
  const hook = world(`http://127.0.0.1:${first.port}/`, ['machine.held']);
  hook.record('one');
  await failed(hook, 1);
  hook.record('two');
  const again = await receiver(first.port);
  hook.clock.advance(duration('1s'));
  (await again.next(1)).answer(200);
  (await again.next(2)).answer(200);
  expect(again.got.map(({ subject }) => subject)).toEqual(['one', 'two']);
});

test('an event that the server refuses five times is given up; 429 is no refusal', async () => {
  const server = await receiver();
  const hook = world(`http://127.0.0.1:${server.port}/`, ['machine.held']);
  hook.record('bad');
  hook.record('good');
  (await server.next(1)).answer(429);
  await failed(hook, 1);
  for (let n = 1; n <= MAX_REFUSALS; n++) {
    hook.clock.advance(pauseAfter(n));
    (await server.next(n + 1)).answer(400);
    await failed(hook, n + 1);
  }
  (await server.next(MAX_REFUSALS + 2)).answer(200);
  expect(server.got.at(-1)!.subject).toBe('good');
  expect(await hook.count('refused')).toBe(1);
});

test('the events that wait are bounded; the oldest are dropped and counted', async () => {
  const server = await receiver();
  const hook = world(`http://127.0.0.1:${server.port}/`, ['machine.held']);
  hook.record('first');
  await server.next(1);
  for (let n = 0; n < MAX_WAITING + 9; n++) hook.record(`later-${n}`);
  expect(await hook.waiting()).toBe(MAX_WAITING);
  expect(await hook.count('dropped')).toBe(10);
  server.got[0]!.answer(200);
  expect((await server.next(2)).subject).toBe('later-10');
});

test('a changed document counts at once, and a deleted one ends it', async () => {
  const old = await receiver();
  old.close();
  const hook = world(`http://127.0.0.1:${old.port}/`, ['machine.held']);
  hook.record('one');
  await failed(hook, 1);
  const server = await receiver();
  hook.change({ url: `http://127.0.0.1:${server.port}/`, events: ['machine.phase'] });
  (await server.next(1)).answer(200);
  hook.record('unwanted');
  hook.record('two', 'machine.phase');
  expect((await server.next(2)).subject).toBe('two');
  hook.change(undefined);
  hook.record('three', 'machine.phase');
  expect(await hook.waiting()).toBe(0);
});

test('nothing is sent before the Secret is there', async () => {
  const server = await receiver();
  let secret: string | undefined;
  const hook = world(`http://127.0.0.1:${server.port}/`, ['machine.held'], () => secret);
  hook.record('one');
  await failed(hook, 1);
  secret = SECRET;
  hook.clock.advance(duration('1s'));
  (await server.next(1)).answer(200);
});

test('the key is the base64 after whsec_ or the text itself, and too short a key is refused', () => {
  expect(keyOf(Buffer.from(`${SECRET}\n`))!.toString()).toBe('a key of thirty-two octets, see?');
  expect(keyOf(Buffer.from('x'.repeat(24)))!.length).toBe(24);
  expect(keyOf(Buffer.from('x'.repeat(23)))).toBeUndefined();
  expect(keyOf(Buffer.from('whsec_AAAA'))).toBeUndefined();
});
