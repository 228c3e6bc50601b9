/** `muster cluster roll`: reboots the machines of a cluster one after the other. */
import type { ChangeView } from '../../api/rotations.ts';
import { MusterError } from '../../base/errors.ts';
import type { ImageOfMachine, RollPreview } from '../../cluster/change/roll/rolls.ts';
import { openClient, type ServerOptions } from '../client.socket.ts';
import { EXIT, type Io } from '../io.ts';
import { type Column, formatOf, jsonText, lookOf, tableText, yamlText } from '../output.ts';
import { previewText, print } from '../pki/rotation.ts';

interface RollOptions extends ServerOptions {
  readonly output?: string;
  readonly machines?: readonly string[];
  readonly outdated?: boolean;
  readonly now?: boolean;
  readonly dryRun?: boolean;
  readonly without?: readonly string[];
  readonly maxUnavailable?: string;
}

const ORDERS: readonly string[] = ['start', 'pause', 'resume', 'cancel'];

const COLUMNS: readonly Column<ImageOfMachine>[] = [
  { heading: 'MACHINE', cell: ({ machine }) => machine },
  { heading: 'RUNS', cell: ({ runs }) => runs },
  {
    heading: 'WOULD BOOT',
    cell: ({ wants }) => wants,
    color: ({ outdated }) => (outdated ? 'yellow' : undefined),
  },
];

const pathOf = (cluster: string, what = ''): string =>
  `/v1/clusters/${encodeURIComponent(cluster)}/roll${what}`;

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
  if (order !== undefined && !ORDERS.includes(order))
    throw new MusterError('E_USAGE', `"${order}" is not an order; the orders are ${ORDERS.join(', ')}`);
  const format = formatOf(options.output, ['table', 'json', 'yaml'] as const, 'table');
  const client = openClient(options, io);
  const show = (view: ChangeView): void => print(view, format, io);
  const json = {
    machines: (options.machines ?? []).join(','),
    outdated: String(options.outdated === true),
    now: String(options.now === true),
    without: (options.without ?? []).join(','),
    maxUnavailable: options.maxUnavailable ?? '1',
  };
  if (options.dryRun) {
    const preview = await client.call<RollPreview>('POST', pathOf(cluster), {
      query: { dryRun: 'true' },
      body: { json },
    });
    if (format !== 'table') io.out(format === 'json' ? jsonText(preview) : yamlText(preview));
    else {
      io.out(tableText(COLUMNS, preview.machines, lookOf(io)));
      const waits = preview.waits === undefined ? '' : `No machine reboots yet: ${preview.waits}.\n`;
      io.out(
        previewText(preview) + waits + preview.faults.map(({ message }) => `REFUSED: ${message}\n`).join(''),
      );
    }
    return preview.faults.length === 0 ? EXIT.ok : EXIT.failure;
  }
  if (order === 'start') {
    show(await client.call<ChangeView>('POST', pathOf(cluster), { body: { json } }));
    if (format === 'table') io.out(`muster cluster roll ${cluster} shows how far it is\n`);
  } else if (order !== undefined) show(await client.call<ChangeView>('POST', pathOf(cluster, `/${order}`)));
  else if (options.without?.length)
    show(
      await client.call<ChangeView>('POST', pathOf(cluster, '/leave-out'), {
        body: { json: { without: json.without } },
      }),
    );
  else show(await client.call<ChangeView>('GET', pathOf(cluster)));
  return EXIT.ok;
}
