/** `muster cluster roll`: reboots the machines of a cluster one after the other. */
import type { Answer } from '../../api/operations.ts';
import type { ImageOfMachine, RollPreview } from '../../cluster/change/roll/rolls.ts';
import { openClient, type ServerOptions } from '../client.socket.ts';
import { EXIT, type Io } from '../io.ts';
import { type Column, formatOf, jsonText, lookOf, orderOf, tableText, yamlText } from '../output.ts';
import { hooksLines, previewText, print } from '../pki/rotation.ts';

interface RollOptions extends ServerOptions {
  readonly output?: string;
  readonly machines?: readonly string[];
  readonly outdated?: boolean;
  readonly now?: boolean;
  readonly dryRun?: boolean;
  readonly without?: readonly string[];
  readonly maxUnavailable?: string;
}

type ChangeView = Answer<'GET /v1/clusters/:name/roll'>;

const ORDERS = {
  start: 'POST /v1/clusters/:name/roll',
  pause: 'POST /v1/clusters/:name/roll/pause',
  resume: 'POST /v1/clusters/:name/roll/resume',
  cancel: 'POST /v1/clusters/:name/roll/cancel',
} as const;

const COLUMNS: readonly Column<ImageOfMachine>[] = [
  { heading: 'MACHINE', cell: ({ machine }) => machine },
  { heading: 'RUNS', cell: ({ runs }) => runs },
  {
    heading: 'WOULD BOOT',
    cell: ({ wants }) => wants,
    color: ({ outdated }) => (outdated ? 'yellow' : undefined),
  },
];

/**
 * @param order `start`, `pause`, `resume` or `cancel`; absent: shows the roll.
 * @throws {MusterError} E_USAGE for an unknown order, and what the server answers
 */
export async function roll(
  cluster: string,
  order: string | undefined,
  options: RollOptions,
  io: Io,
): Promise<number> {
  const ordered = order === undefined ? undefined : orderOf(ORDERS, order);
  const format = formatOf(options.output, ['table', 'json', 'yaml'] as const, 'table');
  const client = openClient(options, io);
  const show = (view: ChangeView): void => print(view, format, io);
  const params = { name: cluster };
  const body = {
    machines: options.machines,
    outdated: options.outdated,
    now: options.now,
    without: options.without,
    ...(options.maxUnavailable !== undefined && { maxUnavailable: Number(options.maxUnavailable) }),
  };
  if (options.dryRun) {
    const asked = { params, query: { dryRun: true }, body };
    const preview = (await client.ask('POST /v1/clusters/:name/roll', asked)) as RollPreview;
    if (format !== 'table') io.out(format === 'json' ? jsonText(preview) : yamlText(preview));
    else {
      io.out(tableText(COLUMNS, preview.machines, lookOf(io)));
      const waits = preview.waits === undefined ? '' : `No machine reboots yet: ${preview.waits}.\n`;
      io.out(
        previewText(preview) +
          hooksLines(preview) +
          waits +
          preview.faults.map(({ message }) => `REFUSED: ${message}\n`).join(''),
      );
    }
    return preview.faults.length === 0 ? EXIT.ok : EXIT.failure;
  }
  if (ordered === 'start') {
    show((await client.ask(ORDERS.start, { params, body })) as ChangeView);
    if (format === 'table') io.out(`muster cluster roll ${cluster} shows how far it is\n`);
  } else if (ordered !== undefined) show(await client.ask(ORDERS[ordered], { params }));
  else if (options.without?.length)
    show(
      await client.ask('POST /v1/clusters/:name/roll/leave-out', {
        params,
        body: { without: body.without },
      }),
    );
  else show(await client.ask('GET /v1/clusters/:name/roll', { params }));
  return EXIT.ok;
}
