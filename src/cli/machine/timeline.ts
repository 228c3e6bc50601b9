/** The verb `muster machine timeline`, and how verdicts are printed. */
import type { Answer } from '../../api/operations.ts';
import { openClient, type ServerOptions } from '../client.socket.ts';
import { painted } from '../color.ts';
import { EXIT, type Io } from '../io.ts';
import { formatOf, jsonText, yamlText } from '../output.ts';
import { timeText } from '../times.ts';

export interface TimelineOptions extends ServerOptions {
  readonly boot?: string;
  readonly output?: string;
}

type TimelineView = Answer<'GET /v1/machines/:name/timeline'>;
type Entry = TimelineView['entries'][number];
type VerdictView = TimelineView['verdicts'][number];

/** A gap of at least so many milliseconds gets a line of its own. */
const GAP = 1000;
/** A gap of at least so many milliseconds is painted. */
const LONG_GAP = 10_000;

/**
 * `muster machine timeline`: prints the entries of a boot with times and gaps, its stages, and what
 * is wrong.
 *
 * @throws {MusterError} what the server answers
 */
export async function timeline(machine: string, options: TimelineOptions, io: Io): Promise<number> {
  const format = formatOf(options.output, ['table', 'json', 'yaml'] as const, 'table');
  const answer = await openClient(options, io).ask('GET /v1/machines/:name/timeline', {
    params: { name: machine },
    query: { boot: options.boot },
  });
  if (format === 'json') io.out(jsonText(answer));
  else if (format === 'yaml') io.out(yamlText(answer));
  else io.out(timelineText(answer, io.color));
  return EXIT.ok;
}

/** A timeline as text. */
export function timelineText(view: TimelineView, color: boolean): string {
  const { machine, boot, boots, entries, stages, verdicts } = view;
  if (boot === undefined) return `${machine}: no boot is known\n${verdictsText(verdicts, color)}`;
  const others = boots.length - 1;
  const lines = [
    `${painted(machine, 'bold', color)}: boot ${boot.id}, ${boot.outcome}`,
    `began ${timeText(boot.at)}${boot.from === 'own-disk' ? ' from its own disk' : ''}` +
      (others > 0 ? `; ${others} other${others === 1 ? '' : 's'}: --boot -1` : ''),
    '',
    ...entries.flatMap((entry, index) => [
      ...(entry.stage === entries[index - 1]?.stage ? [] : [painted(entry.stage, 'cyan', color)]),
      ...gapLines(entry, color),
      entryLine(entry),
    ]),
    '',
    ...stages.map(
      ({ stage, from, to, silent }) =>
        `${stage.padEnd(9)} ${seconds(Date.parse(to) - Date.parse(from)).padStart(9)}, ${seconds(silent)} of it silent`,
    ),
    '',
  ];
  return `${lines.join('\n')}${verdictsText(verdicts, color)}`;
}

const seconds = (milliseconds: number): string => `${(milliseconds / 1000).toFixed(1)} s`;

function gapLines({ gap, waitedFor }: Entry, color: boolean): readonly string[] {
  if (gap < GAP) return [];
  const text = `${' '.repeat(11)} … ${seconds(gap)}${waitedFor === undefined ? '' : `: ${waitedFor}`}`;
  return [gap < LONG_GAP ? text : painted(text, 'yellow', color)];
}

function entryLine({ sinceStart, text, duration, bytesPerSecond, code, fields }: Entry): string {
  const facts = [
    ...(fields?.xid === undefined ? [] : [`xid ${fields.xid}`]),
    ...(duration === undefined ? [] : [seconds(duration)]),
    ...(bytesPerSecond === undefined ? [] : [`${(bytesPerSecond / 1e6).toFixed(2)} MB/s`]),
    ...(typeof fields?.resent === 'number' ? [`${fields.resent} windows sent again`] : []),
    ...(code === undefined ? [] : [code]),
  ];
  return `${seconds(sinceStart).padStart(11)}  ${text}${facts.length === 0 ? '' : ` (${facts.join(', ')})`}`;
}

/** Verdicts as text: each with its evidence and what ends it; empty when nothing is wrong. */
export function verdictsText(verdicts: readonly VerdictView[], color: boolean): string {
  return verdicts
    .map(({ title, code, certainty, evidence, remedy, page }) =>
      [
        '',
        `${painted(certainty === 'certain' ? 'Wrong:' : 'Likely wrong:', 'red', color)} ${title} [${code}]`,
        ...evidence.map((one) => `  seen    ${timeText(one.at)} ${one.text}`),
        `  remedy  ${remedy}`,
        `  see     ${page}`,
        '',
      ].join('\n'),
    )
    .join('');
}
