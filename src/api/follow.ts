/** Streams of numbered items as server-sent events: first what is kept, then what comes. */
import type { Clock } from '../base/clock.ts';
import { seconds, toMillis } from '../base/duration.ts';
import type { ApiRequest } from './handler.ts';
import { raw } from './operation.ts';

/**
 * A reader that lags by more items than this is cut off; it comes back with Last-Event-ID and
 * misses nothing that is kept.
 */
const MAX_QUEUED = 10_000;
/** At most so many items are one write. */
const MAX_AT_ONCE = 200;
/** A comment at this interval shows both ends, and what is between them, that the stream lives. */
const KEEP_ALIVE = toMillis(seconds(15));

interface Numbered {
  readonly sequence: number;
  readonly kind: string;
}

export interface Followed<T extends Numbered> {
  /** What is kept already, oldest first. */
  readonly kept: () => readonly T[];
  /** Calls back with each new item; the returned function ends that. */
  readonly subscribe: (listener: (item: T) => void) => () => void;
  /** Whether the reader wants it. */
  readonly wanted: (item: T) => boolean;
  /** What the reader gets of it. */
  readonly view: (item: T) => unknown;
  /** The number of the last item that the reader has; 0 for none. */
  readonly after: number;
  /** Where numbers begin again when the server restarts: a name of this run, for the ids. */
  readonly run?: string;
}

/** Yields the frames of a stream until `signal` aborts or the reader lags too far. */
export async function* follow<T extends Numbered>(
  { kept, subscribe, wanted, view, after, run }: Followed<T>,
  clock: Clock,
  signal: AbortSignal,
): AsyncGenerator<string> {
  const frame = (item: T): string =>
    `id: ${run === undefined ? '' : `${run}.`}${item.sequence}\nevent: ${item.kind}\ndata: ${JSON.stringify(view(item))}\n\n`;
  const queue: { readonly sequence: number; readonly text: string }[] = [];
  let wake = (): void => {};
  let lagged = false;
  // Subscribing before listing: what happens in between comes twice at most, never not at all.
  let sent = after;
  const unsubscribe = subscribe((item) => {
    if (!wanted(item)) return;
    if (queue.length >= MAX_QUEUED) lagged = true;
    else queue.push({ sequence: item.sequence, text: frame(item) });
    wake();
  });
  const onAbort = (): void => wake();
  signal.addEventListener('abort', onAbort, { once: true });
  try {
    yield ': muster events\n\n';
    for (const item of kept()) {
      if (signal.aborted) return;
      sent = item.sequence;
      yield frame(item);
    }
    while (!signal.aborted && !lagged) {
      // What came meanwhile is one write: a burst does not wait for as many turns as it has items.
      const next = queue.splice(0, MAX_AT_ONCE).filter(({ sequence }) => sequence > sent);
      if (next.length > 0) {
        sent = next.at(-1)!.sequence;
        yield next.map(({ text }) => text).join('');
      }
      if (queue.length > 0) continue;
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

const EVENT_STREAM = 'text/event-stream';

/** Whether a client wants a stream; `Last-Event-ID` continues an earlier one. */
export const streams = (query: { readonly follow?: boolean }, { accept }: ApiRequest['headers']): boolean =>
  query.follow === true || accept?.includes(EVENT_STREAM) === true;

/** The answer that is a stream. */
export const stream = (body: AsyncIterable<string>) =>
  raw({ status: 200, headers: { 'content-type': EVENT_STREAM }, body });
