/** The verbs `muster bmc …`. */
import type { Answer } from '../../api/operations.ts';
import { systemClock } from '../../base/clock.ts';
import { counted } from '../../base/counted.ts';
import { type Millis, millis, spanText } from '../../base/duration.ts';
import { MusterError } from '../../base/errors.ts';
import { openClient, type ServerOptions } from '../client.socket.ts';
import { EXIT, type Io } from '../io.ts';
import { type Column, formatOf, jsonText, lookOf, tableText, yamlText } from '../output.ts';
import { millisSince, timeText } from '../times.ts';

type BmcList = Answer<'GET /v1/bmcs'>;
type View = BmcList['items'][number];

const FORMATS = ['table', 'wide', 'json', 'yaml'] as const;
type Format = (typeof FORMATS)[number];

const ageOf = (at: string): string => spanText(millisSince(at, systemClock.now()));

const COLUMNS: readonly Column<View>[] = [
  { heading: 'NAME', cell: ({ machine }) => machine },
  { heading: 'BMC', cell: ({ address, protocol }) => `${address} ${protocol}` },
  { heading: 'ACCOUNT', cell: ({ user }) => user },
  {
    heading: 'PASSWORD',
    cell: ({ since, managed }) =>
      since === undefined ? (managed ? 'not made yet' : "the Secret's") : `${ageOf(since)} old`,
    color: ({ since, managed }) => (managed && since === undefined ? 'yellow' : undefined),
  },
  {
    heading: 'ORDERED',
    cell: ({ due, certify }) => {
      const order = due ?? certify;
      return order && `${ageOf(order.at)} ago by ${order.by}`;
    },
  },
  { heading: 'FAULT', cell: ({ fault }) => fault && `${fault.code}: ${fault.text}`, cuts: true },
  {
    heading: 'CERTIFICATE ENDS',
    cell: ({ certificate }) => certificate && timeText(certificate.notAfter),
  },
  { heading: 'CERTIFICATE', wide: true, cell: ({ pin }) => pin?.slice(0, 16) },
];

function print(found: BmcList, format: Format, io: Io): void {
  if (format === 'json') io.out(jsonText(found));
  else if (format === 'yaml') io.out(yamlText(found));
  else io.out(tableText(COLUMNS, found.items, { ...lookOf(io), wide: format === 'wide' }));
}

interface BmcOptions extends ServerOptions {
  readonly selector?: string;
  readonly output?: string;
}

/** `muster bmc ls`. */
export async function listBmcs(options: BmcOptions, io: Io): Promise<number> {
  const format = formatOf(options.output, FORMATS, 'table');
  const query = options.selector === undefined ? {} : { labels: options.selector };
  print(await openClient(options, io).ask('GET /v1/bmcs', { query }), format, io);
  return EXIT.ok;
}

const LOOK_EVERY: Millis = millis(1000);

/**
 * `muster bmc rotate`: orders it, and follows it to the end.
 *
 * @throws {MusterError} E_USAGE without any machine
 */
export async function rotateBmcs(
  machines: readonly string[],
  options: BmcOptions & { readonly yes?: boolean; readonly dryRun?: boolean; readonly certificate?: boolean },
  io: Io,
): Promise<number> {
  const { selector, yes, dryRun, certificate } = options;
  if (machines.length === 0 && selector === undefined)
    throw new MusterError('E_USAGE', 'name machines, or select them with -l');
  const format = formatOf(options.output, FORMATS, 'table');
  const client = openClient(options, io);
  const body = {
    machines: [...machines],
    ...(selector !== undefined && { labels: selector }),
    ...(certificate && { certificate }),
  };
  const preview = await client.ask('POST /v1/bmcs/rotate', { query: { dryRun: true }, body });
  const isMany = preview.items.length > 1;
  if (dryRun || (isMany && !yes)) {
    print(preview, format, io);
    const what = counted(preview.items.length, certificate ? 'certificate' : 'password');
    io.err(`Nothing was ordered: this is about ${what}.${isMany ? ' Repeat it with --yes.' : ''}\n`);
    return dryRun ? EXIT.ok : EXIT.failure;
  }
  const given = await client.ask('POST /v1/bmcs/rotate', { body });
  const wanted = new Set(given.items.map(({ machine }) => machine));
  for (;;) {
    const { items } = await client.ask('GET /v1/bmcs', {});
    const found = items.filter(({ machine }) => wanted.has(machine));
    const isDone = found.every(({ due, certify }) => (certificate ? certify : due) === undefined);
    if (isDone || io.signal.aborted) {
      print({ kind: 'BmcList', items: found }, format, io);
      return found.some(({ fault }) => fault !== undefined) ? EXIT.failure : EXIT.ok;
    }
    await io.pause(LOOK_EVERY);
  }
}
