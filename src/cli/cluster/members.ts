/**
 * The verbs `muster cluster add-node`, `remove-node`, `reset`, `restore`, `adopt` and `call-off`.
 */

import { MusterError } from '../../base/errors.ts';
import { openClient, type ServerOptions } from '../client.socket.ts';
import { EXIT, type Io, printWarnings } from '../io.ts';

interface Options extends ServerOptions {}

interface AddNodeOptions extends Options {
  readonly controlPlane?: boolean;
  readonly etcd?: boolean;
}

/**
 * `muster cluster add-node`: adds machines to the Cluster's document.
 *
 * @throws {MusterError} E_USAGE when `--control-plane` and `--etcd` are given together; and what
 *   the server answers.
 */
export async function addNode(
  cluster: string,
  machines: readonly string[],
  options: AddNodeOptions,
  io: Io,
): Promise<number> {
  if (options.controlPlane && options.etcd)
    throw new MusterError(
      'E_USAGE',
      'a machine is a control plane or a member of an external etcd, not both',
    );
  const role = options.controlPlane ? 'control-plane' : options.etcd ? 'etcd' : 'worker';
  const { document, warnings } = await openClient(options, io).ask('POST /v1/clusters/:name/add-node', {
    params: { name: cluster },
    body: { machines, role },
  });
  io.out(
    document === 'unchanged'
      ? `cluster/${cluster} unchanged: it has ${machines.join(', ')} already\n`
      : `cluster/${cluster} changed: ${machines.join(', ')} added as ${role}; ${machines.length > 1 ? 'they join when they are' : 'it joins when it is'} powered on\n`,
  );
  printWarnings(warnings, io);
  return EXIT.ok;
}

interface RemoveNodeOptions extends Options {
  readonly replaceWith?: readonly string[];
  readonly clear?: boolean;
  /** False when `--no-drain` is given. */
  readonly drain?: boolean;
  readonly drainTimeout?: string;
}

/**
 * `muster cluster remove-node`: changes the document and orders the removal. It resolves when the
 * order is recorded; the boot host carries it out.
 */
export async function removeNode(
  cluster: string,
  machines: readonly string[],
  options: RemoveNodeOptions,
  io: Io,
): Promise<number> {
  const { replaceWith = [], clear = false, drain = true, drainTimeout = '5m' } = options;
  const change = await openClient(options, io).ask('POST /v1/clusters/:name/remove-node', {
    params: { name: cluster },
    body: {
      machines,
      replacements: replaceWith,
      clear,
      drain: drain ? drainTimeout : 'no',
    },
  });
  printWarnings(change.warnings, io);
  if (change.leaving.length === 0) {
    const out = machines.join(', ');
    const added = change.added.length > 0 ? ` and ${change.added.join(', ')} added` : '';
    io.out(
      `cluster/${cluster} ${change.document}: ${out} removed${added}\n${cluster} was never founded, so nothing has to be stopped on ${out}, and no disk is cleared\n`,
    );
    return EXIT.ok;
  }
  if (change.document === 'changed') io.out(`cluster/${cluster} changed\n`);
  for (const [n, machine] of change.leaving.entries())
    io.out(
      `machine/${machine} is being taken out${change.added.includes(replaceWith[n] ?? '') ? `, ${replaceWith[n]} takes its place` : ''}${clear ? '; its data are cleared' : '; its disk stays as it is'}\n`,
    );
  io.out(`muster cluster founding ${cluster} shows how far it is\n`);
  return EXIT.ok;
}

interface ConfirmOptions extends Options {
  readonly confirm?: string;
}

/**
 * `muster cluster reset`: ends a cluster and clears its machines.
 *
 * @throws {MusterError} E_USAGE without `--confirm NAME`; the message says what would happen to
 *   which machine.
 */
export async function reset(cluster: string, options: ConfirmOptions, io: Io): Promise<number> {
  if (options.confirm !== cluster) {
    const { members } = await openClient(options, io).ask('GET /v1/clusters/:name/founding', {
      params: { name: cluster },
    });
    throw new MusterError(
      'E_USAGE',
      [
        `this ends the cluster ${cluster}: on all of its machines that are on, or come back, kubelet, containerd and etcd are stopped,`,
        `and all data of ${cluster} on their data disks are deleted, those of etcd (${members.map(({ name }) => name).join(', ')}) with them;`,
        `the filesystems stay. If that is right, add --confirm ${cluster}`,
      ].join(' '),
    );
  }
  await openClient(options, io).ask('POST /v1/clusters/:name/reset', {
    params: { name: cluster },
    body: { confirm: options.confirm },
  });
  io.out(
    `cluster/${cluster} is being reset; muster cluster founding ${cluster} shows which machines are cleared\n`,
  );
  return EXIT.ok;
}

interface RestoreOptions extends ConfirmOptions {
  readonly from?: string;
  /** A snapshot instead of a member's data. */
  readonly backup?: string;
  /** The member that begins with the snapshot. */
  readonly on?: string;
  readonly without?: readonly string[];
}

/**
 * `muster cluster restore`: restores etcd from one member's data.
 *
 * @throws {MusterError} E_USAGE without `--from` or `--confirm NAME`; the message says what may be
 *   lost.
 */
export async function restore(cluster: string, options: RestoreOptions, io: Io): Promise<number> {
  const { from, confirm, without = [] } = options;
  if (options.backup !== undefined) return restoreBackup(cluster, options.backup, options, io);
  if (from === undefined)
    throw new MusterError(
      'E_USAGE',
      `name the member whose data is used: --from MEMBER; \`muster cluster founding ${cluster}\` shows which members have data`,
    );
  if (confirm !== cluster)
    throw new MusterError(
      'E_USAGE',
      [
        `etcd of ${cluster} will continue from the data of ${from}. Writes that other members acknowledged and ${from} had not received are lost`,
        `(as a rule those of less than a second before the fault), and the disks of other members cannot be used any more, even if they come back.`,
        ...(without.length > 0
          ? [
              `The data of ${without.join(', ')} are abandoned without Muster having seen them. Be sure that ${without.length > 1 ? 'they run' : 'it runs'} nowhere: members that are only cut off from this server may be a quorum that still accepts writes.`,
            ]
          : []),
        `The original stays on its disk. If that is right, add --confirm ${cluster}`,
      ].join(' '),
    );
  const { record } = await openClient(options, io).ask('POST /v1/clusters/:name/restore', {
    params: { name: cluster },
    body: { confirm, member: from, without },
  });
  io.out(
    `cluster/${cluster}: the data of ${from} become those of founding ${record.restoring?.id ?? record.id}; the others join it afterwards\n`,
  );
  return EXIT.ok;
}

/** `muster cluster restore --backup`: restores etcd from a snapshot. */
async function restoreBackup(
  cluster: string,
  backup: string,
  { from, on, confirm, without = [], ...options }: RestoreOptions,
  io: Io,
): Promise<number> {
  if (from !== undefined)
    throw new MusterError(
      'E_USAGE',
      'a restore uses the data of a member (--from) or a snapshot (--backup), not both; --on names the member that begins with a snapshot',
    );
  const client = openClient(options, io);
  if (confirm !== cluster) {
    const { items } = await client.ask('GET /v1/clusters/:name/backups', { params: { name: cluster } });
    const snapshot = items.find(({ id }) => id === backup);
    if (snapshot === undefined)
      throw new MusterError(
        'E_NOT_FOUND',
        `${cluster} has no snapshot ${backup}; \`muster cluster backups ${cluster}\` lists them`,
      );
    throw new MusterError(
      'E_USAGE',
      [
        `etcd of ${cluster} will continue from snapshot ${backup}: everything that was written after it was taken is lost,`,
        'and the disks of members that still have data cannot be used any more, even if they come back.',
        ...(without.length > 0 ? [`The data of ${without.join(', ')} are abandoned.`] : []),
        ...(snapshot.readers === undefined
          ? []
          : [
              `Its Secrets are encrypted with ${snapshot.readers.join(', ')}, from before a rotation: API servers get these keys again, until the next rotation.`,
            ]),
        `\`muster cluster backup verify ${cluster} ${backup}\` checks the snapshot. If that is right, add --confirm ${cluster}`,
      ].join(' '),
    );
  }
  const { record, readers = [] } = await client.ask('POST /v1/clusters/:name/restore', {
    params: { name: cluster },
    body: { confirm, backup, member: on, without },
  });
  io.out(
    `cluster/${cluster}: snapshot ${backup} becomes founding ${record.restoring?.id ?? record.id} on ${record.restoring?.member ?? 'a member'}; the others join it afterwards\n`,
  );
  if (readers.length > 0)
    io.out(
      `Its Secrets are encrypted with ${readers.join(', ')}, from before a rotation: API servers can read them again. The boot host puts published CAs and tokens right. When the cluster is healthy, \`muster pki rotate all --cluster ${cluster}\` writes the Secrets again and ends the old keys\n`,
    );
  return EXIT.ok;
}

/**
 * `muster cluster adopt`: accepts the present disk of a member of etcd as that member's own.
 *
 * @throws {MusterError} E_USAGE without `--confirm NAME`; and what the server answers.
 */
export async function adopt(
  cluster: string,
  member: string,
  options: ConfirmOptions,
  io: Io,
): Promise<number> {
  if (options.confirm !== cluster)
    throw new MusterError(
      'E_USAGE',
      `this records the disk that ${member} has now as its data disk, even if this store names another one; if that is right, add --confirm ${cluster}`,
    );
  const { record } = await openClient(options, io).ask('POST /v1/clusters/:name/adopt', {
    params: { name: cluster },
    body: { confirm: options.confirm, member },
  });
  io.out(`cluster/${cluster}: ${member} has filesystem ${record.joined[member]}\n`);
  return EXIT.ok;
}

/** `muster cluster call-off`: cancels the replacement of a member, or a restore from its data. */
export async function callOff(cluster: string, member: string, options: Options, io: Io): Promise<number> {
  await openClient(options, io).ask('POST /v1/clusters/:name/call-off', {
    params: { name: cluster },
    body: { member },
  });
  io.out(`cluster/${cluster}: cancelled; Muster no longer waits for ${member}\n`);
  return EXIT.ok;
}
