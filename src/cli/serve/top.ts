/** `muster top`: what needs an operator, the changes under way, and the fleet, drawn anew. */
import type { Answer } from '../../api/operations.ts';
import type { Shown } from '../../api/shown.ts';
import { systemClock } from '../../base/clock.ts';
import { counted } from '../../base/counted.ts';
import { millis, parseDuration } from '../../base/duration.ts';
import { MusterError } from '../../base/errors.ts';
import { CONDITIONS, type ConditionWord } from '../../machines/condition.ts';
import { MUSTER_SCOPE } from '../../store/keys.ts';
import { shownName, stateOf } from '../change/change.ts';
import { type ApiClient, openClient, type ServerOptions } from '../client.socket.ts';
import { painted } from '../color.ts';
import { COLUMNS, conditionOf } from '../documents/columns.ts';
import { fetchItems, selected } from '../documents/get.ts';
import { EXIT, type Io } from '../io.ts';
import { cut, lookOf, tableText, withoutControls } from '../output.ts';
import { timeText } from '../times.ts';

interface Options extends ServerOptions {
  readonly selector?: string;
  readonly interval?: string;
  readonly once?: boolean;
}

type Status = Answer<'GET /v1/status'>;
type ChangeView = Answer<'GET /v1/clusters/:name/change'>;

/** What one screen shows. */
export interface Fleet {
  readonly status: Status;
  /** Changes that have not ended. */
  readonly changes: readonly ChangeView[];
  readonly machines: readonly Shown[];
  /** When it was asked, ISO 8601. */
  readonly at: string;
}

const INTERVAL = '2s';
/** A terminal that does not say how high it is. */
const ROWS = 24;
/** Concerns and changes that are shown; the rest of the screen is the machines'. */
const MOST = 5;
/** Moves to the top left corner; clears the rest of a line, and what is below. */
const [HOME, CLEAR_LINE, CLEAR_BELOW] = ['\x1b[H', '\x1b[K', '\x1b[J'];
/** The screen of a terminal that is left as it was before, without a cursor. */
const [ENTER, LEAVE] = ['\x1b[?1049h\x1b[?25l', '\x1b[?25h\x1b[?1049l'];

/**
 * Draws the screen until a signal ends it, or once where the output is no terminal. A look at a
 * large fleet takes the server longer, so the next one begins at least ten times as long after it.
 *
 * @throws {MusterError} E_USAGE for a malformed selector or interval, and what the server answers
 *   at the first look; later a look that fails is shown, and tried again
 */
export async function top(options: Options, io: Io): Promise<number> {
  const fits = selected(options.selector);
  const interval = parseDuration(options.interval ?? INTERVAL);
  if (interval === undefined)
    throw new MusterError('E_USAGE', `--interval ${options.interval}: write a duration, such as 5s`);
  const client = openClient(options, io);
  let fleet = await look(client, fits);
  if (options.once || io.columns === undefined) {
    io.out(`${screen(fleet, io, Number.POSITIVE_INFINITY).join('\n')}\n`);
    return EXIT.ok;
  }
  let fault = '';
  io.out(ENTER);
  try {
    while (!io.signal.aborted) {
      const lines = screen(fleet, io, (io.rows ?? ROWS) - 1);
      if (fault !== '') lines[0] = painted(fault, 'red', io.color);
      io.out(`${HOME}${lines.map((line) => `${line}${CLEAR_LINE}`).join('\n')}${CLEAR_BELOW}`);
      const began = systemClock.monotonic();
      try {
        fleet = await look(client, fits);
        fault = '';
      } catch (error) {
        if (io.signal.aborted) break;
        if (!(error instanceof MusterError)) throw error;
        fault = `as of ${timeText(fleet.at)}: ${error.message}`;
      }
      const took = systemClock.monotonic() - began;
      await io.pause(millis(Math.max(interval, 10 * took)));
    }
  } finally {
    io.out(LEAVE);
  }
  return EXIT.ok;
}

async function look(client: ApiClient, fits: (item: Shown) => boolean): Promise<Fleet> {
  const [status, { items }] = await Promise.all([
    client.ask('GET /v1/status'),
    fetchItems(client, 'Machine', []),
  ]);
  const scopes = status.checked.clusters.flatMap(({ name }) => [name, `${name}.agents`]);
  const changes = await Promise.all(
    [...scopes, MUSTER_SCOPE].map(async (name) => {
      try {
        return await client.ask('GET /v1/clusters/:name/change', { params: { name } });
      } catch (error) {
        // It has had none, or this operator may not see it.
        if (error instanceof MusterError && ['E_NOT_FOUND', 'E_FORBIDDEN'].includes(error.code))
          return undefined;
        throw error;
      }
    }),
  );
  return {
    status,
    changes: changes.filter((view) => view !== undefined && view.ended === undefined) as ChangeView[],
    machines: items.filter(fits),
    at: new Date(systemClock.now()).toISOString(),
  };
}

/** Conditions in the order of the table, the worst first. */
const ORDER = Object.keys(CONDITIONS) as ConditionWord[];

/**
 * The lines of a screen of `rows` lines; at least the machines' headings and one of them are shown.
 * Pure.
 */
export function screen(
  { status, changes, machines, at }: Fleet,
  io: Pick<Io, 'columns' | 'color'>,
  rows: number,
): string[] {
  const { concerns } = status;
  const well = concerns.length === 0;
  const verdict = well ? 'all is well' : counted(concerns.length, 'concern');
  const counts = Map.groupBy(machines, conditionOf);
  const words = ORDER.filter((word) => counts.has(word)).map((word) => `${counts.get(word)!.length} ${word}`);
  const lines = [
    painted(
      lineOf(io.columns, `${timeText(at)}   muster ${status.version}: ${verdict}`),
      well ? 'green' : 'yellow',
      io.color,
    ),
    lineOf(io.columns, [counted(machines.length, 'machine'), ...words].join(', ').replace(', ', ': ')),
    ...shownOf(concerns, ({ level, subject, text }) => {
      const shown = lineOf(io.columns, `${level.padEnd(6)}  ${subject}: ${text}`);
      return painted(shown, level === 'urgent' ? 'red' : 'yellow', io.color);
    }),
    ...shownOf(changes, (view) => lineOf(io.columns, changeLine(view))),
    '',
  ];
  const sorted = machines.toSorted(
    (one, other) =>
      ORDER.indexOf(conditionOf(one)) - ORDER.indexOf(conditionOf(other)) ||
      one.metadata.name.localeCompare(other.metadata.name, undefined, { numeric: true }),
  );
  // The headings, and the line that says how many are left out.
  const room = Math.max(1, rows - lines.length - 2);
  const table = tableText(COLUMNS.Machine, sorted.slice(0, room), lookOf(io));
  if (sorted.length > 0) lines.push(...table.trimEnd().split('\n'));
  if (sorted.length > room) lines.push(`… and ${sorted.length - room} more`);
  return lines;
}

function shownOf<T>(items: readonly T[], line: (item: T) => string): readonly string[] {
  const more = items.length - MOST;
  return [...items.slice(0, MOST).map(line), ...(more > 0 ? [`… and ${more} more`] : [])];
}

/** For example `blue: upgrade, at machines (2 of 5 steps); waits for m1: it restarts`. */
function changeLine(view: ChangeView): string {
  const done = view.steps.filter(({ state }) => state === 'done').length;
  const [waiting] = Object.entries(view.waiting);
  const more = Object.keys(view.waiting).length - 1;
  const why = view.holding
    ? `; HELD: ${view.holding.text}`
    : waiting
      ? `; waits for ${waiting[0] || shownName(view.cluster)}${more > 0 ? ` and ${more} more` : ''}: ${waiting[1]}`
      : '';
  return `${shownName(view.cluster)}: ${view.kind}, ${stateOf(view)} (${done} of ${view.steps.length} steps)${why}`;
}

/** Texts may contain what a machine sent. */
const lineOf = (columns = Number.POSITIVE_INFINITY, text: string): string =>
  cut(withoutControls(text), columns);
