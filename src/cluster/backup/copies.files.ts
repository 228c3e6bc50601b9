/** Copies of snapshots: in a directory of the boot host, or wherever a program brings them. */
import { execFile } from 'node:child_process';
import { copyFile, open, rm } from 'node:fs/promises';
import path from 'node:path';
import { promisify } from 'node:util';
import { moveDurably } from '../../base/replace-file.files.ts';
import type { SnapshotCopy } from '../../resources/backup-spec.ts';
import type { Snapshot } from './snapshot.ts';
import type { SnapshotFiles } from './snapshot-files.files.ts';

const run = promisify(execFile);

/** How long a program may take; a snapshot of 8 GiB over 100 Mbit/s takes 12 minutes. */
const COMMAND_MS = 60 * 60_000;

/** How a copy is named in lists. */
export const nameOfCopy = (to: SnapshotCopy): string =>
  'directory' in to ? to.directory : `command ${to.command}`;

export interface SnapshotCopies {
  /** Rejects with the reason when the copy could not be made. */
  put(snapshot: Snapshot, to: SnapshotCopy): Promise<void>;
  remove(snapshot: Pick<Snapshot, 'cluster' | 'id'>, to: SnapshotCopy): Promise<void>;
}

/** `commands`: the directory of the programs, which only root should be able to change. */
export function createCopies(files: Pick<SnapshotFiles, 'paths'>, commands: string): SnapshotCopies {
  const call = async (command: string, ...words: readonly string[]): Promise<void> => {
    try {
      await run(path.join(commands, command), words, { timeout: COMMAND_MS, maxBuffer: 1024 * 1024 });
    } catch (error) {
      const { code, stderr } = error as { readonly code?: unknown; readonly stderr?: string };
      const last = (stderr ?? '').trim().split('\n').at(-1);
      throw new Error(`${path.join(commands, command)}: ${last || (code === undefined ? error : code)}`, {
        cause: error,
      });
    }
  };
  return {
    async put(snapshot, to) {
      const { data, description } = files.paths(snapshot);
      const { cluster, id } = snapshot;
      if ('command' in to) return call(to.command, 'put', cluster, id, data, description);
      // The description comes last: without it the copy does not count.
      for (const file of [data, description])
        await copyDurably(file, path.join(to.directory, `${cluster}.${path.basename(file)}`));
    },
    async remove({ cluster, id }, to) {
      if ('command' in to) return call(to.command, 'remove', cluster, id);
      for (const ending of ['json', 'etcd'])
        await rm(path.join(to.directory, `${cluster}.${id}.${ending}`), { force: true });
    },
  };
}

async function copyDurably(from: string, to: string): Promise<void> {
  const begun = `${to}.part`;
  await copyFile(from, begun);
  const handle = await open(begun, 'r+');
  try {
    await handle.sync();
  } finally {
    await handle.close();
  }
  await moveDurably(begun, to);
}
