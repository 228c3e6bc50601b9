/** The verb `muster machine console`. */
import type { Answer } from '../../api/operations.ts';
import { seconds, toMillis } from '../../base/duration.ts';
import { MusterError } from '../../base/errors.ts';
import { openClient, type ServerOptions } from '../client.socket.ts';
import { EXIT, type Io } from '../io.ts';
import { formatOf, jsonText, yamlText } from '../output.ts';
import { timeText } from '../times.ts';

export interface ConsoleOptions extends ServerOptions {
  readonly boot?: string;
  readonly follow?: boolean;
  readonly bmc?: boolean;
  /** What is typed into the console of the BMC, before its lines are shown. */
  readonly type?: string;
  readonly output?: string;
}

type ConsoleView = Answer<'GET /v1/machines/:name/console'>;

/** How often `--follow` asks for further lines. */
const FOLLOW_EVERY = toMillis(seconds(2));

/**
 * `muster machine console`: prints what a machine printed in a boot. What is about the lines goes
 * to standard error.
 *
 * @throws {MusterError} what the server answers
 */
export async function showConsole(machine: string, options: ConsoleOptions, io: Io): Promise<number> {
  const format = formatOf(options.output, ['table', 'json', 'yaml'] as const, 'table');
  if (options.type !== undefined && !options.bmc)
    throw new MusterError('E_USAGE', 'only the console of a BMC can be typed into: add --bmc');
  const client = openClient(options, io);
  if (options.type !== undefined)
    await client.ask('POST /v1/machines/:name/console', {
      params: { name: machine },
      body: { text: `${options.type}\r` },
    });
  const bmc = options.bmc ? { bmc: true } : {};
  const ask = (boot: string | undefined, after?: number): Promise<ConsoleView> =>
    client.ask('GET /v1/machines/:name/console', {
      params: { name: machine },
      query: { boot, after, ...bmc },
    });
  let shown = await ask(options.boot);
  if (format !== 'table') {
    io.out(format === 'json' ? jsonText(shown) : yamlText(shown));
    return EXIT.ok;
  }
  io.err(headOf(shown));
  io.out(linesText(shown.lines, 0));
  let last = lastOf(shown, 0);
  while (options.follow) {
    await io.pause(FOLLOW_EVERY);
    // It follows until a signal ends it.
    io.signal.throwIfAborted();
    // Without --boot the machine may have booted again.
    const next = await ask(options.boot && shown.boot, last);
    if (next.boot !== shown.boot) {
      last = 0;
      shown = await ask(next.boot);
      io.err(headOf(shown));
    } else shown = next;
    io.out(linesText(shown.lines, last));
    last = lastOf(shown, last);
  }
  return EXIT.ok;
}

const lastOf = ({ lines }: ConsoleView, before: number): number => lines.at(-1)?.number ?? before;

/** The line above the others: whose claim they are, and which other boots there are. */
function headOf({ machine, boot, boots, waits, bmc }: ConsoleView): string {
  const shown = boots.find(({ id }) => id === boot);
  if (bmc) {
    const open =
      bmc.since === undefined
        ? `is not open: ${bmc.fault ?? 'not yet'}`
        : `is open since ${timeText(bmc.since)}`;
    const last = shown === undefined ? 'it has shown nothing' : `last at ${timeText(shown.at)}`;
    return `The console of ${machine} ${open}; ${last}\n`;
  }
  if (shown === undefined) return `${machine}: nothing of its console is kept\n`;
  const others = boots.length - 1;
  const more = others > 0 ? `; ${others} other${others === 1 ? '' : 's'}: --boot -1` : '';
  const warning = waits ? `A key of ${machine} waits: a line here may show the code of another key.\n` : '';
  return `${warning}What ${machine} says of itself in boot ${shown.id}, last at ${timeText(shown.at)}${more}\n`;
}

/** The lines after number `last`, with a note where some were removed. */
function linesText(lines: ConsoleView['lines'], last: number): string {
  let before = last;
  return lines
    .map(({ number, text }) => {
      const removed = number - before - 1;
      before = number;
      return `${removed > 0 ? `[${removed} lines were removed]\n` : ''}${text}\n`;
    })
    .join('');
}
