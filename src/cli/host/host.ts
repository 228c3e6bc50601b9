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

/** `muster host invite NAME`. */
export async function invite(
  host: string,
  options: ServerOptions & { readonly shareCertificate?: true; readonly callOff?: true },
  io: Io,
): Promise<number> {
  const client = openClient(options, io);
  if (options.callOff) {
    await client.ask('DELETE /v1/hosts/invitations/:name', { params: { name: host } });
    io.err(`${host} is not invited any more\n`);
    return EXIT.ok;
  }
  const body = { host, ...(options.shareCertificate && { shareCertificate: true }) };
  const { code, seconds } = await client.ask('POST /v1/hosts/invitations', { body });
  io.err(
    `on ${host}, as root, within ${Math.floor(seconds / 60)} minutes: \`muster host join\` with this code. It counts once, and gives away all that this host knows.\n`,
  );
  io.out(`${code}\n`);
  return EXIT.ok;
}

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
