/** `muster cluster upgrade`: begins an upgrade, shows how far it is, or orders something of it. */
import type { Answer } from '../../api/operations.ts';
import { MusterError } from '../../base/errors.ts';
import type { UpgradePreview } from '../../cluster/change/upgrade/upgrades.ts';
import { openClient, type ServerOptions } from '../client.socket.ts';
import { EXIT, type Io } from '../io.ts';
import { formatOf, jsonText, orderOf, yamlText } from '../output.ts';
import { hooksLines, previewText, print } from '../pki/rotation.ts';

interface UpgradeOptions extends ServerOptions {
  readonly output?: string;
  readonly to?: string;
  readonly dryRun?: boolean;
  readonly until?: string;
  readonly without?: readonly string[];
  readonly maxUnavailable?: string;
  readonly now?: boolean;
}

type ChangeView = Answer<'GET /v1/clusters/:name/upgrade'>;

const ORDERS = {
  pause: 'POST /v1/clusters/:name/upgrade/pause',
  resume: 'POST /v1/clusters/:name/upgrade/resume',
  rollback: 'POST /v1/clusters/:name/upgrade/roll-back',
} as const;

/** The part after which `--until` stops → the step before which the upgrade then pauses. */
const UNTIL = { etcd: 'apiservers', 'control-plane': 'addons', canary: 'workers' } as const;

/**
 * @param order `pause`, `resume` or `rollback`, `start` to begin what the document asks for;
 *   absent: shows the upgrade.
 * @throws {MusterError} E_USAGE for an unknown order, and what the server answers
 */
export async function upgrade(
  cluster: string,
  order: string | undefined,
  options: UpgradeOptions,
  io: Io,
): Promise<number> {
  const format = formatOf(options.output, ['table', 'json', 'yaml'] as const, 'table');
  const client = openClient(options, io);
  const show = (view: ChangeView): void => print(view, format, io);
  const params = { name: cluster };
  if (order === undefined && options.to === undefined && !options.dryRun) {
    if (options.without?.length)
      show(
        await client.ask('POST /v1/clusters/:name/upgrade/leave-out', {
          params,
          body: { without: options.without },
        }),
      );
    else show(await client.ask('GET /v1/clusters/:name/upgrade', { params }));
    return EXIT.ok;
  }
  if (order !== undefined && order !== 'start') {
    show(await client.ask(ORDERS[orderOf(ORDERS, order, { first: 'start' })], { params }));
    return EXIT.ok;
  }
  const body = {
    to: options.to,
    pauseBefore: untilOf(options.until),
    without: options.without,
    ...(options.maxUnavailable !== undefined && { maxUnavailable: Number(options.maxUnavailable) }),
    now: options.now,
  };
  if (options.dryRun) {
    const asked = { params, query: { dryRun: true }, body };
    const preview = (await client.ask('POST /v1/clusters/:name/upgrade', asked)) as UpgradePreview;
    if (format !== 'table') io.out(format === 'json' ? jsonText(preview) : yamlText(preview));
    else io.out(shown(cluster, preview));
    return preview.faults.length === 0 ? EXIT.ok : EXIT.failure;
  }
  show((await client.ask('POST /v1/clusters/:name/upgrade', { params, body })) as ChangeView);
  if (format === 'table') io.out(`muster cluster upgrade ${cluster} shows how far it is\n`);
  return EXIT.ok;
}

function untilOf(part: string | undefined): readonly string[] {
  if (part === undefined) return [];
  if (Object.hasOwn(UNTIL, part)) return [UNTIL[part as keyof typeof UNTIL]];
  throw new MusterError('E_USAGE', `--until takes ${Object.keys(UNTIL).join(', ')}`);
}

function shown(cluster: string, preview: UpgradePreview): string {
  const faults = preview.faults.map(({ message }) => `REFUSED: ${message}\n`).join('');
  const waits = preview.waits === undefined ? '' : `It waits ${preview.waits}.\n`;
  const hooks = hooksLines(preview);
  return `${cluster}: Kubernetes ${preview.from} to ${preview.to}\n${previewText(preview)}${hooks}${waits}${faults}`;
}
