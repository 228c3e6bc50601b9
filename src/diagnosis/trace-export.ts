/** Sends traces of boots and changes that have ended to a collector of OpenTelemetry. */
import { AgedMap } from '../base/aged.ts';
import { type Clock, pause } from '../base/clock.ts';
import { duration, millis } from '../base/duration.ts';
import type { Log } from '../base/log.ts';
import type { Metrics } from '../base/metrics.ts';
import type { EventLog, MusterEvent } from '../events/event.ts';
import { endedBy } from './boot-metrics.ts';
import { bootSpans, changeSpans, otlpText, type Span } from './spans.ts';
import { timelineOf } from './timeline.ts';

/** After a boot has ended, so long until its trace is made: transfers may end a little later. */
const SETTLE = duration('2s');
const ANSWER_WITHIN = duration('10s');
/** Attempts to send a trace, with pauses of 1, 2, 4 and 8 seconds between them. */
const ATTEMPTS = 5;
/** So many traces wait or are under way; beyond that new ones are dropped. */
const MAX_WAITING = 100;
/** So many changes are followed at a time, each with its last events. */
const MAX_CHANGES = 64;
const MAX_CHANGE_EVENTS = 2000;

export interface TraceDeps {
  /** The collector's address without `/v1/traces`. */
  readonly endpoint: string;
  readonly host: string;
  readonly events: Pick<EventLog, 'list' | 'subscribe'>;
  /** Sends a request and returns the status of the answer. */
  readonly post: (
    posted: {
      readonly url: string;
      readonly headers: Readonly<Record<string, string>>;
      readonly body: string;
    },
    signal: AbortSignal,
  ) => Promise<number>;
  readonly metrics: Pick<Metrics, 'add'>;
  readonly clock: Clock;
  readonly log: Log;
}

const hasEnded = ({ reason }: MusterEvent): boolean =>
  reason?.code === 'done' || reason?.code === 'rolled-back';

/** Starts to send. Returns a function that ends it and gives up what waits. */
export function startTraces(deps: TraceDeps): () => void {
  const { events, metrics, clock, log } = deps;
  const changes = new AgedMap<string, MusterEvent[]>();
  const closing = new AbortController();
  let waiting = 0;
  let isFailing = false;

  const attempt = async (body: string): Promise<string | undefined> => {
    const late = new AbortController();
    const cancel = clock.after(ANSWER_WITHIN, () => late.abort());
    try {
      const url = `${deps.endpoint.replace(/\/+$/, '')}/v1/traces`;
      const headers = { 'content-type': 'application/json' };
      const signal = AbortSignal.any([late.signal, closing.signal]);
      const status = await deps.post({ url, headers, body }, signal);
      return status >= 200 && status < 300 ? undefined : `the collector answers ${status}`;
    } catch (error) {
      return late.signal.aborted ? 'the collector does not answer in time' : String(error);
    } finally {
      cancel();
    }
  };
  const deliver = async (body: string): Promise<void> => {
    for (let n = 0; n < ATTEMPTS && !closing.signal.aborted; n++) {
      if (n > 0) await pause(clock, millis(1000 * 2 ** (n - 1)), closing.signal);
      const fault = await attempt(body);
      if (fault === undefined) {
        isFailing = false;
        metrics.add('muster_traces_total', { outcome: 'sent' });
        return;
      }
      if (!isFailing) log.warn({ cause: fault }, 'traces do not reach the collector');
      isFailing = true;
    }
    metrics.add('muster_traces_total', { outcome: 'dropped' });
  };
  const send = (spans: readonly Span[]): void => {
    if (spans.length === 0) return;
    if (waiting >= MAX_WAITING) {
      metrics.add('muster_traces_total', { outcome: 'dropped' });
      return;
    }
    waiting += 1;
    void deliver(otlpText(spans, deps.host)).finally(() => {
      waiting -= 1;
    });
  };
  const sendBoot = (machine: string, session: string): void => {
    if (closing.signal.aborted) return;
    const all = events.list({ subject: machine });
    const timeline = timelineOf({ machine, events: all, boot: session, now: clock.now() });
    if (timeline !== undefined) send(bootSpans(timeline));
  };
  const noteChange = (event: MusterEvent): void => {
    const id = String(event.fields?.id ?? '');
    const known = changes.get(id) ?? [];
    known.push(event);
    if (known.length > MAX_CHANGE_EVENTS) known.splice(1, 1);
    changes.set(id, known);
    if (changes.size > MAX_CHANGES) changes.delete(changes.oldest()!.key);
    if (!hasEnded(event)) return;
    changes.delete(id);
    send(changeSpans(known));
  };
  const unsubscribe = events.subscribe((event) => {
    if (event.kind === 'cluster.change') noteChange(event);
    const { session, subject } = event;
    if (session !== undefined && endedBy(event) !== undefined)
      clock.after(SETTLE, () => sendBoot(subject, session));
  });
  return () => {
    unsubscribe();
    closing.abort();
  };
}
