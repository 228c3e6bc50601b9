/**
 * Traces of boots and of changes of clusters, made of their events, as OTLP in JSON. Pure.
 *
 * @see https://opentelemetry.io/docs/specs/otlp/
 */
import { createHash } from 'node:crypto';
import { VERSION } from '../base/version.ts';
import type { MusterEvent } from '../events/event.ts';
import type { Timeline } from './timeline.ts';

type Value =
  | { readonly stringValue: string }
  | { readonly boolValue: boolean }
  | { readonly doubleValue: number };
type Attribute = { readonly key: string; readonly value: Value };
type Fields = Readonly<Record<string, string | number | boolean | undefined>>;

/** A span as OTLP has it in JSON: ids in hex, times as decimal texts of nanoseconds. */
export interface Span {
  readonly traceId: string;
  readonly spanId: string;
  readonly parentSpanId?: string;
  readonly name: string;
  /** 1: internal. */
  readonly kind: 1;
  readonly startTimeUnixNano: string;
  readonly endTimeUnixNano: string;
  readonly attributes: readonly Attribute[];
  readonly events?: readonly {
    readonly timeUnixNano: string;
    readonly name: string;
    readonly attributes: readonly Attribute[];
  }[];
  /** 1: ok, 2: error. */
  readonly status: { readonly code: 1 | 2; readonly message?: string };
}

const nanos = (milliseconds: number): string => `${BigInt(Math.round(milliseconds)) * 1_000_000n}`;
const hex = (text: string, octets: number): string =>
  createHash('sha256')
    .update(text)
    .digest('hex')
    .slice(0, octets * 2);

function anyValue(value: string | number | boolean): Value {
  if (typeof value === 'string') return { stringValue: value };
  return typeof value === 'number' ? { doubleValue: value } : { boolValue: value };
}

const attributes = (fields: Fields): readonly Attribute[] =>
  Object.entries(fields).flatMap(([key, value]) =>
    value === undefined ? [] : [{ key, value: anyValue(value) }],
  );

/** The trace of a boot has an id that is made of these, so that each boot has one trace. */
const traceOfBoot = (machine: string, boot: string): string => hex(`boot ${machine} ${boot}`, 16);

/**
 * The trace of a boot: one span for the whole, one for each stage, and what happened as events of
 * its stage. Empty when the timeline shows no boot.
 */
export function bootSpans({ machine, boot, stages, entries, verdicts }: Timeline): readonly Span[] {
  if (boot === undefined) return [];
  const traceId = traceOfBoot(machine, boot.id);
  const root = hex(traceId, 8);
  const good = boot.outcome === 'ready';
  const ids = { 'muster.machine': machine, 'muster.boot': boot.id };
  const spans = stages.map(
    ({ stage, text, from, to, silent }, n): Span => ({
      traceId,
      spanId: hex(`${traceId} ${n}`, 8),
      parentSpanId: root,
      name: stage,
      kind: 1,
      startTimeUnixNano: nanos(from),
      endTimeUnixNano: nanos(to),
      attributes: attributes({ ...ids, 'muster.stage.about': text, 'muster.stage.silent_ms': silent }),
      events: entries
        .filter((entry) => entry.stage === stage && entry.at >= from && entry.at <= to)
        .map((entry) => ({
          timeUnixNano: nanos(entry.at),
          name: entry.kind,
          attributes: attributes({ text: entry.text, code: entry.code, claim: entry.claim }),
        })),
      status: { code: 1 },
    }),
  );
  return [
    {
      traceId,
      spanId: root,
      name: `boot of ${machine}`,
      kind: 1,
      startTimeUnixNano: nanos(boot.at),
      endTimeUnixNano: nanos(boot.until),
      attributes: attributes({
        ...ids,
        'muster.boot.from': boot.from,
        'muster.boot.outcome': boot.outcome,
        'muster.boot.verdict': verdicts[0]?.code,
      }),
      status: good ? { code: 1 } : { code: 2, message: verdicts[0]?.title ?? boot.outcome },
    },
    ...spans,
  ];
}

/**
 * The trace of a change of a cluster: one span for the whole and one for each step, from the events
 * `cluster.change` of one change, oldest first. Empty without events.
 */
export function changeSpans(events: readonly MusterEvent[]): readonly Span[] {
  const [first] = events;
  const last = events.at(-1);
  if (first === undefined || last === undefined) return [];
  const { change = '', id = '' } = first.fields ?? {};
  const cluster = events.find(({ subject }) => subject.startsWith('Cluster/'))?.subject.slice(8) ?? 'muster';
  const traceId = hex(`change ${id}`, 16);
  const root = hex(traceId, 8);
  const ids = { 'muster.cluster': cluster, 'muster.change': String(id) };
  const steps: { name: string; from: number; to: number; events: MusterEvent[] }[] = [];
  for (const event of events) {
    const name = String(event.fields?.step ?? '');
    if (steps.at(-1)?.name !== name) steps.push({ name, from: event.at, to: event.at, events: [] });
    const step = steps.at(-1)!;
    step.events.push(event);
    step.to = event.at;
    const before = steps.at(-2);
    if (before !== undefined && before.to < step.from) before.to = step.from;
  }
  const span = (name: string, from: number, to: number) => ({
    traceId,
    name,
    kind: 1 as const,
    startTimeUnixNano: nanos(from),
    endTimeUnixNano: nanos(to),
    status: { code: 1 as const },
  });
  return [
    {
      ...span(`${change} of ${cluster}`, first.at, last.at),
      spanId: root,
      attributes: attributes({ ...ids, 'muster.change.end': last.reason?.code }),
    },
    ...steps.map(({ name, from, to, events: own }, n) => ({
      ...span(name, from, to),
      spanId: hex(`${traceId} ${n}`, 8),
      parentSpanId: root,
      attributes: attributes(ids),
      events: own.map(({ at, subject, reason }) => ({
        timeUnixNano: nanos(at),
        name: reason?.code ?? 'change',
        attributes: attributes({ subject, text: reason?.text }),
      })),
    })),
  ];
}

/** The body of a request to `/v1/traces`. */
export const otlpText = (spans: readonly Span[], host: string): string =>
  JSON.stringify({
    resourceSpans: [
      {
        resource: {
          attributes: attributes({ 'service.name': 'muster', 'service.version': VERSION, 'host.name': host }),
        },
        scopeSpans: [{ scope: { name: 'muster', version: VERSION }, spans }],
      },
    ],
  });
