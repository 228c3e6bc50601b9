/** The verb `muster bmc find`. */
import type { Answer } from '../../api/operations.ts';
import { MusterError } from '../../base/errors.ts';
import { openClient, type ServerOptions } from '../client.socket.ts';
import { EXIT, type Io } from '../io.ts';
import { type Column, formatOf, jsonText, lookOf, tableText, yamlText } from '../output.ts';
import { timeText } from '../times.ts';

type View = Answer<'GET /v1/bmcs/found'>['items'][number];

const DOCUMENT = { none: 'names none', same: 'names it', other: 'names another' } as const;

const FROM = {
  agent: 'agent',
  discovery: 'discovery system',
  dhcp: 'DHCP',
  ssdp: 'SSDP',
} as const;

const COLUMNS: readonly Column<View>[] = [
  { heading: 'NAME', cell: ({ machine }) => machine },
  { heading: 'BMC', cell: ({ address }) => address },
  { heading: 'LEASE OF', cell: ({ mac }) => mac },
  { heading: 'VENDOR', cell: ({ vendor }) => vendor },
  { heading: 'REPORTED BY', cell: ({ from, reportedAt }) => `${FROM[from]}, ${timeText(reportedAt)}` },
  {
    heading: 'DOCUMENT',
    cell: ({ document, machine }) => (machine === undefined ? 'no document' : DOCUMENT[document]),
    color: ({ document }) => (document === 'other' ? 'red' : undefined),
  },
  { heading: 'ALSO', cell: ({ others }) => others?.join(', '), color: () => 'red' },
  {
    heading: 'REDFISH',
    cell: ({ location, elsewhere }) => location && `${location}${elsewhere ? ' (another host)' : ''}`,
    color: ({ elsewhere }) => (elsewhere ? 'red' : undefined),
  },
];

/** What a document would say; nothing where it says so, or where it may be another's BMC. */
const partOf = ({ machine, address, document, others }: View): string =>
  machine !== undefined && document === 'none' && others === undefined
    ? `# in Machine ${machine}:\nspec:\n  bmc: {address: ${address}}\n`
    : '';

/**
 * `muster bmc find`: lists what is known of BMCs; with `search` after it asked the segments.
 *
 * @throws {MusterError} E_USAGE for a search among labels
 */
export async function findBmcs(
  options: ServerOptions & {
    readonly selector?: string;
    readonly search?: boolean;
    readonly output?: string;
  },
  io: Io,
): Promise<number> {
  const format = formatOf(options.output, ['table', 'json', 'yaml'] as const, 'table');
  const { selector, search } = options;
  if (search && selector !== undefined)
    throw new MusterError('E_USAGE', 'what answers a search has no labels; leave -l out');
  const query = selector === undefined ? {} : { labels: selector };
  const client = openClient(options, io);
  const found = search
    ? await client.ask('POST /v1/bmcs/search', {}, { works: true })
    : await client.ask('GET /v1/bmcs/found', { query });
  if (format === 'json') io.out(jsonText(found));
  else if (format === 'yaml') io.out(yamlText(found));
  else {
    const parts = found.items.map(partOf).join('');
    io.out(tableText(COLUMNS, found.items, lookOf(io)));
    if (parts !== '') io.out(`\n${parts}`);
  }
  return EXIT.ok;
}
