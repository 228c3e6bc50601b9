/** Events: a list, or a stream that goes on (server-sent events). */
import type { Clock } from '../base/clock.ts';
import { seconds, toMillis } from '../base/duration.ts';
import { parseMac } from '../base/mac.ts';
import type { EventLog, MusterEvent } from '../events/event.ts';
import type { ApiDeps } from './deps.ts';
import { type ApiRequest, flag, type Handler, json, wholeNumber } from './handler.ts';

/**
 * A reader that lags by more events than this is cut off; it comes back with Last-Event-ID and
 * misses nothing kept.
 */
const MAX_QUEUED = 10_000;
/** A comment at this interval tells both ends, and what is between them, that the stream lives. */
const KEEP_ALIVE = toMillis(seconds(15));
const MAX_LIMIT = 100_000;

const EVENT_STREAM = 'text/event-stream';

/**
 * Query: `subject` (machine, MAC in any spelling, or `Kind/name`), `after` (sequence), `limit`
 * (newest that many), `follow`. With `follow` or `Accept: text/event-stream` a stream: first what
 * is kept, then what comes; `Last-Event-ID` goes on where another ended.
 */
export const listEvents: Handler<ApiDeps> = (request, deps) => {
  const { query } = request;
  const subject = query.get('subject');
  const subjects = subject === null ? undefined : subjectsOf(subject, deps.roster);
  const limit = wholeNumber(query, 'limit', MAX_LIMIT);
  const after = resumePoint(request, deps.events);
  const filter: Filter = { subjects, after, limit };
  if (!flag(query, 'follow') && !request.headers.accept?.includes(EVENT_STREAM))
    return json({ kind: 'EventList', items: kept(deps.events, filter) });
  return {
    status: 200,
    headers: { 'content-type': EVENT_STREAM, 'cache-control': 'no-store' },
    body: follow(deps.events, filter, deps.clock, request.signal),
  };
};

interface Filter {
  readonly subjects: ReadonlySet<string> | undefined;
  readonly after: number | undefined;
  readonly limit: number | undefined;
}

/**
 * Everything that events may call this subject: a machine by name or by any spelling of an address
 * also has the events from before it was recognised (its addresses) and from before it was accepted
 * (the name that it was recorded under), and those of its document (`Machine/NAME`), also when that
 * is deleted.
 */
export function subjectsOf(
  text: string,
  roster: Pick<ApiDeps['roster'], 'get' | 'byMac'>,
): ReadonlySet<string> {
  const mac = parseMac(text);
  const member = roster.get(text) ?? (mac && roster.byMac(mac));
  const macs = [
    ...(mac ? [mac] : []),
    ...(member?.entry?.document.spec.macs ?? []),
    ...(member?.status.seen.macs ?? []),
  ];
  const recorded = macs.map((one) => `m-${one.replaceAll(':', '')}`);
  const names = [...(mac || text.includes('/') ? [] : [text]), ...(member ? [member.name] : []), ...recorded];
  const documents = names.map((name) => `Machine/${name}`);
  return new Set([mac ?? text, ...names, ...macs, ...documents]);
}

/** What the log still has, newest last, of all subjects together. */
function kept(events: EventLog, { subjects, after, limit }: Filter): readonly MusterEvent[] {
  const bounds = { ...(after === undefined ? {} : { after }), ...(limit === undefined ? {} : { limit }) };
  if (subjects === undefined) return events.list(bounds);
  const found = [...subjects].flatMap((subject) => events.list({ ...bounds, subject }));
  found.sort((a, b) => a.sequence - b.sequence);
  return limit === undefined ? found : found.slice(found.length - Math.min(limit, found.length));
}

/**
 * The sequence to go on after. One beyond the newest is from before a restart: then everything is
 * new.
 */
function resumePoint(request: ApiRequest, events: EventLog): number | undefined {
  const last = request.headers['last-event-id'];
  const after = /^[0-9]{1,15}$/.test(last ?? '') ? Number(last) : wholeNumber(request.query, 'after');
  if (after === undefined) return undefined;
  const newest = events.list({ limit: 1 }).at(-1)?.sequence ?? 0;
  return after > newest ? undefined : after;
}

function frame(event: MusterEvent, text = JSON.stringify(event)): string {
  return `id: ${event.sequence}\nevent: ${event.kind}\ndata: ${text}\n\n`;
}

async function* follow(
  events: EventLog,
  filter: Filter,
  clock: Clock,
  signal: AbortSignal,
): AsyncGenerator<string> {
  const queue: string[] = [];
  let wake = (): void => {};
  let lagged = false;
  // Subscribing before listing: what happens in between comes twice at most, never not at all.
  let sent = filter.after ?? 0;
  const unsubscribe = events.subscribe((event, text) => {
    if (filter.subjects && !filter.subjects.has(event.subject)) return;
    if (queue.length >= MAX_QUEUED) lagged = true;
    else queue.push(frame(event, text));
    wake();
  });
  const onAbort = (): void => wake();
  signal.addEventListener('abort', onAbort, { once: true });
  try {
    yield ': muster events\n\n';
    for (const event of kept(events, filter)) {
      if (signal.aborted) return;
      sent = event.sequence;
      yield frame(event);
    }
    while (!signal.aborted && !lagged) {
      const next = queue.shift();
      if (next !== undefined) {
        const sequence = Number(next.slice(4, next.indexOf('\n')));
        if (sequence > sent) {
          sent = sequence;
          yield next;
        }
        continue;
      }
      const alive = await new Promise<boolean>((resolve) => {
        const cancel = clock.after(KEEP_ALIVE, () => resolve(true));
        wake = () => {
          cancel();
          resolve(false);
        };
        if (queue.length > 0 || signal.aborted || lagged) wake();
      });
      if (alive) yield ': alive\n\n';
    }
  } finally {
    unsubscribe();
    signal.removeEventListener('abort', onAbort);
  }
}
