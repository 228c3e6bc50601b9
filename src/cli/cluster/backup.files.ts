/** `muster cluster backup`, `backups`, `backup verify`, `backup get`. */
import { execFile } from 'node:child_process';
import fs from 'node:fs';
import os from 'node:os';
import path from 'node:path';
import { promisify } from 'node:util';
import type { Answer } from '../../api/operations.ts';
import { duration, millis, spanText } from '../../base/duration.ts';
import { MusterError } from '../../base/errors.ts';
import { SnapshotCheck } from '../../cluster/backup/received.ts';
import { readStatus } from '../../cluster/backup/snapshot.ts';
import { type ApiClient, openClient, pause, type ServerOptions } from '../client.socket.ts';
import { EXIT, type Io } from '../io.ts';
import { type Column, formatOf, jsonText, lookOf, sizeText, tableText, yamlText } from '../output.ts';
import { timeText } from '../times.ts';

type SnapshotListView = Answer<'GET /v1/clusters/:name/backups'>;
type SnapshotView = SnapshotListView['items'][number];

const pathOf = (cluster: string, what: string): string =>
  `/v1/clusters/${encodeURIComponent(cluster)}/${what}`;

const listOf = (client: ApiClient, cluster: string): Promise<SnapshotListView> =>
  client.ask('GET /v1/clusters/:name/backups', { params: { name: cluster } });

const LOOK_EVERY = duration('1s');

const copiesText = ({ copies }: SnapshotView): string =>
  copies.map(({ to, fault }) => (fault === undefined ? to : `${to}: ${fault}`)).join(', ');

const COLUMNS: readonly Column<SnapshotView>[] = [
  { heading: 'ID', cell: (row) => row.id },
  { heading: 'TAKEN', cell: (row) => timeText(row.takenAt) },
  { heading: 'BY', cell: (row) => row.by },
  { heading: 'MEMBER', cell: (row) => row.member },
  { heading: 'REVISION', cell: (row) => row.revision },
  { heading: 'KEYS', cell: (row) => row.keys },
  { heading: 'SIZE', cell: (row) => sizeText(row.size) },
  { heading: 'ETCD', cell: (row) => row.etcd },
  { heading: 'COPIES', cell: copiesText, cuts: true },
];

/** `muster cluster backups`: lists the snapshots of a cluster. */
export async function listBackups(
  cluster: string,
  options: ServerOptions & { readonly output?: string },
  io: Io,
): Promise<number> {
  const format = formatOf(options.output, ['table', 'json', 'yaml'] as const, 'table');
  const list = await listOf(openClient(options, io), cluster);
  if (format !== 'table') {
    io.out(format === 'json' ? jsonText(list) : yamlText(list));
    return EXIT.ok;
  }
  const { items, ordered, failed, due, faults } = list;
  if (items.length === 0) io.out(`${cluster} has no snapshots\n`);
  else io.out(tableText(COLUMNS, items, lookOf(io)));
  if (ordered)
    io.out(
      ordered.machine === undefined
        ? `${ordered.id} was ordered, and waits for a member that can take it: ${ordered.waits}\n`
        : `${ordered.id} is being taken by ${ordered.machine}: ${sizeText(ordered.received)} so far\n`,
    );
  if (failed) io.out(`${failed.id} failed at ${timeText(failed.at)}: ${failed.text}\n`);
  if (due !== undefined) io.out(`the next snapshot is due at ${timeText(due)}\n`);
  for (const fault of faults) io.out(`fault: ${fault}\n`);
  return EXIT.ok;
}

/**
 * `muster cluster backup`: orders a snapshot, and waits for it.
 *
 * @throws {MusterError} E_SNAPSHOT with the reason when it failed
 */
export async function takeBackup(
  cluster: string,
  options: ServerOptions & { readonly wait?: boolean },
  io: Io,
): Promise<number> {
  const client = openClient(options, io);
  const { id } = await client.ask('POST /v1/clusters/:name/backup', { params: { name: cluster } });
  if (options.wait === false) {
    io.out(`snapshot ${id} was ordered; \`muster cluster backups ${cluster}\` shows it\n`);
    return EXIT.ok;
  }
  while (!io.signal.aborted) {
    const { items, failed, ordered } = await listOf(client, cluster);
    const taken = items.find((one) => one.id === id);
    if (taken) {
      io.out(
        `snapshot ${id}: revision ${taken.revision}, ${taken.keys} keys, ${sizeText(taken.size)}, taken by ${taken.member}\n`,
      );
      return EXIT.ok;
    }
    if (failed?.id === id) throw new MusterError('E_SNAPSHOT', failed.text);
    if (ordered?.id !== id)
      throw new MusterError('E_SNAPSHOT', `the order of ${id} is gone: the server was started again`);
    await pause(LOOK_EVERY, io.signal);
  }
  return EXIT.failure;
}

/**
 * `muster cluster backup verify`: reads a snapshot to its end.
 *
 * @throws {MusterError} E_SNAPSHOT when it was changed, or etcd's tool finds something else in it
 */
export async function verifyBackup(
  cluster: string,
  given: string | undefined,
  options: ServerOptions & { readonly etcdutl?: string },
  io: Io,
): Promise<number> {
  const client = openClient(options, io);
  const id = given ?? (await listOf(client, cluster)).items.at(-1)?.id;
  if (id === undefined) throw new MusterError('E_NOT_FOUND', `${cluster} has no snapshots`);
  const snapshot = await client.ask(
    'POST /v1/clusters/:name/backups/:id/verify',
    { params: { name: cluster, id } },
    { works: true },
  );
  if (options.etcdutl !== undefined) await openWithTool(client, cluster, snapshot, options.etcdutl);
  const age = millis(Date.now() - Date.parse(snapshot.takenAt));
  io.out(
    `snapshot ${id} is whole${options.etcdutl === undefined ? '' : `, and ${options.etcdutl} opens it`}: revision ${snapshot.revision}, ${snapshot.keys} keys, hash ${snapshot.hash}, taken ${spanText(age)} ago\n`,
  );
  return EXIT.ok;
}

async function openWithTool(
  client: ApiClient,
  cluster: string,
  snapshot: SnapshotView,
  program: string,
): Promise<void> {
  const directory = fs.mkdtempSync(path.join(os.tmpdir(), 'muster-snapshot-'));
  try {
    const file = path.join(directory, 'db');
    await download(client, cluster, snapshot.id, file);
    const words = ['--write-out', 'json', 'snapshot', 'status', file];
    const { stdout } = await promisify(execFile)(program, words, {
      env: { ...process.env, ETCDCTL_API: '3' },
    }).catch((cause: Error & { readonly stderr?: string }) => {
      throw new MusterError('E_SNAPSHOT', `${program}: ${cause.stderr?.trim() || cause.message}`, { cause });
    });
    const found = readStatus(stdout);
    if (found.hash !== snapshot.hash || found.revision !== snapshot.revision)
      throw new MusterError(
        'E_SNAPSHOT',
        `${program} finds revision ${found.revision} and hash ${found.hash}, but ${snapshot.revision} and ${snapshot.hash} were recorded; use another snapshot`,
      );
  } finally {
    fs.rmSync(directory, { recursive: true, force: true });
  }
}

/**
 * `muster cluster backup get`: writes a snapshot in the clear.
 *
 * @throws {MusterError} E_USAGE when the file exists; E_SNAPSHOT when it came incomplete
 */
export async function getBackup(
  cluster: string,
  id: string,
  options: ServerOptions & { readonly output: string },
  io: Io,
): Promise<number> {
  const { output } = options;
  if (fs.existsSync(output)) throw new MusterError('E_USAGE', `${output} exists; name another file`);
  await download(openClient(options, io), cluster, id, output);
  io.out(`${output} has snapshot ${id} in the clear; keep it as secret as etcd itself\n`);
  return EXIT.ok;
}

/** Writes a snapshot to a new file; leaves none when it is not whole. */
async function download(client: ApiClient, cluster: string, id: string, file: string): Promise<void> {
  const handle = fs.openSync(file, 'wx', 0o600);
  let whole = false;
  try {
    const check = new SnapshotCheck();
    for await (const piece of client.download(
      'POST',
      pathOf(cluster, `backups/${encodeURIComponent(id)}/content`),
      { works: true },
    )) {
      fs.writeSync(handle, piece);
      check.push(piece);
    }
    const fault = check.fault();
    if (fault !== undefined)
      throw new MusterError(
        'E_SNAPSHOT',
        `snapshot ${id} did not come whole: ${fault}; see the server's log`,
      );
    fs.fsyncSync(handle);
    whole = true;
  } finally {
    fs.closeSync(handle);
    if (!whole) fs.rmSync(file, { force: true });
  }
}
