/** `muster cluster plan`, `muster cluster founding`, `muster cluster found` */

import type { Answer } from '../../api/operations.ts';
import type { FoundingRecordView } from '../../api/times.ts';
import { millis, spanText } from '../../base/duration.ts';
import { MusterError } from '../../base/errors.ts';
import type { EtcdDecision } from '../../cluster/etcd/founding.ts';
import { openClient, type ServerOptions } from '../client.socket.ts';
import { EXIT, type Io } from '../io.ts';
import { formatOf, jsonText, yamlText } from '../output.ts';
import { timeText } from '../times.ts';

interface FoundingOptions extends ServerOptions {
  readonly output?: string;
}

type FoundingView = Answer<'GET /v1/clusters/:name/founding'>;

/**
 * `muster cluster plan`: prints the plan of a machine's agent, for the time when the machine has
 * its certificates.
 */
export async function plan(
  machine: string,
  options: ServerOptions & { readonly output?: string },
  io: Io,
): Promise<number> {
  const format = formatOf(options.output, ['table', 'json', 'yaml'] as const, 'table');
  const shown = await openClient(options, io).ask('GET /v1/machines/:name/plan', {
    params: { name: machine },
  });
  if (format === 'json') io.out(jsonText(shown));
  else if (format === 'yaml') io.out(yamlText(shown));
  else io.out(shown.plan);
  return EXIT.ok;
}

/** `muster cluster founding`: prints how far the founding is, with a line for each member. */
export async function founding(cluster: string, options: FoundingOptions, io: Io): Promise<number> {
  const format = formatOf(options.output, ['table', 'json', 'yaml'] as const, 'table');
  const api = openClient(options, io);
  const status = await api.ask('GET /v1/clusters/:name/founding', { params: { name: cluster } });
  if (format !== 'table') {
    io.out(format === 'json' ? jsonText(status) : yamlText(status));
    return EXIT.ok;
  }
  const { record } = status;
  const state = !record
    ? 'not opened'
    : record.founded
      ? `founded at ${timeText(record.founded.at)}`
      : `opened at ${timeText(record.openedAt)}, no quorum yet`;
  io.out(`etcd of ${cluster}: ${state}${record ? `, founding ${record.id}` : ''}\n`);
  for (const member of status.members) io.out(`  ${member.name}: ${memberText(member)}\n`);
  if (record?.replacing)
    io.out(
      `  replacing ${record.replacing.member}: next is ${record.replacing.stage}${status.waiting ? `; ${status.waiting}` : ''}\n`,
    );
  if (record) for (const line of orderLines(record, status.leaving)) io.out(`  ${line}\n`);
  return EXIT.ok;
}

/**
 * What a member reported and what the founder decided for it; for a silent member, its last report.
 */
function memberText({
  asked,
  heardMsAgo = 0,
  silent,
  data,
  health,
  filesystem,
  decision,
}: FoundingView['members'][number]): string {
  if (!asked) return 'has not asked since the server started';
  const said = `data ${data}, etcd ${health}, filesystem ${filesystem}`;
  const decided = decision ? wordOf(decision) : '';
  return silent
    ? `silent, last heard ${spanText(millis(heardMsAgo))} ago; its last report: ${said}; the last answer to it: ${decided}`
    : `${said}: ${decided}`;
}

/** A line for each order of operators that is being carried out. */
function orderLines(
  { leaving = {}, reset, restoring }: FoundingRecordView,
  waiting: Readonly<Record<string, string>> = {},
): readonly string[] {
  const machines = Object.entries(leaving).map(
    ([machine, { stage }]) =>
      `${machine} is being taken out: next is ${stage}${waiting[machine] ? `; ${waiting[machine]}` : ''}`,
  );
  const cleared = reset?.cleared.join(', ') || 'none yet';
  return [
    ...machines,
    ...(reset ? [`reset at ${timeText(reset.at)}; cleared: ${cleared}`] : []),
    ...(restoring ? [`restored from the data of ${restoring.member}, as founding ${restoring.id}`] : []),
  ];
}

const wordOf = (decision: EtcdDecision): string =>
  decision.do === 'hold'
    ? [`held (${decision.code}): ${decision.text}`, decision.operators].filter(Boolean).join(' ')
    : decision.do;

interface FoundOptions extends ServerOptions {
  readonly confirm?: string;
}

/**
 * `muster cluster found`: founds etcd without its absent members.
 *
 * @throws {MusterError} E_USAGE without `--confirm NAME`.
 */
export async function found(cluster: string, options: FoundOptions, io: Io): Promise<number> {
  if (options.confirm !== cluster)
    throw new MusterError(
      'E_USAGE',
      `this founds etcd without asking the members that are absent: if one of them has data, they are lost to the new cluster; if that is right, add --confirm ${cluster}`,
    );
  const api = openClient(options, io);
  const record = await api.ask('POST /v1/clusters/:name/found', {
    params: { name: cluster },
    body: { confirm: options.confirm },
  });
  io.out(`cluster/${cluster} opened: founding ${record.id} with ${Object.keys(record.grants).join(', ')}\n`);
  return EXIT.ok;
}
