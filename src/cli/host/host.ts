/** `muster host`: the boot hosts that share a store. */
import type { HostItem } from '../../api/operations/hosts.ts';
import { openClient, type ServerOptions } from '../client.socket.ts';
import { EXIT, type Io } from '../io.ts';
import { type Column, formatOf, jsonText, lookOf, sizeText, tableText, yamlText } from '../output.ts';
import { timeText } from '../times.ts';

const skewText = (ms: number | undefined): string | undefined =>
  ms === undefined ? undefined : `${ms > 0 ? '+' : ''}${(ms / 1000).toFixed(1)} s`;

const filesText = ({ lacking, octets, trouble }: NonNullable<HostItem['files']>): string =>
  lacking === 0 ? 'all' : `lacks ${lacking} (${sizeText(octets)})${trouble ? `: ${trouble}` : ''}`;

/** `muster host list`. */
export async function list(options: ServerOptions & { readonly output?: string }, io: Io): Promise<number> {
  const format = formatOf(options.output, ['table', 'json', 'yaml'] as const, 'table');
  const hosts = await openClient(options, io).ask('GET /v1/hosts');
  if (format === 'json') io.out(jsonText(hosts));
  else if (format === 'yaml') io.out(yamlText(hosts));
  else if (hosts.items.length === 0)
    io.out('the store of this host is its own: no other host stands by (docs/several-hosts.md)\n');
  else io.out(tableText(COLUMNS, hosts.items, lookOf(io)));
  return EXIT.ok;
}

export const COLUMNS: readonly Column<HostItem>[] = [
  { heading: 'NAME', cell: ({ name }) => name },
  {
    heading: 'STATE',
    cell: ({ state }) => state,
    color: ({ state }) => (state === 'silent' ? 'red' : undefined),
  },
  { heading: 'VERSION', cell: ({ version }) => version },
  { heading: 'SINCE', cell: ({ since }) => timeText(since) },
  { heading: 'HEARD', cell: ({ heard }) => timeText(heard) },
  { heading: 'BEHIND', cell: ({ behind }) => behind },
  {
    heading: 'FILES',
    cell: ({ files }) => files && filesText(files),
    color: ({ files }) => (files?.trouble === undefined ? undefined : 'red'),
  },
  { heading: 'CLOCK', cell: ({ skewMs }) => skewText(skewMs) },
  { heading: 'ADDRESSES', cell: ({ addresses }) => addresses.join(',') },
];

/** `muster host hand-over`. */
export async function handOver(options: ServerOptions, io: Io): Promise<number> {
  const { standbys } = await openClient(options, io).ask('POST /v1/hosts/hand-over');
  io.err(`this host finishes what it answers; then ${standbys.join(' or ')} acts\n`);
  return EXIT.ok;
}

/** `muster host forget NAME`. */
export async function forget(name: string, options: ServerOptions, io: Io): Promise<number> {
  await openClient(options, io).ask('DELETE /v1/hosts/:name', { params: { name } });
  io.err(`${name} is forgotten\n`);
  return EXIT.ok;
}
