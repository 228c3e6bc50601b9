/** The verb `muster bmc show`. */
import type { Answer } from '../../api/operations.ts';
import { MusterError } from '../../base/errors.ts';
import { openClient, type ServerOptions } from '../client.socket.ts';
import { EXIT, type Io } from '../io.ts';
import { type Column, formatOf, jsonText, lookOf, tableText, yamlText } from '../output.ts';
import { timeText } from '../times.ts';

type View = Answer<'GET /v1/machines/:name/bmc'>;
type Sensor = NonNullable<View['sensors']>[number];
type Entry = NonNullable<View['log']>[number];

const colorOf = (state: Sensor['state']): 'green' | 'yellow' | 'red' | undefined =>
  state === undefined ? undefined : ({ ok: 'green', warning: 'yellow', critical: 'red' } as const)[state];

const SENSORS: readonly Column<Sensor>[] = [
  { heading: 'SENSOR', cell: ({ name }) => name },
  { heading: 'KIND', cell: ({ kind }) => kind },
  {
    heading: 'READING',
    cell: ({ value, unit }) => (value === undefined ? undefined : `${value} ${unit}`.trim()),
  },
  { heading: 'STATE', cell: ({ state }) => state, color: ({ state }) => colorOf(state) },
];
const LOG: readonly Column<Entry>[] = [
  { heading: 'TIME OF THE BMC', cell: ({ at }) => at && timeText(at) },
  { heading: 'SEVERITY', cell: ({ severity }) => severity, color: ({ severity }) => colorOf(severity) },
  { heading: 'ENTRY', cell: ({ text }) => text, cuts: true },
];

/**
 * `muster bmc show`: asks a BMC.
 *
 * @throws {MusterError} E_USAGE for two views at once, and what the server answers
 */
export async function showBmc(
  machine: string,
  options: ServerOptions & { readonly sensors?: boolean; readonly log?: boolean; readonly output?: string },
  io: Io,
): Promise<number> {
  const format = formatOf(options.output, ['table', 'json', 'yaml'] as const, 'table');
  const { sensors, log } = options;
  if (sensors && log) throw new MusterError('E_USAGE', 'give --sensors or --log; each asks the BMC');
  const view = sensors ? 'sensors' : log ? 'log' : 'inventory';
  // Some answer slowly, and have hundreds of records.
  const found = await openClient(options, io).ask(
    'GET /v1/machines/:name/bmc',
    { params: { name: machine }, query: { view } },
    { works: true },
  );
  if (format === 'json') io.out(jsonText(found));
  else if (format === 'yaml') io.out(yamlText(found));
  else io.out(textOf(found, io));
  return EXIT.ok;
}

function textOf({ machine, inventory, sensors, log }: View, io: Io): string {
  if (sensors) return tableText(SENSORS, sensors, lookOf(io));
  if (log) return tableText(LOG, log, lookOf(io));
  const { manufacturer, model, serial, firmware = [] } = inventory ?? {};
  const rows = [
    { name: 'Machine', value: machine },
    { name: 'Manufacturer', value: manufacturer },
    { name: 'Model', value: model },
    { name: 'Serial number', value: serial },
    ...firmware.map(({ name, version }) => ({ name: `Firmware of ${name}`, value: version })),
  ];
  return rows.map(({ name, value }) => `${`${name}:`.padEnd(24)} ${value ?? '-'}\n`).join('');
}
