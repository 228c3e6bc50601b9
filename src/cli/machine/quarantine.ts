/** The verbs `muster machine quarantine|release` and `muster cluster compromised`. */
import type { Answer } from '../../api/operations.ts';
import { MusterError } from '../../base/errors.ts';
import { openClient, type ServerOptions } from '../client.socket.ts';
import { EXIT, type Io } from '../io.ts';
import { type Column, formatOf, jsonText, lookOf, tableText, yamlText } from '../output.ts';
import { timeText } from '../times.ts';

type CompromisedView = Answer<'GET /v1/clusters/:name/compromised/:machine'>;
type QuarantineView = Answer<'POST /v1/machines/:name/quarantine'>;

/** `muster machine quarantine`: puts a machine in quarantine. */
export async function quarantine(
  machine: string,
  options: ServerOptions & { readonly reason: string; readonly deletePods?: boolean },
  io: Io,
): Promise<number> {
  const { reason, deletePods } = options;
  const held = await openClient(options, io).ask('POST /v1/machines/:name/quarantine', {
    params: { name: machine },
    body: { reason, ...(deletePods && { pods: 'delete' }) },
  });
  io.out(`machine/${held.name} is in quarantine\n`);
  for (const line of etcdLines(held)) io.err(`${line}\n`);
  if (!deletePods)
    io.err('Its pods are still its own, and with them what they may read: repeat this with --delete-pods.\n');
  return EXIT.ok;
}

/** What becomes of the machine's member of etcd, and what to order if it stays. */
function etcdLines({ name, etcd }: QuarantineView): readonly string[] {
  if (etcd === undefined) return [];
  const { cluster, stays } = etcd;
  if (stays === undefined)
    return [
      `Its member leaves the etcd of ${cluster}: muster cluster founding ${cluster} shows when it has.`,
    ];
  return [
    `Its member stays in the etcd of ${cluster}, because ${stays}.`,
    `When that has changed, take it out: muster cluster remove-node ${cluster} ${name} --no-drain.`,
    'Repeating this command tries again.',
  ];
}

/** `muster machine release`: ends a quarantine. */
export async function release(machine: string, options: ServerOptions, io: Io): Promise<number> {
  const freed = await openClient(options, io).ask('POST /v1/machines/:name/release', {
    params: { name: machine },
  });
  io.out(`machine/${freed.name} is released; it gets a new certificate when it boots\n`);
  return EXIT.ok;
}

const COLUMNS: readonly Column<CompromisedView['had'][number]>[] = [
  { heading: 'WHAT', cell: ({ what }) => what },
  { heading: 'UNTIL', cell: ({ until }) => (until === undefined ? 'it is rotated' : timeText(until)) },
  {
    heading: 'ENDS WITH',
    cell: ({ ends }) => (ends === 'revoked' ? 'quarantine, at once' : `rotation of ${ends}`),
  },
  { heading: 'PATH', cell: ({ path: at }) => at, cuts: true },
];

interface CompromisedOptions extends ServerOptions {
  readonly machine: string;
  readonly confirm?: string;
  readonly reason?: string;
  readonly output?: string;
}

/**
 * `muster cluster compromised`: prints what a machine had, and with `--confirm` puts it in
 * quarantine and deletes its pods.
 *
 * @throws {MusterError} E_USAGE when `--confirm` names another machine, and what the server
 *   answers.
 */
export async function compromised(cluster: string, options: CompromisedOptions, io: Io): Promise<number> {
  const { machine, confirm } = options;
  const format = formatOf(options.output, ['table', 'json', 'yaml'] as const, 'table');
  if (confirm !== undefined && confirm !== machine)
    throw new MusterError('E_USAGE', `--confirm must name the machine again: --confirm ${machine}`);
  const client = openClient(options, io);
  const view = await client.ask('GET /v1/clusters/:name/compromised/:machine', {
    params: { name: cluster, machine },
  });
  const held =
    confirm === undefined
      ? undefined
      : await client.ask('POST /v1/machines/:name/quarantine', {
          params: { name: machine },
          body: { reason: options.reason ?? `compromised, of cluster ${cluster}`, pods: 'delete' },
        });
  if (format === 'json') io.out(jsonText(view));
  else if (format === 'yaml') io.out(yamlText(view));
  else {
    io.out(tableText(COLUMNS, view.had, lookOf(io)));
    io.err(adviceText(view, held));
  }
  return EXIT.ok;
}

function adviceText(
  { cluster, machine, rotations, secrets, etcd }: CompromisedView,
  held: QuarantineView | undefined,
): string {
  const lines = [
    held
      ? `${machine} is in quarantine, and its pods are deleted.`
      : `Nothing was changed; --confirm ${machine} puts it in quarantine and deletes its pods.`,
    ...(rotations.length > 0
      ? [`Only a rotation ends what its keys are worth. Rotate in ${cluster}: ${rotations.join(', ')}.`]
      : []),
    ...(held ? etcdLines(held) : etcd ? ['It is a member of etcd; a quarantine takes it out.'] : []),
    ...secrets.map((one) => `It got the Secret ${one}: replace the value with muster secret put.`),
  ];
  return lines.map((line) => `${line}\n`).join('');
}
