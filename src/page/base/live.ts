/** The stream of events, which keeps the page up to date. One for the whole page. */
import { signal } from '@preact/signals';
import type { EventView } from '../../api/times.ts';
import { pause } from './clock.ts';
import { Frames } from './frames.ts';
import { askUntil, Problem, request } from './http.ts';

/** Whether what is shown is up to date. */
export const link = signal<'connecting' | 'live' | 'lost'>('connecting');
/** Goes up by one when events may have been missed: a view that keeps a list fetches it again. */
export const gap = signal(0);

type Listener = (event: EventView) => void;
const listeners = new Set<Listener>();

/** Calls back with each event. The returned function ends that. */
export function onEvent(listener: Listener): () => void {
  listeners.add(listener);
  return () => listeners.delete(listener);
}

const RETRY_MS = [500, 1000, 2000, 5000] as const;

/** Follows events until `signal` aborts, and comes back after every interruption. */
export async function followEvents(stop: AbortSignal): Promise<void> {
  let last: string | undefined;
  for (let failures = 0; !stop.aborted; ) {
    try {
      last ??= String((await newest(stop))?.sequence ?? 0);
      const headers = { accept: 'text/event-stream', 'last-event-id': last };
      const response = await request('GET', '/v1/events', { headers, signal: stop });
      link.value = 'live';
      if (failures > 0) gap.value++;
      failures = 0;
      for await (const frame of framesOf(response)) {
        last = frame.id ?? last;
        const event = JSON.parse(frame.data) as EventView;
        for (const listener of listeners) listener(event);
      }
    } catch (error) {
      if (stop.aborted) return;
      if (error instanceof Problem && error.status === 403) return;
    }
    link.value = 'lost';
    await pause(RETRY_MS[Math.min(failures++, RETRY_MS.length - 1)]!, stop);
  }
}

const newest = async (stop: AbortSignal): Promise<EventView | undefined> =>
  (await askUntil(stop, 'GET /v1/events', { query: { limit: 1 } })).items.at(-1);

/** The frames of a stream of server-sent events. */
export async function* framesOf(response: Response) {
  const frames = new Frames();
  const reader = response.body!.pipeThrough(new TextDecoderStream()).getReader();
  for (;;) {
    const { value, done } = await reader.read();
    if (done) return;
    yield* frames.push(value);
  }
}
