/** `muster events [SUBJECT] [--follow]` */
import type { MusterEvent } from '../../events/event.ts';
import { openClient, type ServerOptions } from '../client.socket.ts';
import { painted } from '../color.ts';
import { EVENT_COLUMNS, eventMessage } from '../documents/columns.ts';
import { EXIT, type Io } from '../io.ts';
import { formatOf, jsonText, lookOf, tableText, yamlText } from '../output.ts';

export interface EventsOptions extends ServerOptions {
  readonly output?: string;
  readonly follow?: boolean;
  /** Newest that many. */
  readonly tail?: string;
}

export async function events(subject: string | undefined, options: EventsOptions, io: Io): Promise<number> {
  const format = formatOf(options.output, ['table', 'wide', 'json', 'yaml'] as const, 'table');
  const client = openClient(options, io);
  const query = { subject, limit: options.tail };
  if (options.follow) {
    const stream = client.stream('/v1/events', { query: { ...query, follow: 'true' }, signal: io.signal });
    for await (const event of readEvents(stream))
      io.out(
        format === 'json'
          ? `${JSON.stringify(event)}\n`
          : format === 'yaml'
            ? `---\n${yamlText(event)}`
            : eventLine(event, io.color),
      );
    return EXIT.ok;
  }
  const { items } = await client.call<{ items: MusterEvent[] }>('GET', '/v1/events', { query });
  if (format === 'json') io.out(jsonText(items));
  else if (format === 'yaml') io.out(yamlText(items));
  else if (items.length === 0) io.err('No events found.\n');
  else io.out(tableText(EVENT_COLUMNS, items, lookOf(io, format === 'wide')));
  return EXIT.ok;
}

/** One event as one line, as it comes. */
export function eventLine(event: MusterEvent, color: boolean): string {
  const time = new Date(event.at).toISOString().slice(11, 19);
  const bad = /failed|held|conflict|invalid|exhausted|disbelieved|refused|nak/.test(event.kind);
  const message = eventMessage(event).replace(/[\x00-\x1f\x7f-\x9f]/g, '?');
  const line = `${time} ${painted(event.subject, 'bold', color)} ${painted(event.kind, bad ? 'yellow' : 'cyan', color)} ${message}`;
  return `${line.trimEnd()}\n`;
}

/**
 * Server-sent events (WHATWG HTML §9.2) from pieces of text: only what our server sends, `data` of
 * one line.
 */
export async function* readEvents(pieces: AsyncIterable<string>): AsyncGenerator<MusterEvent> {
  for await (const frame of eventFrames(pieces)) {
    const event = eventOf(frame);
    if (event) yield event;
  }
}

/**
 * The frames of a stream, also those that are only a comment: the first says that the stream has
 * begun, others that it lives.
 */
export async function* eventFrames(pieces: AsyncIterable<string>): AsyncGenerator<string> {
  let rest = '';
  for await (const piece of pieces) {
    const frames = (rest + piece).split('\n\n');
    rest = frames.pop()!;
    yield* frames;
  }
}

/** The event of a frame; undefined for a comment. */
export function eventOf(frame: string): MusterEvent | undefined {
  const data = frame.split('\n').find((line) => line.startsWith('data: '));
  return data === undefined ? undefined : (JSON.parse(data.slice('data: '.length)) as MusterEvent);
}
