/** The verb `muster events [SUBJECT] [--follow]`. */

import type { EventView } from '../../api/times.ts';
import { systemClock } from '../../base/clock.ts';
import { actorText } from '../../events/actor.ts';
import { openClient, type ServerOptions } from '../client.socket.ts';
import { painted } from '../color.ts';
import { EVENT_COLUMNS, eventMessage, SECURITY_COLUMNS, subjectText } from '../documents/columns.ts';
import { EXIT, type Io } from '../io.ts';
import { kindNamed } from '../names.ts';
import { formatOf, jsonText, lookOf, tableText, yamlText } from '../output.ts';
import { followedTime } from '../times.ts';

export interface EventsOptions extends ServerOptions {
  readonly output?: string;
  readonly follow?: boolean;
  /** Entries of the security log instead. */
  readonly security?: boolean;
  /** The number of events, counted from the newest; absent prints all. */
  readonly tail?: string;
}

/**
 * `muster events`: prints the events of a subject, or all; with `security` the newest entries of
 * the security log.
 *
 * @throws {MusterError} E_NOT_FOUND when no machine, document or event has the name.
 */
export async function events(subject: string | undefined, options: EventsOptions, io: Io): Promise<number> {
  const format = formatOf(options.output, ['table', 'wide', 'json', 'yaml'] as const, 'table');
  const client = openClient(options, io);
  const query = { subject: subject === undefined ? undefined : subjectOf(subject), limit: options.tail };
  const path = options.security ? '/v1/audit/entries' : '/v1/events';
  const columns = options.security ? SECURITY_COLUMNS : EVENT_COLUMNS;
  if (options.follow) {
    const stream = client.stream(path, { query: { ...query, follow: 'true' } });
    for await (const event of readEvents(stream))
      io.out(
        format === 'json'
          ? `${JSON.stringify(event)}\n`
          : format === 'yaml'
            ? `---\n${yamlText(event)}`
            : eventLine(event, io.color, systemClock.now()),
      );
    return EXIT.ok;
  }
  const { items } = await client.call<{ items: EventView[] }>('GET', path, { query });
  if (format === 'json') io.out(jsonText(items));
  else if (format === 'yaml') io.out(yamlText(items));
  else if (items.length === 0) io.err('No events found.\n');
  else io.out(tableText(columns, items, lookOf(io, format === 'wide')));
  return EXIT.ok;
}

/** Spells the kind in full: `cl/blue` → `Cluster/blue`. Other subjects are returned unchanged. */
export function subjectOf(text: string): string {
  const [word = '', ...rest] = text.split('/');
  const kind = rest.length === 1 ? kindNamed(word) : undefined;
  return kind === undefined ? text : `${kind}/${rest[0]}`;
}

/** One event as a line; with the date when `now` (ms since 1970) is on another day. */
function eventLine(event: EventView, color: boolean, now: number): string {
  const bad = /failed|held|conflict|invalid|exhausted|disbelieved|refused|nak/.test(event.kind);
  const message = eventMessage(event).replace(/[\x00-\x1f\x7f-\x9f]/g, '?');
  const line = [
    followedTime(event.at, now),
    painted(subjectText(event), 'bold', color),
    painted(event.kind, bad ? 'yellow' : 'cyan', color),
    ...(event.actor ? [`by ${actorText(event.actor)}`] : []),
    message,
  ].join(' ');
  return `${line.trimEnd()}\n`;
}

/**
 * Reads server-sent events (WHATWG HTML §9.2) from pieces of text. Supports only what our server
 * sends: `data` of one line.
 */
export async function* readEvents(pieces: AsyncIterable<string>): AsyncGenerator<EventView> {
  for await (const frame of eventFrames(pieces)) {
    const event = eventOf(frame);
    if (event) yield event;
  }
}

/**
 * Yields the frames of a stream, including comments. The first comment says that the stream has
 * begun, later comments that it is alive.
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
export function eventOf(frame: string): EventView | undefined {
  const data = frame.split('\n').find((line) => line.startsWith('data: '));
  return data === undefined ? undefined : (JSON.parse(data.slice('data: '.length)) as EventView);
}
