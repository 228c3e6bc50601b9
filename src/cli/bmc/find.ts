/** The verb `muster bmc find`. */
import type { Answer } from '../../api/operations.ts';
import { openClient, type ServerOptions } from '../client.socket.ts';
import { EXIT, type Io } from '../io.ts';
import { type Column, formatOf, jsonText, lookOf, tableText, yamlText } from '../output.ts';
import { timeText } from '../times.ts';

type View = Answer<'GET /v1/bmcs/found'>['items'][number];

const DOCUMENT = { none: 'names none', same: 'names it', other: 'names another' } as const;

const COLUMNS: readonly Column<View>[] = [
  { heading: 'NAME', cell: ({ machine }) => machine },
  { heading: 'BMC', cell: ({ address }) => address },
  { heading: 'LEASE OF', cell: ({ mac }) => mac },
  { heading: 'REPORTED BY', cell: ({ from, reportedAt }) => `${from}, ${timeText(reportedAt)}` },
  {
    heading: 'DOCUMENT',
    cell: ({ document }) => DOCUMENT[document],
    color: ({ document }) => (document === 'other' ? 'red' : undefined),
  },
  { heading: 'ALSO', cell: ({ others }) => others?.join(', '), color: () => 'red' },
];

/** What a document would say; nothing where it says so, or where it may be another's BMC. */
const partOf = ({ machine, address, document, others }: View): string =>
  document === 'none' && others === undefined
    ? `# in Machine ${machine}:\nspec:\n  bmc: {address: ${address}}\n`
    : '';

/** `muster bmc find`: lists what machines report of their BMCs. */
export async function findBmcs(
  options: ServerOptions & { readonly selector?: string; readonly output?: string },
  io: Io,
): Promise<number> {
  const format = formatOf(options.output, ['table', 'json', 'yaml'] as const, 'table');
  const query = options.selector === undefined ? {} : { labels: options.selector };
  const found = await openClient(options, io).ask('GET /v1/bmcs/found', { query });
  if (format === 'json') io.out(jsonText(found));
  else if (format === 'yaml') io.out(yamlText(found));
  else {
    const parts = found.items.map(partOf).join('');
    io.out(tableText(COLUMNS, found.items, lookOf(io)));
    if (parts !== '') io.out(`\n${parts}`);
  }
  return EXIT.ok;
}
