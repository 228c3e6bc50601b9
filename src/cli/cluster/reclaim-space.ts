/** `muster cluster reclaim-space`: frees the space of an etcd that is full. */
import type { Answer } from '../../api/operations.ts';
import { duration } from '../../base/duration.ts';
import { MusterError } from '../../base/errors.ts';
import { openClient, pause, type ServerOptions } from '../client.socket.ts';
import { EXIT, type Io } from '../io.ts';
import { type Column, lookOf, sizeText, tableText } from '../output.ts';

interface ReclaimOptions extends ServerOptions {
  readonly confirm?: string;
}

type Space = Answer<'GET /v1/clusters/:name/space'>;

const LOOK_EVERY = duration('1s');

const COLUMNS: readonly Column<Space['members'][number]>[] = [
  { heading: 'MEMBER', cell: ({ name }) => name },
  { heading: 'DATABASE', cell: ({ octets }) => sizeText(octets) },
  { heading: 'IN USE', cell: ({ inUse }) => sizeText(inUse) },
  { heading: 'LEADER', cell: ({ leader }) => (leader ? 'yes' : '') },
  { heading: 'READS', cell: ({ reads }) => (reads ? 'yes' : 'no') },
];

function shown({ members, silent, quota, troubles }: Space, io: Io): void {
  io.out(tableText(COLUMNS, members, lookOf(io)));
  if (silent.length > 0) io.out(`no answer: ${silent.join(', ')}\n`);
  io.out(`quota: ${quota === undefined ? 'none' : sizeText(quota)}\n`);
  for (const { subject, says } of troubles) io.out(`${subject}: ${says}\n`);
}

/**
 * `muster cluster reclaim-space`: shows what would be done; with `--confirm NAME` orders it and
 * waits for its end.
 *
 * @throws {MusterError} E_USAGE without `--confirm NAME`, E_ETCD_SPACE with the reason when the
 *   order is refused or ends without an accepted write
 */
export async function reclaimSpace(cluster: string, options: ReclaimOptions, io: Io): Promise<number> {
  const client = openClient(options, io);
  const look = (): Promise<Space> =>
    client.ask('GET /v1/clusters/:name/space', { params: { name: cluster } });
  const before = await look();
  if (options.confirm !== cluster) {
    shown(before, io);
    if (before.refused !== undefined) throw new MusterError('E_ETCD_SPACE', `${cluster}: ${before.refused}`);
    const order = [...before.members].sort((a, b) => Number(a.leader) - Number(b.leader));
    throw new MusterError(
      'E_USAGE',
      [
        `this compacts etcd of ${cluster} to its current revision: no key is lost, but earlier revisions are, and API servers and controllers that watch from before list their objects again.`,
        `Then it defragments ${order.map(({ name }) => name).join(', ')} in this order; each answers nothing meanwhile, for seconds or a minute.`,
        'At the end it disarms NOSPACE, and writes a key of its own and deletes it.',
        `If that is right, add --confirm ${cluster}`,
      ].join(' '),
    );
  }
  await client.ask('POST /v1/clusters/:name/reclaim-space', {
    params: { name: cluster },
    body: { confirm: options.confirm },
  });
  for (let told = 0; !io.signal.aborted; ) {
    const { order } = await look();
    if (order === undefined)
      throw new MusterError(
        'E_ETCD_SPACE',
        `${cluster}: the order is gone: the server was started again; give it again`,
      );
    for (const { code, text } of order.steps.slice(told)) if (code !== 'failed') io.out(`${text}\n`);
    told = order.steps.length;
    if (order.ended === 'failed')
      throw new MusterError('E_ETCD_SPACE', `${cluster}: ${order.steps.at(-1)!.text}`);
    if (order.ended) return EXIT.ok;
    await pause(LOOK_EVERY, io.signal);
  }
  return EXIT.failure;
}
