/** `muster machine data-keys` */
import type { Answer } from '../../api/operations.ts';
import { openClient, type ServerOptions } from '../client.socket.ts';
import { EXIT, type Io } from '../io.ts';
import { type Column, formatOf, jsonText, lookOf, tableText, yamlText } from '../output.ts';
import { timeText } from '../times.ts';

type View = Answer<'GET /v1/machines/:name/data-keys'>['items'][number];

const COLUMNS: readonly Column<View>[] = [
  { heading: 'FILESYSTEM', cell: ({ filesystem }) => filesystem },
  { heading: 'SINCE', cell: ({ since }) => timeText(since) },
];

/** Lists the keys of a machine's encrypted filesystems, or removes one. */
export async function dataKeys(
  name: string,
  options: ServerOptions & { readonly remove?: string; readonly output?: string },
  io: Io,
): Promise<number> {
  const format = formatOf(options.output, ['table', 'json', 'yaml'] as const, 'table');
  const client = openClient(options, io);
  if (options.remove !== undefined) {
    const params = { name, filesystem: options.remove };
    await client.ask('DELETE /v1/machines/:name/data-keys/:filesystem', { params });
    io.err(`data-key/${options.remove} of ${name} removed\n`);
    return EXIT.ok;
  }
  const { items } = await client.ask('GET /v1/machines/:name/data-keys', { params: { name } });
  if (format === 'json') io.out(jsonText(items));
  else if (format === 'yaml') io.out(yamlText(items));
  else io.out(tableText(COLUMNS, items, lookOf(io)));
  return EXIT.ok;
}
