/** Traces against a real HTTP server that takes only what OTLP's schema has. */
import { once } from 'node:events';
import { readFileSync } from 'node:fs';
import http from 'node:http';
import type { AddressInfo } from 'node:net';
import path from 'node:path';
import { afterEach, expect, test, vi } from 'vitest';
import { z } from 'zod';
import { ManualClock } from '../../../src/base/clock.ts';
import { duration, type Millis, millis } from '../../../src/base/duration.ts';
import { silentLog } from '../../../src/base/log.ts';
import { createMetrics } from '../../../src/base/metrics.ts';
import { createPost } from '../../../src/base/post.socket.ts';
import { bootSpans, changeSpans, otlpText } from '../../../src/diagnosis/spans.ts';
import { timelineOf } from '../../../src/diagnosis/timeline.ts';
import { startTraces } from '../../../src/diagnosis/trace-export.ts';
import type { MusterEvent } from '../../../src/events/event.ts';
import { createEventLog } from '../../../src/events/log.ts';

/** The fields of opentelemetry/proto/trace/v1/trace.proto that we send, in their JSON form. */
const attribute = z.strictObject({
  key: z.string().min(1),
  value: z.union([
    z.strictObject({ stringValue: z.string() }),
    z.strictObject({ boolValue: z.boolean() }),
    z.strictObject({ doubleValue: z.number() }),
  ]),
});
const time = z.string().regex(/^[0-9]{19}$/);
const span = z.strictObject({
  traceId: z.string().regex(/^[0-9a-f]{32}$/),
  spanId: z.string().regex(/^[0-9a-f]{16}$/),
  parentSpanId: z
    .string()
    .regex(/^[0-9a-f]{16}$/)
    .optional(),
  name: z.string().min(1),
  kind: z.literal(1),
  startTimeUnixNano: time,
  endTimeUnixNano: time,
  attributes: z.array(attribute),
  events: z
    .array(z.strictObject({ timeUnixNano: time, name: z.string().min(1), attributes: z.array(attribute) }))
    .optional(),
  status: z.strictObject({ code: z.union([z.literal(1), z.literal(2)]), message: z.string().optional() }),
});
const REQUEST = z.strictObject({
  resourceSpans: z.tuple([
    z.strictObject({
      resource: z.strictObject({ attributes: z.array(attribute) }),
      scopeSpans: z.tuple([
        z.strictObject({
          scope: z.strictObject({ name: z.string(), version: z.string() }),
          spans: z.array(span).min(1),
        }),
      ]),
    }),
  ]),
});
const spansIn = (body: string) => REQUEST.parse(JSON.parse(body)).resourceSpans[0].scopeSpans[0].spans;

const closing: (() => void)[] = [];
afterEach(() => {
  for (const close of closing.splice(0).reverse()) close();
});

const GOLDEN = path.join(import.meta.dirname, '../../golden/diagnosis/tftp-slow.jsonl');
const recorded = (): MusterEvent[] =>
  readFileSync(GOLDEN, 'utf8')
    .trim()
    .split('\n')
    .map((line) => JSON.parse(line) as MusterEvent);

test('a boot is one trace: a span for the whole, one for each stage within it, and every event in its stage', () => {
  const events = recorded();
  const machine = events[0]!.subject;
  const timeline = timelineOf({ machine, events, now: (events.at(-1)!.at + 1000) as Millis })!;
  const spans = bootSpans(timeline);
  const [root, ...stages] = spansIn(otlpText(spans, 'boot1'));
  expect(root!.name).toBe(`boot of ${machine}`);
  expect(stages.map(({ name }) => name)).toEqual(timeline.stages.map(({ stage }) => stage));
  for (const stage of stages) {
    expect(stage).toMatchObject({ traceId: root!.traceId, parentSpanId: root!.spanId });
    expect(stage.startTimeUnixNano >= root!.startTimeUnixNano).toBe(true);
    expect(stage.endTimeUnixNano <= root!.endTimeUnixNano).toBe(true);
  }
  expect(new Set(spans.map(({ spanId }) => spanId)).size).toBe(spans.length);
  expect(stages.flatMap(({ events: own = [] }) => own).length).toBe(timeline.entries.length);
  const attributes = root!.attributes.map(({ key }) => key);
  expect(attributes).toEqual(
    expect.arrayContaining(['muster.machine', 'muster.boot', 'muster.boot.outcome']),
  );
});

const step = (at: number, name: string, code: string, subject = 'Cluster/blue'): MusterEvent => ({
  sequence: at,
  at: (1_795_000_000_000 + at) as Millis,
  kind: 'cluster.change',
  subject,
  reason: { code, text: `${code}.` },
  fields: { change: 'rotation', id: 'c1', step: name },
});

test('a change is one trace with a span for each step, which lasts until the next one begins', () => {
  const spans = changeSpans([
    step(1, 'trust', 'began'),
    step(2, 'trust', 'evidence', 'cp1'),
    step(5, 'sign', 'began'),
    step(9, 'sign', 'done'),
  ]);
  const [root, trust, sign] = spansIn(otlpText(spans, 'boot1'));
  expect(root!.name).toBe('rotation of blue');
  expect(trust).toMatchObject({ name: 'trust', parentSpanId: root!.spanId });
  expect(trust!.endTimeUnixNano).toBe(sign!.startTimeUnixNano);
  expect(trust!.events!.map(({ name }) => name)).toEqual(['began', 'evidence']);
  expect(sign!.endTimeUnixNano).toBe(root!.endTimeUnixNano);
});

async function world() {
  const bodies: string[] = [];
  let status = 200;
  const server = http.createServer((request, response) => {
    let body = '';
    request.on('data', (text) => (body += text));
    request.on('end', () => {
      bodies.push(`${request.url} ${body}`);
      response.writeHead(status).end('{}');
    });
  });
  server.listen(0, '127.0.0.1');
  await once(server, 'listening');
  closing.push(() => server.close());
  const clock = new ManualClock();
  const metrics = createMetrics();
  const events = createEventLog({
    metrics: createMetrics(),
    clock,
    log: silentLog,
    perSubject: 100,
    subjects: 10,
  });
  const endpoint = `http://127.0.0.1:${(server.address() as AddressInfo).port}/`;
  closing.push(
    startTraces({
      endpoint,
      host: 'boot1',
      events,
      post: createPost({ local: true }).post,
      metrics,
      clock,
      log: silentLog,
    }),
  );
  return {
    bodies,
    clock,
    events,
    answers: (code: number) => {
      status = code;
    },
    count: async (outcome: string) =>
      Number(
        new RegExp(`^muster_traces_total\\{outcome="${outcome}"\\} (.*)$`, 'm').exec(
          await metrics.text(),
        )?.[1] ?? 0,
      ),
  };
}

test('a boot that has become ready is sent to the collector, and sent again when the collector fails', async () => {
  const { bodies, clock, events, answers, count } = await world();
  answers(503);
  events.record({ kind: 'boot.session', subject: 'node-1', session: 's1', fields: { stage: 'pxe' } });
  clock.advance(millis(5000));
  events.record({ kind: 'report.believed', subject: 'node-1', session: 's1', fields: { step: 'kernel' } });
  expect(bodies).toEqual([]);
  events.record({ kind: 'report.believed', subject: 'node-1', session: 's1', fields: { step: 'ready' } });
  clock.advance(duration('2s'));
  await vi.waitFor(() => expect(bodies.length).toBe(1), 20_000);
  answers(200);
  await vi.waitFor(async () => {
    clock.advance(duration('1s'));
    expect(await count('sent')).toBe(1);
  }, 20_000);
  const [url, body] = bodies.at(-1)!.split(/ (.*)/s);
  expect(url).toBe('/v1/traces');
  const [root] = spansIn(body!);
  expect(root).toMatchObject({ name: 'boot of node-1', status: { code: 1 } });
});

test('a trace that the collector does not take in five attempts is dropped and counted', async () => {
  const { bodies, clock, events, answers, count } = await world();
  answers(500);
  events.record({ ...step(1, 'trust', 'began') });
  events.record({ ...step(1, 'trust', 'done') });
  await vi.waitFor(async () => {
    clock.advance(duration('1s'));
    expect(await count('dropped')).toBe(1);
  }, 20_000);
  expect(bodies.length).toBe(5);
});
