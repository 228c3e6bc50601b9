/** `muster cluster agents`: shows which agents run, or orders something of their upgrade. */
import type { AgentsOfCluster } from '../../cluster/change/agents/builds.ts';
import { openClient, type ServerOptions } from '../client.socket.ts';
import { EXIT, type Io } from '../io.ts';
import { type Column, formatOf, jsonText, lookOf, orderOf, tableText, yamlText } from '../output.ts';

type Row = AgentsOfCluster['machines'][number];

const COLUMNS: readonly Column<Row>[] = [
  { heading: 'MACHINE', cell: ({ machine }) => machine },
  { heading: 'RUNS', cell: ({ runs }) => runs },
  {
    heading: 'STATE',
    cell: ({ state }) => state,
    color: ({ state }) => (state === 'current' ? 'green' : state === 'refused' ? 'red' : 'yellow'),
  },
  { heading: 'SAYS', cell: ({ text }) => text },
];

const ORDERS = {
  pause: 'POST /v1/clusters/:name/agents/pause',
  resume: 'POST /v1/clusters/:name/agents/resume',
  retry: 'POST /v1/clusters/:name/agents/retry',
} as const;

/**
 * @param order `pause`, `resume` or `retry`; absent: shows the agents.
 * @throws {MusterError} E_USAGE for an unknown order, and what the server answers
 */
export async function agents(
  cluster: string,
  order: string | undefined,
  options: ServerOptions & { readonly output?: string },
  io: Io,
): Promise<number> {
  const asked = order === undefined ? 'GET /v1/clusters/:name/agents' : ORDERS[orderOf(ORDERS, order)];
  const format = formatOf(options.output, ['table', 'json', 'yaml'] as const, 'table');
  const client = openClient(options, io);
  const view = await client.ask(asked, { params: { name: cluster } });
  if (format === 'json') io.out(jsonText(view));
  else if (format === 'yaml') io.out(yamlText(view));
  else {
    const paused = view.pausedBy === undefined ? '' : `, paused by ${view.pausedBy}`;
    io.out(`${cluster} shall run the agent ${view.wanted} (attempt ${view.attempt}${paused})\n`);
    io.out(tableText(COLUMNS, view.machines, lookOf(io)));
  }
  return EXIT.ok;
}
